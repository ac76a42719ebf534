// Encoders of Q3_K; layout and source in q3_k.h, the textbook one in k_plain.h, the search in k_symmetric_search.h.
#include "quants/q3_k.h"

#include "quants/k_plain.h"
#include "quants/k_symmetric_search.h"

namespace tamis {
namespace {

template <class Super>
void pack_block(const Super& super, BlockQ3K& block) {
  block.d = super.d();
  for (int g = 0; g < 16; ++g) {
    const int scale = super.scale(g) + 32;
    uint8_t& low = block.scales[g % 8];
    uint8_t& high = block.scales[8 + g % 4];
    low = static_cast<uint8_t>(low | (scale & 15) << (4 * (g / 8)));
    high = static_cast<uint8_t>(high | (scale >> 4) << (2 * (g / 4)));
    uint8_t* qs = block.qs + 32 * (g / 8) + 16 * (g % 2);
    uint8_t* mask = block.hmask + 16 * (g % 2);
    for (int l = 0; l < 16; ++l) {
      const int code = super.code(g, l) + 4;
      qs[l] = static_cast<uint8_t>(qs[l] | (code & 3) << (2 * (g / 2 % 4)));
      mask[l] = static_cast<uint8_t>(mask[l] | (code >> 2) << (g / 2));
    }
  }
}

struct Search {
  using Block = BlockQ3K;
  static void pack(const SymmetricSuper& super, Block& block) { pack_block(super, block); }
  static constexpr KWeights kWeights{{WeightExponent::quarter, NoImportance::square}, 2.0f};
  static constexpr bool kIsUnbiased = true;
  static constexpr int kCodes = 4, kScales = 32;
  static constexpr int kTrials = 12, kSteps = 12, kKept = 1, kRadius = 2, kRounds = 1;
  static constexpr float kFirstTrial = -2.1f, kTrialStep = 0.3f, kStep = 0.6f;
};

}  // namespace

void encode_block(const float* values, BlockQ3K& block) {
  block = {};
  pack_block(PlainSymmetric<4, 32>(values), block);
}

TAMIS_WIDE void encode_q3_k(const float* row, const float* importance, std::byte* blocks, size_t n_blocks) {
  encode_symmetric_row<Search>(row, importance, blocks, n_blocks);
}

}  // namespace tamis
