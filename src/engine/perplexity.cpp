// Scoring the windows of a text.
#include "engine/perplexity.h"

#include <algorithm>
#include <cmath>

#include "engine/distribution.h"

namespace tamis {

void PerplexitySums::add(std::span<const double> window_nll) {
  double window_sum = 0;
  for (const double value : window_nll) {
    window_sum += value;
    sum_of_squares_ += value * value;
  }
  sum_ += window_sum;
  ++state_.n_windows;
  state_.n_scored += window_nll.size();
  const auto n = static_cast<double>(state_.n_scored);
  state_.window_nll = window_sum / static_cast<double>(window_nll.size());
  state_.mean_nll = sum_ / n;
  state_.perplexity = std::exp(state_.mean_nll);
  const double variance = sum_of_squares_ / n - state_.mean_nll * state_.mean_nll;
  state_.standard_error = variance > 0 && n > 1 ? state_.perplexity * std::sqrt(variance / (n - 1)) : 0;
}

Result<std::vector<double>> score_window(Session& session, std::span<const TokenId> window, ThreadPool* pool,
                                         const OnRows& on_rows) {
  const size_t first = window.size() / 2;
  const size_t n_vocab = session.engine().model().n_vocab();
  std::vector<double> nll(window.size() - first - 1);  // the last token has no successor here
  session.truncate(0);
  const auto score = [&](size_t first_token, std::span<const float> rows) -> Status {
    if (on_rows) TAMIS_TRY_STATUS(on_rows(rows));
    return for_rows(pool, rows.size() / n_vocab, [&](size_t row) {
      const size_t token = first_token + row;
      nll[token - first] =
          negative_log_likelihood(rows.subspan(row * n_vocab, n_vocab), static_cast<size_t>(window[token + 1]));
    });
  };
  TAMIS_TRY_STATUS(session.append_all(window.first(window.size() - 1), first, score));
  return nll;
}

std::vector<TokenId> window_of(std::span<const TokenId> tokens, uint32_t n_ctx, uint32_t i,
                               const SpecialTokens& special) {
  const auto text = tokens.subspan(size_t{i} * n_ctx, n_ctx);
  std::vector<TokenId> window(text.begin(), text.end());
  if (special.add_bos && special.bos != kNoToken) window.front() = special.bos;
  return window;
}

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
  PerplexitySums sums;
  for (uint32_t i = 0; i < n_windows; ++i) {
    const std::vector<TokenId> window = window_of(tokens, options.n_ctx, i, special);
    TAMIS_TRY(const std::vector<double> nll, score_window(session, window, options.pool, options.on_rows));
    sums.add(nll);
    if (!on_window(sums.state())) return fail(ErrorCode::cancelled, "stopped after {} of {} windows", i + 1, n_windows);
  }
  return sums.state();
}

}  // namespace tamis
