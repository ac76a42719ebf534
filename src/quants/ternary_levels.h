// The search of TQ1_0 and TQ2_0: levels −1, 0, 1 and one scale for 256 values. A value is ±1 when its magnitude is
// above a threshold; the best scale d for these levels is the weighted mean of the magnitudes above, and the best
// threshold for d is d / 2.
#pragma once

#include "quants/scale_search.h"

namespace tamis {

// The exponent is that of quantization-measured.md for few levels; without importance every value counts alike.
inline constexpr WeightRule kTernaryRule{WeightExponent::quarter, NoImportance::even};

inline constexpr size_t kTernaryLen = 256;

struct TernarySearch {
  const float* x;
  const float* w;

  // Of the magnitudes above each lane's threshold: Σ w |x| and Σ w.
  struct Sums {
    Lanes wx{}, w{};
  };
  // One threshold a lane.
  TAMIS_INLINE Sums sums_above(const Lanes& thresholds) const {
    Sums out;
    for (size_t j = 0; j < kTernaryLen; ++j) {
      const Lanes size = std::fabs(x[j]);
      const LaneBits is_above = thresholds < size;
      out.wx += choose(is_above, size * w[j], 0.0f);
      out.w += choose(is_above, w[j], 0.0f);
    }
    return out;
  }
  // One threshold for all; a sixteenth of the values a lane.
  TAMIS_INLINE Sums sums_above(float threshold) const {
    Sums out;
    for (size_t j = 0; j < kTernaryLen; j += kLanes) {
      const Lanes size = magnitude(load_lanes(x + j));
      const LaneBits is_above = size > threshold;
      out.wx += choose(is_above, size * load_lanes(w + j), 0.0f);
      out.w += choose(is_above, load_lanes(w + j), 0.0f);
    }
    return out;
  }

  // The scale of least error among sixteen thresholds, from nearly all values above to the largest alone, and then
  // where thresholds and scales agree. 0 for a block of zeros.
  TAMIS_INLINE float best_scale() const {
    Lanes top{};
    for (size_t j = 0; j < kTernaryLen; j += kLanes) top = larger(magnitude(load_lanes(x + j)), top);
    const float extreme = largest_of_lanes(top);
    if (extreme < 0x1p-100f) return 0;
    constexpr float kShares[kLanes] = {0.64f,  0.496f, 0.384f, 0.298f, 0.25f,  0.215f, 0.185f, 0.16f,
                                       0.137f, 0.118f, 0.1f,   0.08f,  0.062f, 0.045f, 0.028f, 0.014f};
    const Sums sums = sums_above(load_lanes(kShares) * extreme);
    const Lanes means = sums.wx / sums.w;  // 0/0 where no weight is above: never the best
    float d = means[largest_lane(sums.wx * means)];
    for (int round = 0; round < 3; ++round) {
      const Sums above = sums_above(0.5f * d);
      const float weight = sum_of_lanes(above.w);
      if (weight > 0.0f) d = sum_of_lanes(above.wx) / weight;
    }
    return d > 0.0f ? d : 0.0f;
  }
};

// The levels of 256 values and their scale, a positive f16: Σ w x² / Σ w x·level, which keeps the block's weighted
// energy (ScaleSearch::unbiased).
TAMIS_INLINE uint16_t ternary_block(const float* x, const float* w, float* levels) {
  const float threshold = 0.5f * TernarySearch{x, w}.best_scale();
  Lanes xx{}, xq{};
  for (size_t j = 0; j < kTernaryLen; j += kLanes) {
    const Lanes value = load_lanes(x + j);
    const Lanes level = choose(magnitude(value) > threshold, choose(value < 0.0f, -1.0f, 1.0f), 0.0f);
    const Lanes wx = load_lanes(w + j) * value;
    xx += wx * value;
    xq += wx * level;
    store_lanes(level, levels + j);
  }
  const float agreement = sum_of_lanes(xq);
  return finite_f16(agreement > 0.0f ? sum_of_lanes(xx) / agreement : 0.0f);
}

}  // namespace tamis
