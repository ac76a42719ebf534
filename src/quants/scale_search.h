// The search for one scale: codes q and a scale d, an f16, of least Σ w (x − d·q)² over a block of x with weights w.
// For codes fixed, the best d is Σwxq / Σwqq and what it gains over d = 0 is (Σwxq)² / Σwqq; the codes are a step
// function of d, so the gain has one arc between any two break points. Three passes, sixteen candidates a pass step:
//
//   1. trial scales of both signs from a grid: which arc;
//   2. sixteen more between the winner's neighbours;
//   3. the f16 nearest to the winner's best d and its neighbours, each with the codes that round to it: the error as
//      it will be stored.
//
// A `Levels` type says what codes there are: static Lanes nearest(const Lanes& v), the level nearest to v; and, for
// free_scale() and best_scale(), the grid: kTrials, a constexpr float array of levels that the largest magnitude may
// land on, a multiple of kLanes of them, the textbook encoder's place among them so that the search is never worse; and
// kNear, how far about the winner the second pass looks, as a share of it.
#pragma once

#include <bit>
#include <iterator>

#include "base/float16.h"
#include "quants/importance.h"
#include "quants/lanes.h"
#include "quants/plain.h"

namespace tamis {

// Bits of the largest finite f16.
inline constexpr int32_t kF16Largest = 0x7bff;

// The nearest f16 that is finite; 0 for NaN.
TAMIS_INLINE uint16_t finite_f16(float value) {
  const float cut = value < -65504.0f ? -65504.0f : value;
  return f32_to_f16(cut < 65504.0f ? cut : cut == cut ? 65504.0f : 0.0f);
}

// The sixteen f16 of one sign from 8 below the magnitude of `middle`, a finite f16, to 7 above.
TAMIS_INLINE Lanes f16_around(uint16_t middle) {
  const int32_t lowest = (middle & 0x7fff) - 8;
  const LaneBits bits = smaller(lane_numbers() + (lowest < 0 ? 0 : lowest), kF16Largest);
  // f16 bits in float's place are a float 2^-112 too small (f16_to_f32_branchless).
  return lanes_of(bits << 13) * ((middle & 0x8000) != 0 ? -0x1p112f : 0x1p112f);
}

// The values and weights of a row's blocks; sigma2 is the row's mean square.
template <size_t kLen>
struct RowWeights {
  const float* row;
  const float* importance;
  WeightRule rule;
  float sigma2 = 0;

  TAMIS_INLINE RowWeights(const float* row_, const float* importance_, size_t n_blocks, WeightRule rule_)
      : row(row_), importance(importance_), rule(rule_) {
    float x[kLen];
    for (size_t i = 0; i < n_blocks; ++i) {
      searchable(row + i * kLen, kLen, x);
      sigma2 += mean_square(x, kLen);
    }
    sigma2 /= static_cast<float>(n_blocks);
  }
  TAMIS_INLINE void block(size_t i, float* x, float* w) const {
    searchable(row + i * kLen, kLen, x);
    value_weights(x, importance == nullptr ? nullptr : importance + i * kLen, kLen, sigma2, rule, w);
  }
};

template <class Levels, size_t kLen>
struct ScaleSearch {
  const float* x;
  const float* w;

  struct Sums {
    Lanes xq{}, qq{};
  };
  TAMIS_INLINE Sums sums(const Lanes& inverse) const {
    Sums out;
    for (size_t j = 0; j < kLen; ++j) {
      const Lanes q = Levels::nearest(inverse * x[j]);
      const Lanes wq = q * w[j];
      out.xq += wq * x[j];
      out.qq += wq * q;
    }
    return out;
  }

  TAMIS_INLINE float signed_extreme() const {
    Lanes above{}, below{};
    for (size_t j = 0; j < kLen; j += kLanes) {
      above = larger(load_lanes(x + j), above);
      below = larger(-load_lanes(x + j), below);
    }
    const float top = largest_of_lanes(above);
    const float bottom = largest_of_lanes(below);
    return top > bottom ? top : -bottom;
  }

  // Per lane: the inverse scale of most gain so far, that gain and the codes' best d.
  struct Best {
    Lanes gain{}, inverse{}, d{};
  };
  TAMIS_INLINE void consider(const Lanes& inverse, Best& best) const {
    const Sums sum = sums(inverse);
    const Lanes d = sum.xq / sum.qq;  // 0/0 where all levels are 0: never better
    const Lanes gain = sum.xq * d;
    const LaneBits is_better = gain > best.gain;
    best.inverse = choose(is_better, inverse, best.inverse);
    best.d = choose(is_better, d, best.d);
    best.gain = larger(gain, best.gain);
  }

  // The stored scale. 0 for a block of zeros.
  TAMIS_INLINE uint16_t best_scale() const { return best_stored(free_scale()); }

  // The best d of any float. 0 for a block of zeros.
  TAMIS_INLINE float free_scale() const {
    const float extreme = signed_extreme();
    // Below, 1/extreme would overflow; no f16 but 0 is near such values.
    if (std::fabs(extreme) < 0x1p-100f) return 0;
    const float unit = 1.0f / extreme;
    Best best;
    for (size_t trial = 0; trial < std::size(Levels::kTrials); trial += kLanes)
      consider(load_lanes(Levels::kTrials + trial) * unit, best);
    size_t lane = largest_lane(best.gain);
    const Lanes steps = as_floats(lane_numbers()) - 7.5f;
    consider(best.inverse[lane] * (1.0f + steps * (Levels::kNear / 8)), best);
    lane = largest_lane(best.gain);
    return best.d[lane];
  }

  // Of the f16 around d the one of least error, its codes rounded to it.
  TAMIS_INLINE uint16_t best_stored(float d) const {
    const Lanes scale = f16_around(finite_f16(d));
    const Lanes inverse = inverse_or_zero(scale);
    Lanes error{};
    for (size_t j = 0; j < kLen; ++j) {
      const Lanes miss = x[j] - scale * Levels::nearest(inverse * x[j]);
      error += miss * miss * w[j];
    }
    return finite_f16(scale[largest_lane(-error)]);
  }

  // The levels of the block under the stored scale `d`.
  TAMIS_INLINE void levels(float d, float* out) const {
    const float inverse = d == 0.0f ? 0.0f : 1.0f / d;
    for (size_t j = 0; j < kLen; j += kLanes) store_lanes(Levels::nearest(load_lanes(x + j) * inverse), out + j);
  }

  // d · Σwx² / Σwxy with y = d·level, as an f16: the scale under which these levels keep the block's weighted energy.
  // The least-squares scale pulls all values toward 0, the more the fewer levels there are, and a model minds that
  // common factor more than the error it saves.
  TAMIS_INLINE uint16_t unbiased(float d, const float* level) const {
    Lanes xx{}, xy{};
    for (size_t j = 0; j < kLen; j += kLanes) {
      const Lanes wx = load_lanes(w + j) * load_lanes(x + j);
      xx += wx * load_lanes(x + j);
      xy += wx * (load_lanes(level + j) * d);
    }
    const float agreement = sum_of_lanes(xy);
    return finite_f16(agreement > 0.0f ? d * (sum_of_lanes(xx) / agreement) : d);
  }
};

}  // namespace tamis
