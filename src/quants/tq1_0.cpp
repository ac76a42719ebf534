// Encoders of TQ1_0; layout and source in tq1_0.h. The textbook one is byte for byte gguf-py quants.TQ1_0.quantize.
#include "quants/tq1_0.h"

#include "quants/ternary_levels.h"

namespace tamis {
namespace {

// n base-3 digits, `stride` weights apart, as a fraction of 256 that ternary_digit reads back.
uint8_t pack_digits(const float* values, int n, int stride, float inverse) {
  constexpr uint32_t kPowers[] = {81, 27, 9, 3, 1};
  uint32_t number = 0;
  for (int i = 0; i < n; ++i)
    number += static_cast<uint32_t>(round_to_i8(values[i * stride] * inverse) + 1) * kPowers[i];
  return static_cast<uint8_t>((number * 256 + 242) / 243);
}

// The digits of values · inverse, rounded.
void pack_block(const float* values, float inverse, BlockTQ1_0& block) {
  for (int m = 0; m < 32; ++m) block.qs[m] = pack_digits(values + m, 5, 32, inverse);
  for (int m = 0; m < 16; ++m) block.qs[32 + m] = pack_digits(values + 160 + m, 5, 16, inverse);
  for (int m = 0; m < 4; ++m) block.qh[m] = pack_digits(values + 240 + m, 4, 4, inverse);
}

}  // namespace

void encode_block(const float* values, BlockTQ1_0& block) {
  const float d = std::fabs(signed_extreme(values, 256));
  block.d = f32_to_f16(d);
  pack_block(values, inverse_scale(d), block);
}

TAMIS_WIDE void encode_tq1_0(const float* row, const float* importance, std::byte* blocks, size_t n_blocks) {
  const RowWeights<BlockTQ1_0::kLen> weights(row, importance, n_blocks, kTernaryRule);
  for (size_t i = 0; i < n_blocks; ++i) {
    float x[256], w[256], levels[256];
    weights.block(i, x, w);
    BlockTQ1_0 block;
    block.d = ternary_block(x, w, levels);
    pack_block(levels, 1.0f, block);
    std::memcpy(blocks + i * sizeof(block), &block, sizeof(block));
  }
}

}  // namespace tamis
