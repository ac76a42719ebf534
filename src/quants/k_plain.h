// The textbook encoders of K-quants: each group's own range in equal steps, the groups' scales (and minima) rounded to
// integers of the largest one, codes rounded to nearest. No search: k_affine_search.h and k_symmetric_search.h do
// better. Results have the same face as theirs, so that one function packs both: pack_super_block().
#pragma once

#include <algorithm>

#include "quants/block.h"

namespace tamis {

// The nearest of 0 … max (half away from zero); NaN gives 0.
inline uint8_t nearest_code(float value, float max) {
  if (!(value > 0.0f)) return 0;
  return static_cast<uint8_t>(std::min(value, max) + 0.5f);
}

// The nearest of −count … count − 1 (half away from zero); NaN gives 0.
inline int nearest_signed_code(float value, float count) {
  const float magnitude = std::floor(std::min(std::fabs(value), 2.0f * count) + 0.5f);
  if (!(magnitude > 0.0f)) return 0;
  return static_cast<int>(std::clamp(std::copysign(magnitude, value), -count, count - 1.0f));
}

// The f16 nearest to a scale; 65504 where it is larger, 0 for NaN: no scale of ours is infinite.
inline uint16_t finite_f16(float scale) {
  return f32_to_f16(scale == scale ? std::clamp(scale, -65504.0f, 65504.0f) : 0.0f);
}

// x ≈ d·scale·q − dmin·minimum, groups of kLen values, codes 0 … kCodes, integers 0 … kScales.
template <int kLen, int kCodes, int kScales>
class PlainAffine {
 public:
  explicit PlainAffine(const float* values) {
    float steps[kCount], offsets[kCount];
    for (int g = 0; g < kCount; ++g) {
      const MinMax range = min_max(values + kLen * g, kLen);
      offsets[g] = std::max(0.0f, -range.min);
      steps[g] = std::max(0.0f, range.max + offsets[g]) / static_cast<float>(kCodes);
    }
    d_ = finite_f16(*std::max_element(steps, steps + kCount) / static_cast<float>(kScales));
    dmin_ = finite_f16(*std::max_element(offsets, offsets + kCount) / static_cast<float>(kScales));
    const float stored_d = f16_to_f32(d_);
    const float stored_dmin = f16_to_f32(dmin_);
    for (int g = 0; g < kCount; ++g) {
      scales_[g] = nearest_code(steps[g] * inverse_scale(stored_d), static_cast<float>(kScales));
      minima_[g] = nearest_code(offsets[g] * inverse_scale(stored_dmin), static_cast<float>(kScales));
      const float inverse = inverse_scale(stored_d * static_cast<float>(scales_[g]));
      const float offset = stored_dmin * static_cast<float>(minima_[g]);
      for (int i = 0; i < kLen; ++i)
        codes_[kLen * g + i] = nearest_code((values[kLen * g + i] + offset) * inverse, static_cast<float>(kCodes));
    }
  }

  uint16_t d() const { return d_; }
  uint16_t dmin() const { return dmin_; }
  uint8_t scale(int g) const { return scales_[g]; }
  uint8_t minimum(int g) const { return minima_[g]; }
  uint8_t code(int g, int i) const { return codes_[kLen * g + i]; }

 private:
  static constexpr int kCount = 256 / kLen;
  uint16_t d_, dmin_;
  uint8_t scales_[kCount], minima_[kCount], codes_[256];
};

// x ≈ d·scale·q, sixteen groups of 16, codes −kCodes … kCodes − 1, integers −kScales … kScales − 1. The value of
// largest magnitude is code −kCodes, the scale of largest magnitude −kScales.
template <int kCodes, int kScales>
class PlainSymmetric {
 public:
  explicit PlainSymmetric(const float* values) {
    float scales[16];
    for (int g = 0; g < 16; ++g) {
      scales[g] = signed_extreme(values + 16 * g, 16) / static_cast<float>(-kCodes);
      if (!(scales[g] == scales[g])) scales[g] = 0.0f;
    }
    d_ = finite_f16(signed_extreme(scales, 16) / static_cast<float>(-kScales));
    const float stored_d = f16_to_f32(d_);
    for (int g = 0; g < 16; ++g) {
      scales_[g] = nearest_signed_code(scales[g] * inverse_scale(stored_d), static_cast<float>(kScales));
      const float inverse = inverse_scale(stored_d * static_cast<float>(scales_[g]));
      for (int i = 0; i < 16; ++i)
        codes_[16 * g + i] = nearest_signed_code(values[16 * g + i] * inverse, static_cast<float>(kCodes));
    }
  }

  uint16_t d() const { return d_; }
  int scale(int g) const { return scales_[g]; }
  int code(int g, int i) const { return codes_[16 * g + i]; }

 private:
  uint16_t d_;
  int scales_[16], codes_[256];
};

// A super-block found by either, stored: scales, minima where the type has them, codes (signed ones from the middle
// on).
template <class Super, class Block>
void pack_super_block(const Super& super, Block& block) {
  constexpr bool kHasMinima = requires { block.dmin; };
  constexpr int kLen = Block::kGroupLen, kZero = kHasMinima ? 0 : Block::kCodes / 2;
  BlockScales scales;
  uint8_t codes[Block::kLen];
  for (int g = 0; g < static_cast<int>(Block::kLen) / kLen; ++g) {
    scales.scale[g] = super.scale(g);
    if constexpr (kHasMinima) scales.minimum[g] = super.minimum(g);
    for (int i = 0; i < kLen; ++i) codes[kLen * g + i] = static_cast<uint8_t>(super.code(g, i) + kZero);
  }
  put_scales(scales, block);
  block.d = super.d();
  if constexpr (kHasMinima) block.dmin = super.dmin();
  put_codes(codes, block);
}

}  // namespace tamis
