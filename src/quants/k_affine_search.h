// The search of K-quants with minima: x ≈ ±(d·s·q − dmin·m), codes q of 0 … kCodes and integers s, m of 0 … kScales for
// each group, f16 d and dmin for the super-block. In four steps, for all groups at once:
//
//   1. each group alone: a few trial scales, codes rounded, the best real (scale, minimum) for them in closed form;
//      for x and for −x, and the sign with less error, a coarse step 2 included, is kept;
//   2. pairs (d, dmin) on a grid below the largest scale and minimum: the error of rounding every group's pair to
//      integers, from the quadratic form of its sums alone; the best few pairs stay;
//   3. for each of these, integers (s, m) in the neighbourhood of the optimum, along the valley in which a larger scale
//      wants a larger minimum, judged by the true error with codes rounded anew;
//   4. (d, dmin) refitted in closed form to these codes and integers, rounded to f16, and step 3 again.
//
// Type says: Block, pack, kWeights, kIsUnbiased, kLen, kCodes, kScales, kSupers (super-blocks in sixteen lanes) and the
// effort: kTrials, kFirstTrial and kTrialStep (levels that a group's range takes), kGrid, kGridStep, kKept pairs,
// kRadius and kMinima (neighbourhood), kRounds.
#pragma once

#include <cstring>

#include "quants/k_search.h"

namespace tamis {

// Super-blocks encoded; every lane of a super-block has its d and dmin.
template <int kLen>
struct AffineGroups {
  float d[kGroups], dmin[kGroups];
  float scale[kGroups], minimum[kGroups];  // the integers s and m
  float codes[kLen * kGroups];             // [value][group]
};

template <class Type>
class KAffineSearch {
 public:
  using Block = GroupBlock<Type::kLen>;

  // Turns signs in `block` where −x is kept.
  TAMIS_INLINE static void run(Block& block, bool is_unbiased, AffineGroups<Type::kLen>& out) {
    Sums sums = sums_of(block);
    Fit fit;
    const Lanes sign = best_sign(block, sums, fit);
    Pair pairs[Type::kKept];
    best_pairs<Type::kGrid>(fit, sums, Type::kGridStep, pairs);
    State best{};
    for (int k = 0; k < Type::kKept; ++k) {
      State state{pairs[k].d, pairs[k].dmin, {}, {}, kWorst};
      Center center{fit.scale, fit.minimum, fit.wq / sums.w};
      for (int round = 0; round < Type::kRounds; ++round) {
        best_integers(block, center, state);
        const Lanes total = super_sum<Type::kSupers>(state.error);
        if (k == 0 && round == 0) {
          best = state;
          best.error = total;
        } else {
          keep_better(state, total, best);
        }
        if (round + 1 < Type::kRounds) center = refit(block, sums, state);
      }
    }
    finish(block, is_unbiased, best, sign, out);
  }

 private:
  static constexpr float kWorst = 3e38f;

  struct Sums {  // of a group: Σw, Σwx; its range
    Lanes w, wx, low, high;
  };
  // A group's real scale and minimum (x ≈ scale·q − minimum), the sums of its codes (Σwq, Σwqq), and how much less its
  // error is than Σwxx.
  struct Fit {
    Lanes scale, minimum, wq, wqq, gain;
  };
  struct Center {  // a group's real optimum and how its minimum follows its scale (Σwq / Σw)
    Lanes scale, minimum, slope;
  };
  struct Pair {
    Lanes d, dmin, cost;
  };
  struct State {
    Lanes d, dmin, scale, minimum, error;  // integers; the group's true error
  };

  TAMIS_INLINE static Lanes nearest_codes(const Lanes& value) {
    return nearest_integer(clamped(value, 0.0f, static_cast<float>(Type::kCodes)));
  }

  TAMIS_INLINE static Sums sums_of(const Block& block) {
    const Lanes zero = 0.0f;
    Sums sums{zero, zero, zero, zero};
    for (int i = 0; i < Type::kLen; ++i) {
      const Lanes x = load_lanes(block.x + kGroups * i);
      const Lanes w = load_lanes(block.weight + kGroups * i);
      sums.low = smaller(x, sums.low);
      sums.high = larger(x, sums.high);
      sums.w = sums.w + w;
      sums.wx = sums.wx + w * x;
    }
    return sums;
  }

  struct CodeSums {
    Lanes wq, wqq, wxq;
  };
  TAMIS_INLINE static CodeSums code_sums(const Block& block, const Lanes& inverse, const Lanes& minimum) {
    CodeSums sums{0.0f, 0.0f, 0.0f};
    for (int i = 0; i < Type::kLen; ++i) {
      const Lanes x = load_lanes(block.x + kGroups * i);
      const Lanes q = nearest_codes((x + minimum) * inverse);
      const Lanes wq = load_lanes(block.weight + kGroups * i) * q;
      sums.wq = sums.wq + wq;
      sums.wqq = sums.wqq + wq * q;
      sums.wxq = sums.wxq + wq * x;
    }
    return sums;
  }

  // Least squares over (scale, minimum) with scale >= 0 and minimum >= 0, codes fixed.
  TAMIS_INLINE static Fit least_squares(const CodeSums& codes, const Sums& sums) {
    const Lanes zero = 0.0f;
    const Lanes det = sums.w * codes.wqq - codes.wq * codes.wq;
    const Lanes both_scale = (sums.w * codes.wxq - sums.wx * codes.wq) * inverse_or_zero(det);
    const Lanes both_minimum = (both_scale * codes.wq - sums.wx) / sums.w;
    const LaneBits is_solved = 1e-6f * sums.w * codes.wqq < det;  // else rounding noise
    const Lanes usable = choose(is_solved, smaller(both_scale, both_minimum), zero);
    const LaneBits is_both = zero < usable;
    Fit fit;
    fit.scale = choose(is_both, both_scale, larger(codes.wxq * inverse_or_zero(codes.wqq), zero));
    fit.minimum = choose(is_both, both_minimum, zero);
    fit.wq = codes.wq;
    fit.wqq = codes.wqq;
    const Lanes linear = fit.scale * codes.wxq - fit.minimum * sums.wx;
    const Lanes cross = fit.scale * fit.minimum * codes.wq;
    const Lanes square = fit.scale * fit.scale * codes.wqq + fit.minimum * fit.minimum * sums.w;
    fit.gain = (linear + linear) - (square - (cross + cross));
    return fit;
  }

  TAMIS_INLINE static void keep_better(const Fit& fit, Fit& best) {
    const LaneBits is_better = best.gain < fit.gain;
    best.scale = choose(is_better, fit.scale, best.scale);
    best.minimum = choose(is_better, fit.minimum, best.minimum);
    best.wq = choose(is_better, fit.wq, best.wq);
    best.wqq = choose(is_better, fit.wqq, best.wqq);
    best.gain = choose(is_better, fit.gain, best.gain);
  }

  // Step 1 for one sign.
  TAMIS_INLINE static Fit fit_groups(const Block& block, const Sums& sums) {
    const Lanes per_range = inverse_or_zero(sums.high - sums.low);
    Fit best{};
    best.gain = -kWorst;
    for (int t = 0; t < Type::kTrials; ++t) {
      const float levels =
          static_cast<float>(Type::kCodes) + Type::kFirstTrial + Type::kTrialStep * static_cast<float>(t);
      keep_better(least_squares(code_sums(block, per_range * levels, -sums.low), sums), best);
    }
    for (int again = 0; again < 2; ++again)
      keep_better(least_squares(code_sums(block, inverse_or_zero(best.scale), best.minimum), sums), best);
    return best;
  }

  // Step 1 for both; leaves block and sums with the sign kept (±1).
  TAMIS_INLINE static Lanes best_sign(Block& block, Sums& sums, Fit& fit) {
    fit = fit_groups(block, sums);
    turn(block, -1.0f);
    const Sums turned{sums.w, -sums.wx, -sums.high, -sums.low};
    const Fit other = fit_groups(block, turned);
    Pair pair[1], other_pair[1];
    best_pairs<4>(fit, sums, 3.0f * Type::kGridStep, pair);
    best_pairs<4>(other, turned, 3.0f * Type::kGridStep, other_pair);
    const Lanes left = pair[0].cost - super_sum<Type::kSupers>(fit.gain);
    const Lanes other_left = other_pair[0].cost - super_sum<Type::kSupers>(other.gain);
    const LaneBits is_turned = other_left < left;
    const Lanes sign = choose(is_turned, -1.0f, 1.0f);
    turn(block, -sign);
    sums.wx = sums.wx * sign;
    fit.scale = choose(is_turned, other.scale, fit.scale);
    fit.minimum = choose(is_turned, other.minimum, fit.minimum);
    fit.wq = choose(is_turned, other.wq, fit.wq);
    fit.wqq = choose(is_turned, other.wqq, fit.wqq);
    return sign;
  }
  TAMIS_INLINE static void turn(Block& block, const Lanes& sign) {
    for (int i = 0; i < Type::kLen; ++i) store_lanes(load_lanes(block.x + kGroups * i) * sign, block.x + kGroups * i);
  }

  TAMIS_INLINE static Lanes grid_scale(const Lanes& largest, float below_top) {
    constexpr auto kTop = static_cast<float>(Type::kScales);
    return as_stored(largest * (1.0f / (kTop + 0.4f - below_top)));
  }

  // The quadratic form of a group's error around its fit, for (s·d, m·dmin) with the best m for this s.
  TAMIS_INLINE static Lanes rounding_cost(const Fit& fit, const Lanes& w, const Lanes& slope, const Lanes& off_scale,
                                          const Lanes& dmin) {
    const Lanes wanted = (fit.minimum + slope * off_scale) * inverse_or_zero(dmin);
    const Lanes m = nearest_integer(clamped(wanted, 0.0f, static_cast<float>(Type::kScales)));
    const Lanes off_minimum = m * dmin - fit.minimum;
    const Lanes cross = fit.wq * off_minimum;
    return off_scale * (fit.wqq * off_scale - (cross + cross)) + w * off_minimum * off_minimum;
  }

  // Step 2.
  template <int kSteps, int kKept>
  TAMIS_INLINE static void best_pairs(const Fit& fit, const Sums& sums, float grid_step, Pair (&pairs)[kKept]) {
    const Lanes largest_scale = super_largest<Type::kSupers>(fit.scale);
    const Lanes largest_minimum = super_largest<Type::kSupers>(fit.minimum);
    const Lanes slope = fit.wq / sums.w;
    for (Pair& pair : pairs) pair = {0.0f, 0.0f, kWorst};
    for (int u = 0; u < kSteps; ++u) {
      const Lanes d = grid_scale(largest_scale, grid_step * static_cast<float>(u));
      const Lanes real = clamped(fit.scale * inverse_or_zero(d), 0.0f, static_cast<float>(Type::kScales));
      const Lanes below = nearest_integer(real - 0.5f);
      const Lanes above = smaller(below + 1.0f, static_cast<float>(Type::kScales));
      const Lanes off_below = below * d - fit.scale;
      const Lanes off_above = above * d - fit.scale;
      for (int v = 0; v < kSteps; ++v) {
        const Lanes dmin = grid_scale(largest_minimum, grid_step * static_cast<float>(v));
        const Lanes cost = smaller(rounding_cost(fit, sums.w, slope, off_below, dmin),
                                   rounding_cost(fit, sums.w, slope, off_above, dmin));
        insert({d, dmin, super_sum<Type::kSupers>(cost)}, pairs);
      }
    }
  }
  template <int kKept>
  TAMIS_INLINE static void insert(Pair pair, Pair (&pairs)[kKept]) {
    for (Pair& kept : pairs) {
      const LaneBits is_less = pair.cost < kept.cost;
      const Pair old = kept;
      kept = {choose(is_less, pair.d, old.d), choose(is_less, pair.dmin, old.dmin),
              choose(is_less, pair.cost, old.cost)};
      pair = {choose(is_less, old.d, pair.d), choose(is_less, old.dmin, pair.dmin),
              choose(is_less, old.cost, pair.cost)};
    }
  }

  // The true errors of one scale with several minima, codes rounded to each.
  TAMIS_INLINE static void true_errors(const Block& block, const Lanes& scale, const Lanes (&minima)[Type::kMinima],
                                       Lanes (&errors)[Type::kMinima]) {
    const Lanes inverse = inverse_or_zero(scale);
    for (Lanes& error : errors) error = 0.0f;
    for (int i = 0; i < Type::kLen; ++i) {
      const Lanes x = load_lanes(block.x + kGroups * i);
      const Lanes w = load_lanes(block.weight + kGroups * i);
      for (int k = 0; k < Type::kMinima; ++k) {
        const Lanes shifted = x + minima[k];
        const Lanes off = shifted - scale * nearest_codes(shifted * inverse);
        errors[k] = errors[k] + w * off * off;
      }
    }
  }

  // Step 3: the integers of least true error near `center`, for the state's d and dmin.
  TAMIS_INLINE static void best_integers(const Block& block, const Center& center, State& state) {
    constexpr auto kTop = static_cast<float>(Type::kScales);
    const Lanes s0 = nearest_integer(clamped(center.scale * inverse_or_zero(state.d), 0.0f, kTop));
    const Lanes per_dmin = inverse_or_zero(state.dmin);
    state.error = kWorst;
    for (int step = -Type::kRadius; step <= Type::kRadius; ++step) {
      const Lanes s = clamped(s0 + static_cast<float>(step), 0.0f, kTop);
      const Lanes scale = s * state.d;
      const Lanes wanted = (center.minimum + center.slope * (scale - center.scale)) * per_dmin;
      Lanes m[Type::kMinima], minima[Type::kMinima], errors[Type::kMinima];
      for (int k = 0; k < Type::kMinima; ++k) {
        const float off = static_cast<float>(k) - 0.5f * static_cast<float>(Type::kMinima - 1);
        m[k] = nearest_integer(clamped(wanted + off, 0.0f, kTop));
        minima[k] = m[k] * state.dmin;
      }
      true_errors(block, scale, minima, errors);
      for (int k = 0; k < Type::kMinima; ++k) {
        const LaneBits is_less = errors[k] < state.error;
        state.scale = choose(is_less, s, state.scale);
        state.minimum = choose(is_less, m[k], state.minimum);
        state.error = choose(is_less, errors[k], state.error);
      }
    }
  }

  TAMIS_INLINE static void keep_better(const State& state, const Lanes& total, State& best) {
    const LaneBits is_less = total < best.error;
    best.d = choose(is_less, state.d, best.d);
    best.dmin = choose(is_less, state.dmin, best.dmin);
    best.scale = choose(is_less, state.scale, best.scale);
    best.minimum = choose(is_less, state.minimum, best.minimum);
    best.error = choose(is_less, total, best.error);
  }

  // Step 4: the state's d and dmin of least error for its codes and integers; each group's own fit to these codes.
  TAMIS_INLINE static Center refit(const Block& block, const Sums& sums, State& state) {
    const CodeSums codes = code_sums(block, inverse_or_zero(state.d * state.scale), state.dmin * state.minimum);
    const Lanes a = super_sum<Type::kSupers>(codes.wqq * state.scale * state.scale);
    const Lanes b = super_sum<Type::kSupers>(codes.wq * state.scale * state.minimum);
    const Lanes c = super_sum<Type::kSupers>(sums.w * state.minimum * state.minimum);
    const Lanes p = super_sum<Type::kSupers>(codes.wxq * state.scale);
    const Lanes r = super_sum<Type::kSupers>(sums.wx * state.minimum);
    const Lanes det = a * c - b * b;
    const LaneBits is_solved = 1e-6f * a * c < det;
    const Lanes per_det = inverse_or_zero(det);
    const Lanes d = choose(is_solved, (c * p - b * r) * per_det, p * inverse_or_zero(a));
    const Lanes dmin = choose(is_solved, (b * p - a * r) * per_det, 0.0f);
    const LaneBits is_usable = 0.0f < d;
    state.d = choose(is_usable, as_stored(d), state.d);
    state.dmin = choose(is_usable, as_stored(dmin), state.dmin);
    const Fit fit = least_squares(codes, sums);
    return {fit.scale, fit.minimum, codes.wq / sums.w};
  }

  TAMIS_INLINE static void finish(const Block& block, bool is_unbiased, const State& state, const Lanes& sign,
                                  AffineGroups<Type::kLen>& out) {
    const Lanes scale = state.d * state.scale;
    const Lanes minimum = state.dmin * state.minimum;
    const Lanes inverse = inverse_or_zero(scale);
    Lanes wxx{}, wxy{};
    for (int i = 0; i < Type::kLen; ++i) {
      const Lanes x = load_lanes(block.x + kGroups * i);
      const Lanes q = nearest_codes((x + minimum) * inverse);
      store_lanes(q, out.codes + kGroups * i);
      const Lanes wx = load_lanes(block.weight + kGroups * i) * x;
      wxx = wxx + wx * x;
      wxy = wxy + wx * (scale * q - minimum);
    }
    const Lanes factor = is_unbiased ? unbiased_factor<Type::kSupers>(wxx, wxy) : 1.0f;
    store_lanes(sign * as_stored(state.d * factor), out.d);
    store_lanes(sign * as_stored(state.dmin * factor), out.dmin);
    store_lanes(state.scale, out.scale);
    store_lanes(state.minimum, out.minimum);
  }
};

// The encoded super-block's numbers, one at a time: group g of the super-block whose lanes begin at first_lane.
template <int kLen>
struct AffineSuper {
  const AffineGroups<kLen>& groups;
  int first_lane;

  uint16_t d() const { return f32_to_f16(groups.d[first_lane]); }
  uint16_t dmin() const { return f32_to_f16(groups.dmin[first_lane]); }
  uint8_t scale(int g) const { return static_cast<uint8_t>(groups.scale[first_lane + g]); }
  uint8_t minimum(int g) const { return static_cast<uint8_t>(groups.minimum[first_lane + g]); }
  uint8_t code(int g, int i) const { return static_cast<uint8_t>(groups.codes[kGroups * i + first_lane + g]); }
};

// Encodes a row, two super-blocks at a time where groups have 32 values. Type::pack(AffineSuper, Type::Block&) stores
// one.
template <class Type>
TAMIS_INLINE void encode_affine_row(const float* row, const float* importance, std::byte* blocks, size_t n_blocks) {
  using Block = typename Type::Block;
  for (size_t first = 0; first < n_blocks; first += Type::kSupers) {
    GroupBlock<Type::kLen> group_block;
    for (size_t s = 0; s < Type::kSupers; ++s) {
      const size_t at = (first + s < n_blocks ? first + s : n_blocks - 1) * kSuperLen;
      load_super_block(row + at, importance == nullptr ? nullptr : importance + at, Type::kWeights,
                       static_cast<int>(8 * s), group_block);
    }
    AffineGroups<Type::kLen> groups;
    KAffineSearch<Type>::run(group_block, Type::kIsUnbiased, groups);
    for (size_t s = 0; s < Type::kSupers && first + s < n_blocks; ++s) {
      Block block{};
      Type::pack(AffineSuper<Type::kLen>{groups, static_cast<int>(8 * s)}, block);
      std::memcpy(blocks + (first + s) * sizeof(Block), &block, sizeof(Block));
    }
  }
}

}  // namespace tamis
