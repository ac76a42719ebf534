// Q8_0: 32 weights in 34 bytes, 8.5 bits a weight.  w = q · d
//
//   byte  0 1   2 …                    33
//        [ d  ][ qs[0] … qs[31]          ]      d: f16; qs: int8, weight j at qs[j]
//
// Source: ggml block_q8_0; bit for bit gguf-py quants.Q8_0.
#pragma once

#include "quants/block.h"

namespace tamis {

struct BlockQ8_0 {
  static constexpr uint32_t kLen = 32, kCodes = 256, kGroupLen = 32;
  static constexpr ScaleRange kScales{};
  uint16_t d;
  int8_t qs[32];
};
static_assert(sizeof(BlockQ8_0) == 34);

TAMIS_HOST_DEVICE inline void decode_block(const BlockQ8_0& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int j = 0; j < 32; ++j) out[j] = static_cast<float>(block.qs[j]) * d;
}

// Codes q + 128.
inline void put_codes(const uint8_t* codes, BlockQ8_0& block) {
  for (int j = 0; j < 32; ++j) block.qs[j] = static_cast<int8_t>(codes[j] - 128);
}

// The largest magnitude becomes ±127.
void encode_block(const float* values, BlockQ8_0& block);

// The fast encoder: d and codes of least weighted error (scale_search.h).
void encode_q8_0(const float* row, const float* importance, std::byte* blocks, size_t n_blocks);

}  // namespace tamis
