// Encoders of Q1_0; layout and source in q1_0.h.
#include "quants/q1_0.h"

#include "quants/scale_search.h"

namespace tamis {
namespace {

constexpr WeightRule kRule{WeightExponent::quarter, NoImportance::even};

void pack_signs(const float* values, BlockQ1_0& block) {
  for (int i = 0; i < 16; ++i) {
    int bits = 0;
    for (int j = 0; j < 8; ++j) bits |= (values[8 * i + j] >= 0.0f ? 1 : 0) << j;
    block.qs[i] = static_cast<uint8_t>(bits);
  }
}

}  // namespace

void encode_block(const float* values, BlockQ1_0& block) {
  float sum = 0;
  for (int j = 0; j < 128; ++j) sum += std::fabs(values[j]);
  block.d = f32_to_f16(sum / 128.0f);
  pack_signs(values, block);
}

// The signs are the best codes whatever d > 0; d = Σw|x| / Σw.
TAMIS_WIDE void encode_q1_0(const float* row, const float* importance, std::byte* blocks, size_t n_blocks) {
  const RowWeights<BlockQ1_0::kLen> weights(row, importance, n_blocks, kRule);
  for (size_t i = 0; i < n_blocks; ++i) {
    float x[128], w[128];
    weights.block(i, x, w);
    Lanes magnitudes{};
    Lanes total{};
    for (size_t j = 0; j < 128; j += kLanes) {
      magnitudes += load_lanes(w + j) * magnitude(load_lanes(x + j));
      total += load_lanes(w + j);
    }
    BlockQ1_0 block;
    block.d = finite_f16(sum_of_lanes(magnitudes) / sum_of_lanes(total));
    pack_signs(x, block);
    std::memcpy(blocks + i * sizeof(block), &block, sizeof(block));
  }
}

}  // namespace tamis
