// Numbers for tests of encoders, the same on every machine but for the last bits of std::log and std::cos.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/quants/golden.h"

namespace tamis::test {

// A uniform number in (0, 1).
inline double uniform(uint64_t seed, uint64_t i) {
  return (static_cast<double>(golden::word(seed, i) >> 12) + 0.5) * 0x1p-52;
}

inline double gaussian(uint64_t seed, uint64_t i) {
  return std::sqrt(-2 * std::log(uniform(seed, 2 * i))) * std::cos(6.283185307179586 * uniform(seed, 2 * i + 1));
}

// Squares of normal numbers, none 0.
inline std::vector<float> importance_of(size_t n, uint64_t seed) {
  std::vector<float> out(n);
  for (size_t i = 0; i < n; ++i) {
    const double x = gaussian(seed + 991, i);
    out[i] = static_cast<float>(x * x + 0.01);
  }
  return out;
}

}  // namespace tamis::test
