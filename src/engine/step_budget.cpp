// What follows from the times of steps.
#include "engine/step_budget.h"

#include <algorithm>

namespace tamis {
namespace {

constexpr uint32_t kFirstTokens = 64;  // of prompts, before anything was measured

}  // namespace

uint32_t StepBudget::n_tokens(uint32_t n_answers) const {
  const double wanted_ms = target_ms_ * (n_answers > 0 ? kShareOfGap : kGapsAlone);
  const uint32_t n_least = n_answers + kMinPromptTokens;
  uint32_t n = n_answers + kFirstTokens;
  if (time_.is_known()) {
    const double fitting = (wanted_ms - time_.base_ms()) / time_.cost_ms();
    n = std::max(n_least, static_cast<uint32_t>(std::clamp(fitting, 0.0, static_cast<double>(n_most_))));
  }
  return std::max(n_answers, std::min(n, n_most_));
}

}  // namespace tamis
