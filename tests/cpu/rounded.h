// The rounding of activations as the kernels' tests model it, and columns that show it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "base/rng.h"

namespace tamis::test {

inline float largest_of(const float* x, size_t n) {
  float largest = 0;
  for (size_t i = 0; i < n; ++i) largest = std::max(largest, std::fabs(x[i]));
  return largest;
}

// A run of 32 has 127 steps for its largest magnitude. In a run of 256 each 32 halve that step up to three times, as
// long as their own largest magnitude still has at most 127 of them; q counts the finest steps.
struct Rounded {
  std::vector<int> q;
  float scale;
};
inline Rounded rounded(const float* x, size_t n) {
  const float largest = largest_of(x, n);
  Rounded r{std::vector<int>(n), largest / 127.0f / (n == 256 ? 8.0f : 1.0f)};
  if (largest == 0) return r;
  for (size_t first = 0; first < n; first += 32) {
    int finer = 1;
    while (n == 256 && finer < 8 && largest_of(x + first, 32) * 2 * static_cast<float>(finer) <= largest) finer *= 2;
    for (size_t i = first; i < first + 32; ++i) {
      const auto steps = static_cast<int>(std::nearbyintf(x[i] * (127.0f / largest * static_cast<float>(finer))));
      r.q[i] = steps * (n == 256 ? 8 / finer : 1);
    }
  }
  return r;
}

// Normal numbers, every 32 with a range of its own.
inline std::vector<float> random_columns(size_t n, Rng& rng) {
  std::vector<float> x(n);
  float range = 1;
  for (size_t i = 0; i < n; ++i) {
    if (i % 32 == 0) range = std::ldexp(1.0f, -static_cast<int>(rng.below(6)));
    x[i] = range * static_cast<float>(rng.normal());
  }
  return x;
}

}  // namespace tamis::test
