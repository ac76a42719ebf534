// The levels −1, 0, 1 of TQ1_0 and TQ2_0 as the scale search sees them.
#pragma once

#include "quants/scale_search.h"

namespace tamis {

struct TernaryLevels {
  // From every value but 0 kept to the largest alone.
  static constexpr float kTrials[] = {0.8f,   0.868f, 0.9418f, 1.022f, 1.109f, 1.203f, 1.305f, 1.416f, 1.536f, 1.667f,
                                      1.809f, 1.963f, 2.129f,  2.31f,  2.507f, 2.72f,  2.951f, 3.202f, 3.474f, 3.769f,
                                      4.09f,  4.437f, 4.814f,  5.224f, 5.668f, 6.149f, 6.672f, 7.239f, 7.855f, 8.522f,
                                      9.247f, 10.03f, 10.89f,  11.81f, 12.81f, 13.9f,  15.09f, 16.37f, 17.76f, 19.27f,
                                      20.91f, 22.68f, 24.61f,  26.7f,  28.97f, 31.44f, 34.11f, 37.01f};
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
