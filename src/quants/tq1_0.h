// TQ1_0: 256 ternary weights in 54 bytes, 1.6875 bits a weight.  w = d · t, t in −1, 0, 1
//
//   byte  0 …     47   48 …   51   52 53
//        [ qs[48]     ][ qh[4]   ][ d   ]      d: f16
//   A byte holds five base-3 digits (four in qh) as the fraction ⌈digits · 256 / 243⌉ / 256, highest digit first: digit
//   n is the integer part of 3 · fraction(byte · 3ⁿ / 256). weights 32n + m: digit n of qs[m]; 160 + 16n + m: digit n
//   of qs[32 + m]; 240 + 4n + m: digit n of qh[m]
//
// Source: ggml block_tq1_0; bit for bit gguf-py quants.TQ1_0.
#pragma once

#include "quants/block.h"

namespace tamis {

struct BlockTQ1_0 {
  static constexpr uint32_t kLen = 256;
  uint8_t qs[48];
  uint8_t qh[4];
  uint16_t d;
};
static_assert(sizeof(BlockTQ1_0) == 54);

// Digit −1, 0 or 1 of a packed byte at the place whose power of three is `power`.
TAMIS_HOST_DEVICE inline int ternary_digit(uint8_t byte, uint32_t power) {
  const uint32_t fraction = (byte * power) & 255u;
  return static_cast<int>((fraction * 3u) >> 8) - 1;
}

TAMIS_HOST_DEVICE inline void decode_block(const BlockTQ1_0& block, float* out) {
  const float d = f16_to_f32(block.d);
  uint32_t power = 1;
  for (int n = 0; n < 5; ++n) {
    for (int m = 0; m < 32; ++m) out[32 * n + m] = d * static_cast<float>(ternary_digit(block.qs[m], power));
    for (int m = 0; m < 16; ++m) out[160 + 16 * n + m] = d * static_cast<float>(ternary_digit(block.qs[32 + m], power));
    if (n < 4)
      for (int m = 0; m < 4; ++m) out[240 + 4 * n + m] = d * static_cast<float>(ternary_digit(block.qh[m], power));
    power *= 3;
  }
}

// d = the largest magnitude; each weight the nearest of −d, 0, d.
void encode_block(const float* values, BlockTQ1_0& block);

// The fast encoder: codes of least weighted error, d such that they keep the weighted energy (ternary_levels.h).
void encode_tq1_0(const float* row, const float* importance, std::byte* blocks, size_t n_blocks);

}  // namespace tamis
