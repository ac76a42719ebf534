// Encoders of Q2_0; layout and source in q2_0.h.
#include "quants/q2_0.h"

#include "quants/scale_search.h"

namespace tamis {
namespace {

struct Q2Levels {
  static constexpr float kTrials[] = {
      1.2f,    1.356f,  1.532f,   1.731f,  1.957f,  2.211f, 2.498f,  2.823f,  3.19f,   3.605f,  4.073f,  4.603f,
      5.201f,  5.878f,  6.642f,   7.505f,  8.481f,  9.583f, 10.83f,  12.24f,  13.83f,  15.63f,  17.66f,  19.95f,
      -0.7f,   -0.791f, -0.8938f, -1.01f,  -1.141f, -1.29f, -1.457f, -1.647f, -1.861f, -2.103f, -2.376f, -2.685f,
      -3.034f, -3.429f, -3.874f,  -4.378f, -4.947f, -5.59f, -6.317f, -7.138f, -8.066f, -9.115f, -10.3f,  -11.64f};
  static constexpr float kNear = 0.12f;
  TAMIS_INLINE static Lanes nearest(const Lanes& v) { return nearest_integer(clamped(v, -1.0f, 2.0f)); }
};

constexpr WeightRule kRule{WeightExponent::quarter, NoImportance::even};

}  // namespace

void encode_block(const float* values, BlockQ2_0& block) {
  const float d = std::fabs(signed_extreme(values, 64));
  const float inverse = inverse_scale(d);
  block.d = f32_to_f16(d);
  for (int i = 0; i < 16; ++i) {
    int byte = 0;
    for (int j = 0; j < 4; ++j) byte |= (round_to_i8(values[4 * i + j] * inverse) + 1) << (2 * j);
    block.qs[i] = static_cast<uint8_t>(byte);
  }
}

TAMIS_WIDE void encode_q2_0(const float* row, const float* importance, std::byte* blocks, size_t n_blocks) {
  const RowWeights<BlockQ2_0::kLen> weights(row, importance, n_blocks, kRule);
  for (size_t i = 0; i < n_blocks; ++i) {
    float x[64], w[64], levels[64];
    weights.block(i, x, w);
    const ScaleSearch<Q2Levels, 64> search{x, w};
    const float d = f16_to_f32(search.best_scale());
    search.levels(d, levels);
    BlockQ2_0 block;
    block.d = search.unbiased(d, levels);
    for (size_t byte = 0; byte < 16; ++byte) {
      const float* four = levels + 4 * byte;
      block.qs[byte] = static_cast<uint8_t>(four[0] + 1.0f + 4.0f * (four[1] + 1.0f) + 16.0f * (four[2] + 1.0f) +
                                            64.0f * (four[3] + 1.0f));
    }
    std::memcpy(blocks + i * sizeof(block), &block, sizeof(block));
  }
}

}  // namespace tamis
