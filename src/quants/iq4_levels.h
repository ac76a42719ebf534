// The sixteen levels of IQ4_NL and IQ4_XS as the scale search sees them.
#pragma once

#include "quants/iq4_nl.h"
#include "quants/scale_search.h"

namespace tamis {

struct IQ4Levels {
  static constexpr float kTrials[] = {-90.0f,  -98.0f,  -104.0f, -109.0f, -113.0f, -117.0f, -121.0f, -124.0f,
                                      -127.0f, -130.0f, -134.0f, -139.0f, -146.0f, -156.0f, -175.0f, -230.0f,
                                      85.0f,   92.0f,   97.0f,   101.0f,  105.0f,  108.0f,  111.0f,  113.0f,
                                      116.0f,  119.0f,  123.0f,  128.0f,  135.0f,  146.0f,  165.0f,  220.0f};
  static constexpr float kNear = 0.035f;

  // The level nearest to v: the lowest plus the steps over every middle that v has passed. All are whole or half
  // numbers, so the sum is exact.
  TAMIS_INLINE static Lanes nearest(const Lanes& v) {
    Lanes level = static_cast<float>(iq4_value(0));
    for (int code = 1; code < 16; ++code)
      level += choose(v > middle(code), static_cast<float>(iq4_value(code) - iq4_value(code - 1)), 0.0f);
    return level;
  }
  // The code whose level is nearest to v.
  TAMIS_INLINE static Lanes code(const Lanes& v) {
    Lanes out{};
    for (int code = 1; code < 16; ++code) out += choose(v > middle(code), 1.0f, 0.0f);
    return out;
  }
  static constexpr float middle(int code) { return 0.5f * static_cast<float>(iq4_value(code - 1) + iq4_value(code)); }
};

// The same for one value, by the textbook encoders.
inline uint8_t iq4_nearest_code(float v) {
  int code = 0;
  while (code < 15 && v > IQ4Levels::middle(code + 1)) ++code;
  return static_cast<uint8_t>(code);
}

}  // namespace tamis
