// The rounding of activations as the kernels' tests model it, and columns that show it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <vector>

#include "base/rng.h"

namespace tamis::test {

inline float largest_of(const float* x, size_t n) {
  float largest = 0;
  for (size_t i = 0; i < n; ++i) largest = std::max(largest, std::fabs(x[i]));
  return largest;
}

// A run of 32 has 127 steps for its largest magnitude. In a run of 256 each 32 halve that step up to three times, as
// long as their own largest magnitude still has at most 127 of them; q counts the finest steps. Where the steps of 32
// would sum to more than 2184, the run's largest magnitude has 63.
struct Rounded {
  std::vector<int> q;
  float scale;
};
inline Rounded rounded(const float* x, size_t n, float most = 127.0f) {
  const float largest = largest_of(x, n);
  Rounded r{std::vector<int>(n), largest / most / (n == 256 ? 8.0f : 1.0f)};
  if (largest == 0) return r;
  for (size_t first = 0; first < n; first += 32) {
    int finer = 1, n_steps = 0;
    while (n == 256 && finer < 8 && largest_of(x + first, 32) * 2 * static_cast<float>(finer) <= largest) finer *= 2;
    for (size_t i = first; i < first + 32; ++i) {
      const auto steps = static_cast<int>(std::nearbyintf(x[i] * (most / largest * static_cast<float>(finer))));
      r.q[i] = steps * (n == 256 ? 8 / finer : 1);
      n_steps += std::abs(steps);
    }
    if (n == 256 && most == 127.0f && n_steps > 2184) return rounded(x, n, 63.0f);
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
