// Q8_1: 32 activations in 36 bytes.  x = q · d.  Never the type of a stored weight: the other operand of Q4_1 and Q5_1.
//
//   byte  0 1  2 3   4 …               35
//        [ d  ][ s ][ qs[0] … qs[31]     ]      d, s: f16, s = d · Σ q (not needed to decode); qs: int8
//
// Source: ggml block_q8_1.
#pragma once

#include "quants/block.h"

namespace tamis {

struct BlockQ8_1 {
  static constexpr uint32_t kLen = 32;
  uint16_t d;
  uint16_t s;
  int8_t qs[32];
};
static_assert(sizeof(BlockQ8_1) == 36);

TAMIS_HOST_DEVICE inline void decode_block(const BlockQ8_1& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int j = 0; j < 32; ++j) out[j] = static_cast<float>(block.qs[j]) * d;
}

}  // namespace tamis
