// What the searches of the K-quants share: super-blocks turned so that each of sixteen lanes holds one group of
// weights, and scales as an f16 stores them. k_affine_search.h (Q2_K, Q4_K, Q5_K: scale and minimum) and
// k_symmetric_search.h (Q3_K, Q6_K: scale) are the searches; they minimise Σ weight · (x − decoded)² over a
// super-block.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/float16.h"
#include "quants/groups.h"
#include "quants/importance.h"

namespace tamis {

inline constexpr size_t kSuperLen = 256;

// Sixteen groups of kLen values: value i of group g at [kGroups·i + g].
template <int kLen>
struct GroupBlock {
  float x[kLen * kGroups];
  float weight[kLen * kGroups];  // 0 … 1, not all 0 in any group
};

// How a K-quant weighs its values: importance.h's rule, sigma2 = factor · mean(x²) of the super-block.
struct KWeights {
  WeightRule rule;
  float sigma2_factor;
};

// One super-block into the lanes from `first_lane` on. importance: its 256 columns, or null.
template <int kLen>
TAMIS_INLINE void load_super_block(const float* values, const float* importance, const KWeights& weights,
                                   int first_lane, GroupBlock<kLen>& block) {
  constexpr int kPerSuper = static_cast<int>(kSuperLen) / kLen;
  float x[kSuperLen], weight[kSuperLen];
  searchable(values, kSuperLen, x);
  value_weights(x, importance, kSuperLen, weights.sigma2_factor * mean_square(x, kSuperLen), weights.rule, weight);
  fill_unseen_groups(weight, kSuperLen, kLen);
  for (int i = 0; i < kLen; ++i) {
    for (int g = 0; g < kPerSuper; ++g) {
      block.x[kGroups * i + first_lane + g] = x[g * kLen + i];
      block.weight[kGroups * i + first_lane + g] = weight[g * kLen + i];
    }
  }
}

// What the unbiased step multiplies scales by: Σ w x x / Σ w x y, for values x decoded as y. A least-squares scale
// shrinks weights, which costs more KL than the squared error it saves below 4 bits (quantization-measured.md, "+u").
// 1 where codes say next to nothing of x (the sums differ by more than 2).
template <int kSupers>
TAMIS_INLINE Groups unbiased_factor(const Groups& wxx, const Groups& wxy) {
  const Groups all_xx = super_sum<kSupers>(wxx);
  const Groups all_xy = super_sum<kSupers>(wxy);
  return choose(all_xx < all_xy * all_groups(2.0f), all_xx * inverse_or_zero(all_xy), all_groups(1.0f));
}

}  // namespace tamis
