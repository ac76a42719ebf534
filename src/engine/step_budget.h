// How many tokens the next step may have, so that answers come without long gaps: a controller on measured times of
// steps. Beside the scheduler.
//
// The time of a step is taken to be base + cost · tokens, fitted to the last steps by least squares that forget; base
// is what reading the weights takes, cost what a token adds. While answers run, a step may take most of the wanted gap;
// while none does, a few times as much, for whoever arrives during it.
#pragma once

#include <cstdint>

namespace tamis {

class StepBudget {
 public:
  static constexpr uint32_t kMinPromptTokens = 16;  // a prompt always gets these: it must end some time
  static constexpr double kShareOfGap = 0.85;       // of the wanted gap that a step may take
  static constexpr double kGapsAlone = 4;           // of them a step may take while no answer runs

  // Requires: target_ms > 0, n_most ≥ 1.
  StepBudget(double target_ms, uint32_t n_most) : target_ms_(target_ms), n_most_(n_most) {}

  // Tokens of a step in which `n_answers` answers get one each: at least n_answers, and kMinPromptTokens more where
  // n_most lets them.
  uint32_t n_tokens(uint32_t n_answers) const;
  // A step of `n` tokens took `ms`. Requires: n ≥ 1.
  void note(uint32_t n, double ms);

  double expected_ms(uint32_t n) const { return base_ms_ + cost_ms_ * n; }
  double prompt_tokens_per_second() const { return cost_ms_ > 0 ? 1000 / cost_ms_ : 0; }  // 0: not known yet

 private:
  double target_ms_;
  uint32_t n_most_;
  double base_ms_ = 0, cost_ms_ = 0;
  double weight_ = 0, n_sum_ = 0, ms_sum_ = 0, nn_sum_ = 0, n_ms_sum_ = 0;  // of the last steps, older ones less
};

}  // namespace tamis
