// Q8_K: 256 activations in 292 bytes.  x = q · d.  Never the type of a stored weight: the other operand of the K types.
//
//   byte  0 … 3   4 …      259   260 …    291
//        [ d     ][ qs[256]    ][ bsums[16]  ]   d: f32; qs: int8; bsums: int16, sums of 16 codes (not needed to
//        decode)
//
// Source: ggml block_q8_K.
#pragma once

#include "quants/block.h"

namespace tamis {

struct BlockQ8K {
  static constexpr uint32_t kLen = 256;
  float d;
  int8_t qs[256];
  int16_t bsums[16];
};
static_assert(sizeof(BlockQ8K) == 292);

TAMIS_HOST_DEVICE inline void decode_block(const BlockQ8K& block, float* out) {
  const float d = block.d;
  for (int j = 0; j < 256; ++j) out[j] = static_cast<float>(block.qs[j]) * d;
}

}  // namespace tamis
