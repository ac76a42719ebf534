// Hidden states of one prompt becoming one vector. Between the decoder's last norm and an embedding.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/scheduler.h"

namespace tamis {

// States come in the order of their positions, any number at a time; one that came before is passed over, so that a
// prompt may be computed again. Sums are of doubles in that order: the same bits however the prompt was cut.
class PooledStates {
 public:
  explicit PooledStates(Pooling pooling) : pooling_(pooling) {}

  // Requires: position at most the number of positions so far; state [n_embd], the same n_embd each time.
  void add(size_t position, std::span<const float> state);
  // [n_embd], of Euclidean length 1 (0 where all states are 0). Requires: at least one state.
  std::vector<float> values() const;

 private:
  Pooling pooling_;
  size_t n_ = 0;
  std::vector<double> sum_;  // mean: of all; else the one state that counts
};

}  // namespace tamis
