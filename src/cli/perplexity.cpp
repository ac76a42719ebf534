// `tamis perplexity -m M -f TEXT`: how surprised a model is by a text, by llama-perplexity's rules
// (engine/perplexity.h), and how far other models are from it (engine/divergence.h).
#include "engine/perplexity.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/file.h"
#include "base/log.h"
#include "base/progress.h"
#include "cli/interrupt.h"
#include "cli/load_engine.h"
#include "cli/model_facts.h"
#include "cli/perplexity_report.h"
#include "engine/kl_base.h"
#include "formats/json.h"

namespace tamis::cli {
namespace {

constexpr uint64_t kMaxTextBytes = uint64_t{4} << 30;

class Stopwatch {
 public:
  double tokens_per_second(uint64_t n_tokens) const {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start_;
    return seconds.count() > 0 ? static_cast<double>(n_tokens) / seconds.count() : 0.0;
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

std::string score_json(const Perplexity& state) {
  Json out = Json::object();
  out.set("schema", 1);
  out.set("window", state.n_windows);
  out.set("nll", state.window_nll);
  out.set("perplexity", state.perplexity);
  return out.dump() + "\n";
}

std::string result_json(const Perplexity& result, uint32_t n_ctx, double speed) {
  Json out = Json::object();
  out.set("schema", 1);
  out.set("perplexity", result.perplexity);
  out.set("stderr", result.standard_error);
  out.set("nll", result.mean_nll);
  out.set("n_windows", result.n_windows);
  out.set("n_ctx", n_ctx);
  out.set("n_scored", result.n_scored);
  out.set("tokens_per_second", speed);
  return out.dump() + "\n";
}

// Options, the model of -m and the text's tokens: what every mode begins with.
struct Setup {
  const Args& args;
  PerplexityOptions options;
  EngineOptions engine_options;
  LoadedEngine loaded;
  std::vector<TokenId> tokens;
  uint32_t n_windows = 0;
};

Result<Setup> load_model_and_options(const Args& args, uint32_t n_ctx) {
  Setup setup{args, {}, {}, {}, {}, 0};
  setup.options.n_ctx = n_ctx;
  TAMIS_TRY(setup.options.n_chunks, integer_option(args, "--chunks", 0));
  setup.engine_options.n_ctx = n_ctx;
  setup.engine_options.n_batch = static_cast<uint32_t>(args.integer("-b"));
  TAMIS_TRY(setup.loaded, load_engine(args, setup.engine_options));
  setup.options.pool = setup.loaded.pool.get();
  return setup;
}

Result<Setup> load_with_text(const Args& args) {
  TAMIS_TRY(const uint32_t n_ctx, integer_option(args, "-c", 512, 4));
  if (!args.has("-f")) return fail(ErrorCode::invalid_argument, "-f TEXT is needed: the file to score");
  TAMIS_TRY(const std::string text, read_text_file(args.text("-f"), kMaxTextBytes));
  TAMIS_TRY(Setup setup, load_model_and_options(args, n_ctx));
  setup.tokens = setup.loaded.engine->tokenizer()->encode(text, {.add_special = true});
  setup.n_windows = n_perplexity_windows(setup.tokens.size(), setup.options);
  if (setup.n_windows == 0) {
    return fail(ErrorCode::invalid_argument, "{}: a window of {} tokens, the text has {}", args.text("-f"), n_ctx,
                setup.tokens.size());
  }
  const uint32_t n_vocab = setup.loaded.engine->model().n_vocab();
  const auto is_outside = [=](TokenId token) { return token < 0 || static_cast<uint32_t>(token) >= n_vocab; };
  if (std::ranges::any_of(setup.tokens, is_outside))
    return fail(ErrorCode::shape, "{}: the text has tokens that its {} logits do not cover", args.text("-m"), n_vocab);
  return setup;
}

// ---- one model, with or without a base file to write

Result<int> score_model(const Args& args) {
  TAMIS_TRY(Setup setup, load_with_text(args));
  PerplexityOptions& options = setup.options;
  std::optional<KlBaseWriter> writer;
  if (args.has("--kl-divergence-base")) {
    const auto scored = std::span(setup.tokens).first(size_t{setup.n_windows} * options.n_ctx);
    TAMIS_TRY(writer, KlBaseWriter::create(args.text("--kl-divergence-base"), options.n_ctx,
                                           setup.loaded.engine->model().n_vocab(), scored, args.flag("--force")));
    options.on_rows = [&](std::span<const float> rows) { return writer->write_rows(rows); };
  }
  const bool as_json = args.flag("--json");
  const std::atomic<bool>& stop = stop_flag();
  Status printed;
  const Stopwatch stopwatch;
  Result<Perplexity> result = Perplexity{};
  {
    Progress progress("perplexity", ProgressUnit::tokens, uint64_t{setup.n_windows} * options.n_ctx);
    result = measure_perplexity(setup.loaded.engine, setup.tokens, options, [&](const Perplexity& state) {
      progress.set(uint64_t{state.n_windows} * options.n_ctx);
      if (as_json) printed = print_out(score_json(state));
      return printed.has_value() && !stop.load();
    });
  }
  TAMIS_TRY_STATUS(std::move(printed));
  if (!result) return tl::unexpected<Error>(std::move(result).error());
  const double speed = stopwatch.tokens_per_second(uint64_t{result->n_windows} * options.n_ctx);
  if (writer) TAMIS_TRY_STATUS(writer->commit());
  if (as_json) {
    TAMIS_TRY_STATUS(print_out(result_json(*result, options.n_ctx, speed)));
  } else {
    TAMIS_TRY_STATUS(print_out(fmt::format(
        "perplexity {:.4f} ± {:.4f} ({} windows of {} tokens, {} scored, {:.1f} tokens/s)\n", result->perplexity,
        result->standard_error, result->n_windows, options.n_ctx, result->n_scored, speed)));
  }
  return 0;
}

// ---- comparison: windows one after the other, lines as they come, statistics at the end

class Comparison {
 public:
  // Windows are numbered from 0; the scores of one are those of each compared model.
  using Scores = std::vector<std::vector<TokenDivergence>>;
  using ScoreWindow = std::function<Result<Scores>(uint32_t window_idx)>;

  Comparison(const Args& args, ComparisonRun run) : args_(args), run_(std::move(run)), sums_(run_.models.size()) {}

  Result<int> run(uint32_t n_windows, uint32_t n_tokens_a_window, const ScoreWindow& score) {
    const Stopwatch stopwatch;
    TAMIS_TRY_STATUS(add_windows(n_windows, n_tokens_a_window, score));
    run_.tokens_per_second = stopwatch.tokens_per_second(uint64_t{n_windows} * n_tokens_a_window);
    for (size_t i = 0; i < sums_.size(); ++i) run_.models[i].divergence = sums_[i].finish();
    if (args_.has("--html"))
      TAMIS_TRY_STATUS(write_text_file(args_.text("--html"), comparison_page(run_), args_.flag("--force")));
    for (const ComparedModel& model : run_.models)
      TAMIS_TRY_STATUS(print_out(is_json() ? statistics_json(run_, model) : "\n" + statistics_text(run_, model)));
    if (!is_json()) TAMIS_TRY_STATUS(print_out(overview_text(run_)));
    return 0;
  }

 private:
  bool is_json() const { return args_.flag("--json"); }

  Status add_windows(uint32_t n_windows, uint32_t n_tokens_a_window, const ScoreWindow& score) {
    const std::atomic<bool>& stop = stop_flag();
    Progress progress("perplexity", ProgressUnit::tokens, uint64_t{n_windows} * n_tokens_a_window);
    const bool has_table = !is_json() && sums_.size() == 1;  // lines of several models would not line up
    if (has_table) TAMIS_TRY_STATUS(print_out(window_text_head()));
    for (uint32_t w = 0; w < n_windows; ++w) {
      if (stop.load()) return fail(ErrorCode::cancelled, "stopped after {} of {} windows", w, n_windows);
      TAMIS_TRY(const Scores scores, score(w));
      for (size_t i = 0; i < sums_.size(); ++i) {
        sums_[i].add(scores[i]);
        const Divergence running = sums_[i].running();
        if (has_table) TAMIS_TRY_STATUS(print_out(window_text(running)));
        if (is_json())
          TAMIS_TRY_STATUS(print_out(window_json(run_.models[i].file, running, sums_[i].window_kl().back())));
      }
      progress.set(uint64_t{w + 1} * n_tokens_a_window);
    }
    return {};
  }

  const Args& args_;
  ComparisonRun run_;
  std::vector<DivergenceSums> sums_;
};

ComparedModel describe(const std::string& path, const GgufFile& file) {
  const ModelFacts facts = gather_facts(file);
  std::string name = path.substr(path.find_last_of('/') + 1);
  if (name.ends_with(".gguf")) name.resize(name.size() - 5);
  ComparedModel model{.file = path, .label = name, .size_bytes = file.size_bytes()};
  model.bits_per_weight = facts.total.bits_per_weight();
  return model;
}

// ---- against a base file

Result<int> compare_with_base_file(const Args& args) {
  const std::string path = args.text("--kl-divergence-base");
  TAMIS_TRY(const KlBaseFile base, KlBaseFile::open(path));
  TAMIS_TRY(const uint32_t n_ctx, integer_option(args, "-c", base.n_ctx(), 4));
  if (n_ctx != base.n_ctx())
    return fail(ErrorCode::invalid_argument, "-c: got {}, the windows of {} have {} tokens", n_ctx, path, base.n_ctx());
  TAMIS_TRY(const Setup setup, load_model_and_options(args, n_ctx));
  const Engine& engine = *setup.loaded.engine;
  if (engine.model().n_vocab() != base.n_vocab()) {
    return fail(ErrorCode::shape, "{}: a base of {} tokens in the vocabulary, the model has {}", path, base.n_vocab(),
                engine.model().n_vocab());
  }
  const uint32_t n_windows = n_perplexity_windows(base.tokens().size(), setup.options);
  Session session(setup.loaded.engine);
  const auto score = [&](uint32_t w) -> Result<Comparison::Scores> {
    const auto window = window_of(base.tokens(), n_ctx, w, engine.tokenizer()->special());
    TAMIS_TRY(std::vector<TokenDivergence> tokens, compare_window_with(base, w, session, window, setup.options.pool));
    Comparison::Scores scores;
    scores.push_back(std::move(tokens));
    return scores;
  };
  ComparisonRun run{.base = path, .text = path, .n_ctx = n_ctx};
  run.models.push_back(describe(args.text("-m"), engine.model().file));
  return Comparison(args, std::move(run)).run(n_windows, n_ctx, score);
}

// ---- against other models

// Token ids must mean the same. Files may differ in details (control tokens' types) that do not matter here.
Status check_same_vocabulary(const Engine& base, const Engine& other, const std::string& path) {
  if (base.model().n_vocab() != other.model().n_vocab()) {
    return fail(ErrorCode::shape, "{}: a vocabulary of {} tokens, the base has {}", path, other.model().n_vocab(),
                base.model().n_vocab());
  }
  constexpr std::string_view kKey = "tokenizer.ggml.tokens";
  const GgufValue* const mine = base.model().file.find(kKey);
  const GgufValue* const theirs = other.model().file.find(kKey);
  if (mine != nullptr && theirs != nullptr && !std::ranges::equal(mine->raw(), theirs->raw()))
    log_warning("{}: the tokens are not spelled as in the base model", path);
  return {};
}

Result<int> compare_with_models(const Args& args) {
  std::vector<std::string> paths = args.texts("--against");
  for (std::string& path : args.texts("OTHER")) paths.push_back(std::move(path));
  TAMIS_TRY(const Setup setup, load_with_text(args));
  const auto or_base = [&](std::string_view option, std::string_view base) {
    return args.has(option) ? args.text(option) : args.text(base);
  };
  const std::string backend = or_base("--against-backend", "--backend");
  const std::string activations = or_base("--against-activations", "--activations");
  std::vector<Session> sessions;
  sessions.emplace_back(setup.loaded.engine);
  ComparisonRun run{.base = args.text("-m"), .text = args.text("-f"), .n_ctx = setup.options.n_ctx};
  for (const std::string& path : paths) {
    TAMIS_TRY(auto engine, load_other_engine(args, setup.engine_options,
                                             {path, backend, activations, args.text("--layout")}, *setup.loaded.pool));
    TAMIS_TRY_STATUS(check_same_vocabulary(*setup.loaded.engine, *engine, path));
    run.models.push_back(describe(path, engine->model().file));
    sessions.emplace_back(std::move(engine));
  }
  const SpecialTokens& special = setup.loaded.engine->tokenizer()->special();
  const auto score = [&](uint32_t w) {
    const auto window = window_of(setup.tokens, setup.options.n_ctx, w, special);
    return compare_window(sessions, window, setup.options.pool);
  };
  const auto n_tokens = static_cast<uint32_t>(setup.options.n_ctx * sessions.size());
  return Comparison(args, std::move(run)).run(setup.n_windows, n_tokens, score);
}

Result<int> run_perplexity(const Args& args) {
  const bool has_others = args.has("--against"), has_base = args.has("--kl-divergence-base");
  if (!args.texts("OTHER").empty() && !has_others)
    return fail(ErrorCode::invalid_argument, "{}: name models to compare after --against", args.texts("OTHER")[0]);
  if (args.flag("--kl-divergence") && !has_base)
    return fail(ErrorCode::invalid_argument, "--kl-divergence needs --kl-divergence-base FILE");
  if (has_others && has_base)
    return fail(ErrorCode::invalid_argument, "--against needs no base file: give one of the two");
  const bool is_comparison = has_others || args.flag("--kl-divergence");
  if (args.has("--html") && !is_comparison)
    return fail(ErrorCode::invalid_argument, "--html shows comparisons: it needs --against or --kl-divergence");
  if (args.has("--html") && file_exists(args.text("--html")) && !args.flag("--force"))
    return fail(ErrorCode::invalid_argument, "{} exists; --force overwrites it", args.text("--html"));
  if (has_others) return compare_with_models(args);
  return is_comparison ? compare_with_base_file(args) : score_model(args);
}

std::vector<OptionSpec> perplexity_options() {
  return {
      {.names = "-f,--file", .kind = OptionKind::text, .value_name = "TEXT", .help = "the text, UTF-8"},
      context_option("tokens a window; default: 512"),
      batch_option(),
      {.names = "--chunks",
       .kind = OptionKind::integer,
       .value_name = "N",
       .help = "windows at most; default: all",
       .minimum = 1},
      {.names = "--against",
       .kind = OptionKind::text,
       .value_name = "OTHER",
       .help = "compare OTHER (and the models that follow) with the model of -m, all in memory in one run",
       .is_repeatable = true},
      {.names = "--against-backend",
       .kind = OptionKind::text,
       .value_name = "NAME",
       .help = "what computes the OTHER models; default: as --backend",
       .choices = {"reference", "cpu", "cuda"}},
      {.names = "--against-activations",
       .kind = OptionKind::text,
       .value_name = "TYPE",
       .help = "activations of the OTHER models; default: as --activations",
       .choices = {"q8", "f32"}},
      {.names = "--kl-divergence-base",
       .kind = OptionKind::text,
       .value_name = "FILE",
       .help = "a base file of log-probabilities: written, or with --kl-divergence compared with"},
      {.names = "--kl-divergence", .help = "compare the model of -m with the base file; its text is scored, not -f's"},
      {.names = "--html",
       .kind = OptionKind::text,
       .value_name = "REPORT",
       .help = "write a page with plots of KL divergence and same top by bits a weight"},
      {.names = "--force", .help = "overwrite FILE and REPORT"},
  };
}

}  // namespace

Verb perplexity_verb() {
  return {
      .name = "perplexity",
      .summary = "how surprised a model is by a text, and how far others are from it",
      .details =
          "As llama-perplexity: the text is cut into windows of -c tokens, the first token of each is BOS when the "
          "vocabulary adds one, and the second half of each window is scored. With --json a line per window, then a "
          "last line with \"perplexity\" and \"stderr\".\n\n"
          "--against compares other models with that of -m token by token: KL divergence, changes of probability, same "
          "most likely token, with exact float32 logits and no file between. With --json the last line (one per model) "
          "has \"kl_mean\", \"kl_stderr\", \"kl_p99\", \"kl_max\", \"same_top\", \"ppl_ratio\" and the rest; "
          "\"perplexity\" is then that of the other model, \"base_perplexity\" that of -m. The error of two backends "
          "is measured by the same file on both sides: -m M --backend reference --against M --against-backend cpu.\n\n"
          "--kl-divergence-base writes and reads llama-perplexity's base files. They hold 16 bits a value and clip "
          "what is unlikely, which moves perplexities by up to 1 %; --against does not.",
      .positionals = {{.name = "OTHER",
                       .help = "more models to compare, after --against",
                       .is_required = false,
                       .is_repeatable = true}},
      .options = model_options() + perplexity_options(),
      .run = run_perplexity,
  };
}

}  // namespace tamis::cli
