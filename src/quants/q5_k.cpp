// Encoders of Q5_K; layout and source in q5_k.h, the textbook one in k_plain.h, the search in k_affine_search.h.
#include "quants/q5_k.h"

#include "quants/k_affine_search.h"
#include "quants/k_plain.h"

namespace tamis {
namespace {

struct Search {
  using Block = BlockQ5K;
  static void pack(const AffineSuper<32>& super, Block& block) { pack_super_block(super, block); }
  static constexpr KWeights kWeights{{WeightExponent::half, NoImportance::mean_plus_magnitude}, 2.0f};
  static constexpr bool kIsUnbiased = false;
  static constexpr int kLen = 32, kCodes = 31, kScales = 63, kSupers = 2;
  static constexpr int kTrials = 9, kGrid = 12, kKept = 3, kRadius = 3, kMinima = 2, kRounds = 2;
  static constexpr float kFirstTrial = -0.9f, kTrialStep = 0.2f, kGridStep = 0.6f;
};

}  // namespace

void encode_block(const float* values, BlockQ5K& block) {
  block = {};
  pack_super_block(PlainAffine<32, 31, 63>(values), block);
}

TAMIS_WIDE void encode_q5_k(const float* row, const float* importance, std::byte* blocks, size_t n_blocks) {
  encode_affine_row<Search>(row, importance, blocks, n_blocks);
}

}  // namespace tamis
