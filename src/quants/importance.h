// The weight of each value's squared error in the searches of the fast encoders:
//
//   weight = importance · (sigma2 + x²)^exponent        importance = mean squared input of the value's column
//
// The second factor stands for what the diagonal of E[x xᵀ] does not see; exponent ½ is llama.cpp's, smaller ones
// trust the importance more (quantization.md §2). Scopes are the caller's: sigma2 may come from the block, the
// super-block or the row. Any floats are accepted: values go through searchable() first, and weights are scaled (a
// power of two, then their largest) into 0 … 1, so that sums of weight · x² stay finite and are not all lost to
// underflow. All is inlined into the encoders' clones (base/cpu_clones.h).
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/cpu_clones.h"
#include "quants/lanes.h"

namespace tamis {

// No block of a type whose scale is an f16 holds larger magnitudes (65504 · 63 · 31 in K-quants): what lies beyond
// is cut to it before a search, so that its sums do not overflow.
inline constexpr float kSearchLimit = 0x1p30f;

// out[i] = values[i] within ±kSearchLimit; 0 for NaN.
TAMIS_INLINE void searchable(const float* values, size_t n, float* out) {
  const size_t n_whole = n / kLanes * kLanes;
  for (size_t i = 0; i < n_whole; i += kLanes) {
    const Lanes value = load_lanes(values + i);
    store_lanes(clamped(choose(value == value, value, 0.0f), -kSearchLimit, kSearchLimit), out + i);
  }
  for (size_t i = n_whole; i < n; ++i) {
    const float value = values[i] == values[i] ? values[i] : 0.0f;
    const float below = value < kSearchLimit ? value : kSearchLimit;
    out[i] = below > -kSearchLimit ? below : -kSearchLimit;
  }
}

TAMIS_INLINE float sum_of_squares(const float* values, size_t n) {
  Lanes sum{};
  const size_t n_whole = n / kLanes * kLanes;
  for (size_t i = 0; i < n_whole; i += kLanes) sum += load_lanes(values + i) * load_lanes(values + i);
  for (size_t i = n_whole; i < n; ++i) sum.low[0] += values[i] * values[i];
  return sum_of_lanes(sum);
}

TAMIS_INLINE float largest(const float* values, size_t n) {  // of numbers >= 0
  Lanes top{};
  const size_t n_whole = n / kLanes * kLanes;
  for (size_t i = 0; i < n_whole; i += kLanes) top = larger(load_lanes(values + i), top);
  for (size_t i = n_whole; i < n; ++i) top.low[0] = values[i] > top.low[0] ? values[i] : top.low[0];
  return largest_of_lanes(top);
}

// Mean of x² over searchable values.
TAMIS_INLINE float mean_square(const float* values, size_t n) {
  return sum_of_squares(values, n) / static_cast<float>(n);
}

// Powers are square roots and products, which every machine rounds alike.
enum class WeightExponent : uint8_t { zero, quarter, half, three_quarters, one };

// What a type weighs with when there is no importance: 1, |x|, √(mean x²) + |x| or x².
enum class NoImportance : uint8_t { even, magnitude, mean_plus_magnitude, square };

struct WeightRule {
  WeightExponent exponent = WeightExponent::half;
  NoImportance without = NoImportance::even;
};

TAMIS_INLINE float weight_power(float base, WeightExponent exponent) {
  if (exponent == WeightExponent::zero) return 1.0f;
  if (exponent == WeightExponent::one) return base;
  const float root = std::sqrt(base);
  if (exponent == WeightExponent::half) return root;
  return exponent == WeightExponent::quarter ? std::sqrt(root) : root * std::sqrt(root);
}

// Scales numbers >= 0 so that the largest is about 1. False, and all 1, when every one is 0.
TAMIS_INLINE bool normalize_weights(float* weights, size_t n) {
  float top = largest(weights, n);
  if (!(top > 0.0f)) {
    for (size_t i = 0; i < n; ++i) weights[i] = 1.0f;
    return false;
  }
  if (top < 0x1p-100f) {
    for (size_t i = 0; i < n; ++i) weights[i] *= 0x1p100f;
    top *= 0x1p100f;
  }
  const float inverse = 1.0f / top;
  for (size_t i = 0; i < n; ++i) weights[i] *= inverse;
  return true;
}

// The weights of `n` searchable values (a block or a super-block) into out. Importance null: the rule's `without`.
// Importance 0 for all n: as if it were 1 for all. Weights that all come out 0 (a block of zeros) become 1.
TAMIS_INLINE void value_weights(const float* values, const float* importance, size_t n, float sigma2, WeightRule rule,
                                float* out) {
  if (importance == nullptr) {
    const float mean = std::sqrt(mean_square(values, n));
    for (size_t i = 0; i < n; ++i) {
      const float magnitude = std::fabs(values[i]);
      if (rule.without == NoImportance::even) out[i] = 1.0f;
      if (rule.without == NoImportance::magnitude) out[i] = magnitude;
      if (rule.without == NoImportance::mean_plus_magnitude) out[i] = mean + magnitude;
      if (rule.without == NoImportance::square) out[i] = values[i] * values[i];
    }
  } else {
    for (size_t i = 0; i < n; ++i) out[i] = importance[i];
    normalize_weights(out, n);
    for (size_t i = 0; i < n; ++i) out[i] *= weight_power(sigma2 + values[i] * values[i], rule.exponent);
  }
  normalize_weights(out, n);
}

// For blocks of several scales: a group whose weights are all 0 (columns that calibration never saw) gets one equal
// weight of 2^-20, so that its codes are chosen by their error and yet hardly move the scales shared with the others.
TAMIS_INLINE void fill_unseen_groups(float* weights, size_t n, size_t group_len) {
  for (size_t group = 0; group + group_len <= n; group += group_len) {
    if (largest(weights + group, group_len) > 0.0f) continue;
    for (size_t i = 0; i < group_len; ++i) weights[group + i] = 0x1p-20f;
  }
}

}  // namespace tamis
