// NVFP4: 64 weights in 36 bytes, 4.5 bits a weight.  w = UE4M3(sc) · E2M1(q), one sc for each 16 weights
//
//   byte  0 … 3   4 …                  35
//        [ d[4]  ][ qs[0] … qs[31]       ]      d: UE4M3, sign bit ignored (4 exponent bits, bias 7; 3 mantissa bits)
//   qs[8s + j]:  hhhhllll   l = code of weight 16s + j, h = code of weight 16s + 8 + j
//
// Computed as half the scale times twice the E2M1 value. Scale byte 0x7F (E4M3's NaN) counts as 0, as in ggml. A tensor
// may have one more factor beside it (`<name>.scale`), which is the matmul's business. Source: ggml block_nvfp4; bit
// for bit gguf-py quants.NVFP4.
#pragma once

#include "quants/mxfp4.h"

namespace tamis {

// Half the value of an unsigned E4M3 number. Exact.
TAMIS_HOST_DEVICE inline float ue4m3_half(uint8_t bits) {
  if (bits == 0x7f) return 0.0f;
  const int exponent = (bits >> 3) & 15;
  const float mantissa = static_cast<float>(bits & 7);
  if (exponent == 0) return mantissa * 0x1p-10f;
  const float power = std::bit_cast<float>(static_cast<uint32_t>(exponent - 7 + 126) << 23);
  return (1.0f + mantissa / 8.0f) * power;
}

struct BlockNVFP4 {
  static constexpr uint32_t kLen = 64, kCodes = 16, kGroupLen = 16;
  uint8_t d[4];
  uint8_t qs[32];
};
static_assert(sizeof(BlockNVFP4) == 36);

TAMIS_HOST_DEVICE inline void decode_block(const BlockNVFP4& block, float* out) {
  for (int group = 0; group < 4; ++group) {
    const float d = ue4m3_half(block.d[group]);
    const uint8_t* qs = block.qs + 8 * group;
    for (int j = 0; j < 8; ++j) {
      out[16 * group + j] = d * static_cast<float>(e2m1_doubled(qs[j] & 15));
      out[16 * group + 8 + j] = d * static_cast<float>(e2m1_doubled(qs[j] >> 4));
    }
  }
}

// Codes of E2M1.
inline void put_codes(const uint8_t* codes, BlockNVFP4& block) {
  for (int g = 0; g < 4; ++g) put_nibbles(codes + 16 * g, 8, block.qs + 8 * g);
}

// Each scale puts the largest magnitude at 6 steps; each weight the nearest code. As ggml quantize_row_nvfp4_ref, but
// scales are rounded to the nearest everywhere (ggml cuts those of 7½ to 8 of the smallest steps, and above 256).
void encode_block(const float* values, BlockNVFP4& block);

// The fast encoder: the scales of least weighted error (fp4_search.h).
void encode_nvfp4(const float* row, const float* importance, std::byte* blocks, size_t n_blocks);

}  // namespace tamis
