// IQ4_XS: 256 weights in 136 bytes, 4.25 bits a weight.  w = (d · (sc − 32)) · table[q], one 6-bit sc for each 32
// weights
//
//   byte  0 1   2 3        4 …      7   8 …              135
//        [ d  ][ scales_h ][ scales_l  ][ qs[128]           ]     d: f16; scales_h: u16; table as in IQ4_NL
//   scale g:  low 4 bits in nibble g%2 of scales_l[g/2], high 2 bits in pair g of scales_h
//   qs[16g + j]:  hhhhllll   l = code of weight 32g + j, h = code of weight 32g + 16 + j
//
// Source: ggml block_iq4_xs; bit for bit gguf-py quants.IQ4_XS.
#pragma once

#include "quants/iq4_nl.h"

namespace tamis {

struct BlockIQ4XS {
  static constexpr uint32_t kLen = 256, kCodes = 16, kGroupLen = 32;
  static constexpr ScaleRange kScales{-32, 31};
  uint16_t d;
  uint16_t scales_h;
  uint8_t scales_l[4];
  uint8_t qs[128];
};
static_assert(sizeof(BlockIQ4XS) == 136);

TAMIS_HOST_DEVICE inline void decode_block(const BlockIQ4XS& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int group = 0; group < 8; ++group) {
    const int low = (block.scales_l[group / 2] >> (4 * (group % 2))) & 15;
    const int high = (block.scales_h >> (2 * group)) & 3;
    const float scale = d * static_cast<float>((low | high << 4) - 32);
    const uint8_t* qs = block.qs + 16 * group;
    for (int j = 0; j < 16; ++j) {
      out[32 * group + j] = scale * static_cast<float>(iq4_value(qs[j] & 15));
      out[32 * group + j + 16] = scale * static_cast<float>(iq4_value(qs[j] >> 4));
    }
  }
}

// Codes as in the table of values.
inline void put_codes(const uint8_t* codes, BlockIQ4XS& block) {
  for (int g = 0; g < 8; ++g) put_nibbles(codes + 32 * g, 16, block.qs + 16 * g);
}

inline void get_scales(const BlockIQ4XS& block, BlockScales& scales) {
  scales.d = f16_to_f32(block.d);
  for (int g = 0; g < 8; ++g) {
    const int low = (block.scales_l[g / 2] >> (4 * (g % 2))) & 15;
    scales.scale[g] = (low | ((block.scales_h >> (2 * g)) & 3) << 4) - 32;
  }
}
inline void put_scales(const BlockScales& scales, BlockIQ4XS& block) {
  block.d = f32_to_f16(scales.d);
  block.scales_h = 0;
  std::memset(block.scales_l, 0, sizeof(block.scales_l));
  for (int g = 0; g < 8; ++g) {
    const int stored = scales.scale[g] + 32;
    block.scales_l[g / 2] = static_cast<uint8_t>(block.scales_l[g / 2] | (stored & 15) << (4 * (g % 2)));
    block.scales_h = static_cast<uint16_t>(block.scales_h | (stored >> 4) << (2 * g));
  }
}

// Each group's value of largest magnitude at its code 0, d such that the largest scale is −32 of it; the nearest codes.
void encode_block(const float* values, BlockIQ4XS& block);

// The fast encoder: each group's best scale, then d, scales and codes of least weighted error together (iq4_xs.cpp).
void encode_iq4_xs(const float* row, const float* importance, std::byte* blocks, size_t n_blocks);

}  // namespace tamis
