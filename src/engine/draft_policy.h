// How many guessed tokens are worth computing: what they are likely to bring against what their rows cost, both as
// measured. Beside the scheduler and the loop of one answer.
//
// A guess holds with chance a, estimated from how such guesses held before; its i-th token comes to use with chance
// a^i. A step of n answers that takes T gives a token each T/n; a row more takes c. So the i-th row pays while a^i ·
// T/n > c: much while the weights' bytes bound a step, nothing once its arithmetic does, which is what many answers at
// once do. Estimates cost nothing: a guess is compared with what was chosen whether it was computed or not.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/step_time.h"

namespace tamis {

// How guesses of one sequence held, apart by how good they looked.
class DraftRecord {
 public:
  static constexpr size_t kByModel = SIZE_MAX;
  // `n_agreeing`: what NgramDraft::guess() returned; kByModel for the guess of a draft model.
  double chance(size_t n_agreeing) const { return chances_[class_of(n_agreeing)]; }
  // A guessed token of such a guess was, or was not, what was chosen, all before it having been.
  void note(size_t n_agreeing, bool has_held);

 private:
  static size_t class_of(size_t n_agreeing) {
    return n_agreeing == kByModel ? 3 : n_agreeing < 5 ? 0 : n_agreeing < 12 ? 1 : 2;
  }
  std::array<double, 4> chances_ = {0.3, 0.6, 0.8, 0.7};  // before anything is known
};

class DraftPolicy {
 public:
  static constexpr size_t kMostTokens = 15;   // of a guess
  static constexpr uint32_t kTryEvery = 128;  // what rows cost is learnt only from steps that have some

  // `margin`: a row must bring that many times its cost; 0: every guess is computed.
  explicit DraftPolicy(double margin) : margin_(margin) {}

  // A step of `n_rows` rows, no prompt among them, took `ms`.
  void note(uint32_t n_rows, double ms) { time_.note(n_rows, ms); }
  // Rows worth adding for a guess whose tokens hold with `chance` each, in a step with `n_answers` answers; making the
  // guess takes `guess_ms` a token.
  size_t n_worth(double chance, size_t n_answers, double guess_ms = 0);
  // There was no guess to compute yet after all: what was to be tried is tried the next time.
  void put_off_trial() { n_since_tried_ = kTryEvery; }

 private:
  double margin_;
  StepTime time_{1, 0.2};
  uint32_t n_since_tried_ = 0;  // times that cost alone forbade a guess likely to hold
};

}  // namespace tamis
