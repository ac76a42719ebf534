// The fit of step times.
#include "engine/step_time.h"

#include <algorithm>

namespace tamis {
namespace {

constexpr double kKeep = 0.9;  // weight of a step against the next one: about ten steps count

}  // namespace

void StepTime::note(uint32_t n, double ms) {
  if (weight_ == 0) cost_ms_ = first_share_ * ms / n;
  for (double* const sum : {&weight_, &n_sum_, &ms_sum_, &nn_sum_, &n_ms_sum_}) *sum *= kKeep;
  weight_ += 1;
  n_sum_ += n;
  ms_sum_ += ms;
  nn_sum_ += static_cast<double>(n) * n;
  n_ms_sum_ += n * ms;
  const double mean_n = n_sum_ / weight_, mean_ms = ms_sum_ / weight_;
  const double variance = std::max(0.0, nn_sum_ / weight_ - mean_n * mean_n);
  const double covariance = n_ms_sum_ / weight_ - mean_n * mean_ms;
  // Where all steps are alike, what was known before stays.
  const double cost = (covariance + prior_variance_ * cost_ms_) / (variance + prior_variance_);
  // Neither part is negative: base ≥ 0 bounds the cost from above, and no token is free.
  cost_ms_ = std::clamp(cost, 0.01 * mean_ms / mean_n, mean_ms / mean_n);
  base_ms_ = mean_ms - cost_ms_ * mean_n;
}

}  // namespace tamis
