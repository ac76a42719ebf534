// Encoders of Q5_1; layout and source in q5_1.h. The textbook one is byte for byte gguf-py quants.Q5_1.quantize.
#include "quants/q5_1.h"

#include "quants/affine_search.h"

namespace tamis {
namespace {

constexpr WeightRule kRule{WeightExponent::quarter, NoImportance::even};

}  // namespace

void encode_block(const float* values, BlockQ5_1& block) {
  const MinMax range = min_max(values, 32);
  const float d = (range.max - range.min) / 31.0f;
  const float inverse = inverse_scale(d);
  block.d = f32_to_f16(d);
  block.m = f32_to_f16(range.min);
  uint32_t high_bits = 0;
  for (uint32_t j = 0; j < 16; ++j) {
    const uint8_t low = clamp_code((values[j] - range.min) * inverse + 0.5f, 31);
    const uint8_t high = clamp_code((values[j + 16] - range.min) * inverse + 0.5f, 31);
    block.qs[j] = static_cast<uint8_t>((low & 15) | ((high & 15) << 4));
    high_bits |= static_cast<uint32_t>(low >> 4) << j | static_cast<uint32_t>(high >> 4) << (j + 16);
  }
  std::memcpy(block.qh, &high_bits, 4);
}

TAMIS_WIDE void encode_q5_1(const float* row, const float* importance, std::byte* blocks, size_t n_blocks) {
  const RowWeights<BlockQ5_1::kLen> weights(row, importance, n_blocks, kRule);
  for (size_t i = 0; i < n_blocks; ++i) {
    float x[32], w[32];
    weights.block(i, x, w);
    const AffineSearch<31, 32> search(x, w);
    const auto scales = search.best_scales();
    BlockQ5_1 block;
    block.d = scales.d;
    block.m = scales.m;
    Lanes codes[2];
    search.codes(x, scales, codes);
    pack_five_bits(codes[0], codes[1], block.qh, block.qs);
    std::memcpy(blocks + i * sizeof(block), &block, sizeof(block));
  }
}

}  // namespace tamis
