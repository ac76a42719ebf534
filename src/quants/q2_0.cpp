// Encoders of Q2_0; layout and source in q2_0.h.
#include "quants/q2_0.h"

#include "quants/scale_search.h"

namespace tamis {
namespace {

struct Q2Levels {
  TAMIS_INLINE static Lanes nearest(const Lanes& v) { return nearest_integer(clamped(v, -1.0f, 2.0f)); }
};
using Search = ScaleSearch<Q2Levels, 64>;

// The best d for the codes that d gives.
TAMIS_INLINE float refitted(const Search& search, float d) {
  const float inverse = d == 0.0f ? 0.0f : 1.0f / d;
  Lanes xq{}, qq{};
  for (size_t j = 0; j < 64; j += kLanes) {
    const Lanes q = Q2Levels::nearest(load_lanes(search.x + j) * inverse);
    const Lanes wq = load_lanes(search.w + j) * q;
    xq += wq * load_lanes(search.x + j);
    qq += wq * q;
  }
  const float square = sum_of_lanes(qq);
  return square > 0.0f ? sum_of_lanes(xq) / square : d;
}

// A scale of either sign: the best of sixteen that put the largest magnitude on these levels, and where codes and scale
// then agree. 0 for a block of zeros.
TAMIS_INLINE float best_scale(const Search& search) {
  constexpr float kTrials[kLanes] = {1.05f,  1.4f,   1.9f,  2.5f,   3.3f,   4.4f,   6.3f,  12.0f,
                                     -0.75f, -0.95f, -1.2f, -1.55f, -2.05f, -2.75f, -4.2f, -8.0f};
  const float extreme = search.signed_extreme();
  if (std::fabs(extreme) < 0x1p-100f) return 0;
  Search::Best best;
  search.consider(load_lanes(kTrials) * (1.0f / extreme), best);
  float d = best.d[largest_lane(best.gain)];
  for (int round = 0; round < 3; ++round) d = refitted(search, d);
  return d;
}

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
    const Search search{x, w};
    const float d = best_scale(search);
    search.levels(d, levels);
    BlockQ2_0 block;
    block.d = search.unbiased(d, levels);
    uint8_t codes[64];
    for (size_t j = 0; j < 64; j += kLanes) store_bytes(whole_numbers(load_lanes(levels + j) + 1.0f), codes + j);
    for (size_t byte = 0; byte < 16; ++byte) {
      uint32_t four;
      std::memcpy(&four, codes + 4 * byte, 4);
      block.qs[byte] = static_cast<uint8_t>(four * 0x01041040u >> 24);  // code j's two bits move to 24 + 2j
    }
    std::memcpy(blocks + i * sizeof(block), &block, sizeof(block));
  }
}

}  // namespace tamis
