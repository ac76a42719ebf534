// Q4_0: 32 weights in 18 bytes, 4.5 bits a weight.  w = d · (q − 8)
//
//   byte  0 1   2 …                    17
//        [ d  ][ qs[0] … qs[15]          ]      d: f16
//   qs[j]:  hhhhllll   l = code of weight j, h = code of weight j + 16
//
// Source: ggml block_q4_0; bit for bit gguf-py quants.Q4_0.
#pragma once

#include "quants/block.h"

namespace tamis {

struct BlockQ4_0 {
  static constexpr uint32_t kLen = 32, kCodes = 16, kGroupLen = 32;
  static constexpr ScaleRange kScales{};
  uint16_t d;
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ4_0) == 18);

TAMIS_HOST_DEVICE inline void decode_block(const BlockQ4_0& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int j = 0; j < 16; ++j) {
    out[j] = d * static_cast<float>((block.qs[j] & 15) - 8);
    out[j + 16] = d * static_cast<float>((block.qs[j] >> 4) - 8);
  }
}

// Codes q + 8.
inline void put_codes(const uint8_t* codes, BlockQ4_0& block) { put_nibbles(codes, 16, block.qs); }

// The value of largest magnitude becomes code 0 (−8·d), so d = extreme / −8.
void encode_block(const float* values, BlockQ4_0& block);

// The fast encoder: d of either sign and codes of least weighted error (scale_search.h).
void encode_q4_0(const float* row, const float* importance, std::byte* blocks, size_t n_blocks);

}  // namespace tamis
