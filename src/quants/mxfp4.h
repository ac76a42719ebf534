// MXFP4: 32 weights in 17 bytes, 4.25 bits a weight.  w = 2^(e − 127) · E2M1(q)
//
//   byte  0    1 …                     16
//        [ e ][ qs[0] … qs[15]           ]      e: E8M0, a bare exponent
//   qs[j]:  hhhhllll   l = code of weight j, h = code of weight j + 16;  code: sign, 2 exponent bits, 1 mantissa bit
//
// Computed as half the scale times twice the E2M1 value, so that the table holds integers. e = 255 (the standard's NaN)
// counts as the number 2^128, as in ggml. Source: OCP Microscaling Formats 1.0; ggml block_mxfp4; bit for bit gguf-py
// quants.MXFP4.
#pragma once

#include "quants/block.h"

namespace tamis {

// Twice the E2M1 value of code 0 … 15: ±{0, 1, 2, 3, 4, 6, 8, 12}; codes 0 and 8 are both +0.
TAMIS_HOST_DEVICE inline int e2m1_doubled(int code) {
  constexpr int8_t kValues[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  return kValues[code];
}

// 2^(e − 128): exact, subnormal for e < 2.
TAMIS_HOST_DEVICE inline float e8m0_half(uint8_t e) {
  return std::bit_cast<float>(e < 2 ? 0x00200000u << e : static_cast<uint32_t>(e - 1) << 23);
}

struct BlockMXFP4 {
  static constexpr uint32_t kLen = 32, kCodes = 16, kGroupLen = 32;
  uint8_t e;
  uint8_t qs[16];
};
static_assert(sizeof(BlockMXFP4) == 17);

TAMIS_HOST_DEVICE inline void decode_block(const BlockMXFP4& block, float* out) {
  const float d = e8m0_half(block.e);
  for (int j = 0; j < 16; ++j) {
    out[j] = d * static_cast<float>(e2m1_doubled(block.qs[j] & 15));
    out[j + 16] = d * static_cast<float>(e2m1_doubled(block.qs[j] >> 4));
  }
}

// Codes of E2M1.
inline void put_codes(const uint8_t* codes, BlockMXFP4& block) { put_nibbles(codes, 16, block.qs); }

// e puts the largest magnitude in [4, 8) steps; each weight the nearest code, the lower one of two equally near.
void encode_block(const float* values, BlockMXFP4& block);

// The fast encoder: the exponent of least weighted error (fp4_search.h).
void encode_mxfp4(const float* row, const float* importance, std::byte* blocks, size_t n_blocks);

}  // namespace tamis
