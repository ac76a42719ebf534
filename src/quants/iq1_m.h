// IQ1_M: 256 weights in 56 bytes, 1.75 bits a weight.  w = (d · (2 sc + 1)) · (grid ± ⅛), one 3-bit sc for each 16
// weights
//
//   byte  0 …        31   32 …        47   48 …        55
//        [ qs[32]        ][ qh[16]        ][ scales[4]    ]     scales: u16
//   scales[i]:  dddd sss sss sss sss   nibble i of the f16 d; scales of groups 4i (lowest) … 4i + 3
//   qh[i]:  Dhhh Dhhh   for points 2i (low nibble) and 2i + 1: h = high bits of the index; D: shift is −⅛, else +⅛
//   point i (weights 8i … 8i + 7): 11-bit index among 2048 ternary points, low 8 bits qs[i]
//
// Source: ggml block_iq1_m; bit for bit gguf-py quants.IQ1_M.
#pragma once

#include "quants/iq_grids.h"

namespace tamis {

struct BlockIQ1M {
  static constexpr uint32_t kLen = 256;
  uint8_t qs[32];
  uint8_t qh[16];
  uint16_t scales[4];
};
static_assert(sizeof(BlockIQ1M) == 56);

TAMIS_HOST_DEVICE inline void decode_block(const BlockIQ1M& block, float* out) {
  const uint16_t* scales = block.scales;
  const uint32_t d_bits = static_cast<uint32_t>(scales[0] >> 12) | static_cast<uint32_t>(scales[1] >> 12) << 4 |
                          static_cast<uint32_t>(scales[2] >> 12) << 8 | static_cast<uint32_t>(scales[3] >> 12) << 12;
  const float d = f16_to_f32(static_cast<uint16_t>(d_bits));
  for (int i = 0; i < 32; ++i) {
    const int group = i / 2;
    const uint32_t code = static_cast<uint32_t>(scales[group / 4] >> (3 * (group % 4))) & 7u;
    const float scale = d * static_cast<float>(2 * code + 1);
    const uint32_t high = static_cast<uint32_t>(block.qh[i / 2] >> (4 * (i % 2))) & 15u;
    const float delta = (high & 8u) != 0 ? -0.125f : 0.125f;
    decode_ternary_point(scale, kGridIQ1[block.qs[i] | (high & 7u) << 8], delta, out + 8 * i);
  }
}

// Nearest grid points at one scale a group, all weights equal.
void encode_block(const float* values, BlockIQ1M& block);
// A row by the search of grid_search.h, with importance or null.
void encode_iq1_m(const float* row, const float* importance, std::byte* blocks, size_t n_blocks);

}  // namespace tamis
