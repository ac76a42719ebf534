// The levels −1, 0, 1 of TQ1_0 and TQ2_0 as the scale search sees them.
#pragma once

#include "quants/scale_search.h"

namespace tamis {

struct TernaryLevels {
  // From every value but 0 kept to the largest alone.
  static constexpr float kTrials[] = {0.7829f, 0.8495f, 0.9217f, 1.0f,   1.085f, 1.177f, 1.277f, 1.386f, 1.504f, 1.631f,
                                      1.77f,   1.921f,  2.084f,  2.261f, 2.453f, 2.662f, 2.888f, 3.133f, 3.4f,   3.689f,
                                      4.002f,  4.342f,  4.712f,  5.112f, 5.547f, 6.018f, 6.53f,  7.085f, 7.687f, 8.34f,
                                      9.049f,  9.818f,  10.65f,  11.56f, 12.54f, 13.61f, 14.76f, 16.02f, 17.38f, 18.86f,
                                      20.46f,  22.2f,   24.09f,  26.13f, 28.35f, 30.76f, 33.38f, 36.22f};
  static constexpr float kNear = 0.085f;
  TAMIS_INLINE static Lanes nearest(const Lanes& v) { return nearest_integer(clamped(v, -1.0f, 1.0f)); }
};

// The exponent is that of quantization-measured.md for few levels; without importance every value counts alike.
inline constexpr WeightRule kTernaryRule{WeightExponent::quarter, NoImportance::even};

// The levels of 256 values and their scale, a positive f16 that keeps the block's weighted energy.
TAMIS_INLINE uint16_t ternary_block(const float* x, const float* w, float* levels) {
  const ScaleSearch<TernaryLevels, 256> search{x, w};
  const float d = std::fabs(f16_to_f32(search.best_scale()));
  search.levels(d, levels);
  return search.unbiased(d, levels);
}

}  // namespace tamis
