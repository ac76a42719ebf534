// Q5_K: 256 weights in 176 bytes, 5.5 bits a weight.  w = (d · sc) · q − (dmin · m), one 6-bit sc and m for each 32
// weights
//
//   byte  0 1  2 3    4 …       15   16 …   47   48 …              175
//        [ d  ][ dmin ][ scales[12] ][ qh[32]   ][ qs[128]            ]     d, dmin: f16; scales as in Q4_K
//   qs[32c + l]:  hhhhllll   l = low bits of weight 64c + l, h = low bits of weight 64c + 32 + l
//   qh[l]:        bit g = fifth bit of weight 32g + l
//
// Source: ggml block_q5_K; bit for bit gguf-py quants.Q5_K.
#pragma once

#include "quants/q4_k.h"

namespace tamis {

struct BlockQ5K {
  static constexpr uint32_t kLen = 256, kCodes = 32, kGroupLen = 32;
  static constexpr ScaleRange kScales{0, 63, 0, 63};
  uint16_t d;
  uint16_t dmin;
  uint8_t scales[12];
  uint8_t qh[32];
  uint8_t qs[128];
};
static_assert(sizeof(BlockQ5K) == 176);

TAMIS_HOST_DEVICE inline void decode_block(const BlockQ5K& block, float* out) {
  const float d = f16_to_f32(block.d);
  const float dmin = f16_to_f32(block.dmin);
  for (int group = 0; group < 8; ++group) {
    const ScaleMin packed = k_scale_min(block.scales, group);
    const float scale = d * static_cast<float>(packed.scale);
    const float offset = dmin * static_cast<float>(packed.min);
    const uint8_t* qs = block.qs + 32 * (group / 2);
    const int shift = 4 * (group % 2);
    for (int l = 0; l < 32; ++l) {
      const int q = ((qs[l] >> shift) & 15) | ((block.qh[l] >> group) & 1) << 4;
      out[32 * group + l] = scale * static_cast<float>(q) - offset;
    }
  }
}

// Codes q.
inline void put_codes(const uint8_t* codes, BlockQ5K& block) {
  for (int l = 0; l < 32; ++l) {
    int high = 0;
    for (int g = 0; g < 8; ++g) high |= (codes[32 * g + l] >> 4) << g;
    block.qh[l] = static_cast<uint8_t>(high);
    for (int i = 0; i < 4; ++i)
      block.qs[32 * i + l] = static_cast<uint8_t>((codes[64 * i + l] & 15) | (codes[64 * i + 32 + l] & 15) << 4);
  }
}

inline void get_scales(const BlockQ5K& block, BlockScales& scales) { get_k_scales(block, scales); }
inline void put_scales(const BlockScales& scales, BlockQ5K& block) { put_k_scales(scales, block); }

// As Q4_K, in 31 steps.
void encode_block(const float* values, BlockQ5K& block);

// The searching encoder of a row (registry.h, encode_fast).
void encode_q5_k(const float* row, const float* importance, std::byte* blocks, size_t n_blocks);

}  // namespace tamis
