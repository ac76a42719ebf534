// Encoders of Q4_K; layout and source in q4_k.h, the textbook one in k_plain.h, the search in k_affine_search.h.
#include "quants/q4_k.h"

#include "quants/k_affine_search.h"
#include "quants/k_plain.h"

namespace tamis {

void pack_scale_min(uint8_t* scales, int group, ScaleMin value) {
  if (group < 4) {
    scales[group] = static_cast<uint8_t>(scales[group] | value.scale);
    scales[group + 4] = static_cast<uint8_t>(scales[group + 4] | value.min);
    return;
  }
  scales[group + 4] = static_cast<uint8_t>((value.scale & 15) | (value.min & 15) << 4);
  scales[group - 4] = static_cast<uint8_t>(scales[group - 4] | (value.scale >> 4) << 6);
  scales[group] = static_cast<uint8_t>(scales[group] | (value.min >> 4) << 6);
}

namespace {

struct Search {
  using Block = BlockQ4K;
  static void pack(const AffineSuper<32>& super, Block& block) { pack_super_block(super, block); }
  // Exponent ½ as llama.cpp: from 4 bits on no exponent was seen to be better (quantization-measured.md).
  static constexpr KWeights kWeights{{WeightExponent::half, NoImportance::mean_plus_magnitude}, 2.0f};
  static constexpr bool kIsUnbiased = false;
  static constexpr int kLen = 32, kCodes = 15, kScales = 63, kSupers = 2;
  static constexpr int kTrials = 9, kGrid = 12, kKept = 3, kRadius = 2, kMinima = 2, kRounds = 2;
  static constexpr float kFirstTrial = -0.9f, kTrialStep = 0.2f, kGridStep = 0.6f;
};

}  // namespace

void encode_block(const float* values, BlockQ4K& block) {
  block = {};
  pack_super_block(PlainAffine<32, 15, 63>(values), block);
}

TAMIS_WIDE void encode_q4_k(const float* row, const float* importance, std::byte* blocks, size_t n_blocks) {
  encode_affine_row<Search>(row, importance, blocks, n_blocks);
}

}  // namespace tamis
