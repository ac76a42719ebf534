// The fixed point sets of the IQ1–IQ3 types, and how they carry signs. The tables are data made by
// scripts/make_quant_tables.py. Source: ggml's iq2xxs_grid … iq1s_grid, in the compact form of gguf-py quants.
#pragma once

#include "quants/block.h"

namespace tamis {

// Points of eight magnitudes, one a byte, first coordinate lowest.
extern const uint64_t kGridIQ2XXS[256];
extern const uint64_t kGridIQ2XS[512];
extern const uint64_t kGridIQ2S[1024];
// Points of four magnitudes, one a byte, first coordinate lowest.
extern const uint32_t kGridIQ3XXS[256];
extern const uint32_t kGridIQ3S[512];
// Points of eight values −1, 0, 1, one int8 a byte, first coordinate lowest.
extern const uint64_t kGridIQ1[2048];

// Eight sign bits from seven stored ones: the number of minus signs is even, so the eighth is the parity of the others.
TAMIS_HOST_DEVICE inline uint32_t signs_from_seven(uint32_t seven) {
  uint32_t parity = seven ^ (seven >> 4);
  parity ^= parity >> 2;
  parity ^= parity >> 1;
  return seven | (parity & 1u) << 7;
}

// out[j] = scale · magnitude j, negated where bit j of `signs` is set, for the n ≤ 8 bytes of a grid point.
template <int n, class Point>
TAMIS_HOST_DEVICE inline void decode_grid_point(float scale, Point point, uint32_t signs, float* out) {
  static_assert(n == sizeof(Point));
  for (int j = 0; j < n; ++j) {
    const float value = scale * static_cast<float>(static_cast<uint32_t>(point >> (8 * j)) & 255u);
    out[j] = std::bit_cast<float>(std::bit_cast<uint32_t>(value) ^ ((signs >> j) & 1u) << 31);
  }
}

// out[j] = scale · (value j + delta) for the eight values of an IQ1 point.
TAMIS_HOST_DEVICE inline void decode_ternary_point(float scale, uint64_t point, float delta, float* out) {
  for (int j = 0; j < 8; ++j)
    out[j] = scale * (static_cast<float>(static_cast<int8_t>(static_cast<uint8_t>(point >> (8 * j)))) + delta);
}

}  // namespace tamis
