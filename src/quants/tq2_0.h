// TQ2_0: 256 ternary weights in 66 bytes, 2.0625 bits a weight.  w = d · (q − 1)
//
//   byte  0 …              63   64 65
//        [ qs[64]              ][ d   ]      d: f16
//   qs[32h + l]:  33221100   codes of weights 128h + l, + 32, + 64, + 96
//
// Source: ggml block_tq2_0; bit for bit gguf-py quants.TQ2_0.
#pragma once

#include "quants/block.h"

namespace tamis {

struct BlockTQ2_0 {
  static constexpr uint32_t kLen = 256, kCodes = 3, kGroupLen = 256;
  static constexpr ScaleRange kScales{};
  uint8_t qs[64];
  uint16_t d;
};
static_assert(sizeof(BlockTQ2_0) == 66);

TAMIS_HOST_DEVICE inline void decode_block(const BlockTQ2_0& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int plane = 0; plane < 8; ++plane) {
    const uint8_t* qs = block.qs + 32 * (plane / 4);
    const int shift = 2 * (plane % 4);
    for (int l = 0; l < 32; ++l) out[32 * plane + l] = d * static_cast<float>(((qs[l] >> shift) & 3) - 1);
  }
}

// Codes q + 1.
inline void put_codes(const uint8_t* codes, BlockTQ2_0& block) { put_crumbs(codes, 2, block.qs); }

// d = the largest magnitude; each weight the nearest of −d, 0, d.
void encode_block(const float* values, BlockTQ2_0& block);

// The fast encoder: codes of least weighted error, d such that they keep the weighted energy (ternary_levels.h).
void encode_tq2_0(const float* row, const float* importance, std::byte* blocks, size_t n_blocks);

}  // namespace tamis
