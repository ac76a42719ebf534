// IQ1_S: 256 weights in 50 bytes, 1.5625 bits a weight.  w = (d · (2 sc + 1)) · (grid ± ⅛), one 3-bit sc for each 32
// weights
//
//   byte  0 1   2 …        33   34 …       49
//        [ d  ][ qs[32]        ][ qh[8]      ]     d: f16; qh: u16
//   qh[g]:  D sss ddd ccc bbb aaa   a … d = high bits of the indices of points 4g … 4g + 3; s = scale; D: shift is −⅛,
//   else +⅛ point i (weights 8i … 8i + 7): 11-bit index among 2048 ternary points, low 8 bits qs[i]
//
// Source: ggml block_iq1_s; bit for bit gguf-py quants.IQ1_S.
#pragma once

#include "quants/iq_grids.h"

namespace tamis {

struct BlockIQ1S {
  static constexpr uint32_t kLen = 256;
  uint16_t d;
  uint8_t qs[32];
  uint16_t qh[8];
};
static_assert(sizeof(BlockIQ1S) == 50);

TAMIS_HOST_DEVICE inline void decode_block(const BlockIQ1S& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int group = 0; group < 8; ++group) {
    const uint32_t packed = block.qh[group];
    const float scale = d * static_cast<float>(2 * ((packed >> 12) & 7u) + 1);
    const float delta = (packed & 0x8000u) != 0 ? -0.125f : 0.125f;
    for (int k = 0; k < 4; ++k) {
      const uint32_t index = block.qs[4 * group + k] | ((packed >> (3 * k)) & 7u) << 8;
      decode_ternary_point(scale, kGridIQ1[index], delta, out + 32 * group + 8 * k);
    }
  }
}

// Nearest grid points at one scale a group, all weights equal.
void encode_block(const float* values, BlockIQ1S& block);
// A row by the search of grid_search.h, with importance or null.
void encode_iq1_s(const float* row, const float* importance, std::byte* blocks, size_t n_blocks);

}  // namespace tamis
