// Scoring the windows of a text.
#include "engine/perplexity.h"

#include <algorithm>
#include <cmath>

#include "engine/distribution.h"
#include "engine/session.h"

namespace tamis {
namespace {

// Negative log-likelihoods of the tokens of one window that are scored, in order.
Result<std::vector<double>> score_window(Session& session, std::span<const TokenId> window, ThreadPool* pool) {
  const size_t first = window.size() / 2;
  const size_t n_scored = window.size() - first - 1;  // the last token has no successor here
  const size_t n_vocab = session.engine().model().n_vocab();
  std::vector<double> nll(n_scored);
  session.truncate(0);
  const auto score = [&](size_t first_token, std::span<const float> rows) -> Status {
    const auto score_rows = [&](size_t begin, size_t end, uint32_t) {
      for (size_t row = begin; row < end; ++row) {
        const size_t token = first_token + row;
        nll[token - first] =
            negative_log_likelihood(rows.subspan(row * n_vocab, n_vocab), static_cast<size_t>(window[token + 1]));
      }
    };
    const size_t n_rows = rows.size() / n_vocab;
    if (pool != nullptr) return pool->parallel_for(n_rows, 1, score_rows);
    score_rows(0, n_rows, 0);
    return {};
  };
  TAMIS_TRY_STATUS(session.append_all(window.first(window.size() - 1), first, score));
  return nll;
}

}  // namespace

uint32_t n_perplexity_windows(size_t n_tokens, const PerplexityOptions& options) {
  if (options.n_ctx < 4) return 0;
  const size_t n = n_tokens / options.n_ctx;
  return static_cast<uint32_t>(std::min<size_t>(n, options.n_chunks != 0 ? options.n_chunks : UINT32_MAX));
}

Result<Perplexity> measure_perplexity(const std::shared_ptr<const Engine>& engine, std::span<const TokenId> tokens,
                                      const PerplexityOptions& options,
                                      const std::function<bool(const Perplexity&)>& on_window) {
  const uint32_t n_windows = n_perplexity_windows(tokens.size(), options);
  if (n_windows == 0) {
    return fail(ErrorCode::invalid_argument, "a window of {} tokens: the text has {}, and a window needs at least 4",
                options.n_ctx, tokens.size());
  }
  for (const TokenId token : tokens) {
    if (token < 0 || static_cast<uint32_t>(token) >= engine->model().n_vocab())
      return fail(ErrorCode::invalid_argument, "token {} is not in the vocabulary", token);
  }
  const SpecialTokens& special = engine->tokenizer()->special();
  Session session(engine);
  Perplexity state;
  double sum = 0, sum_of_squares = 0;
  std::vector<TokenId> window(options.n_ctx);
  for (uint32_t i = 0; i < n_windows; ++i) {
    std::ranges::copy(tokens.subspan(size_t{i} * options.n_ctx, options.n_ctx), window.begin());
    if (special.add_bos && special.bos != kNoToken) window.front() = special.bos;
    TAMIS_TRY(const std::vector<double> nll, score_window(session, window, options.pool));
    double window_sum = 0;
    for (const double value : nll) {
      window_sum += value;
      sum_of_squares += value * value;
    }
    sum += window_sum;
    state.n_windows = i + 1;
    state.n_scored += nll.size();
    const auto n = static_cast<double>(state.n_scored);
    state.window_nll = window_sum / static_cast<double>(nll.size());
    state.mean_nll = sum / n;
    state.perplexity = std::exp(state.mean_nll);
    const double variance = sum_of_squares / n - state.mean_nll * state.mean_nll;
    state.standard_error = variance > 0 && n > 1 ? state.perplexity * std::sqrt(variance / (n - 1)) : 0;
    if (!on_window(state)) return fail(ErrorCode::cancelled, "stopped after {} of {} windows", i + 1, n_windows);
  }
  return state;
}

}  // namespace tamis
