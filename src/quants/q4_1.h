// Q4_1: 32 weights in 20 bytes, 5 bits a weight.  w = d · q + m
//
//   byte  0 1  2 3   4 …               19
//        [ d  ][ m ][ qs[0] … qs[15]     ]      d, m: f16
//   qs[j]:  hhhhllll   l = code of weight j, h = code of weight j + 16
//
// Source: ggml block_q4_1; bit for bit gguf-py quants.Q4_1.
#pragma once

#include "quants/block.h"

namespace tamis {

struct BlockQ4_1 {
  static constexpr uint32_t kLen = 32, kCodes = 16, kGroupLen = 32;
  static constexpr ScaleRange kScales{1, 1, -1, -1};
  uint16_t d;
  uint16_t m;
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ4_1) == 20);

TAMIS_HOST_DEVICE inline void decode_block(const BlockQ4_1& block, float* out) {
  const float d = f16_to_f32(block.d);
  const float m = f16_to_f32(block.m);
  for (int j = 0; j < 16; ++j) {
    out[j] = d * static_cast<float>(block.qs[j] & 15) + m;
    out[j + 16] = d * static_cast<float>(block.qs[j] >> 4) + m;
  }
}

// Codes q.
inline void put_codes(const uint8_t* codes, BlockQ4_1& block) { put_nibbles(codes, 16, block.qs); }

// The range [min, max] in 15 steps.
void encode_block(const float* values, BlockQ4_1& block);

// The fast encoder: d, m and codes of least weighted error (affine_search.h).
void encode_q4_1(const float* row, const float* importance, std::byte* blocks, size_t n_blocks);

}  // namespace tamis
