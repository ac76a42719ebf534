// IQ3_XXS: 256 weights in 98 bytes, 3.0625 bits a weight.  w = (d · (sc + ½) / 2) · ±grid, one 4-bit sc for each 32
// weights
//
//   byte  0 1   2 …              65   66 …            97
//        [ d  ][ qs[64]              ][ eight u32       ]     d: f16
//   qs[k] = index of a 4-dimensional point among 256 (weights 4k … 4k + 3)
//   u32 g (weights 32g … 32g + 31):  ssss ddddddd ccccccc bbbbbbb aaaaaaa   seven signs for each 8 weights, the eighth
//   by parity
//
// Source: ggml block_iq3_xxs; bit for bit gguf-py quants.IQ3_XXS.
#pragma once

#include "quants/iq_grids.h"

namespace tamis {

struct BlockIQ3XXS {
  static constexpr uint32_t kLen = 256;
  uint16_t d;
  uint8_t qs[64];
  uint8_t scales_and_signs[32];
};
static_assert(sizeof(BlockIQ3XXS) == 98);

TAMIS_HOST_DEVICE inline void decode_block(const BlockIQ3XXS& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int group = 0; group < 8; ++group) {
    const uint8_t* index = block.qs + 8 * group;
    uint32_t packed;
    std::memcpy(&packed, block.scales_and_signs + 4 * group, 4);
    const float scale = d * (0.5f + static_cast<float>(packed >> 28)) * 0.5f;
    for (int k = 0; k < 4; ++k) {
      const uint32_t signs = signs_from_seven((packed >> (7 * k)) & 127u);
      float* eight = out + 32 * group + 8 * k;
      decode_grid_point<4>(scale, kGridIQ3XXS[index[2 * k]], signs, eight);
      decode_grid_point<4>(scale, kGridIQ3XXS[index[2 * k + 1]], signs >> 4, eight + 4);
    }
  }
}

// Nearest grid points at one scale a group, all weights equal.
void encode_block(const float* values, BlockIQ3XXS& block);
// A row by the search of grid_search.h, with importance or null.
void encode_iq3_xxs(const float* row, const float* importance, std::byte* blocks, size_t n_blocks);

}  // namespace tamis
