// Pooling.
#include "engine/pooled_states.h"

#include <cmath>

namespace tamis {

void PooledStates::add(size_t position, std::span<const float> state) {
  if (position < n_) return;
  if (position == 0 || pooling_ == Pooling::last) {
    sum_.assign(state.begin(), state.end());
  } else if (pooling_ == Pooling::mean) {
    for (size_t i = 0; i < state.size(); ++i) sum_[i] += double{state[i]};
  }
  ++n_;
}

std::vector<float> PooledStates::values() const {
  // A mean is as long as its sum once both have length 1.
  double squares = 0;
  for (const double value : sum_) squares += value * value;
  const double scale = squares > 0 ? 1 / std::sqrt(squares) : 0;
  std::vector<float> out(sum_.size());
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(sum_[i] * scale);
  return out;
}

}  // namespace tamis
