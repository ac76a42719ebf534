// E2M1 codes in lanes, and the search of MXFP4 and NVFP4 for a scale of least weighted error. Their scales are few
// (powers of two, eight steps an octave), so sixteen of them around the largest magnitude's are all tried.
#pragma once

#include "quants/importance.h"
#include "quants/lanes.h"
#include "quants/mxfp4.h"

namespace tamis {

// Twice the E2M1 value nearest to v / 2: steps of 1 up to 4, of 2 up to 8, then 12. The adder rounds to the step.
TAMIS_INLINE Lanes nearest_e2m1_doubled(const Lanes& v) {
  const Lanes size = smaller(magnitude(v), 12.0f);
  const Lanes by_1 = (size + 0x1.8p23f) - 0x1.8p23f;
  const Lanes by_2 = (size + 0x1.8p24f) - 0x1.8p24f;
  const Lanes by_4 = (size + 0x1.8p25f) - 0x1.8p25f;
  const Lanes level = choose(size < 4.0f, by_1, choose(size < 8.0f, by_2, by_4));
  return lanes_of(bits_of(level) | (bits_of(v) & static_cast<int32_t>(0x80000000u)));
}

// The code, 0 … 15, of a doubled E2M1 value. −0 is code 0.
TAMIS_INLINE Lanes e2m1_code(const Lanes& doubled) {
  const Lanes size = magnitude(doubled);
  const Lanes steps = smaller(size, 4.0f) + choose(size > 4.0f, 1.0f, 0.0f) + choose(size > 6.0f, 1.0f, 0.0f) +
                      choose(size > 8.0f, 1.0f, 0.0f);
  return steps + choose(doubled < 0.0f, 8.0f, 0.0f);
}

// Per lane Σ w (x − half_scale · level)² over n values, each level the nearest. `inverse` = 1 / half_scale or 0.
TAMIS_INLINE Lanes e2m1_error(const float* x, const float* w, size_t n, const Lanes& half_scale, const Lanes& inverse) {
  Lanes error{};
  for (size_t j = 0; j < n; ++j) {
    const Lanes miss = x[j] - half_scale * nearest_e2m1_doubled(inverse * x[j]);
    error += miss * miss * w[j];
  }
  return error;
}

}  // namespace tamis
