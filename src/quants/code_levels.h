// What the codes of one group of a block mean, and the one nearest to a value.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace tamis {

class Levels {
 public:
  void set(const float* values, uint32_t n, bool is_even) {
    values_ = values;
    n_ = n;
    first_ = values[0];
    const float step = (values[n - 1] - values[0]) / static_cast<float>(n - 1);
    inverse_ = step == 0.0f ? 0.0f : 1.0f / step;
    is_even_ = is_even;
  }

  // The code whose value is nearest, the lower one of two.
  uint8_t nearest(float target) const {
    if (!is_even_) return among(target, 0, n_);
    const float place = (target - first_) * inverse_;
    const float most = static_cast<float>(n_ - 1);
    const float cut = place > 0.0f ? std::min(place, most) : 0.0f;  // NaN: 0
    const auto guess = static_cast<uint32_t>(cut + 0.5f);
    return among(target, guess > 0 ? guess - 1 : 0, std::min(guess + 2, n_));
  }
  float value(uint8_t code) const { return values_[code]; }

 private:
  uint8_t among(float target, uint32_t begin, uint32_t end) const {
    uint32_t best = begin;
    float best_off = std::fabs(values_[begin] - target);
    for (uint32_t code = begin + 1; code < end; ++code) {
      const float off = std::fabs(values_[code] - target);
      if (off < best_off) {
        best = code;
        best_off = off;
      }
    }
    return static_cast<uint8_t>(best);
  }

  const float* values_ = nullptr;
  uint32_t n_ = 0;
  float first_ = 0, inverse_ = 0;
  bool is_even_ = false;
};

}  // namespace tamis
