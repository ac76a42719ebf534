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

// Sixteen bytes of five levels each, `stride` apart.
TAMIS_INLINE void pack_levels(const float* levels, size_t stride, uint8_t* qs) {
  Lanes number{};
  for (size_t i = 0; i < 5; ++i) number = number * 3.0f + (load_lanes(levels + i * stride) + 1.0f);
  store_bytes(whole_numbers((number * 256.0f + 242.0f) / 243.0f), qs);  // as pack_digits: exact where it is whole
}

}  // namespace

void encode_block(const float* values, BlockTQ1_0& block) {
  const float d = std::fabs(signed_extreme(values, 256));
  const float inverse = inverse_scale(d);
  block.d = f32_to_f16(d);
  for (int m = 0; m < 32; ++m) block.qs[m] = pack_digits(values + m, 5, 32, inverse);
  for (int m = 0; m < 16; ++m) block.qs[32 + m] = pack_digits(values + 160 + m, 5, 16, inverse);
  for (int m = 0; m < 4; ++m) block.qh[m] = pack_digits(values + 240 + m, 4, 4, inverse);
}

TAMIS_WIDE void encode_tq1_0(const float* row, const float* importance, std::byte* blocks, size_t n_blocks) {
  const RowWeights<BlockTQ1_0::kLen> weights(row, importance, n_blocks, kTernaryRule);
  for (size_t i = 0; i < n_blocks; ++i) {
    float x[256], w[256], levels[256];
    weights.block(i, x, w);
    BlockTQ1_0 block;
    block.d = ternary_block(x, w, levels);
    pack_levels(levels, 32, block.qs);
    pack_levels(levels + 16, 32, block.qs + 16);
    pack_levels(levels + 160, 16, block.qs + 32);
    for (int m = 0; m < 4; ++m) block.qh[m] = pack_digits(levels + 240 + m, 4, 4, 1.0f);
    std::memcpy(blocks + i * sizeof(block), &block, sizeof(block));
  }
}

}  // namespace tamis
