// IQ2_XS: 256 weights in 74 bytes, 2.3125 bits a weight.  w = (d · (sc + ½) / 4) · ±grid, one 4-bit sc for each 16
// weights
//
//   byte  0 1   2 …              65   66 …     73
//        [ d  ][ qs[32]              ][ scales[8] ]     d: f16; qs: u16
//   qs[i]:  sssssss iiiiiiiii   i = index of an 8-dimensional point among 512; s = seven signs, the eighth by parity
//   scale of weights 16g … 16g + 15: nibble g%2 of scales[g/2]
//
// Source: ggml block_iq2_xs; bit for bit gguf-py quants.IQ2_XS.
#pragma once

#include "quants/iq_grids.h"

namespace tamis {

struct BlockIQ2XS {
  static constexpr uint32_t kLen = 256;
  uint16_t d;
  uint16_t qs[32];
  uint8_t scales[8];
};
static_assert(sizeof(BlockIQ2XS) == 74);

TAMIS_HOST_DEVICE inline void decode_block(const BlockIQ2XS& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int group = 0; group < 16; ++group) {
    const int code = (block.scales[group / 2] >> (4 * (group % 2))) & 15;
    const float scale = d * (0.5f + static_cast<float>(code)) * 0.25f;
    for (int k = 0; k < 2; ++k) {
      const uint32_t packed = block.qs[2 * group + k];
      decode_grid_point<8>(scale, kGridIQ2XS[packed & 511u], signs_from_seven(packed >> 9), out + 16 * group + 8 * k);
    }
  }
}

// Nearest grid points at one scale a group, all weights equal.
void encode_block(const float* values, BlockIQ2XS& block);
// A row by the search of grid_search.h, with importance or null.
void encode_iq2_xs(const float* row, const float* importance, std::byte* blocks, size_t n_blocks);

}  // namespace tamis
