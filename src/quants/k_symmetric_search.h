// The search of K-quants without minima: x ≈ d·s·q, codes q of −kCodes … kCodes − 1 and an integer s of −kScales …
// kScales − 1 for each of sixteen groups, f16 d for the super-block. In three steps, for all groups at once:
//
//   1. each group alone: trial scales that put its largest magnitude near either end of the codes, inside or beyond.
//      The codes that each rounds to are best at one real scale, and their error is a parabola around it;
//   2. values of d from the largest of the groups' best scales / kScales upward, signed so that it may be −kScales. For
//      each d, all trials of a group are judged at their nearest integer by the parabolas alone; the best few d stay;
//   3. for these, integers around the ones found, judged by the true error with codes rounded anew; then once more
//      after d was refitted in closed form and rounded to f16.
//
// No result is worse than the textbook's d and integers. Type says: Block, pack, kWeights, kIsUnbiased, kCodes, kScales
// and the effort: kTrials, kFirstTrial and kTrialStep (levels beyond kCodes that the largest magnitude takes), kSteps
// values of d, kStep of scale between them, kKept of them, kRadius (integers tried to either side), kRounds of refits.
#pragma once

#include <cstring>

#include "quants/k_search.h"

namespace tamis {

inline constexpr int kSymmetricLen = 16;  // values a group

struct SymmetricGroups {
  float d;
  float scale[kGroups];
  float codes[kSymmetricLen * kGroups];  // [value][group]
};

template <class Type>
class KSymmetricSearch {
 public:
  using Block = GroupBlock<kSymmetricLen>;

  TAMIS_INLINE static void run(const Block& block, bool is_unbiased, SymmetricGroups& out) {
    constexpr auto kLevels = static_cast<float>(Type::kScales);
    const Lanes extreme = extremes(block);
    const Lanes textbook = extreme * (-1.0f / static_cast<float>(Type::kCodes));
    State best{super_scale(textbook, kLevels), {}, kWorst};
    sweep<0>(block, nearest_integer(clamped_scale(textbook * inverse_or_zero(best.d))), best);
    best.error = super_sum<1>(best.error);
    Fits fits;
    State starts[Type::kKept];
    best_starts(fits, fit_groups(block, extreme, fits), starts);
    for (State& state : starts) {
      for (int round = 0; round <= Type::kRounds; ++round) {
        if (round > 0) state.d = refit(block, state);
        state.error = kWorst;
        sweep<Type::kRadius>(block, state.scale, state);
        keep_better(state, best);
      }
    }
    finish(block, is_unbiased, best, out);
  }

 private:
  static constexpr float kWorst = 3e38f;

  struct State {
    Lanes d, scale, error;  // error: the group's while it is searched, the super-block's in the best
  };
  struct Fit {
    Lanes scale, gain, wqq;
  };

  // The stored d of which the largest scale is `levels` times the size, with the other sign.
  TAMIS_INLINE static Lanes super_scale(const Lanes& scales, float levels) {
    const Lanes magnitude = larger(scales, -scales);
    const Lanes largest = super_largest<1>(magnitude);
    const Lanes top = super_largest<1>(choose(magnitude == largest, scales, -kWorst));
    const Lanes sign = choose(0.0f < top, -1.0f, 1.0f);
    return sign * as_stored(largest * (1.0f / levels));
  }

  TAMIS_INLINE static Lanes nearest_codes(const Lanes& value) {
    constexpr auto kEnd = static_cast<float>(Type::kCodes);
    return nearest_integer(clamped(value, -kEnd, kEnd - 1.0f));
  }
  TAMIS_INLINE static Lanes clamped_scale(const Lanes& value) {
    constexpr auto kEnd = static_cast<float>(Type::kScales);
    return clamped(value, -kEnd, kEnd - 1.0f);
  }

  // The best scale for the codes that x·inverse rounds to, and how much less its error is than Σwxx.
  TAMIS_INLINE static Fit fit_of(const Block& block, const Lanes& inverse) {
    Lanes wxq{}, wqq{};
    for (int i = 0; i < kSymmetricLen; ++i) {
      const Lanes x = load_lanes(block.x + kGroups * i);
      const Lanes q = nearest_codes(x * inverse);
      const Lanes wq = load_lanes(block.weight + kGroups * i) * q;
      wxq = wxq + wq * x;
      wqq = wqq + wq * q;
    }
    const Lanes scale = wxq * inverse_or_zero(wqq);
    return {scale, wxq * scale, wqq};
  }

  // The values of largest magnitude.
  TAMIS_INLINE static Lanes extremes(const Block& block) {
    Lanes extreme = 0.0f;
    for (int i = 0; i < kSymmetricLen; ++i) {
      const Lanes x = load_lanes(block.x + kGroups * i);
      extreme = choose(larger(extreme, -extreme) < larger(x, -x), x, extreme);
    }
    return extreme;
  }

  // Step 1: the trials' fits; returns each group's best scale.
  using Fits = Fit[2 * Type::kTrials];
  TAMIS_INLINE static Lanes fit_groups(const Block& block, const Lanes& extreme, Fits& fits) {
    const Lanes per_extreme = inverse_or_zero(extreme);
    Fit best{0.0f, -kWorst, {}};
    for (int t = 0; t < Type::kTrials; ++t) {
      const float off = Type::kFirstTrial + Type::kTrialStep * static_cast<float>(Type::kTrials - 1 - t);
      fits[2 * t] = fit_of(block, per_extreme * -(static_cast<float>(Type::kCodes) + off));
      fits[2 * t + 1] = fit_of(block, per_extreme * (static_cast<float>(Type::kCodes) - 1.0f + off));
      keep_better(fits[2 * t], best);
      keep_better(fits[2 * t + 1], best);
    }
    return best.scale;
  }

  // Step 2: the d of least error if each group takes the codes of one of its fits, and the integers for these.
  TAMIS_INLINE static void best_starts(const Fits& fits, const Lanes& scales, State (&starts)[Type::kKept]) {
    for (State& start : starts) start = {0.0f, 0.0f, kWorst};
    for (int step = 0; step < Type::kSteps; ++step) {
      State state{super_scale(scales, static_cast<float>(Type::kScales) - Type::kStep * static_cast<float>(step)), 0.0f,
                  kWorst};
      const Lanes per_d = inverse_or_zero(state.d);
      for (const Fit& fit : fits) {
        const Lanes integer = nearest_integer(clamped_scale(fit.scale * per_d));
        const Lanes off = integer * state.d - fit.scale;
        const Lanes error = fit.wqq * off * off - fit.gain;
        state.scale = choose(error < state.error, integer, state.scale);
        state.error = smaller(error, state.error);
      }
      state.error = super_sum<1>(state.error);
      for (State& kept : starts) {
        const LaneBits is_less = state.error < kept.error;
        const State old = kept;
        kept = chosen(is_less, state, old);
        state = chosen(is_less, old, state);
      }
    }
  }
  TAMIS_INLINE static State chosen(const LaneBits& mask, const State& yes, const State& no) {
    return {choose(mask, yes.d, no.d), choose(mask, yes.scale, no.scale), choose(mask, yes.error, no.error)};
  }
  // Small scales come first and stay unless clearly beaten: an outlier alone in its group fits several, and a larger
  // one makes d too coarse for the other groups.
  TAMIS_INLINE static void keep_better(const Fit& fit, Fit& best) {
    const LaneBits is_better = best.gain * (1.0f + 0x1p-16f) < fit.gain;
    best.scale = choose(is_better, fit.scale, best.scale);
    best.gain = choose(is_better, fit.gain, best.gain);
  }

  // The true errors of several scales, codes rounded to each.
  template <int kN>
  TAMIS_INLINE static void true_errors(const Block& block, const Lanes (&scales)[kN], Lanes (&errors)[kN]) {
    Lanes inverses[kN];
    for (int k = 0; k < kN; ++k) {
      inverses[k] = inverse_or_zero(scales[k]);
      errors[k] = 0.0f;
    }
    for (int i = 0; i < kSymmetricLen; ++i) {
      const Lanes x = load_lanes(block.x + kGroups * i);
      const Lanes w = load_lanes(block.weight + kGroups * i);
      for (int k = 0; k < kN; ++k) {
        const Lanes off = x - scales[k] * nearest_codes(x * inverses[k]);
        errors[k] = errors[k] + w * off * off;
      }
    }
  }
  template <int kN>
  TAMIS_INLINE static void try_scales(const Block& block, const Lanes (&integers)[kN], State& state) {
    Lanes scales[kN], errors[kN];
    for (int k = 0; k < kN; ++k) scales[k] = integers[k] * state.d;
    true_errors<kN>(block, scales, errors);
    for (int k = 0; k < kN; ++k) {
      const LaneBits is_less = errors[k] < state.error;
      state.scale = choose(is_less, integers[k], state.scale);
      state.error = choose(is_less, errors[k], state.error);
    }
  }

  // The best integer within kRadius of `center`, if it beats the state's.
  template <int kRadius>
  TAMIS_INLINE static void sweep(const Block& block, const Lanes& center, State& state) {
    const Lanes only[1] = {center};
    try_scales<1>(block, only, state);
    for (int off = 1; off <= kRadius; ++off) {
      const Lanes step = static_cast<float>(off);
      const Lanes both[2] = {clamped_scale(center - step), clamped_scale(center + step)};
      try_scales<2>(block, both, state);
    }
  }

  TAMIS_INLINE static void keep_better(const State& state, State& best) {
    const Lanes total = super_sum<1>(state.error);
    const LaneBits is_less = total < best.error;
    best.d = choose(is_less, state.d, best.d);
    best.scale = choose(is_less, state.scale, best.scale);
    best.error = choose(is_less, total, best.error);
  }

  // Step 3: the stored d of least error for the state's codes and integers.
  TAMIS_INLINE static Lanes refit(const Block& block, const State& state) {
    const Fit fit = fit_of(block, inverse_or_zero(state.d * state.scale));
    const Lanes square = super_sum<1>(fit.wqq * state.scale * state.scale);
    const Lanes product = super_sum<1>(fit.scale * fit.wqq * state.scale);
    return stored_with_sign(product * inverse_or_zero(square));
  }
  TAMIS_INLINE static Lanes stored_with_sign(const Lanes& d) {
    const Lanes stored = as_stored(larger(d, -d));
    return choose(d < 0.0f, -stored, stored);
  }

  TAMIS_INLINE static void finish(const Block& block, bool is_unbiased, const State& state, SymmetricGroups& out) {
    const Lanes scale = state.d * state.scale;
    const Lanes inverse = inverse_or_zero(scale);
    Lanes wxx{}, wxy{};
    for (int i = 0; i < kSymmetricLen; ++i) {
      const Lanes x = load_lanes(block.x + kGroups * i);
      const Lanes q = nearest_codes(x * inverse);
      store_lanes(q, out.codes + kGroups * i);
      const Lanes wx = load_lanes(block.weight + kGroups * i) * x;
      wxx = wxx + wx * x;
      wxy = wxy + wx * scale * q;
    }
    const Lanes factor = is_unbiased ? unbiased_factor<1>(wxx, wxy) : 1.0f;
    const Lanes d = stored_with_sign(state.d * factor);
    out.d = d.low[0];
    store_lanes(state.scale, out.scale);
  }
};

// The encoded super-block's numbers, one at a time.
struct SymmetricSuper {
  const SymmetricGroups& groups;

  uint16_t d() const { return f32_to_f16(groups.d); }
  int scale(int g) const { return static_cast<int>(groups.scale[g]); }
  int code(int g, int i) const { return static_cast<int>(groups.codes[kGroups * i + g]); }
};

// Encodes a row; Type::pack(SymmetricSuper, Type::Block&) stores a super-block.
template <class Type>
TAMIS_INLINE void encode_symmetric_row(const float* row, const float* importance, std::byte* blocks, size_t n_blocks) {
  using Block = typename Type::Block;
  for (size_t i = 0; i < n_blocks; ++i) {
    GroupBlock<kSymmetricLen> group_block;
    load_super_block(row + i * kSuperLen, importance == nullptr ? nullptr : importance + i * kSuperLen, Type::kWeights,
                     0, group_block);
    SymmetricGroups groups;
    KSymmetricSearch<Type>::run(group_block, Type::kIsUnbiased, groups);
    Block block{};
    Type::pack(SymmetricSuper{groups}, block);
    std::memcpy(blocks + i * sizeof(Block), &block, sizeof(Block));
  }
}

}  // namespace tamis
