// IQ2_XXS: 256 weights in 66 bytes, 2.0625 bits a weight.  w = (d · (sc + ½) / 4) · ±grid, one 4-bit sc for each 32
// weights
//
//   byte  0 1   2 …                    65
//        [ d  ][ eight groups of 8 bytes ]      d: f16
//   group:  i₀ i₁ i₂ i₃ | ssss ddddddd ccccccc bbbbbbb aaaaaaa (one little-endian u32)
//     i = index of an 8-dimensional point among 256; a … d = seven signs each, the eighth by parity; s = scale
//
// Source: ggml block_iq2_xxs; bit for bit gguf-py quants.IQ2_XXS.
#pragma once

#include "quants/iq_grids.h"

namespace tamis {

struct BlockIQ2XXS {
  static constexpr uint32_t kLen = 256;
  uint16_t d;
  uint8_t qs[64];
};
static_assert(sizeof(BlockIQ2XXS) == 66);

TAMIS_HOST_DEVICE inline void decode_block(const BlockIQ2XXS& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int group = 0; group < 8; ++group) {
    const uint8_t* index = block.qs + 8 * group;
    uint32_t packed;
    std::memcpy(&packed, index + 4, 4);
    const float scale = d * (0.5f + static_cast<float>(packed >> 28)) * 0.25f;
    for (int k = 0; k < 4; ++k) {
      const uint32_t signs = signs_from_seven((packed >> (7 * k)) & 127u);
      decode_grid_point<8>(scale, kGridIQ2XXS[index[k]], signs, out + 32 * group + 8 * k);
    }
  }
}

// Nearest grid points at one scale a group, all weights equal.
void encode_block(const float* values, BlockIQ2XXS& block);
// A row by the search of grid_search.h, with importance or null.
void encode_iq2_xxs(const float* row, const float* importance, std::byte* blocks, size_t n_blocks);

}  // namespace tamis
