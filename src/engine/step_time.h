// What a step takes, by its number of tokens: base + cost · tokens, fitted to the last steps by least squares that
// forget; base is what reading the weights takes, cost what a token adds. Beside the scheduler, whose budget of prompts
// (engine/step_budget.h) and whose guesses (engine/draft_policy.h) live by it.
#pragma once

#include <cstdint>

namespace tamis {

class StepTime {
 public:
  // `prior_variance`: tokens²; what was known before counts as much as steps whose tokens differ by it. `first_share`:
  // how much of the first step's time its tokens are taken to cost, 0 … 1.
  StepTime(double prior_variance, double first_share) : prior_variance_(prior_variance), first_share_(first_share) {}

  // A step of `n` tokens took `ms`. Requires: n ≥ 1.
  void note(uint32_t n, double ms);

  bool is_known() const { return weight_ > 0; }
  double base_ms() const { return base_ms_; }
  double cost_ms() const { return cost_ms_; }  // of a token; 0: nothing was measured yet
  double expected_ms(double n) const { return base_ms_ + cost_ms_ * n; }

 private:
  double prior_variance_, first_share_;
  double base_ms_ = 0, cost_ms_ = 0;
  double weight_ = 0, n_sum_ = 0, ms_sum_ = 0, nn_sum_ = 0, n_ms_sum_ = 0;  // of the last steps, older ones less
};

}  // namespace tamis
