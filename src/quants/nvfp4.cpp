// Encoders of NVFP4; layout and source in nvfp4.h.
#include "quants/nvfp4.h"

#include "quants/fp4_search.h"
#include "quants/scale_search.h"

namespace tamis {
namespace {

constexpr WeightRule kRule{WeightExponent::half, NoImportance::even};

// The UE4M3 code nearest to `value`, ties to even, at most 126 (448); 0 for NaN and below 0.
uint8_t nearest_ue4m3(float value) {
  if (!(value > 0.0f)) return 0;
  if (value >= 448.0f) return 126;
  // Below 2^-6 the codes are multiples of 2^-9; above, a float's exponent and first three bits of mantissa.
  if (value < 0x1p-6f) return static_cast<uint8_t>((value * 0x1p9f + 0x1.8p23f) - 0x1.8p23f);
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = bits + 0x7ffffu + ((bits >> 20) & 1u);
  return static_cast<uint8_t>((rounded >> 20) - (120u << 3));
}

uint8_t nearest_code(float value, float half_scale) {
  int best = 0;
  float best_error = std::fabs(half_scale * 0.0f - value);
  for (int code = 1; code < 16; ++code) {
    const float error = std::fabs(half_scale * static_cast<float>(e2m1_doubled(code)) - value);
    if (error < best_error) best = code, best_error = error;
  }
  return static_cast<uint8_t>(best);
}

// Half the values of UE4M3 codes 0 … 126: below 8 multiples of 2^-10, from there a float's bits.
TAMIS_INLINE Lanes ue4m3_halves(const LaneBits& code) {
  const Lanes subnormal = as_floats(code) * 0x1p-10f;
  return choose(code < 8, subnormal, lanes_of((code << 20) + (119 << 23)));
}

// The scale of 16 values, of the sixteen codes from 4 below that of the largest magnitude / 6 (which clips it) to 11
// above (which leaves the highest E2M1 codes unused).
TAMIS_INLINE int32_t best_ue4m3(const float* x, const float* w) {
  const float top = largest_of_lanes(magnitude(load_lanes(x)));
  const int32_t first = nearest_ue4m3(top / 6.0f) - 4;
  const LaneBits code = lane_numbers() + (first < 0 ? 0 : first > 111 ? 111 : first);
  const Lanes half_scale = ue4m3_halves(code);
  const Lanes inverse = inverse_or_zero(half_scale);
  return code[largest_lane(-e2m1_error(x, w, 16, half_scale, inverse))];
}

}  // namespace

void encode_block(const float* values, BlockNVFP4& block) {
  for (int group = 0; group < 4; ++group) {
    const float* x = values + 16 * group;
    block.d[group] = nearest_ue4m3(std::fabs(signed_extreme(x, 16)) / 6.0f);
    const float half_scale = ue4m3_half(block.d[group]);
    for (int j = 0; j < 8; ++j)
      block.qs[8 * group + j] =
          static_cast<uint8_t>(nearest_code(x[j], half_scale) | nearest_code(x[j + 8], half_scale) << 4);
  }
}

TAMIS_WIDE void encode_nvfp4(const float* row, const float* importance, std::byte* blocks, size_t n_blocks) {
  const RowWeights<BlockNVFP4::kLen> weights(row, importance, n_blocks, kRule);
  for (size_t i = 0; i < n_blocks; ++i) {
    float x[64], w[64];
    weights.block(i, x, w);
    fill_unseen_groups(w, 64, 16);
    BlockNVFP4 block;
    for (size_t group = 0; group < 4; ++group) {
      const int32_t scale = best_ue4m3(x + 16 * group, w + 16 * group);
      block.d[group] = static_cast<uint8_t>(scale);
      const float inverse = inverse_scale(ue4m3_half(block.d[group]));
      float codes[16];
      store_lanes(e2m1_code(nearest_e2m1_doubled(load_lanes(x + 16 * group) * inverse)), codes);
      for (size_t j = 0; j < 8; ++j) block.qs[8 * group + j] = static_cast<uint8_t>(codes[j] + 16.0f * codes[j + 8]);
    }
    std::memcpy(blocks + i * sizeof(block), &block, sizeof(block));
  }
}

}  // namespace tamis
