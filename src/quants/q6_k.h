// Q6_K: 256 weights in 210 bytes, 6.5625 bits a weight.  w = (d · sc) · (q − 32), one int8 sc for each 16 weights
//
//   byte  0 …     127   128 …   191   192 …     207   208 209
//        [ ql[128]     ][ qh[64]     ][ scales[16]   ][ d     ]     d: f16; scales: int8
//   weight 128h + 32k + l (k = 0 … 3):  low 4 bits in nibble k/2 of ql[64h + 32(k%2) + l], high 2 bits in pair k of
//   qh[32h + l]
//
// Source: ggml block_q6_K; bit for bit gguf-py quants.Q6_K.
#pragma once

#include "quants/block.h"

namespace tamis {

struct BlockQ6K {
  static constexpr uint32_t kLen = 256, kCodes = 64, kGroupLen = 16;
  static constexpr ScaleRange kScales{-128, 127};
  uint8_t ql[128];
  uint8_t qh[64];
  int8_t scales[16];
  uint16_t d;
};
static_assert(sizeof(BlockQ6K) == 210);

TAMIS_HOST_DEVICE inline void decode_block(const BlockQ6K& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int group = 0; group < 16; ++group) {
    const float scale = d * static_cast<float>(block.scales[group]);
    const int half = group / 8, k = group / 2 % 4, first = 16 * (group % 2);
    const uint8_t* low = block.ql + 64 * half + 32 * (k % 2) + first;
    const uint8_t* high = block.qh + 32 * half + first;
    const int low_shift = 4 * (k / 2), high_shift = 2 * k;
    for (int l = 0; l < 16; ++l) {
      const int q = ((low[l] >> low_shift) & 15) | ((high[l] >> high_shift) & 3) << 4;
      out[16 * group + l] = scale * static_cast<float>(q - 32);
    }
  }
}

// Codes q + 32.
inline void put_codes(const uint8_t* codes, BlockQ6K& block) {
  for (int h = 0; h < 2; ++h) {
    for (int l = 0; l < 32; ++l) {
      const uint8_t* c = codes + 128 * h + l;
      block.ql[64 * h + l] = static_cast<uint8_t>((c[0] & 15) | (c[64] & 15) << 4);
      block.ql[64 * h + 32 + l] = static_cast<uint8_t>((c[32] & 15) | (c[96] & 15) << 4);
      block.qh[32 * h + l] =
          static_cast<uint8_t>(c[0] >> 4 | (c[32] >> 4) << 2 | (c[64] >> 4) << 4 | (c[96] >> 4) << 6);
    }
  }
}

inline void get_scales(const BlockQ6K& block, BlockScales& scales) {
  scales.d = f16_to_f32(block.d);
  for (int g = 0; g < 16; ++g) scales.scale[g] = block.scales[g];
}
inline void put_scales(const BlockScales& scales, BlockQ6K& block) {
  block.d = f32_to_f16(scales.d);
  for (int g = 0; g < 16; ++g) block.scales[g] = static_cast<int8_t>(scales.scale[g]);
}

// Each group's value of largest magnitude is code −32; the scale of largest magnitude is −128.
void encode_block(const float* values, BlockQ6K& block);

// The searching encoder of a row (registry.h, encode_fast).
void encode_q6_k(const float* row, const float* importance, std::byte* blocks, size_t n_blocks);

}  // namespace tamis
