// Encoders of Q2_K; layout and source in q2_k.h, the textbook one in k_plain.h, the search in k_affine_search.h.
#include "quants/q2_k.h"

#include "quants/k_affine_search.h"
#include "quants/k_plain.h"

namespace tamis {
namespace {

struct Search {
  using Block = BlockQ2K;
  static void pack(const AffineSuper<16>& super, Block& block) { pack_super_block(super, block); }
  static constexpr KWeights kWeights{{WeightExponent::quarter, NoImportance::magnitude}, 1.0f};
  static constexpr bool kIsUnbiased = true;
  static constexpr int kLen = 16, kCodes = 3, kScales = 15, kSupers = 1;
  static constexpr int kTrials = 13, kGrid = 12, kKept = 4, kRadius = 2, kMinima = 3, kRounds = 3;
  static constexpr float kFirstTrial = -0.9f, kTrialStep = 0.15f, kGridStep = 0.6f;
};

}  // namespace

void encode_block(const float* values, BlockQ2K& block) {
  block = {};
  pack_super_block(PlainAffine<16, 3, 15>(values), block);
}

TAMIS_WIDE void encode_q2_k(const float* row, const float* importance, std::byte* blocks, size_t n_blocks) {
  encode_affine_row<Search>(row, importance, blocks, n_blocks);
}

}  // namespace tamis
