// What a row of logits says as a probability distribution, in double precision: the arithmetic of perplexity and
// comparison.
#pragma once

#include <cstddef>
#include <span>

namespace tamis {

// log Σ exp(logits[i]), shifted by the maximum. Requires: not empty.
double log_sum_exp(std::span<const float> logits);

// −log softmax(logits)[index] in nats. Requires: index < logits.size().
double negative_log_likelihood(std::span<const float> logits, size_t index);

// KL(softmax(base) ‖ softmax(other)) in nats. Requires: equal sizes, not empty.
// Rounding may give tiny negative numbers for equal distributions; they are returned as 0.
double kl_divergence(std::span<const float> base, std::span<const float> other);

// Index of the largest logit, the first among equals. Requires: not empty.
size_t top_index(std::span<const float> logits);

// Agreement of two logit matrices of one shape, `base` being the truth.
struct LogitDifference {
  double max_abs = 0;   // largest |base − other|
  double max_rel = 0;   // largest |base − other| / |base| where base is not 0
  double kl_mean = 0;   // mean over rows of KL(base ‖ other), nats
  double kl_max = 0;    // largest row
  double same_top = 1;  // share of rows whose largest logit has the same index
};

// Requires: equal sizes, a whole number of rows of n_cols values, n_cols > 0.
LogitDifference compare_logits(std::span<const float> base, std::span<const float> other, size_t n_cols);

}  // namespace tamis
