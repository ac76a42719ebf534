// IQ3_S: 256 weights in 110 bytes, 3.4375 bits a weight.  w = (d · (2 sc + 1)) · ±grid, one 4-bit sc for each 32
// weights
//
//   byte  0 1   2 … 65   66 … 73   74 …   105   106 … 109
//        [ d  ][ qs[64] ][ qh[8]  ][ signs[32] ][ scales[4] ]     d: f16
//   point k (weights 4k … 4k + 3): 9-bit index, low 8 bits qs[k], high bit = bit k%8 of qh[k/8]; signs[i]: bit j =
//   weight 8i + j scale of weights 32g … 32g + 31: nibble g%2 of scales[g/2]
//
// Source: ggml block_iq3_s; bit for bit gguf-py quants.IQ3_S.
#pragma once

#include "quants/iq_grids.h"

namespace tamis {

struct BlockIQ3S {
  static constexpr uint32_t kLen = 256;
  uint16_t d;
  uint8_t qs[64];
  uint8_t qh[8];
  uint8_t signs[32];
  uint8_t scales[4];
};
static_assert(sizeof(BlockIQ3S) == 110);

TAMIS_HOST_DEVICE inline void decode_block(const BlockIQ3S& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int k = 0; k < 64; ++k) {
    const int code = (block.scales[k / 16] >> (4 * (k / 8 % 2))) & 15;
    const float scale = d * static_cast<float>(1 + 2 * code);
    const uint32_t high = static_cast<uint32_t>(block.qh[k / 8] >> (k % 8)) & 1u;
    const uint32_t signs = static_cast<uint32_t>(block.signs[k / 2] >> (4 * (k % 2)));
    decode_grid_point<4>(scale, kGridIQ3S[block.qs[k] | high << 8], signs, out + 4 * k);
  }
}

// Nearest grid points at one scale a group, all weights equal.
void encode_block(const float* values, BlockIQ3S& block);
// A row by the search of grid_search.h, with importance or null.
void encode_iq3_s(const float* row, const float* importance, std::byte* blocks, size_t n_blocks);

}  // namespace tamis
