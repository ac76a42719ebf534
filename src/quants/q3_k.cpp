// Encoders of Q3_K; layout and source in q3_k.h, the textbook one in k_plain.h, the search in k_symmetric_search.h.
#include "quants/q3_k.h"

#include "quants/k_plain.h"
#include "quants/k_symmetric_search.h"

namespace tamis {
namespace {

struct Search {
  using Block = BlockQ3K;
  static void pack(const SymmetricSuper& super, Block& block) { pack_super_block(super, block); }
  static constexpr KWeights kWeights{{WeightExponent::quarter, NoImportance::square}, 2.0f};
  static constexpr bool kIsUnbiased = true;
  static constexpr int kCodes = 4, kScales = 32;
  static constexpr int kTrials = 12, kSteps = 12, kKept = 1, kRadius = 2, kRounds = 1;
  static constexpr float kFirstTrial = -2.1f, kTrialStep = 0.3f, kStep = 0.6f;
};

}  // namespace

void encode_block(const float* values, BlockQ3K& block) {
  block = {};
  pack_super_block(PlainSymmetric<4, 32>(values), block);
}

TAMIS_WIDE void encode_q3_k(const float* row, const float* importance, std::byte* blocks, size_t n_blocks) {
  encode_symmetric_row<Search>(row, importance, blocks, n_blocks);
}

}  // namespace tamis
