// Q4_K: 256 weights in 144 bytes, 4.5 bits a weight.  w = (d · sc) · q − (dmin · m), one 6-bit sc and m for each 32
// weights
//
//   byte  0 1  2 3    4 …       15   16 …              143
//        [ d  ][ dmin ][ scales[12] ][ qs[128]            ]     d, dmin: f16
//   qs[32c + l]:  hhhhllll   l = code of weight 64c + l, h = code of weight 64c + 32 + l
//   scales: eight 6-bit scales (A … H) and eight 6-bit minima (a … h), 96 bits:
//     byte 0 … 3:   EEAAAAAA  FFBBBBBB  GGCCCCCC  HHDDDDDD      high 2 bits: upper bits of scales 4 … 7
//     byte 4 … 7:   eeaaaaaa  ffbbbbbb  ggcccccc  hhdddddd      the same for the minima
//     byte 8 … 11:  eeeeEEEE  ffffFFFF  ggggGGGG  hhhhHHHH      lower 4 bits of scales and minima 4 … 7
//
// sc and m enter as the integers 0 … 63. Source: ggml block_q4_K; bit for bit gguf-py quants.Q4_K.
#pragma once

#include "quants/block.h"

namespace tamis {

struct BlockQ4K {
  static constexpr uint32_t kLen = 256, kCodes = 16, kGroupLen = 32;
  static constexpr ScaleRange kScales{0, 63, 0, 63};
  uint16_t d;
  uint16_t dmin;
  uint8_t scales[12];
  uint8_t qs[128];
};
static_assert(sizeof(BlockQ4K) == 144);

struct ScaleMin {
  uint8_t scale, min;  // 0 … 63
};

// Scale and minimum of group 0 … 7 from the twelve packed bytes that Q4_K and Q5_K share.
TAMIS_HOST_DEVICE inline ScaleMin k_scale_min(const uint8_t* scales, int group) {
  if (group < 4) return {static_cast<uint8_t>(scales[group] & 63), static_cast<uint8_t>(scales[group + 4] & 63)};
  const uint8_t low = scales[group + 4];
  return {static_cast<uint8_t>((low & 15) | (scales[group - 4] >> 6) << 4),
          static_cast<uint8_t>((low >> 4) | (scales[group] >> 6) << 4)};
}

// The way back, into bytes that are 0 before group 0; groups in order.
void pack_scale_min(uint8_t* scales, int group, ScaleMin value);

TAMIS_HOST_DEVICE inline void decode_block(const BlockQ4K& block, float* out) {
  const float d = f16_to_f32(block.d);
  const float dmin = f16_to_f32(block.dmin);
  for (int group = 0; group < 8; ++group) {
    const ScaleMin packed = k_scale_min(block.scales, group);
    const float scale = d * static_cast<float>(packed.scale);
    const float offset = dmin * static_cast<float>(packed.min);
    const uint8_t* qs = block.qs + 32 * (group / 2);
    const int shift = 4 * (group % 2);
    for (int l = 0; l < 32; ++l) out[32 * group + l] = scale * static_cast<float>((qs[l] >> shift) & 15) - offset;
  }
}

// Codes q.
inline void put_codes(const uint8_t* codes, BlockQ4K& block) {
  for (int i = 0; i < 4; ++i) put_nibbles(codes + 64 * i, 32, block.qs + 32 * i);
}

// Of Q4_K and Q5_K.
template <class Block>
void get_k_scales(const Block& block, BlockScales& scales) {
  scales.d = f16_to_f32(block.d);
  scales.dmin = f16_to_f32(block.dmin);
  for (int g = 0; g < 8; ++g) {
    const ScaleMin packed = k_scale_min(block.scales, g);
    scales.scale[g] = packed.scale;
    scales.minimum[g] = packed.min;
  }
}
template <class Block>
void put_k_scales(const BlockScales& scales, Block& block) {
  block.d = f32_to_f16(scales.d);
  block.dmin = f32_to_f16(scales.dmin);
  std::memset(block.scales, 0, sizeof(block.scales));
  for (int g = 0; g < 8; ++g)
    pack_scale_min(block.scales, g, {static_cast<uint8_t>(scales.scale[g]), static_cast<uint8_t>(scales.minimum[g])});
}

inline void get_scales(const BlockQ4K& block, BlockScales& scales) { get_k_scales(block, scales); }
inline void put_scales(const BlockScales& scales, BlockQ4K& block) { put_k_scales(scales, block); }

// Each group's range [min(0, min), max] in 15 steps; the eight scales and minima in 63 steps of the largest of each.
void encode_block(const float* values, BlockQ4K& block);

// The searching encoder of a row (registry.h, encode_fast).
void encode_q4_k(const float* row, const float* importance, std::byte* blocks, size_t n_blocks);

}  // namespace tamis
