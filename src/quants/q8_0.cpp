// Encoders of Q8_0; layout and source in q8_0.h. The textbook one is byte for byte gguf-py quants.Q8_0.quantize.
#include "quants/q8_0.h"

#include "quants/scale_search.h"

namespace tamis {
namespace {

// −128 is left out: both ends alike, and kernels that negate bytes cannot.
struct Q8Levels {
  static constexpr float kTrials[] = {127.0f, 126.5f, 126.1f, 125.7f, 125.2f, 124.8f, 124.3f, 123.8f,
                                      123.3f, 122.8f, 122.2f, 121.6f, 127.3f, 127.6f, 128.0f, 128.5f};
  static constexpr float kNear = 0.002f;
  TAMIS_INLINE static Lanes nearest(const Lanes& v) { return nearest_integer(clamped(v, -127.0f, 127.0f)); }
};

constexpr WeightRule kRule{WeightExponent::quarter, NoImportance::even};

}  // namespace

void encode_block(const float* values, BlockQ8_0& block) {
  const float d = std::fabs(signed_extreme(values, 32)) / 127.0f;
  const float inverse = inverse_scale(d);
  block.d = f32_to_f16(d);
  for (int j = 0; j < 32; ++j) block.qs[j] = round_to_i8(values[j] * inverse);
}

TAMIS_WIDE void encode_q8_0(const float* row, const float* importance, std::byte* blocks, size_t n_blocks) {
  const RowWeights<BlockQ8_0::kLen> weights(row, importance, n_blocks, kRule);
  for (size_t i = 0; i < n_blocks; ++i) {
    float x[32], w[32], levels[32];
    weights.block(i, x, w);
    const ScaleSearch<Q8Levels, 32> search{x, w};
    BlockQ8_0 block;
    block.d = search.best_scale();
    search.levels(f16_to_f32(block.d), levels);
    for (size_t j = 0; j < 32; ++j) block.qs[j] = static_cast<int8_t>(levels[j]);
    std::memcpy(blocks + i * sizeof(block), &block, sizeof(block));
  }
}

}  // namespace tamis
