// Q1_0: 128 weights in 18 bytes, 1.125 bits a weight.  w = bit ? d : −d
//
//   byte  0 1   2 …                    17
//        [ d  ][ qs[0] … qs[15]          ]      d: f16
//   weight j:  bit j%8 of qs[j/8], lowest bit first
//
// Source: ggml block_q1_0 (type 41).
#pragma once

#include "quants/block.h"

namespace tamis {

struct BlockQ1_0 {
  static constexpr uint32_t kLen = 128, kCodes = 2, kGroupLen = 128;
  static constexpr ScaleRange kScales{};
  uint16_t d;
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ1_0) == 18);

TAMIS_HOST_DEVICE inline void decode_block(const BlockQ1_0& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 8; ++j) out[8 * i + j] = ((block.qs[i] >> j) & 1) != 0 ? d : -d;
}

// 1 for +d, 0 for −d.
inline void put_codes(const uint8_t* codes, BlockQ1_0& block) {
  for (int i = 0; i < 16; ++i) {
    int byte = 0;
    for (int j = 0; j < 8; ++j) byte |= codes[8 * i + j] << j;
    block.qs[i] = static_cast<uint8_t>(byte);
  }
}

// The signs, and d = the mean magnitude. Byte for byte ggml quantize_row_q1_0_ref.
void encode_block(const float* values, BlockQ1_0& block);

// The fast encoder: signs, d the weighted mean magnitude (q1_0.cpp).
void encode_q1_0(const float* row, const float* importance, std::byte* blocks, size_t n_blocks);

}  // namespace tamis
