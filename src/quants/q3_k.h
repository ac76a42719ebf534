// Q3_K: 256 weights in 110 bytes, 3.4375 bits a weight.  w = (d · (sc − 32)) · (q − 4), one sc for each 16 weights
//
//   byte  0 …      31   32 …     95   96 …     107   108 109
//        [ hmask[32]   ][ qs[64]     ][ scales[12]  ][ d     ]     d: f16
//   qs[32h + l]:  33221100   the two low bits of weights 128h + l, + 32, + 64, + 96
//   hmask[l]:     bit i = the third bit of weight 32i + l
//   scales: sixteen 6-bit numbers; low 4 bits of scale s: nibble s/8 of byte s%8; high 2 bits: pair s/4 of byte 8 + s%4
//     byte 0 … 7:  scale s + 8 | scale s        byte 8 … 11:  s + 12 | s + 8 | s + 4 | s
//
// Source: ggml block_q3_K; bit for bit gguf-py quants.Q3_K.
#pragma once

#include "quants/block.h"

namespace tamis {

struct BlockQ3K {
  static constexpr uint32_t kLen = 256, kCodes = 8, kGroupLen = 16;
  static constexpr ScaleRange kScales{-32, 31};
  uint8_t hmask[32];
  uint8_t qs[64];
  uint8_t scales[12];
  uint16_t d;
};
static_assert(sizeof(BlockQ3K) == 110);

// Scale of weights 16·group … 16·group + 15, −32 … 31.
TAMIS_HOST_DEVICE inline int q3_k_scale(const BlockQ3K& block, int group) {
  const int low = (block.scales[group % 8] >> (4 * (group / 8))) & 15;
  const int high = (block.scales[8 + group % 4] >> (2 * (group / 4))) & 3;
  return (low | high << 4) - 32;
}

TAMIS_HOST_DEVICE inline void decode_block(const BlockQ3K& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int group = 0; group < 16; ++group) {
    const float scale = d * static_cast<float>(q3_k_scale(block, group));
    const uint8_t* qs = block.qs + 32 * (group / 8) + 16 * (group % 2);
    const uint8_t* high = block.hmask + 16 * (group % 2);
    const int shift = 2 * (group / 2 % 4);
    const int plane = group / 2;
    for (int l = 0; l < 16; ++l) {
      const int q = ((qs[l] >> shift) & 3) + 4 * ((high[l] >> plane) & 1) - 4;
      out[16 * group + l] = scale * static_cast<float>(q);
    }
  }
}

// Codes q, 0 … 7.
inline void put_codes(const uint8_t* codes, BlockQ3K& block) {
  put_crumbs(codes, 2, block.qs);
  for (int l = 0; l < 32; ++l) {
    int high = 0;
    for (int i = 0; i < 8; ++i) high |= (codes[32 * i + l] >> 2) << i;
    block.hmask[l] = static_cast<uint8_t>(high);
  }
}

inline void get_scales(const BlockQ3K& block, BlockScales& scales) {
  scales.d = f16_to_f32(block.d);
  for (int g = 0; g < 16; ++g) scales.scale[g] = q3_k_scale(block, g);
}
inline void put_scales(const BlockScales& scales, BlockQ3K& block) {
  block.d = f32_to_f16(scales.d);
  std::memset(block.scales, 0, sizeof(block.scales));
  for (int g = 0; g < 16; ++g) {
    const int scale = scales.scale[g] + 32;
    uint8_t& low = block.scales[g % 8];
    uint8_t& high = block.scales[8 + g % 4];
    low = static_cast<uint8_t>(low | (scale & 15) << (4 * (g / 8)));
    high = static_cast<uint8_t>(high | (scale >> 4) << (2 * (g / 4)));
  }
}

// Each group's value of largest magnitude is code −4; the scale of largest magnitude is −32.
void encode_block(const float* values, BlockQ3K& block);

// The searching encoder of a row (registry.h, encode_fast).
void encode_q3_k(const float* row, const float* importance, std::byte* blocks, size_t n_blocks);

}  // namespace tamis
