// `tamis fit -m M`: will it fit, by part, before anything is loaded; and how fast it may be.
#include <fmt/format.h>

#include <algorithm>

#include "api/backends.h"
#include "base/env.h"
#include "base/memory.h"
#include "base/progress.h"
#include "cli/fit_types.h"
#include "cli/load_engine.h"
#include "cli/machine.h"
#include "cli/model_path.h"
#include "cli/style.h"
#include "cpu/machine_speed.h"
#include "engine/memory_plan.h"
#include "formats/json.h"

namespace tamis::cli {
namespace {

// Shares of the machine's read loop and int8 loop that decoding and prompts reach (docs/performance.md).
constexpr double kDecodeShare = 0.85, kPromptShare = 0.45;

struct Fit {
  std::string path;
  MemoryRequest request;
  MemoryPlan memory;
  uint64_t program = 0;    // resident before the file is opened
  uint64_t tokenizer = 0;  // the file's header, vocabulary and tokenizer
  uint64_t budget = 0;
  uint32_t largest_context = 0, n_ctx_train = 0;
  MachineSpeed machine;
  double macs_per_token = 0;
  std::vector<TypeFit> types;  // smaller ones, largest first

  uint64_t total() const { return program + tokenizer + memory.total(); }
  bool fits() const { return total() <= budget; }
  bool fits(const TypeFit& type) const { return program + tokenizer + type.memory_bytes <= budget; }
  // The largest of the smaller types that fits; null when none does.
  const TypeFit* best_type() const {
    const auto best = std::find_if(types.begin(), types.end(), [&](const TypeFit& type) { return fits(type); });
    return best == types.end() ? nullptr : &*best;
  }
  // Tokens a second of one sequence in the middle of its context; of a prompt.
  double decode_rate() const {
    const double read = static_cast<double>(memory.weights) + static_cast<double>(memory.kv) / request.n_seqs / 2;
    return kDecodeShare * machine.read_bytes_per_s / read;
  }
  double prompt_rate() const { return kPromptShare * machine.int8_macs_per_s / macs_per_token; }
};

double macs_of(const ModelPlan& plan) {
  double macs = 0;
  for (const PlannedTensor& planned : plan.tensors) {
    if (planned.part != Part::weight || planned.tensor->shape.n_dims < 2) continue;
    if (planned.slot == Slot::token_embd || planned.slot == Slot::output) continue;  // once a prompt, not a token
    double share = 1;
    if (planned.role == Role::expert) share = double{1} * plan.hyper.n_expert_used / plan.hyper.n_expert;
    macs += share * static_cast<double>(planned.tensor->shape.n_elements());
  }
  return macs;
}

Result<Fit> measure(const Args& args) {
  Fit fit;
  TAMIS_TRY(fit.path, resolve_model(args.text("-m")));
  TAMIS_TRY(const uint32_t n_threads, integer_option(args, "--threads", 0));
  const auto pool = ThreadPool::create(n_threads);
  TAMIS_TRY(const std::unique_ptr<Backend> backend,
            make_backend(args.text("--backend"), args.text("--activations"), pool.get(), args.text("--layout")));
  TAMIS_TRY(fit.request.kv_types, make_kv_types(args.text("-ctk"), args.text("-ctv"), args.text("--backend")));
  fit.program = resident_memory_bytes();
  TAMIS_TRY(const GgufFile file, GgufFile::open(fit.path));
  TAMIS_TRY(const ModelPlan plan, plan_model(file));
  fit.n_ctx_train = plan.hyper.n_ctx_train;
  TAMIS_TRY(fit.request.n_ctx, integer_option(args, "-c", 0, 0));
  if (fit.request.n_ctx == 0) fit.request.n_ctx = std::min(fit.n_ctx_train, Engine::kDefaultContext);
  TAMIS_TRY(fit.request.n_seqs, integer_option(args, "-np", 1));
  fit.request.n_batch = static_cast<uint32_t>(args.integer("-b"));
  TAMIS_TRY(const auto tokenizer, Tokenizer::from_gguf(file, {.pre = args.text("--pre")}));
  fit.tokenizer = std::max(resident_memory_bytes(), fit.program) - fit.program;
  TAMIS_TRY(fit.memory, plan_memory(file, *backend, fit.request));
  TAMIS_TRY(fit.budget, memory_budget(args));
  const uint64_t fixed = fit.program + fit.tokenizer;
  TAMIS_TRY(fit.largest_context,
            largest_context(file, *backend, fit.request, fit.n_ctx_train, fit.budget - std::min(fit.budget, fixed)));
  TAMIS_TRY(fit.types, types_of(file, *backend, fit.request));
  fit.macs_per_token = macs_of(plan);
  TAMIS_TRY(MachineMeter meter, MachineMeter::create(pool.get(), env::cpu_target()));
  TAMIS_TRY(fit.machine, meter.measure());
  return fit;
}

std::string as_json(const Fit& fit, const Args& args) {
  const MemoryPlan& memory = fit.memory;
  Json bytes = Json::object();
  bytes.set("program", fit.program).set("tokenizer", fit.tokenizer).set("weights", memory.weights);
  bytes.set("vectors", memory.vectors).set("kv", memory.kv).set("buffers", memory.buffers);
  bytes.set("total", fit.total());
  Json types = Json::array();
  for (const TypeFit& type : fit.types) {
    Json row = Json::object();
    row.set("type", type.type).set("file_bytes", Json(type.file_bytes));
    row.set("total_bytes", Json(fit.program + fit.tokenizer + type.memory_bytes));
    types.push_back(row.set("fits", fit.fits(type)));
  }
  Json out = Json::object();
  out.set("schema", 1).set("model", fit.path).set("backend", args.text("--backend"));
  out.set("layout", args.text("--layout")).set("type_k", args.text("-ctk")).set("type_v", args.text("-ctv"));
  out.set("n_ctx", fit.request.n_ctx).set("n_seqs", fit.request.n_seqs).set("n_batch", fit.request.n_batch);
  out.set("bytes", std::move(bytes)).set("mapped_tables_bytes", memory.tables).set("budget_bytes", fit.budget);
  out.set("fits", fit.fits()).set("largest_context", fit.largest_context).set("n_ctx_train", fit.n_ctx_train);
  out.set("decode_tokens_per_s", fit.decode_rate()).set("prompt_tokens_per_s", fit.prompt_rate());
  out.set("best_type", fit.fits() ? "as it is" : fit.best_type() == nullptr ? "" : fit.best_type()->type);
  out.set("types", std::move(types));
  out.set("machine_read_bytes_per_s", fit.machine.read_bytes_per_s);
  out.set("machine_macs_per_s", fit.machine.int8_macs_per_s);
  return out.dump() + "\n";
}

std::string as_text(const Fit& fit, const Style& style) {
  const MemoryPlan& memory = fit.memory;
  Table table({Align::left, Align::right, Align::left}, "");
  auto row = [&](std::string_view name, uint64_t bytes, const std::string& note) {
    table.add({std::string(name), human_bytes(bytes), style.dim(note)});
  };
  row("weights", memory.weights + memory.vectors, "matrices and vectors in memory");
  row("keys and values", memory.kv, fmt::format("{} × {} tokens", fit.request.n_seqs, with_commas(fit.request.n_ctx)));
  row("buffers", memory.buffers, fmt::format("a step of {} tokens", std::min(fit.request.n_batch, fit.request.n_ctx)));
  row("tokenizer", fit.tokenizer, "");
  row("program", fit.program, "");
  row("total", fit.total(), fmt::format("of {}", human_bytes(fit.budget)));
  std::string out = table.text();
  if (memory.tables > 0)
    out += fmt::format("and up to {} of the mapped file, as tokens are looked up\n", human_bytes(memory.tables));
  out +=
      fmt::format("largest context for {} sequence{}: {} tokens (trained for {})\n", fit.request.n_seqs,
                  fit.request.n_seqs == 1 ? "" : "s", with_commas(fit.largest_context), with_commas(fit.n_ctx_train));
  out += fmt::format("expect about {:.3g} tokens/s decoding, {:.3g} tokens/s of prompt\n", fit.decode_rate(),
                     fit.prompt_rate());
  if (fit.fits()) return out + style.paint(Color::green, "It fits.") + "\n";
  out += style.paint(Color::red, "It does not fit.") + "\n";
  const TypeFit* best = fit.best_type();
  if (best == nullptr) return out + "No smaller type would fit either: take a shorter context or a smaller model.\n";
  return out + fmt::format("As {} it would: a file of {}, {} of memory (tamis quantize).\n", best->type,
                           human_bytes(best->file_bytes),
                           human_bytes(fit.program + fit.tokenizer + best->memory_bytes));
}

Result<int> run_fit(const Args& args) {
  TAMIS_TRY_STATUS(check_unused_options(args));
  apply_huge_pages(args);
  auto fit = measure(args);
  if (!fit) return tl::unexpected<Error>(as_file_error(std::move(fit).error()));
  TAMIS_TRY_STATUS(print_out(args.flag("--json") ? as_json(*fit, args) : as_text(*fit, Style::from_args(args))));
  if (fit->fits()) return 0;
  return fail(ErrorCode::out_of_memory, "{}: needs {} bytes, {} are there", fit->path, fit->total(), fit->budget);
}

}  // namespace

Verb fit_verb() {
  return {
      .name = "fit",
      .summary = "whether a model fits this machine's memory, by part, and how fast it may run",
      .details =
          "Nothing is loaded: the engine's own code runs on a backend that only counts. Rates are what this machine "
          "measures now times the share that the engine usually reaches. Exit 4 when it does not fit; the best smaller "
          "type that would is then named.",
      .positionals = {},
      .options = model_options() +
                 std::vector<OptionSpec>{context_option("tokens of one sequence; default: min(trained for, 4096)"),
                                         {.names = "-np,--parallel,--max-seqs",
                                          .kind = OptionKind::integer,
                                          .value_name = "N",
                                          .help = "sequences that hold a full context each",
                                          .default_text = "1",
                                          .minimum = 1,
                                          .maximum = 65536},
                                         batch_option()},
      .run = run_fit,
  };
}

}  // namespace tamis::cli
