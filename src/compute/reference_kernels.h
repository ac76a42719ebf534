// The inner loops of the reference backend: double accumulation in a fixed order that no blocking changes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tamis::reference {

// Two doubles side by side (a GNU vector type: plain C++ arithmetic, the baseline ISA's registers on every target).
typedef double Pair __attribute__((vector_size(16), aligned(8), may_alias));

constexpr size_t kTileTokens = 4;
constexpr size_t kTileRows = 2;

// out[t][r] = Σ_k x[t][k] · w[r][k] for kTokens × kTileRows rows of n doubles: even and odd k summed apart, then both
// together. Every kTokens gives the same bits.
template <size_t kTokens>
inline void dot_tile(const double* const* x, const double* const* w, size_t n, double (*out)[kTileRows]) {
  Pair sums[kTokens][kTileRows] = {};
  size_t k = 0;
  for (; k + 2 <= n; k += 2) {
    Pair weights[kTileRows];
    for (size_t r = 0; r < kTileRows; ++r) weights[r] = *reinterpret_cast<const Pair*>(w[r] + k);
    for (size_t t = 0; t < kTokens; ++t) {
      const Pair values = *reinterpret_cast<const Pair*>(x[t] + k);
      for (size_t r = 0; r < kTileRows; ++r) sums[t][r] += values * weights[r];
    }
  }
  for (size_t t = 0; t < kTokens; ++t) {
    for (size_t r = 0; r < kTileRows; ++r) {
      if (k < n) sums[t][r][0] += x[t][k] * w[r][k];
      out[t][r] = sums[t][r][0] + sums[t][r][1];
    }
  }
}

// Σ_k a[k] · b[k] in double: even and odd k apart, then both together.
inline double dot(const float* a, const float* b, size_t n) {
  double even = 0, odd = 0;
  size_t k = 0;
  for (; k + 2 <= n; k += 2) {
    even += static_cast<double>(a[k]) * b[k];
    odd += static_cast<double>(a[k + 1]) * b[k + 1];
  }
  if (k < n) even += static_cast<double>(a[k]) * b[k];
  return even + odd;
}

}  // namespace tamis::reference
