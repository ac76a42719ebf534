// Encoders of IQ4_NL; layout and source in iq4_nl.h.
#include "quants/iq4_nl.h"

#include "quants/iq4_levels.h"

namespace tamis {
namespace {

constexpr WeightRule kRule{WeightExponent::quarter, NoImportance::even};

}  // namespace

void encode_block(const float* values, BlockIQ4NL& block) {
  const float d = signed_extreme(values, 32) / -127.0f;
  const float inverse = inverse_scale(d);
  block.d = f32_to_f16(d);
  for (int j = 0; j < 16; ++j)
    block.qs[j] =
        static_cast<uint8_t>(iq4_nearest_code(values[j] * inverse) | iq4_nearest_code(values[j + 16] * inverse) << 4);
}

TAMIS_WIDE void encode_iq4_nl(const float* row, const float* importance, std::byte* blocks, size_t n_blocks) {
  const RowWeights<BlockIQ4NL::kLen> weights(row, importance, n_blocks, kRule);
  for (size_t i = 0; i < n_blocks; ++i) {
    float x[32], w[32], levels[32];
    weights.block(i, x, w);
    const ScaleSearch<IQ4Levels, 32> search{x, w};
    BlockIQ4NL block;
    const float d = f16_to_f32(search.best_scale());
    search.levels(d, levels);
    block.d = search.unbiased(d, levels);
    const float inverse = inverse_scale(d);
    pack_nibbles(IQ4Levels::code(load_lanes(x) * inverse), IQ4Levels::code(load_lanes(x + 16) * inverse), block.qs);
    std::memcpy(blocks + i * sizeof(block), &block, sizeof(block));
  }
}

}  // namespace tamis
