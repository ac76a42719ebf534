// Encoders of Q2_0; layout and source in q2_0.h.
#include "quants/q2_0.h"

#include "quants/scale_search.h"

namespace tamis {
namespace {

struct Q2Levels {
  static constexpr float kTrials[] = {
      1.0f,     1.14f,    1.3f,    1.482f,  1.689f,  1.925f,  2.195f,  2.502f,  2.853f,  3.252f,  3.707f,  4.226f,
      4.818f,   5.492f,   6.261f,  7.138f,  8.137f,  9.276f,  10.58f,  12.06f,  13.74f,  15.67f,  17.86f,  20.36f,
      -0.6931f, -0.7831f, -0.885f, -1.0f,   -1.13f,  -1.277f, -1.443f, -1.63f,  -1.842f, -2.082f, -2.353f, -2.658f,
      -3.004f,  -3.395f,  -3.836f, -4.335f, -4.898f, -5.535f, -6.254f, -7.067f, -7.986f, -9.024f, -10.2f,  -11.52f};
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
