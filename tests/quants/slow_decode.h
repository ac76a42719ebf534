// Every block type once more, as slow scalar definitions that share no code with src/quants (the grids, which are data,
// excepted): the oracle of the unit tests and of the fuzz target. Written from the layouts, one weight at a time, by
// bit numbers.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/dtype.h"
#include "quants/iq_grids.h"

namespace tamis::slow {

// Bits [first, first + n) of a little-endian bit string, n ≤ 32. Reads only the bytes that hold them.
inline uint32_t bits(const uint8_t* bytes, size_t first, int n) {
  const size_t end = first + static_cast<size_t>(n);
  uint64_t word = 0;
  for (size_t at = first / 8; 8 * at < end; ++at) word |= uint64_t{bytes[at]} << (8 * (at - first / 8));
  return static_cast<uint32_t>((word >> (first % 8)) & ((uint64_t{1} << n) - 1));
}

// A number of `n_exponent` and `n_mantissa` bits and a sign above them, by arithmetic.
inline double small_float(uint32_t code, int n_exponent, int n_mantissa, int bias) {
  const uint32_t mantissa = code & ((1u << n_mantissa) - 1);
  const uint32_t exponent = (code >> n_mantissa) & ((1u << n_exponent) - 1);
  const double sign = ((code >> (n_exponent + n_mantissa)) & 1) != 0 ? -1.0 : 1.0;
  const double fraction = std::ldexp(static_cast<double>(mantissa), -n_mantissa);
  if (exponent == (1u << n_exponent) - 1)
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias);
  return sign * std::ldexp(1.0 + fraction, static_cast<int>(exponent) - bias);
}

inline float half(const uint8_t* at) { return static_cast<float>(small_float(bits(at, 0, 16), 5, 10, 15)); }

// Scale (which = 0) or minimum (which = 1) of group g in Q4_K's and Q5_K's twelve bytes.
inline float k_field(const uint8_t* p, int g, int which) {
  const size_t base = 32u * static_cast<size_t>(which);
  if (g < 4) return static_cast<float>(bits(p, base + 8u * static_cast<size_t>(g), 6));
  const uint32_t low = bits(p, 64u + 8u * static_cast<size_t>(g - 4) + 4u * static_cast<size_t>(which), 4);
  const uint32_t high = bits(p, base + 8u * static_cast<size_t>(g - 4) + 6u, 2);
  return static_cast<float>(low + 16 * high);
}

inline float e2m1(uint32_t code) {  // without its sign
  constexpr float kValues[] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
  return kValues[code & 7];
}

inline float ue4m3(uint8_t code) {
  if ((code & 127) == 127)
    return code == 127 ? 0.0f : 480.0f;  // 480: what E4M3's other NaN code is in ggml's arithmetic
  if (((code >> 3) & 15) == 15) return static_cast<float>((1.0 + (code & 7) / 8.0) * 256.0);
  return static_cast<float>(small_float(code & 127u, 4, 3, 7));
}

inline float iq4(uint32_t code) {
  constexpr int kValues[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  return static_cast<float>(kValues[code]);
}

// Sign s of eight from seven stored bits: s < 7 is stored, s = 7 makes their number even.
inline bool negative(uint32_t seven, size_t s) {
  if (s < 7) return ((seven >> s) & 1) != 0;
  int count = 0;
  for (int i = 0; i < 7; ++i) count += static_cast<int>((seven >> i) & 1);
  return count % 2 == 1;
}

inline float grid_byte(uint64_t point, size_t j) {
  uint8_t bytes[8];
  std::memcpy(bytes, &point, 8);
  return static_cast<float>(bytes[j]);
}

inline float signed_value(float value, bool is_negative) { return is_negative ? -value : value; }

// Base-3 digit n of a byte, by long division of byte/256.
inline int trit(uint8_t byte, int n) {
  double fraction = byte / 256.0;
  int digit = 0;
  for (int i = 0; i <= n; ++i) {
    fraction *= 3.0;
    digit = static_cast<int>(fraction);
    fraction -= digit;
  }
  return digit - 1;
}

// Weight i of the block at p.
inline float weight(DType dtype, const uint8_t* p, size_t i) {
  const int g32 = static_cast<int>(i / 32);
  const size_t g16 = i / 16, h128 = i / 128, in128 = i % 128, in32 = i % 32;
  const size_t nibble32 = 8 * (i % 16) + 4 * (i % 32 / 16);               // nibble order j, j + 16
  const size_t nibble64 = 8 * (32 * (i / 64) + in32) + 4 * (i / 32 % 2);  // nibble order l, l + 32 in 64
  const size_t pair128 = 8 * (32 * h128 + in32) + 2 * (in128 / 32);       // pairs l, l + 32, l + 64, l + 96 in 128
  switch (dtype) {
    case DType::f32: {
      float value;
      std::memcpy(&value, p, 4);
      return value;
    }
    case DType::f64: {
      double value;
      std::memcpy(&value, p, 8);
      return static_cast<float>(value);
    }
    case DType::f16: return half(p);
    case DType::bf16: return static_cast<float>(small_float(bits(p, 0, 16), 8, 7, 127));
    case DType::i8: return static_cast<float>(static_cast<int8_t>(p[0]));
    case DType::i16: return static_cast<float>(static_cast<int16_t>(bits(p, 0, 16)));
    case DType::i32: return static_cast<float>(static_cast<int32_t>(bits(p, 0, 32)));
    case DType::i64: return static_cast<float>(static_cast<int64_t>(bits(p, 0, 32) | uint64_t{bits(p, 32, 32)} << 32));
    case DType::q1_0: return signed_value(half(p), bits(p + 2, i, 1) == 0);
    case DType::q2_0: return (static_cast<float>(bits(p + 2, 2 * i, 2)) - 1.0f) * half(p);
    case DType::q4_0: return (static_cast<float>(bits(p + 2, nibble32, 4)) - 8.0f) * half(p);
    case DType::q4_1: return static_cast<float>(bits(p + 4, nibble32, 4)) * half(p) + half(p + 2);
    case DType::q5_0: return (static_cast<float>(bits(p + 6, nibble32, 4) + 16 * bits(p + 2, i, 1)) - 16.0f) * half(p);
    case DType::q5_1:
      return static_cast<float>(bits(p + 8, nibble32, 4) + 16 * bits(p + 4, i, 1)) * half(p) + half(p + 2);
    case DType::q8_0: return half(p) * static_cast<float>(static_cast<int8_t>(p[2 + i]));
    case DType::q8_1: return half(p) * static_cast<float>(static_cast<int8_t>(p[4 + i]));
    case DType::q8_k: return weight(DType::f32, p, 0) * static_cast<float>(static_cast<int8_t>(p[4 + i]));
    case DType::q2_k:
      return half(p + 80) * static_cast<float>(p[g16] % 16) * static_cast<float>(bits(p + 16, pair128, 2)) -
             half(p + 82) * static_cast<float>(p[g16] / 16);
    case DType::q3_k: {
      const uint32_t low = bits(p + 96, 8 * (g16 % 8) + 4 * (g16 / 8), 4);
      const uint32_t high = bits(p + 104, 8 * (g16 % 4) + 2 * (g16 / 4), 2);
      const float scale = half(p + 108) * (static_cast<float>(low + 16 * high) - 32.0f);
      return scale * (static_cast<float>(bits(p + 32, pair128, 2) + 4 * bits(p, 8 * in32 + i / 32, 1)) - 4.0f);
    }
    case DType::q4_k:
      return half(p) * k_field(p + 4, g32, 0) * static_cast<float>(bits(p + 16, nibble64, 4)) -
             half(p + 2) * k_field(p + 4, g32, 1);
    case DType::q5_k:
      return half(p) * k_field(p + 4, g32, 0) *
                 static_cast<float>(bits(p + 48, nibble64, 4) + 16 * bits(p + 16, 8 * in32 + i / 32, 1)) -
             half(p + 2) * k_field(p + 4, g32, 1);
    case DType::q6_k: {
      const size_t k = in128 / 32;
      const uint32_t low = bits(p, 8 * (64 * h128 + 32 * (k % 2) + in32) + 4 * (k / 2), 4);
      const float scale = half(p + 208) * static_cast<float>(static_cast<int8_t>(p[192 + g16]));
      return scale * (static_cast<float>(low + 16 * bits(p + 128, pair128, 2)) - 32.0f);
    }
    case DType::iq4_nl: return half(p) * iq4(bits(p + 2, nibble32, 4));
    case DType::iq4_xs: {
      const uint32_t code =
          bits(p + 4, 4 * static_cast<size_t>(g32), 4) + 16 * bits(p + 2, 2 * static_cast<size_t>(g32), 2);
      return half(p) * (static_cast<float>(code) - 32.0f) * iq4(bits(p + 8 + 16 * g32, nibble32, 4));
    }
    case DType::mxfp4: {
      const uint32_t code = bits(p + 1, nibble32, 4);
      const float magnitude =
          std::ldexp(1.0f, p[0] - 128) * (2.0f * e2m1(code));  // half the scale, so that 2^128 need not fit
      return (code & 7) == 0 ? 0.0f : signed_value(magnitude, code >= 8);
    }
    case DType::nvfp4: {
      const uint32_t code = bits(p + 4 + 8 * g16, 8 * (i % 8) + 4 * (i % 16 / 8), 4);
      return (code & 7) == 0 ? 0.0f : signed_value(ue4m3(p[g16]) * e2m1(code), code >= 8);
    }
    case DType::tq1_0: {
      const int digit = i < 160   ? trit(p[i % 32], static_cast<int>(i / 32))
                        : i < 240 ? trit(p[32 + i % 16], static_cast<int>((i - 160) / 16))
                                  : trit(p[48 + i % 4], static_cast<int>((i - 240) / 4));
      return half(p + 52) * static_cast<float>(digit);
    }
    case DType::tq2_0: return half(p + 64) * (static_cast<float>(bits(p, pair128, 2)) - 1.0f);
    case DType::iq2_xxs: {
      const uint8_t* group = p + 2 + 8 * g32;
      const float scale = half(p) * (0.5f + static_cast<float>(bits(group, 60, 4))) * 0.25f;
      const size_t k = in32 / 8;
      return signed_value(scale * grid_byte(kGridIQ2XXS[group[k]], i % 8), negative(bits(group, 32 + 7 * k, 7), i % 8));
    }
    case DType::iq2_xs: {
      const float scale = half(p) * (0.5f + static_cast<float>(bits(p + 66, 4 * g16, 4))) * 0.25f;
      const uint8_t* code = p + 2 + 2 * (i / 8);
      return signed_value(scale * grid_byte(kGridIQ2XS[bits(code, 0, 9)], i % 8), negative(bits(code, 9, 7), i % 8));
    }
    case DType::iq2_s: {
      const float scale = half(p) * (0.5f + static_cast<float>(bits(p + 74, 4 * g16, 4))) * 0.25f;
      const uint32_t index = p[2 + i / 8] + 256 * bits(p + 66, 2 * (i / 8), 2);
      return signed_value(scale * grid_byte(kGridIQ2S[index], i % 8), bits(p + 34, i, 1) != 0);
    }
    case DType::iq3_xxs: {
      const uint8_t* packed = p + 66 + 4 * g32;
      const float scale = half(p) * (0.5f + static_cast<float>(bits(packed, 28, 4))) * 0.5f;
      return signed_value(scale * grid_byte(kGridIQ3XXS[p[2 + i / 4]], i % 4),
                          negative(bits(packed, 7 * (in32 / 8), 7), i % 8));
    }
    case DType::iq3_s: {
      const float scale = half(p) * (1.0f + 2.0f * static_cast<float>(bits(p + 106, 4 * static_cast<size_t>(g32), 4)));
      const uint32_t index = p[2 + i / 4] + 256 * bits(p + 66, i / 4, 1);
      return signed_value(scale * grid_byte(kGridIQ3S[index], i % 4), bits(p + 74, i, 1) != 0);
    }
    case DType::iq1_s: {
      const uint8_t* packed = p + 34 + 2 * g32;
      const float scale = half(p) * (2.0f * static_cast<float>(bits(packed, 12, 3)) + 1.0f);
      const uint32_t index = p[2 + i / 8] + 256 * bits(packed, 3 * (in32 / 8), 3);
      const float value = grid_byte(kGridIQ1[index], i % 8);
      return scale * ((value > 127.0f ? value - 256.0f : value) + (bits(packed, 15, 1) != 0 ? -0.125f : 0.125f));
    }
    case DType::iq1_m: {
      uint8_t d[2] = {static_cast<uint8_t>(bits(p + 48, 12, 4) + 16 * bits(p + 50, 12, 4)),
                      static_cast<uint8_t>(bits(p + 52, 12, 4) + 16 * bits(p + 54, 12, 4))};
      const float scale = half(d) * (2.0f * static_cast<float>(bits(p + 48 + 2 * (g16 / 4), 3 * (g16 % 4), 3)) + 1.0f);
      const uint32_t index = p[i / 8] + 256 * bits(p + 32, 4 * (i / 8), 3);
      const float value = grid_byte(kGridIQ1[index], i % 8);
      return scale *
             ((value > 127.0f ? value - 256.0f : value) + (bits(p + 32, 4 * (i / 8) + 3, 1) != 0 ? -0.125f : 0.125f));
    }
  }
  return std::numeric_limits<float>::quiet_NaN();
}

}  // namespace tamis::slow
