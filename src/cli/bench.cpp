// `tamis bench -m M`: tokens a second of prompts and of decoding, beside what the machine could do.
#include <fmt/chrono.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <map>

#include "base/cpu_features.h"
#include "base/env.h"
#include "base/progress.h"
#include "cli/bench_report.h"
#include "cli/interrupt.h"
#include "cli/load_engine.h"

namespace tamis::cli {
namespace {

constexpr uint32_t kLargest = 1u << 24;  // of any number in a list

// "1,4,16" → {"1", "4", "16"}
std::vector<std::string> word_list(const Args& args, std::string_view name) {
  std::vector<std::string> out;
  const std::string text = args.text(name);
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    out.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

Result<std::vector<uint32_t>> number_list(const Args& args, std::string_view name, uint32_t minimum) {
  std::vector<uint32_t> out;
  for (const std::string& word : word_list(args, name)) {
    uint32_t value = 0;
    const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || rest != word.data() + word.size() || value < minimum || value > kLargest)
      return fail(ErrorCode::invalid_argument, "{}: got \"{}\", expected numbers from {} to {} separated by commas",
                  name, escape_for_display(word), minimum, kLargest);
    out.push_back(value);
  }
  return out;
}

// The lists of the command line; tests are their products.
struct BenchPlan {
  std::vector<uint32_t> prompts, gens, seqs, depths, batches, ubatches, threads;
  std::vector<std::string> layouts;

  std::vector<BenchTest> tests(uint32_t n_chunk) const {
    std::vector<BenchTest> out;
    for (const uint32_t depth : depths) {
      for (const uint32_t n : prompts)
        if (n != 0) out.push_back({.n_prompt = n, .depth = depth, .n_chunk = n_chunk});
      for (const uint32_t n : gens)
        for (const uint32_t n_seqs : seqs)
          if (n != 0) out.push_back({.n_gen = n, .n_seqs = n_seqs, .depth = depth, .n_chunk = n_chunk});
    }
    return out;
  }
};

Result<BenchPlan> read_plan(const Args& args) {
  BenchPlan plan;
  TAMIS_TRY(plan.prompts, number_list(args, "-p", 0));
  TAMIS_TRY(plan.gens, number_list(args, "-n", 0));
  TAMIS_TRY(plan.seqs, number_list(args, "-npl", 1));
  TAMIS_TRY(plan.depths, number_list(args, "-d", 0));
  TAMIS_TRY(plan.batches, number_list(args, "-b", 1));
  TAMIS_TRY(plan.ubatches, number_list(args, "-ub", 1));
  TAMIS_TRY(plan.threads, number_list(args, "-t", 1));
  plan.layouts = word_list(args, "--layout");
  if (plan.tests(1).empty())
    return fail(ErrorCode::invalid_argument, "nothing to measure: give -p or -n a number above 0");
  return plan;
}

BenchFormat format_of(const Args& args) {
  if (args.flag("--json")) return BenchFormat::json_lines;
  const std::string name = args.text("-o");
  if (name == "md") return BenchFormat::markdown;
  if (name == "csv") return BenchFormat::csv;
  if (name == "json") return BenchFormat::json;
  return name == "jsonl" ? BenchFormat::json_lines : BenchFormat::table;
}

std::string utc_now() { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))); }

BenchSubject describe(const Args& args, const LoadedEngine& loaded, const std::string& layout) {
  const GgufFile& file = loaded.engine->model().file;
  BenchSubject subject;
  subject.path = file.path();
  subject.backend = loaded.engine->backend_name();
  subject.layout = layout;
  subject.activations = args.text("--activations");
  subject.type_k = args.text("-ctk");
  subject.type_v = args.text("-ctv");
  subject.cpu = cpu_model_name();
  subject.model_bytes = file.size_bytes();
  std::map<DType, uint64_t> bytes;
  for (const GgufTensor& tensor : file.tensors()) {
    subject.n_params += tensor.shape.n_elements();
    bytes[tensor.dtype] += tensor.size_bytes;
  }
  const auto most =
      std::max_element(bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  subject.model_type = fmt::format("{} {} {}", loaded.engine->model().arch.name, human_count(subject.n_params),
                                   most == bytes.end() ? "" : dtype_name(most->first));
  subject.n_threads = loaded.pool->n_threads();
  return subject;
}

// Loads the model for every layout and number of threads, runs the tests and prints each as it ends.
class BenchRun {
 public:
  explicit BenchRun(const Args& args) : args_(args), format_(format_of(args)) {}

  Result<int> run() {
    TAMIS_TRY(const BenchPlan plan, read_plan(args_));
    TAMIS_TRY_STATUS(print_out(bench_head(format_)));
    for (const std::string& layout : plan.layouts)
      for (const uint32_t n_threads : plan.threads) TAMIS_TRY_STATUS(run_loaded(plan, {n_threads, layout}));
    TAMIS_TRY_STATUS(print_out(bench_tail(format_, lines_)));
    return 0;
  }

 private:
  Status run_loaded(const BenchPlan& plan, const EngineChoice& chosen) {
    EngineOptions options;
    for (const BenchTest& test : plan.tests(1)) options.n_ctx = std::max(options.n_ctx, test.n_positions());
    options.has_tokenizer = false;
    TAMIS_TRY(const LoadedEngine loaded, load_engine(args_, options, chosen));
    TAMIS_TRY(MachineMeter meter, MachineMeter::create(loaded.pool.get(), env::cpu_target()));
    BenchSubject subject = describe(args_, loaded, *chosen.layout);
    TAMIS_TRY(MachineSpeed before, meter.measure());
    for (const uint32_t n_batch : plan.batches)
      for (const uint32_t n_ubatch : plan.ubatches)
        for (const BenchTest& test : plan.tests(std::min(n_batch, n_ubatch))) {
          subject.n_batch = n_batch;
          subject.n_ubatch = n_ubatch;
          TAMIS_TRY_STATUS(run_test(loaded, subject, test, meter, before));
        }
    return {};
  }

  Status run_test(const LoadedEngine& loaded, const BenchSubject& subject, const BenchTest& test, MachineMeter& meter,
                  MachineSpeed& machine) {
    const auto n_repeats = static_cast<uint32_t>(args_.integer("-r"));
    BenchLine line{.subject = subject, .test = test, .test_time = utc_now()};
    {
      Progress progress("bench " + test.name(), ProgressUnit::items, n_repeats);
      TAMIS_TRY(line.result,
                run_bench(loaded.engine, test, {n_repeats, !args_.flag("--no-warmup"), args_.flag("--profile")},
                          &stop_flag(), [&] { progress.advance(1); }));
    }
    TAMIS_TRY(const MachineSpeed after, meter.measure());
    line.machine.read_bytes_per_s = std::max(machine.read_bytes_per_s, after.read_bytes_per_s);
    line.machine.int8_macs_per_s = std::max(machine.int8_macs_per_s, after.int8_macs_per_s);
    machine = after;
    TAMIS_TRY_STATUS(print_out(bench_text(format_, line, lines_.size())));
    lines_.push_back(std::move(line));
    return {};
  }

  const Args& args_;
  const BenchFormat format_;
  std::vector<BenchLine> lines_;
};

// The options of a model, with a list of layouts in place of one.
std::vector<OptionSpec> options_of_models() {
  std::vector<OptionSpec> out = model_options();
  for (OptionSpec& option : out) {
    if (option.names != "--layout") continue;
    option.value_name = "NAME,…";
    option.help = "how weights lie in memory, side by side: auto, planes, affine, dense";
    option.choices = {};
  }
  return out;
}

OptionSpec list_option(std::string_view names, std::string_view help, std::string_view default_text) {
  return {.names = names, .kind = OptionKind::text, .value_name = "N,…", .help = help, .default_text = default_text};
}

}  // namespace

Verb bench_verb() {
  return {
      .name = "bench",
      .summary = "how fast a model runs on this machine, beside what the machine can do",
      .details =
          "Test names and fields are llama-bench's: pp512 is a prompt of 512 tokens, tg128 128 steps of one token, "
          "tg32@npl8 32 steps of 8 sequences together; lists make a test of every combination. A run to warm up is not "
          "counted. GB/s counts weights and keys read, GMAC/s multiply-adds; the shares are of a plain read loop and "
          "an "
          "int8 loop measured between the tests. --json prints a line per test.",
      .positionals = {},
      .options =
          options_of_models() +
          std::vector<OptionSpec>{
              list_option("-p,--n-prompt", "prompt tokens; 0: no prompt test", "512"),
              list_option("-n,--n-gen", "tokens to decode for each sequence; 0: no decoding test", "128"),
              list_option("-npl,--n-parallel", "sequences decoded together", "1"),
              list_option("-d,--n-depth", "tokens each sequence holds before the test", "0"),
              list_option("-b,--batch-size", "prompt tokens handed over together, as llama-bench counts them", "2048"),
              list_option("-ub,--ubatch-size", "prompt tokens computed together", "512"),
              list_option("-t,--threads", "threads to use; default: the physical cores this process may use", ""),
              {.names = "-r,--repetitions",
               .kind = OptionKind::integer,
               .value_name = "N",
               .help = "times each test runs",
               .default_text = "5",
               .minimum = 1,
               .maximum = 1000000},
              {.names = "--no-warmup", .help = "count the first run too"},
              {.names = "--profile", .help = "after each test, its time by part of the model"},
              {.names = "-o,--output",
               .kind = OptionKind::text,
               .value_name = "FORMAT",
               .help = "how results are printed",
               .default_text = "table",
               .choices = {"table", "md", "csv", "json", "jsonl"}}},
      .run = [](const Args& args) -> Result<int> { return BenchRun(args).run(); },
  };
}

}  // namespace tamis::cli
