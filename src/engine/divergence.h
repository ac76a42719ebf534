// How far a model's predictions are from a base model's on a text: llama-perplexity's statistics of KL divergence and
// changed probabilities, with exact softmax in double over float32 logits and confidence intervals over windows.
// Windows and scored tokens are those of perplexity.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/perplexity.h"

namespace tamis {

// One scored token under both models.
struct TokenDivergence {
  double nll = 0, base_nll = 0;  // −ln probability of the token that follows, nats
  double kl = 0;                 // KL(base ‖ model) of the whole distribution, nats
  bool is_same_top = false;      // both find the same token most likely

  double probability_change() const;  // p(token | model) − p(token | base)
};

struct Estimate {
  double value = 0;
  double error = 0;  // standard error, tokens taken as independent
};

struct Interval {
  double low = 0, high = 0;
};

// Percentiles that the statistics list, in percent.
inline constexpr double kPercentiles[] = {99.9, 99, 95, 90, 50, 10, 5, 1, 0.1};
inline constexpr size_t kMedianIdx = 4;

struct Spread {
  double max = 0, min = 0;
  double percentiles[std::size(kPercentiles)] = {};
};

// "Ratio" and "ln ratio" are of the perplexities, model ÷ base.
struct Divergence {
  uint32_t n_windows = 0;
  uint64_t n_scored = 0;
  Estimate perplexity, base_perplexity, ratio, ln_ratio, difference;
  double correlation = 0;  // of ln perplexity, per token
  Estimate kl, change, change_rms, same_top;
  // Of all tokens. Empty (zeros) before finish().
  Spread kl_spread, change_spread;
  Interval kl_interval, ratio_interval;  // 95 %, bootstrap over whole windows
};

// Collects tokens window by window. Holds 32 bytes for each scored token.
class DivergenceSums {
 public:
  void add(std::span<const TokenDivergence> window);
  Divergence running() const;  // means and errors of what was added so far
  Divergence finish() const;   // with spreads and intervals
  // Mean KL of each window, nats.
  const std::vector<double>& window_kl() const { return window_kl_; }

 private:
  std::vector<TokenDivergence> tokens_;
  std::vector<double> window_kl_, window_ln_ratio_;
  double sums_[10] = {};
};

// One row of logits against the base's, `token` being what follows. Requires: equal sizes, token < size.
TokenDivergence compare_rows(std::span<const float> base, std::span<const float> other, size_t token);

// Runs one window through every session, all models step by step together, so that no more logits are held than those
// of one step of two models. sessions[0] is the base. Returns for each other session its scored tokens. `window` as
// score_window takes it. Errors: those of append_all. Requires: equal vocabularies.
Result<std::vector<std::vector<TokenDivergence>>> compare_window(std::span<Session> sessions,
                                                                 std::span<const TokenId> window, ThreadPool* pool);

}  // namespace tamis
