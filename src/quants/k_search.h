// What the searches of the K-quants share: super-blocks turned so that each of sixteen lanes holds one group of
// weights, and scales as an f16 stores them. k_affine_search.h (Q2_K, Q4_K, Q5_K: scale and minimum) and
// k_symmetric_search.h (Q3_K, Q6_K: scale) are the searches; they minimise Σ weight · (x − decoded)² over a
// super-block.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/float16.h"
#include "quants/importance.h"
#include "quants/lanes.h"

namespace tamis {

inline constexpr size_t kSuperLen = 256;
inline constexpr int kGroups = kLanes;  // one a lane

// Numbers >= 0 as an f16 holds them: rounded to nearest, at most 65504, and not below the smallest subnormal unless 0,
// so that a super-block of tiny weights keeps a scale.
TAMIS_INLINE Lanes as_stored(const Lanes& value) {
  const Lanes cut = clamped(value, 0.0f, 65504.0f);
  const Lanes split = cut * (0x1p13f + 1.0f);  // Veltkamp: the upper 11 of 24 bits
  const Lanes normal = split - (split - cut);
  const Lanes subnormal = (cut + 0.5f) - 0.5f;  // [½, 1) steps by 2^-24
  const Lanes stored = choose(cut < 0x1p-14f, subnormal, normal);
  return choose(value > 0.0f, larger(stored, 0x1p-24f), 0.0f);
}

// The sum and the largest over each super-block's lanes, in all of them: kSupers = 2 super-blocks of 8 groups, or one
// of 16.
template <int kSupers>
TAMIS_INLINE Lanes super_sum(const Lanes& a) {
  if constexpr (kSupers == 2) return {sum_of_half(a.low), sum_of_half(a.high)};
  const HalfLanes sum = sum_of_half(a.low + a.high);
  return {sum, sum};
}
template <int kSupers>
TAMIS_INLINE Lanes super_largest(const Lanes& a) {
  if constexpr (kSupers == 2) return {largest_of_half(a.low), largest_of_half(a.high)};
  const HalfLanes top = largest_of_half(larger(a.low, a.high));
  return {top, top};
}

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
TAMIS_INLINE Lanes unbiased_factor(const Lanes& wxx, const Lanes& wxy) {
  const Lanes all_xx = super_sum<kSupers>(wxx);
  const Lanes all_xy = super_sum<kSupers>(wxy);
  return choose(all_xx < all_xy * 2.0f, all_xx * inverse_or_zero(all_xy), 1.0f);
}

}  // namespace tamis
