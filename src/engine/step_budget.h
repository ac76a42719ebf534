// How many tokens the next step may have, so that answers come without long gaps: a controller on measured times of
// steps (engine/step_time.h). Beside the scheduler.
//
// While answers run, a step may take most of the wanted gap; while none does, a few times as much, for whoever arrives
// during it.
#pragma once

#include <cstdint>

#include "engine/step_time.h"

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
  void note(uint32_t n, double ms) { time_.note(n, ms); }

  double expected_ms(uint32_t n) const { return time_.expected_ms(n); }
  // 0: not known yet
  double prompt_tokens_per_second() const { return time_.cost_ms() > 0 ? 1000 / time_.cost_ms() : 0; }

 private:
  static constexpr double kPriorVariance = 64;  // steps that differ by less say little about the cost of a token

  double target_ms_;
  uint32_t n_most_;
  StepTime time_{kPriorVariance, 1};
};

}  // namespace tamis
