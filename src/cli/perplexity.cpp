// `tamis perplexity -m M -f TEXT`: how surprised a model is by a text, by llama-perplexity's rules
// (engine/perplexity.h).
#include "engine/perplexity.h"

#include <fmt/format.h>

#include <chrono>

#include "base/file.h"
#include "base/progress.h"
#include "cli/interrupt.h"
#include "cli/load_engine.h"
#include "formats/json.h"

namespace tamis::cli {
namespace {

constexpr uint64_t kMaxTextBytes = uint64_t{4} << 30;

std::string window_json(const Perplexity& state) {
  Json out = Json::object();
  out.set("schema", 1);
  out.set("window", state.n_windows);
  out.set("nll", state.window_nll);
  out.set("perplexity", state.perplexity);
  return out.dump() + "\n";
}

std::string result_json(const Perplexity& result, uint32_t n_ctx, double seconds, uint64_t n_computed) {
  Json out = Json::object();
  out.set("schema", 1);
  out.set("perplexity", result.perplexity);
  out.set("stderr", result.standard_error);
  out.set("nll", result.mean_nll);
  out.set("n_windows", result.n_windows);
  out.set("n_ctx", n_ctx);
  out.set("n_scored", result.n_scored);
  out.set("tokens_per_second", seconds > 0 ? static_cast<double>(n_computed) / seconds : 0.0);
  return out.dump() + "\n";
}

Result<int> run_perplexity(const Args& args) {
  PerplexityOptions options;
  TAMIS_TRY(options.n_ctx, integer_option(args, "-c", 512, 4));
  TAMIS_TRY(options.n_chunks, integer_option(args, "--chunks", 0));
  if (!args.has("-f")) return fail(ErrorCode::invalid_argument, "-f TEXT is needed: the file to score");
  TAMIS_TRY(const std::string text, read_text_file(args.text("-f"), kMaxTextBytes));
  EngineOptions engine_options;
  engine_options.n_ctx = options.n_ctx;
  engine_options.n_batch = static_cast<uint32_t>(args.integer("-b"));
  TAMIS_TRY(const LoadedEngine loaded, load_engine(args, engine_options));
  options.pool = loaded.pool.get();
  const std::vector<TokenId> tokens = loaded.engine->tokenizer()->encode(text, {.add_special = true});
  const uint32_t n_windows = n_perplexity_windows(tokens.size(), options);
  const bool as_json = args.flag("--json");
  const std::atomic<bool>& stop = stop_flag();
  Status printed;
  const auto start = std::chrono::steady_clock::now();
  Result<Perplexity> result = Perplexity{};
  {
    Progress progress("perplexity", ProgressUnit::tokens, uint64_t{n_windows} * options.n_ctx);
    result = measure_perplexity(loaded.engine, tokens, options, [&](const Perplexity& state) {
      progress.set(uint64_t{state.n_windows} * options.n_ctx);
      if (as_json) printed = print_out(window_json(state));
      return printed.has_value() && !stop.load();
    });
  }
  TAMIS_TRY_STATUS(std::move(printed));
  if (!result) return tl::unexpected<Error>(std::move(result).error());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const uint64_t n_computed = uint64_t{result->n_windows} * options.n_ctx;
  if (as_json) {
    TAMIS_TRY_STATUS(print_out(result_json(*result, options.n_ctx, seconds, n_computed)));
  } else {
    TAMIS_TRY_STATUS(
        print_out(fmt::format("perplexity {:.4f} ± {:.4f} ({} windows of {} tokens, {} scored, {:.1f} tokens/s)\n",
                              result->perplexity, result->standard_error, result->n_windows, options.n_ctx,
                              result->n_scored, static_cast<double>(n_computed) / seconds)));
  }
  return 0;
}

}  // namespace

Verb perplexity_verb() {
  return {
      .name = "perplexity",
      .summary = "how surprised a model is by a text",
      .details =
          "As llama-perplexity: the text is cut into windows of -c tokens, the first token of each is BOS when the "
          "vocabulary "
          "adds one, and the second half of each window is scored. With --json a line per window, then a last line "
          "with "
          "\"perplexity\" and \"stderr\".",
      .positionals = {},
      .options = model_options() +
                 std::vector<OptionSpec>{
                     {.names = "-f,--file", .kind = OptionKind::text, .value_name = "TEXT", .help = "the text, UTF-8"},
                     context_option("tokens a window; default: 512"),
                     batch_option(),
                     {.names = "--chunks",
                      .kind = OptionKind::integer,
                      .value_name = "N",
                      .help = "windows at most; default: all",
                      .minimum = 1}},
      .run = run_perplexity,
  };
}

}  // namespace tamis::cli
