// Q2_K: 256 weights in 84 bytes, 2.625 bits a weight.  w = (d · sc) · q − (dmin · m), one sc and m for each 16 weights
//
//   byte  0 …       15   16 …      79   80 81  82 83
//        [ scales[16]   ][ qs[64]      ][ d   ][ dmin ]     d, dmin: f16
//   scales[i]:  mmmmssss   s = 4-bit scale, m = 4-bit minimum of weights 16i … 16i + 15
//   qs[32h + l]:  33221100   two bits each of weights 128h + l, + 32, + 64, + 96
//
// Source: ggml block_q2_K; bit for bit gguf-py quants.Q2_K.
#pragma once

#include "quants/block.h"

namespace tamis {

struct BlockQ2K {
  static constexpr uint32_t kLen = 256, kCodes = 4, kGroupLen = 16;
  static constexpr ScaleRange kScales{0, 15, 0, 15};
  uint8_t scales[16];
  uint8_t qs[64];
  uint16_t d;
  uint16_t dmin;
};
static_assert(sizeof(BlockQ2K) == 84);

TAMIS_HOST_DEVICE inline void decode_block(const BlockQ2K& block, float* out) {
  const float d = f16_to_f32(block.d);
  const float dmin = f16_to_f32(block.dmin);
  for (int group = 0; group < 16; ++group) {
    const float scale = d * static_cast<float>(block.scales[group] & 15);
    const float offset = dmin * static_cast<float>(block.scales[group] >> 4);
    const uint8_t* qs = block.qs + 32 * (group / 8) + 16 * (group % 2);
    const int shift = 2 * (group / 2 % 4);
    for (int l = 0; l < 16; ++l) out[16 * group + l] = scale * static_cast<float>((qs[l] >> shift) & 3) - offset;
  }
}

// Codes q.
inline void put_codes(const uint8_t* codes, BlockQ2K& block) { put_crumbs(codes, 2, block.qs); }

inline void get_scales(const BlockQ2K& block, BlockScales& scales) {
  scales.d = f16_to_f32(block.d);
  scales.dmin = f16_to_f32(block.dmin);
  for (int g = 0; g < 16; ++g) {
    scales.scale[g] = block.scales[g] & 15;
    scales.minimum[g] = block.scales[g] >> 4;
  }
}
inline void put_scales(const BlockScales& scales, BlockQ2K& block) {
  block.d = f32_to_f16(scales.d);
  block.dmin = f32_to_f16(scales.dmin);
  for (int g = 0; g < 16; ++g) block.scales[g] = static_cast<uint8_t>(scales.scale[g] | scales.minimum[g] << 4);
}

// Each group's range [min(0, min), max] in 3 steps; the sixteen scales and minima in 15 steps of the largest of each.
void encode_block(const float* values, BlockQ2K& block);

// The searching encoder of a row (registry.h, encode_fast).
void encode_q2_k(const float* row, const float* importance, std::byte* blocks, size_t n_blocks);

}  // namespace tamis
