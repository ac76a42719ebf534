// The search for a scale and a minimum: codes q in 0 … kTop, f16 d and m of least Σ w (x − d·q − m)² over a block, the
// values first moved so that their weighted mean is 0. For codes fixed the best d is Σwxq / V with V = Σwq² −
// (Σwq)²/Σw, the best m is −d·Σwq/Σw, and they gain (Σwxq)² / V. Four steps:
//
//   1. trial ranges: the least and the largest value land on each of eight places at either end of the codes;
//   2. sixteen ranges around the refit of the winner, twice;
//   3. the sixteen f16 nearest to the best d, each with the best m of its codes;
//   4. the sixteen f16 nearest to that m, each with the codes that round to it: the error as it will be stored.
#pragma once

#include "quants/scale_search.h"

namespace tamis {

template <int kTop, size_t kLen>
struct AffineSearch {
  const float* w;
  float x[kLen];  // minus their weighted mean
  float mean = 0;
  float weight = 0;  // Σw

  TAMIS_INLINE AffineSearch(const float* values, const float* weights) : w(weights) {
    Lanes sum{};
    Lanes total{};
    for (size_t j = 0; j < kLen; j += kLanes) {
      sum += load_lanes(values + j) * load_lanes(w + j);
      total += load_lanes(w + j);
    }
    weight = sum_of_lanes(total);
    mean = sum_of_lanes(sum) / weight;
    for (size_t j = 0; j < kLen; j += kLanes) store_lanes(load_lanes(values + j) - mean, x + j);
  }

  TAMIS_INLINE static Lanes nearest(const Lanes& v) {
    return nearest_integer(clamped(v, 0.0f, static_cast<float>(kTop)));
  }

  // Per lane: the range of most gain so far, and the d and m (of the moved values) that its codes are best with.
  struct Best {
    Lanes gain{}, d{}, m{};
  };
  // Codes are x · inverse + offset, rounded.
  TAMIS_INLINE void consider(const Lanes& inverse, const Lanes& offset, Best& best) const {
    Lanes xq{};
    Lanes qq{};
    Lanes sum_q{};
    for (size_t j = 0; j < kLen; ++j) {
      const Lanes q = nearest(inverse * x[j] + offset);
      const Lanes wq = q * w[j];
      xq += wq * x[j];
      qq += wq * q;
      sum_q += wq;
    }
    const Lanes center = sum_q / weight;
    const Lanes variance = qq - sum_q * center;
    // Codes all alike: the rest of a difference of rounded sums is no variance.
    const Lanes d = choose(variance > qq * 0x1p-18f, xq / variance, 0.0f);
    const Lanes gain = xq * d;
    const LaneBits is_better = gain > best.gain;
    best.d = choose(is_better, d, best.d);
    best.m = choose(is_better, -d * center, best.m);
    best.gain = choose(is_better, gain, best.gain);
  }

  struct Scales {
    uint16_t d, m;
  };

  TAMIS_INLINE Scales best_scales() const {
    Lanes above = load_lanes(x);
    Lanes below = -above;
    for (size_t j = kLanes; j < kLen; j += kLanes) {
      above = larger(load_lanes(x + j), above);
      below = larger(-load_lanes(x + j), below);
    }
    const float high = largest_of_lanes(above);
    const float low = -largest_of_lanes(below);
    if (!(high - low > 0x1p-100f)) return {0, finite_f16(mean)};
    const Best ranges = best_range(low, 1.0f / (high - low));
    const size_t lane = largest_lane(ranges.gain);
    return best_stored(ranges.d[lane], ranges.m[lane]);
  }

  // The codes of `values` (not moved) under stored scales, sixteen a lane vector.
  TAMIS_INLINE void codes(const float* values, Scales scales, Lanes* out) const {
    const float d = f16_to_f32(scales.d);
    const float inverse = d == 0.0f ? 0.0f : 1.0f / d;
    const float m = f16_to_f32(scales.m);
    for (size_t j = 0; j < kLen; j += kLanes) out[j / kLanes] = nearest((load_lanes(values + j) - m) * inverse);
  }

  TAMIS_INLINE Best best_range(float low, float unit) const {
    // How far the ends move inward, in codes; negative: outward.
    constexpr float kLow[] = {0.4f, 0.0f, -0.2f, -0.4f, -0.7f, -1.1f, -1.7f, -3.0f};
    const HalfLanes half_moves = {0.4f, 0.0f, -0.2f, -0.4f, -0.7f, -1.1f, -1.7f, -3.0f};
    const Lanes moves{half_moves, half_moves};
    const Lanes second{HalfLanes{}, HalfLanes{} + 1.0f};
    Best best;
    for (size_t pair = 0; pair < 8; pair += 2) {
      const Lanes start = kLow[pair] + second * (kLow[pair + 1] - kLow[pair]);
      const Lanes inverse = (static_cast<float>(kTop) - moves - start) * unit;
      consider(inverse, start - low * inverse, best);
    }
    const Lanes widths = as_floats(lane_numbers() & 3) - 1.5f;
    const Lanes shifts = as_floats(lane_numbers() >> 2) - 1.5f;
    for (const float step : {0.12f, 0.04f}) {
      const size_t lane = largest_lane(best.gain);
      const float d = best.d[lane];
      if (!(d > 0.0f)) return best;
      const float inverse = 1.0f / d;
      consider(inverse * (1.0f + widths * (2.0f * step / kTop)), shifts * step - best.m[lane] * inverse, best);
    }
    return best;
  }

  TAMIS_INLINE Scales best_stored(float d, float m) const {
    const Lanes scale = f16_around(finite_f16(d));
    const Lanes inverse = inverse_or_zero(scale);
    // The error of each d with the best m of the codes it gives, up to Σwx².
    Lanes error{};
    Lanes rest{};
    for (size_t j = 0; j < kLen; ++j) {
      const Lanes miss = x[j] - scale * nearest(inverse * (x[j] - m));
      error += miss * miss * w[j];
      rest += miss * w[j];
    }
    const size_t lane = largest_lane(rest * rest / weight - error);
    const float stored_d = scale[lane];
    const float best_m = rest[lane] / weight;
    const Lanes offset = f16_around(finite_f16(best_m + mean));
    const float one_inverse = inverse[lane];
    Lanes stored_error{};
    for (size_t j = 0; j < kLen; ++j) {
      const Lanes from_m = (x[j] + mean) - offset;
      const Lanes miss = from_m - stored_d * nearest(from_m * one_inverse);
      stored_error += miss * miss * w[j];
    }
    return {finite_f16(stored_d), finite_f16(offset[largest_lane(-stored_error)])};
  }
};

}  // namespace tamis
