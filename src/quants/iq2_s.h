// IQ2_S: 256 weights in 82 bytes, 2.5625 bits a weight.  w = (d · (sc + ½) / 4) · ±grid, one 4-bit sc for each 16
// weights
//
//   byte  0 1   2 … 33   34 …    65   66 … 73   74 …    81
//        [ d  ][ qs[32] ][ signs[32] ][ qh[8]  ][ scales[8] ]     d: f16
//   point i (weights 8i … 8i + 7): 10-bit index, low 8 bits qs[i], high 2 bits pair i%4 of qh[i/4]; signs[i]: bit j =
//   weight 8i + j scale of weights 16g … 16g + 15: nibble g%2 of scales[g/2]
//
// Source: ggml block_iq2_s; bit for bit gguf-py quants.IQ2_S.
#pragma once

#include "quants/iq_grids.h"

namespace tamis {

struct BlockIQ2S {
  static constexpr uint32_t kLen = 256;
  uint16_t d;
  uint8_t qs[32];
  uint8_t signs[32];
  uint8_t qh[8];
  uint8_t scales[8];
};
static_assert(sizeof(BlockIQ2S) == 82);

TAMIS_HOST_DEVICE inline void decode_block(const BlockIQ2S& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int i = 0; i < 32; ++i) {
    const int code = (block.scales[i / 4] >> (4 * (i / 2 % 2))) & 15;
    const float scale = d * (0.5f + static_cast<float>(code)) * 0.25f;
    const uint32_t high = static_cast<uint32_t>(block.qh[i / 4] >> (2 * (i % 4))) & 3u;
    decode_grid_point<8>(scale, kGridIQ2S[block.qs[i] | high << 8], block.signs[i], out + 8 * i);
  }
}

// Nearest grid points at one scale a group, all weights equal.
void encode_block(const float* values, BlockIQ2S& block);
// A row by the search of grid_search.h, with importance or null.
void encode_iq2_s(const float* row, const float* importance, std::byte* blocks, size_t n_blocks);

}  // namespace tamis
