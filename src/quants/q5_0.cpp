// Encoders of Q5_0; layout and source in q5_0.h. The textbook one is byte for byte gguf-py quants.Q5_0.quantize.
#include "quants/q5_0.h"

#include "quants/scale_search.h"

namespace tamis {
namespace {

struct Q5Levels {
  static constexpr float kTrials[] = {-12.0f, -13.0f, -13.6f, -14.1f, -14.5f, -14.9f, -15.2f, -15.5f, -15.8f, -16.0f,
                                      -16.4f, -16.7f, -17.1f, -17.5f, -18.0f, -18.6f, -19.3f, -20.2f, -21.5f, -23.5f,
                                      -26.0f, -30.0f, -40.0f, -70.0f, 11.5f,  12.4f,  13.0f,  13.5f,  13.9f,  14.3f,
                                      14.6f,  14.9f,  15.2f,  15.5f,  15.8f,  16.1f,  16.5f,  16.9f,  17.4f,  18.0f,
                                      18.7f,  19.6f,  20.8f,  22.5f,  25.0f,  29.0f,  38.0f,  70.0f};
  static constexpr float kNear = 0.025f;
  TAMIS_INLINE static Lanes nearest(const Lanes& v) { return nearest_integer(clamped(v, -16.0f, 15.0f)); }
};

constexpr WeightRule kRule{WeightExponent::quarter, NoImportance::even};

}  // namespace

void encode_block(const float* values, BlockQ5_0& block) {
  const float d = signed_extreme(values, 32) / -16.0f;
  const float inverse = inverse_scale(d);
  block.d = f32_to_f16(d);
  uint32_t high_bits = 0;
  for (uint32_t j = 0; j < 16; ++j) {
    const uint8_t low = clamp_code(values[j] * inverse + 16.5f, 31);
    const uint8_t high = clamp_code(values[j + 16] * inverse + 16.5f, 31);
    block.qs[j] = static_cast<uint8_t>((low & 15) | ((high & 15) << 4));
    high_bits |= static_cast<uint32_t>(low >> 4) << j | static_cast<uint32_t>(high >> 4) << (j + 16);
  }
  std::memcpy(block.qh, &high_bits, 4);
}

TAMIS_WIDE void encode_q5_0(const float* row, const float* importance, std::byte* blocks, size_t n_blocks) {
  const RowWeights<BlockQ5_0::kLen> weights(row, importance, n_blocks, kRule);
  for (size_t i = 0; i < n_blocks; ++i) {
    float x[32], w[32], levels[32];
    weights.block(i, x, w);
    const ScaleSearch<Q5Levels, 32> search{x, w};
    BlockQ5_0 block;
    const float d = f16_to_f32(search.best_scale());
    search.levels(d, levels);
    block.d = search.unbiased(d, levels);
    pack_five_bits(load_lanes(levels) + 16.0f, load_lanes(levels + 16) + 16.0f, block.qh, block.qs);
    std::memcpy(blocks + i * sizeof(block), &block, sizeof(block));
  }
}

}  // namespace tamis
