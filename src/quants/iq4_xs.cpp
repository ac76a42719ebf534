// Encoders of IQ4_XS; layout and source in iq4_xs.h.
#include "quants/iq4_xs.h"

#include <algorithm>
#include <cfloat>

#include "quants/iq4_levels.h"

namespace tamis {
namespace {

constexpr WeightRule kRule{WeightExponent::quarter, NoImportance::even};
constexpr size_t kGroups = 8;

// What one super-block's search works on: values, weights and each group's best scale by itself.
struct SuperBlock {
  float x[256];
  float w[256];
  float scale[kGroups];

  // Per lane Σ w (x − step · level)² of a group, each level the nearest.
  TAMIS_INLINE Lanes group_error(size_t group, const Lanes& step) const {
    const Lanes inverse = inverse_or_zero(step);
    Lanes error{};
    for (size_t j = 32 * group; j < 32 * group + 32; ++j) {
      const Lanes miss = x[j] - step * IQ4Levels::nearest(inverse * x[j]);
      error += miss * miss * w[j];
    }
    return error;
  }

  // The integer scales of each group that go best with d, one d a lane: of the nearest to scale / d and its two
  // neighbours. `scales`: kGroups lane vectors of whole numbers. Returns the error.
  TAMIS_INLINE Lanes best_scales(const Lanes& d, Lanes* scales) const {
    const Lanes inverse = inverse_or_zero(d);
    Lanes total{};
    for (size_t group = 0; group < kGroups; ++group) {
      const Lanes nearest = nearest_integer(clamped(inverse * scale[group], -31.0f, 30.0f));
      Lanes least = FLT_MAX;
      for (float move = -1.0f; move <= 1.0f; move += 1.0f) {
        const Lanes error = group_error(group, d * (nearest + move));
        scales[group] = choose(error < least, nearest + move, scales[group]);
        least = smaller(error, least);
      }
      total += least;
    }
    return total;
  }

  struct Sums {
    float xx, xq, qq;  // Σ w of x², x·s·level and (s·level)²
  };
  TAMIS_INLINE Sums sums(float d, const float* scales) const {
    Lanes xx{};
    Lanes xq{};
    Lanes qq{};
    for (size_t j = 0; j < 256; j += kLanes) {
      const float step = d * scales[j / 32];
      const float inverse = step == 0.0f ? 0.0f : 1.0f / step;
      const Lanes q = IQ4Levels::nearest(load_lanes(x + j) * inverse) * scales[j / 32];
      const Lanes wx = load_lanes(w + j) * load_lanes(x + j);
      xx += wx * load_lanes(x + j);
      xq += wx * q;
      qq += load_lanes(w + j) * q * q;
    }
    return {sum_of_lanes(xx), sum_of_lanes(xq), sum_of_lanes(qq)};
  }
};

// Trial d: the largest scale is this many of it.
constexpr float kLargestScale[kLanes] = {-32.4f, -31.8f, -31.2f, -30.5f, -29.8f, -29.0f, -28.0f, -26.8f,
                                         31.4f,  30.8f,  30.2f,  29.5f,  28.8f,  28.0f,  27.0f,  25.8f};

// d and scales of least error: sixteen trials of d, the winner refitted to its codes, then the f16 around it.
TAMIS_INLINE float best_super_scale(const SuperBlock& super, float* scales) {
  float extreme = 0;
  for (const float scale : super.scale)
    if (std::fabs(scale) > std::fabs(extreme)) extreme = scale;
  std::fill(scales, scales + kGroups, 0.0f);
  if (std::fabs(extreme) < 0x1p-60f) return 0;  // far below what an f16 times 32 · 127 holds
  Lanes d = extreme / load_lanes(kLargestScale);
  for (int pass = 0;; ++pass) {
    Lanes trial[kGroups];
    const size_t lane = largest_lane(-super.best_scales(d, trial));
    for (size_t group = 0; group < kGroups; ++group) scales[group] = trial[group][lane];
    if (pass == 1) return d[lane];
    const auto sums = super.sums(d[lane], scales);
    d = f16_around(finite_f16(sums.qq > 0.0f ? sums.xq / sums.qq : d[lane]));
  }
}

}  // namespace

void encode_block(const float* values, BlockIQ4XS& block) {
  float scale[kGroups];
  for (size_t group = 0; group < kGroups; ++group) scale[group] = signed_extreme(values + 32 * group, 32) / -127.0f;
  BlockScales stored{f16_to_f32(f32_to_f16(signed_extreme(scale, kGroups) / -32.0f))};
  const float d = stored.d;
  const float inverse = inverse_scale(d);
  for (size_t group = 0; group < kGroups; ++group) {
    const float ratio = scale[group] * inverse;
    const float number = ratio == ratio ? ratio : 0.0f;
    stored.scale[group] = static_cast<int>(std::nearbyint(std::clamp(number, -32.0f, 31.0f)));
    const float step = inverse_scale(d * static_cast<float>(stored.scale[group]));
    for (size_t j = 0; j < 16; ++j) {
      const float* x = values + 32 * group + j;
      block.qs[16 * group + j] =
          static_cast<uint8_t>(iq4_nearest_code(x[0] * step) | iq4_nearest_code(x[16] * step) << 4);
    }
  }
  put_scales(stored, block);
}

TAMIS_WIDE void encode_iq4_xs(const float* row, const float* importance, std::byte* blocks, size_t n_blocks) {
  for (size_t i = 0; i < n_blocks; ++i) {
    SuperBlock super;
    searchable(row + 256 * i, 256, super.x);
    value_weights(super.x, importance == nullptr ? nullptr : importance + 256 * i, 256, mean_square(super.x, 256),
                  kRule, super.w);
    fill_unseen_groups(super.w, 256, 32);
    for (size_t group = 0; group < kGroups; ++group)
      super.scale[group] = ScaleSearch<IQ4Levels, 32>{super.x + 32 * group, super.w + 32 * group}.free_scale();
    BlockIQ4XS block;
    float scales[kGroups];
    const float d = best_super_scale(super, scales);
    // As ScaleSearch::unbiased, over the super-block.
    const auto sums = super.sums(d, scales);
    BlockScales stored{f16_to_f32(finite_f16(sums.xq * d > 0.0f ? sums.xx / sums.xq : d))};
    for (size_t group = 0; group < kGroups; ++group) {
      stored.scale[group] = static_cast<int>(scales[group]);
      const float* x = super.x + 32 * group;
      const float inverse = inverse_scale(d * scales[group]);
      pack_nibbles(IQ4Levels::code(load_lanes(x) * inverse), IQ4Levels::code(load_lanes(x + 16) * inverse),
                   block.qs + 16 * group);
    }
    put_scales(stored, block);
    std::memcpy(blocks + i * sizeof(block), &block, sizeof(block));
  }
}

}  // namespace tamis
