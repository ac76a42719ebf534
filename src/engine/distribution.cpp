// Plain sums in index order, so that every compiler and target gives the same bits.
#include "engine/distribution.h"

#include <algorithm>
#include <cmath>

namespace tamis {

double log_sum_exp(std::span<const float> logits) {
  const double shift = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - shift);
  return shift + std::log(sum);
}

double negative_log_likelihood(std::span<const float> logits, size_t index) {
  return log_sum_exp(logits) - static_cast<double>(logits[index]);
}

double kl_divergence(std::span<const float> base, std::span<const float> other) {
  const double base_norm = log_sum_exp(base);
  const double other_norm = log_sum_exp(other);
  double sum = 0;
  for (size_t i = 0; i < base.size(); ++i) {
    const double log_p = static_cast<double>(base[i]) - base_norm;
    const double log_q = static_cast<double>(other[i]) - other_norm;
    sum += std::exp(log_p) * (log_p - log_q);
  }
  return std::max(0.0, sum);
}

size_t top_index(std::span<const float> logits) {
  return static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

LogitDifference compare_logits(std::span<const float> base, std::span<const float> other, size_t n_cols) {
  LogitDifference difference;
  const size_t n_rows = base.size() / n_cols;
  size_t n_same_top = 0;
  double kl_sum = 0;
  for (size_t row = 0; row < n_rows; ++row) {
    const auto a = base.subspan(row * n_cols, n_cols);
    const auto b = other.subspan(row * n_cols, n_cols);
    for (size_t i = 0; i < n_cols; ++i) {
      const double gap = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
      difference.max_abs = std::max(difference.max_abs, gap);
      if (a[i] != 0) difference.max_rel = std::max(difference.max_rel, gap / std::abs(static_cast<double>(a[i])));
    }
    const double kl = kl_divergence(a, b);
    kl_sum += kl;
    difference.kl_max = std::max(difference.kl_max, kl);
    if (top_index(a) == top_index(b)) ++n_same_top;
  }
  if (n_rows != 0) {
    difference.kl_mean = kl_sum / static_cast<double>(n_rows);
    difference.same_top = static_cast<double>(n_same_top) / static_cast<double>(n_rows);
  }
  return difference;
}

}  // namespace tamis
