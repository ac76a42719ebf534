// Q5_1: 32 weights in 24 bytes, 6 bits a weight.  w = d · q + m
//
//   byte  0 1  2 3   4 5 6 7   8 …     23
//        [ d  ][ m ][ qh      ][ qs[0…15]]      d, m: f16; qh: 32 bits, bit j = fifth bit of weight j
//   qs[j]:  hhhhllll   l = low bits of weight j, h = low bits of weight j + 16
//
// Source: ggml block_q5_1; bit for bit gguf-py quants.Q5_1.
#pragma once

#include "quants/block.h"

namespace tamis {

struct BlockQ5_1 {
  static constexpr uint32_t kLen = 32, kCodes = 32, kGroupLen = 32;
  static constexpr ScaleRange kScales{1, 1, -1, -1};
  uint16_t d;
  uint16_t m;
  uint8_t qh[4];
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ5_1) == 24);

TAMIS_HOST_DEVICE inline void decode_block(const BlockQ5_1& block, float* out) {
  const float d = f16_to_f32(block.d);
  const float m = f16_to_f32(block.m);
  uint32_t high_bits;
  std::memcpy(&high_bits, block.qh, 4);
  for (uint32_t j = 0; j < 16; ++j) {
    const int low = (block.qs[j] & 15) | static_cast<int>((high_bits >> j) & 1u) << 4;
    const int high = (block.qs[j] >> 4) | static_cast<int>((high_bits >> (j + 16)) & 1u) << 4;
    out[j] = d * static_cast<float>(low) + m;
    out[j + 16] = d * static_cast<float>(high) + m;
  }
}

// Codes q.
inline void put_codes(const uint8_t* codes, BlockQ5_1& block) { put_five_bits(codes, block.qh, block.qs); }

// The range [min, max] in 31 steps.
void encode_block(const float* values, BlockQ5_1& block);

// The fast encoder: d, m and codes of least weighted error (affine_search.h).
void encode_q5_1(const float* row, const float* importance, std::byte* blocks, size_t n_blocks);

}  // namespace tamis
