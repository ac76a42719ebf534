// The fit of step times, and what follows from it.
#include "engine/step_budget.h"

#include <algorithm>

namespace tamis {
namespace {

constexpr double kKeep = 0.9;            // weight of a step against the next one: about ten steps count
constexpr uint32_t kFirstTokens = 64;    // of prompts, before anything was measured
constexpr double kPriorVariance = 64.0;  // tokens²: steps that differ by less say little about the cost of one

}  // namespace

uint32_t StepBudget::n_tokens(uint32_t n_answers) const {
  const double wanted_ms = target_ms_ * (n_answers > 0 ? kShareOfGap : kGapsAlone);
  const uint32_t n_least = n_answers + kMinPromptTokens;
  uint32_t n = n_answers + kFirstTokens;
  if (cost_ms_ > 0) {
    const double fitting = std::clamp((wanted_ms - base_ms_) / cost_ms_, 0.0, static_cast<double>(n_most_));
    n = std::max(n_least, static_cast<uint32_t>(fitting));
  }
  return std::max(n_answers, std::min(n, n_most_));
}

void StepBudget::note(uint32_t n, double ms) {
  if (weight_ == 0) cost_ms_ = ms / n;
  for (double* const sum : {&weight_, &n_sum_, &ms_sum_, &nn_sum_, &n_ms_sum_}) *sum *= kKeep;
  weight_ += 1;
  n_sum_ += n;
  ms_sum_ += ms;
  nn_sum_ += static_cast<double>(n) * n;
  n_ms_sum_ += n * ms;
  const double mean_n = n_sum_ / weight_, mean_ms = ms_sum_ / weight_;
  const double variance = std::max(0.0, nn_sum_ / weight_ - mean_n * mean_n);
  const double covariance = n_ms_sum_ / weight_ - mean_n * mean_ms;
  // What was known before counts as much as steps that differ by kPriorVariance; where all steps are alike it stays.
  const double cost = (covariance + kPriorVariance * cost_ms_) / (variance + kPriorVariance);
  // Neither part is negative: base ≥ 0 bounds the cost from above, and no token is free.
  cost_ms_ = std::clamp(cost, 0.01 * mean_ms / mean_n, mean_ms / mean_n);
  base_ms_ = mean_ms - cost_ms_ * mean_n;
}

}  // namespace tamis
