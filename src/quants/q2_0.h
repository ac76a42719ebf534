// Q2_0: 64 weights in 18 bytes, 2.25 bits a weight.  w = (q − 1) · d, that is −d, 0, d or 2d
//
//   byte  0 1   2 …                    17
//        [ d  ][ qs[0] … qs[15]          ]      d: f16
//   qs[i]:  33221100   codes of weights 4i, 4i + 1, 4i + 2, 4i + 3, lowest bits first
//
// Source: ggml block_q2_0 (type 42).
#pragma once

#include "quants/block.h"

namespace tamis {

struct BlockQ2_0 {
  static constexpr uint32_t kLen = 64, kCodes = 4, kGroupLen = 64;
  static constexpr ScaleRange kScales{};
  uint16_t d;
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ2_0) == 18);

TAMIS_HOST_DEVICE inline void decode_block(const BlockQ2_0& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 4; ++j) out[4 * i + j] = static_cast<float>(((block.qs[i] >> (2 * j)) & 3) - 1) * d;
}

// Codes q + 1.
inline void put_codes(const uint8_t* codes, BlockQ2_0& block) {
  for (int i = 0; i < 16; ++i) {
    const uint8_t* c = codes + 4 * i;
    block.qs[i] = static_cast<uint8_t>(c[0] | c[1] << 2 | c[2] << 4 | c[3] << 6);
  }
}

// d = the largest magnitude, so that code 3 is not used. Byte for byte ggml quantize_row_q2_0_ref.
void encode_block(const float* values, BlockQ2_0& block);

// The fast encoder: codes of least weighted error for d of either sign, d then such that they keep the weighted energy
// (scale_search.h).
void encode_q2_0(const float* row, const float* importance, std::byte* blocks, size_t n_blocks);

}  // namespace tamis
