// Encoders of Q4_0; layout and source in q4_0.h. The textbook one is byte for byte gguf-py quants.Q4_0.quantize.
#include "quants/q4_0.h"

#include "quants/scale_search.h"

namespace tamis {
namespace {

struct Q4Levels {
  static constexpr float kTrials[] = {
      // The extreme on the end of eight codes below 0 …
      -5.5f, -5.8f, -6.1f, -6.4f, -6.65f, -6.9f, -7.15f, -7.4f, -7.6f, -7.8f, -8.0f, -8.2f, -8.4f, -8.65f, -8.9f, -9.2f,
      -9.5f, -9.9f, -10.4f, -11.0f, -12.0f, -14.0f, -18.0f, -30.0f,
      // … or on the other.
      5.5f, 5.8f, 6.1f, 6.35f, 6.6f, 6.85f, 7.1f, 7.35f, 7.6f, 7.85f, 8.1f, 8.4f, 8.7f, 9.0f, 9.4f, 9.8f, 10.3f, 10.9f,
      11.6f, 12.5f, 14.0f, 18.0f, 25.0f, 60.0f};
  static constexpr float kNear = 0.04f;
  TAMIS_INLINE static Lanes nearest(const Lanes& v) { return nearest_integer(clamped(v, -8.0f, 7.0f)); }
};

constexpr WeightRule kRule{WeightExponent::quarter, NoImportance::even};

}  // namespace

void encode_block(const float* values, BlockQ4_0& block) {
  const float d = signed_extreme(values, 32) / -8.0f;
  const float inverse = inverse_scale(d);
  block.d = f32_to_f16(d);
  for (int j = 0; j < 16; ++j) {
    const uint8_t low = clamp_code(values[j] * inverse + 8.5f, 15);
    const uint8_t high = clamp_code(values[j + 16] * inverse + 8.5f, 15);
    block.qs[j] = static_cast<uint8_t>(low | (high << 4));
  }
}

TAMIS_WIDE void encode_q4_0(const float* row, const float* importance, std::byte* blocks, size_t n_blocks) {
  const RowWeights<BlockQ4_0::kLen> weights(row, importance, n_blocks, kRule);
  for (size_t i = 0; i < n_blocks; ++i) {
    float x[32], w[32], levels[32];
    weights.block(i, x, w);
    const ScaleSearch<Q4Levels, 32> search{x, w};
    BlockQ4_0 block;
    block.d = search.best_scale();
    search.levels(f16_to_f32(block.d), levels);
    pack_nibbles(load_lanes(levels) + 8.0f, load_lanes(levels + 16) + 8.0f, block.qs);
    std::memcpy(blocks + i * sizeof(block), &block, sizeof(block));
  }
}

}  // namespace tamis
