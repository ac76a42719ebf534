// Encoders of Q6_K; layout and source in q6_k.h, the textbook one in k_plain.h, the search in k_symmetric_search.h.
#include "quants/q6_k.h"

#include "quants/k_plain.h"
#include "quants/k_symmetric_search.h"

namespace tamis {
namespace {

struct Search {
  using Block = BlockQ6K;
  static void pack(const SymmetricSuper& super, Block& block) { pack_super_block(super, block); }
  // The bare importance, as llama.cpp: the factor of x² brought nothing at 6 bits (quantization-measured.md).
  static constexpr KWeights kWeights{{WeightExponent::zero, NoImportance::square}, 0.0f};
  static constexpr bool kIsUnbiased = false;
  static constexpr int kCodes = 32, kScales = 128;
  // Coarser scales than the extreme needs (it lands 8 levels inside) are worth trying: their many codes fall anew.
  static constexpr int kTrials = 16, kSteps = 16, kKept = 2, kRadius = 3, kRounds = 1;
  static constexpr float kFirstTrial = -8.0f, kTrialStep = 0.6f, kStep = 2.2f;
};

}  // namespace

void encode_block(const float* values, BlockQ6K& block) {
  block = {};
  pack_super_block(PlainSymmetric<32, 128>(values), block);
}

TAMIS_WIDE void encode_q6_k(const float* row, const float* importance, std::byte* blocks, size_t n_blocks) {
  encode_symmetric_row<Search>(row, importance, blocks, n_blocks);
}

}  // namespace tamis
