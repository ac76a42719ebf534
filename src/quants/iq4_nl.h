// IQ4_NL: 32 weights in 18 bytes, 4.5 bits a weight.  w = d · table[q], sixteen values denser near 0
//
//   byte  0 1   2 …                    17
//        [ d  ][ qs[0] … qs[15]          ]      d: f16
//   qs[j]:  hhhhllll   l = code of weight j, h = code of weight j + 16
//
// Source: ggml block_iq4_nl; bit for bit gguf-py quants.IQ4_NL.
#pragma once

#include "quants/block.h"

namespace tamis {

// Value of code 0 … 15 of IQ4_NL and IQ4_XS.
TAMIS_HOST_DEVICE constexpr int iq4_value(int code) {
  constexpr int8_t kValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  return kValues[code];
}

struct BlockIQ4NL {
  static constexpr uint32_t kLen = 32, kCodes = 16, kGroupLen = 32;
  static constexpr ScaleRange kScales{};
  uint16_t d;
  uint8_t qs[16];
};
static_assert(sizeof(BlockIQ4NL) == 18);

TAMIS_HOST_DEVICE inline void decode_block(const BlockIQ4NL& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int j = 0; j < 16; ++j) {
    out[j] = d * static_cast<float>(iq4_value(block.qs[j] & 15));
    out[j + 16] = d * static_cast<float>(iq4_value(block.qs[j] >> 4));
  }
}

// Codes as in the table of values.
inline void put_codes(const uint8_t* codes, BlockIQ4NL& block) { put_nibbles(codes, 16, block.qs); }

// The value of largest magnitude becomes code 0 (−127·d); each other the nearest code.
void encode_block(const float* values, BlockIQ4NL& block);

// The fast encoder: d of either sign and codes of least weighted error (scale_search.h).
void encode_iq4_nl(const float* row, const float* importance, std::byte* blocks, size_t n_blocks);

}  // namespace tamis
