// Encoders of Q8_0; layout and source in q8_0.h. The textbook one is byte for byte gguf-py quants.Q8_0.quantize.
#include "quants/q8_0.h"

#include "quants/k_search.h"  // as_stored
#include "quants/scale_search.h"

namespace tamis {
namespace {

constexpr WeightRule kRule{WeightExponent::quarter, NoImportance::even};

// The f16 of least Σ w (x − d·q)² among sixteen that put the largest magnitude on 121.5 … 127.4 steps: within ±127, so
// that nothing is clamped and −128, which kernels that negate bytes cannot have, does not come up.
TAMIS_INLINE float best_scale(const float* x, const float* w) {
  const float extreme = largest_of_lanes(larger(magnitude(load_lanes(x)), magnitude(load_lanes(x + 16))));
  constexpr float kLevels[kLanes] = {127.0f, 127.4f, 126.6f, 126.2f, 125.8f, 125.4f, 125.0f, 124.6f,
                                     124.2f, 123.8f, 123.4f, 123.0f, 122.6f, 122.2f, 121.8f, 121.5f};
  const Lanes scale = as_stored(extreme / load_lanes(kLevels));
  const Lanes inverse = inverse_or_zero(scale);
  Lanes error{};
  for (size_t j = 0; j < 32; ++j) {
    const Lanes miss = x[j] - scale * nearest_integer(inverse * x[j]);
    error += miss * miss * w[j];
  }
  return scale[largest_lane(-error)];
}

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
    const float d = best_scale(x, w);
    BlockQ8_0 block;
    block.d = f32_to_f16(d);
    for (size_t j = 0; j < 32; j += kLanes)
      store_lanes(clamped(nearest_integer(load_lanes(x + j) * inverse_scale(d)), -127.0f, 127.0f), levels + j);
    for (size_t j = 0; j < 32; ++j) block.qs[j] = static_cast<int8_t>(levels[j]);
    std::memcpy(blocks + i * sizeof(block), &block, sizeof(block));
  }
}

}  // namespace tamis
