// `tamis quantize IN [OUT] TYPE [THREADS]`: a model in fewer bits, or in more.
#include "convert/quantize.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/log.h"
#include "base/progress.h"
#include "cli/interrupt.h"
#include "cli/quantize_report.h"
#include "cli/verb.h"
#include "formats/shards.h"

namespace tamis::cli {
namespace {

constexpr uint64_t kMaxTypeFileBytes = uint64_t{16} << 20;

struct Words {
  std::string in, out;
  RecipeName recipe;
  uint32_t n_threads = 0;
};

tl::unexpected<Error> unknown_type(std::string_view text) {
  if (text == "auto")
    return fail(ErrorCode::unsupported, "TYPE auto: mixes chosen by measurement are not there yet; name a recipe");
  std::string names;
  for (const Recipe& recipe : all_recipes()) names += fmt::format(" {}", recipe.name);
  return fail(ErrorCode::invalid_argument, "TYPE: got \"{}\", expected COPY or one of{} (each also with a + after it)",
              escape_for_display(text), names);
}

// NAME-TYPE.gguf beside the input, or llama-quantize's ggml-model-TYPE.gguf.
std::string default_out(const std::string& in, const RecipeName& recipe, bool has_stock_name) {
  const std::filesystem::path path(in);
  std::string name = path.filename().string();
  if (name.ends_with(".gguf")) name.resize(name.size() - 5);
  if (const auto shard = parse_shard_name(path.string()))
    name = std::filesystem::path(shard->prefix).filename().string();
  if (has_stock_name) name = "ggml-model";
  return (path.parent_path() / fmt::format("{}-{}.gguf", name, recipe.name())).string();
}

// The second word is a TYPE if it can be one; else it is OUT, and TYPE comes next. As llama-quantize reads it.
Result<Words> read_words(const Args& args) {
  std::vector<std::string> rest;
  for (const std::string_view name : {"OUT", "TYPE", "THREADS"})
    if (args.has(name)) rest.push_back(args.text(name));
  Words out{args.text("IN"), "", {}, 0};
  if (rest.empty()) return fail(ErrorCode::invalid_argument, "TYPE is missing (see tamis quantize --help)");
  size_t at = 0;
  auto recipe = find_recipe(rest[0]);
  if (!recipe && rest[0] != "auto" && rest.size() > 1) {
    out.out = rest[at++];
    recipe = find_recipe(rest[at]);
  }
  if (!recipe) return unknown_type(rest[at]);
  out.recipe = *recipe;
  if (out.out.empty()) out.out = default_out(out.in, out.recipe, args.flag("--stock-name"));
  if (++at < rest.size()) {
    const std::string& word = rest[at];
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), out.n_threads);
    if (error != std::errc() || end != word.data() + word.size() || out.n_threads > ThreadPool::kMaxThreads)
      return fail(ErrorCode::invalid_argument, "THREADS: got \"{}\", expected a number up to {}",
                  escape_for_display(word), ThreadPool::kMaxThreads);
  }
  if (++at < rest.size())
    return fail(ErrorCode::invalid_argument, "unexpected argument \"{}\"", escape_for_display(rest[at]));
  if (out.n_threads == 0) out.n_threads = static_cast<uint32_t>(args.integer("--threads"));
  return out;
}

Result<std::optional<DType>> type_option(const Args& args, std::string_view name) {
  if (!args.has(name)) return std::optional<DType>();
  const auto type = dtype_from_name(args.text(name));
  if (!type)
    return fail(ErrorCode::invalid_argument, "{}: no type is called \"{}\"", name, escape_for_display(args.text(name)));
  return std::optional<DType>(type);
}

Result<TensorTypes> tensor_types(const Args& args) {
  std::vector<std::string> words = args.texts("--tensor-type");
  if (args.has("--tensor-type-file")) {
    TAMIS_TRY(const std::string text, read_text_file(args.text("--tensor-type-file"), kMaxTypeFileBytes));
    constexpr std::string_view kSpace = " \t\r\n";
    for (size_t at = text.find_first_not_of(kSpace); at != text.npos; at = text.find_first_not_of(kSpace, at)) {
      const size_t end = std::min(text.find_first_of(kSpace, at), text.size());
      words.push_back(text.substr(at, end - at));
      at = end;
    }
  }
  return TensorTypes::parse(words);
}

Result<std::vector<uint32_t>> layer_numbers(const Args& args) {
  std::vector<uint32_t> out;
  if (!args.has("--prune-layers")) return out;
  const std::string text = args.text("--prune-layers");
  const char *at = text.data(), *const end = at + text.size();
  for (;;) {
    uint32_t layer = 0;
    const auto [next, error] = std::from_chars(at, end, layer);
    if (error != std::errc() || (next != end && *next != ','))
      return fail(ErrorCode::invalid_argument, "--prune-layers: got \"{}\", expected numbers with commas between",
                  escape_for_display(text));
    out.push_back(layer);
    if (next == end) return out;
    at = next + 1;
  }
}

// Entries whose names contain one of the words stay (or go).
void filter(Imatrix& imatrix, const std::vector<std::string>& words, bool keeps) {
  if (words.empty()) return;
  const auto goes = [&](const auto& entry) {
    const bool is_named = std::any_of(words.begin(), words.end(), [&](const std::string& word) {
      return entry.first.find(word) != std::string::npos;
    });
    return is_named != keeps;
  };
  std::erase_if(imatrix.entries, goes);
  std::erase_if(imatrix.correlations, goes);
}

Result<std::optional<Imatrix>> importance(const Args& args) {
  if (args.has("--include-weights") && args.has("--exclude-weights"))
    return fail(ErrorCode::invalid_argument, "--include-weights and --exclude-weights exclude each other");
  if (!args.has("--imatrix")) return std::optional<Imatrix>();
  TAMIS_TRY(Imatrix imatrix, read_imatrix(args.text("--imatrix")));
  filter(imatrix, args.texts("--include-weights"), true);
  filter(imatrix, args.texts("--exclude-weights"), false);
  return std::optional<Imatrix>(std::move(imatrix));
}

Result<QuantizeOptions> read_options(const Args& args, const RecipeName& recipe, const Imatrix* imatrix) {
  QuantizeOptions out;
  out.recipe = recipe;
  out.imatrix = imatrix;
  out.imatrix_path = args.text("--imatrix");
  const std::string method = args.text("--method");
  out.method = method == "plain"     ? EncodeMethod::plain
               : method == "hessian" ? EncodeMethod::hessian
                                     : EncodeMethod::fast;
  TAMIS_TRY(out.overrides, tensor_types(args));
  TAMIS_TRY(out.output_type, type_option(args, "--output-tensor-type"));
  TAMIS_TRY(out.token_embd_type, type_option(args, "--token-embedding-type"));
  TAMIS_TRY(out.pruned_layers, layer_numbers(args));
  for (const std::string& text : args.texts("--override-kv")) {
    TAMIS_TRY(KvEdit edit, parse_kv_edit(text));
    out.kv_overrides.push_back(std::move(edit));
  }
  out.is_pure = args.flag("--pure");
  out.leaves_output = args.flag("--leave-output-tensor");
  out.allows_requantize = args.flag("--allow-requantize");
  out.keeps_split = args.flag("--keep-split");
  return out;
}

Result<int> run_quantize_verb(const Args& args) {
  TAMIS_TRY(const Words words, read_words(args));
  TAMIS_TRY(const std::optional<Imatrix> imatrix, importance(args));
  TAMIS_TRY(const QuantizeOptions options, read_options(args, words.recipe, imatrix ? &*imatrix : nullptr));
  TAMIS_TRY(const GgufFile source, GgufFile::open(words.in));
  auto planned = plan_quantize(source, options, words.out);
  if (!planned) {
    const Error& error = planned.error();
    const bool is_named = error.site && !error.site->file.empty();  // the imatrix
    return tl::unexpected<Error>(is_named ? error : with_file(error, words.in));
  }
  QuantizePlan& plan = *planned;
  for (const std::string& warning : plan.warnings) log_warning("{}", warning);
  const bool is_dry = args.flag("--dry-run");
  QuantizeReport report;
  if (is_dry && plan.refusal) log_warning("{}", plan.refusal->to_string());
  if (is_dry && !plan.missing_imatrix.empty())
    log_warning("{}: so few bits need an imatrix; without one the run would be refused", plan.missing_imatrix);
  if (!is_dry) {
    const auto pool = ThreadPool::create(words.n_threads);
    uint64_t total = 0;
    for (const QuantizedTensor& tensor : plan.tensors) total += source.tensors()[tensor.source].size_bytes;
    Progress progress("quantize", ProgressUnit::bytes, total);
    QuantizeRun run;
    run.pool = pool.get();
    run.overwrites = args.flag("--force");
    run.resumes = args.flag("--resume");
    run.stop = &stop_flag();
    run.on_bytes = [&](uint64_t n) { progress.advance(n); };
    run.on_tensor = [&](size_t i) {
      const QuantizedTensor& tensor = plan.tensors[i];
      progress.relabel(fmt::format("quantize {}/{}", i + 1, plan.tensors.size()));
      log_info("{}: {} to {}", tensor.name, dtype_name(tensor.from), dtype_name(tensor.choice.type));
    };
    TAMIS_TRY(report, run_quantize(plan, run));
  }
  TAMIS_TRY_STATUS(print_out(args.flag("--json") ? quantize_json(plan, report, is_dry)
                                                 : quantize_text(plan, report, is_dry, Style::from_args(args))));
  return 0;
}

OptionSpec text_option(std::string_view names, std::string_view value_name, std::string_view help, bool is_repeatable) {
  return {
      .names = names, .kind = OptionKind::text, .value_name = value_name, .help = help, .is_repeatable = is_repeatable};
}

std::vector<OptionSpec> quantize_options() {
  return {
      text_option("--imatrix", "F", "importance of the columns, of tamis imatrix or llama-imatrix", false),
      text_option("--include-weights", "TEXT", "use the imatrix only for tensors whose name contains TEXT", true),
      text_option("--exclude-weights", "TEXT", "use the imatrix for none whose name contains TEXT", true),
      {.names = "--method",
       .kind = OptionKind::text,
       .value_name = "NAME",
       .help = "plain: the textbook encoders, without importance; fast: a search for the least weighted error; "
               "hessian: the least "
               "error of a layer's outputs, for which the imatrix needs correlations (tamis imatrix --hessian)",
       .default_text = "fast",
       .choices = {"plain", "fast", "hessian"}},
      text_option("--tensor-type", "RE=TYPE",
                  "type of the tensors in whose name the regular expression is found; the first that matches wins",
                  true),
      text_option("--tensor-type-file", "F", "more of these, with spaces or newlines between", false),
      text_option("--output-tensor-type", "TYPE", "type of output.weight", false),
      text_option("--token-embedding-type", "TYPE", "type of token_embd.weight", false),
      {.names = "--pure", .help = "the recipe's base type for every tensor"},
      {.names = "--leave-output-tensor", .help = "output.weight stays as it is"},
      {.names = "--allow-requantize", .help = "encode tensors that are quantized already"},
      text_option("--prune-layers", "N,N…", "leave these layers out; the others are renumbered", false),
      {.names = "--keep-split", .help = "as many shards as the source has"},
      text_option("--override-kv", "KEY=TYPE:VALUE", "metadata to set: str, bool, int, float, u8 … f64", true),
      {.names = "--dry-run", .help = "say what would be written: by group of tensors, sizes to the byte"},
      {.names = "--resume", .help = "go on where a run with the same input and options was ended"},
      {.names = "--force", .help = "overwrite a file that exists"},
      {.names = "--stock-name", .help = "OUT defaults to ggml-model-TYPE.gguf, as under the name llama-quantize"},
      {.names = "--max-buffer-size",
       .kind = OptionKind::integer,
       .value_name = "MIB",
       .help = "taken for llama-quantize's sake: memory is bounded anyway",
       .minimum = 1},
  };
}

}  // namespace

Verb quantize_verb() {
  return {
      .name = "quantize",
      .summary = "writes a model with its tensors in another type",
      .details =
          "TYPE is a recipe (Q4_K_M, IQ4_XS, Q8_0, F16 …; --dry-run shows what each tensor becomes), its number, or "
          "COPY. Recipes choose tensor by tensor what llama.cpp's of that name choose. With a + after it (Q4_K_M+) a "
          "recipe also puts known faults of theirs right: fused attn_qkv is not lifted as if it were attn_v alone, "
          "layers are counted by their number whatever --tensor-type says, and tensors whose rows no block of 256 "
          "divides keep the size asked for (IQ4_NL for Q4_K) where llama.cpp's grow.\n\nWeights that lie on a grid "
          "(int4 checkpoints, MXFP4, models trained for Q4_0) are encoded without loss where the type can hold them. A "
          "run ended by force leaves OUT.partial and OUT.journal, which --resume goes on from; Ctrl-C and errors leave "
          "them only under --resume.",
      .positionals = {{.name = "IN", .help = "a GGUF file, or any shard of a set"},
                      {.name = "OUT",
                       .help = "the file to write; default: NAME-TYPE.gguf beside IN",
                       .is_required = false},
                      {.name = "TYPE", .help = "the second word where OUT is left out", .is_required = false},
                      {.name = "THREADS", .help = "as --threads", .is_required = false}},
      .options = quantize_options(),
      .run = run_quantize_verb,
  };
}

}  // namespace tamis::cli
