// Sixteen numbers side by side, for the searches of the fast encoders. A lane is one candidate scale of a block, or one
// group of a super-block, so that the sums that belong to it need no order of their own and every choice is made lane
// by lane. Written with the compilers' vector extension: one source, any machine, the same bits (every lane rounds as
// scalar code does; nothing is fused). What uses them is inlined into functions under TAMIS_WIDE (base/cpu_clones.h);
// lanes never cross a call that is not (-Wno-psabi is for that). Two halves of eight, because g++ takes vectors apart
// badly that are wider than the registers (measured: 9 times slower for AVX2 than these halves).
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/cpu_clones.h"

namespace tamis {

inline constexpr size_t kLanes = 16;
inline constexpr size_t kHalfLanes = 8;

using HalfLanes = float __attribute__((vector_size(32)));
using HalfBits = int32_t __attribute__((vector_size(32)));

struct Lanes {
  HalfLanes low, high;

  Lanes() = default;
  TAMIS_INLINE Lanes(float all) {
    const HalfLanes half = {all, all, all, all, all, all, all, all};  // named: g++ fills a member one by one
    low = half;
    high = half;
  }
  TAMIS_INLINE Lanes(const HalfLanes& low_, const HalfLanes& high_) : low(low_), high(high_) {}
  TAMIS_INLINE float operator[](size_t lane) const { return lane < kHalfLanes ? low[lane] : high[lane - kHalfLanes]; }
};

// Whole numbers; or, from a comparison, −1 where it holds and 0 elsewhere.
struct LaneBits {
  HalfBits low, high;

  LaneBits() = default;
  TAMIS_INLINE LaneBits(std::same_as<int32_t> auto all) {
    const HalfBits half = {all, all, all, all, all, all, all, all};
    low = half;
    high = half;
  }
  TAMIS_INLINE LaneBits(const HalfBits& low_, const HalfBits& high_) : low(low_), high(high_) {}
  TAMIS_INLINE int32_t operator[](size_t lane) const { return lane < kHalfLanes ? low[lane] : high[lane - kHalfLanes]; }
};

TAMIS_INLINE Lanes load_lanes(const float* from) {
  Lanes out;
  std::memcpy(&out, from, sizeof(out));
  return out;
}
TAMIS_INLINE void store_lanes(const Lanes& lanes, float* to) { std::memcpy(to, &lanes, sizeof(lanes)); }

TAMIS_INLINE Lanes operator+(const Lanes& a, const Lanes& b) { return {a.low + b.low, a.high + b.high}; }
TAMIS_INLINE Lanes operator-(const Lanes& a, const Lanes& b) { return {a.low - b.low, a.high - b.high}; }
TAMIS_INLINE Lanes operator*(const Lanes& a, const Lanes& b) { return {a.low * b.low, a.high * b.high}; }
TAMIS_INLINE Lanes operator/(const Lanes& a, const Lanes& b) { return {a.low / b.low, a.high / b.high}; }
TAMIS_INLINE Lanes operator-(const Lanes& a) { return {-a.low, -a.high}; }
TAMIS_INLINE Lanes& operator+=(Lanes& a, const Lanes& b) { return a = a + b; }
TAMIS_INLINE LaneBits operator<(const Lanes& a, const Lanes& b) { return {a.low < b.low, a.high < b.high}; }
TAMIS_INLINE LaneBits operator>(const Lanes& a, const Lanes& b) { return {a.low > b.low, a.high > b.high}; }
TAMIS_INLINE LaneBits operator==(const Lanes& a, const Lanes& b) { return {a.low == b.low, a.high == b.high}; }

TAMIS_INLINE LaneBits operator+(const LaneBits& a, const LaneBits& b) { return {a.low + b.low, a.high + b.high}; }
TAMIS_INLINE LaneBits operator-(const LaneBits& a, const LaneBits& b) { return {a.low - b.low, a.high - b.high}; }
TAMIS_INLINE LaneBits operator&(const LaneBits& a, const LaneBits& b) { return {a.low & b.low, a.high & b.high}; }
TAMIS_INLINE LaneBits operator|(const LaneBits& a, const LaneBits& b) { return {a.low | b.low, a.high | b.high}; }
TAMIS_INLINE LaneBits operator<<(const LaneBits& a, const LaneBits& b) { return {a.low << b.low, a.high << b.high}; }
TAMIS_INLINE LaneBits operator>>(const LaneBits& a, int n) { return {a.low >> n, a.high >> n}; }
TAMIS_INLINE LaneBits operator<(const LaneBits& a, const LaneBits& b) { return {a.low < b.low, a.high < b.high}; }
TAMIS_INLINE LaneBits operator==(const LaneBits& a, const LaneBits& b) { return {a.low == b.low, a.high == b.high}; }

TAMIS_INLINE Lanes choose(const LaneBits& mask, const Lanes& yes, const Lanes& no) {
  return {mask.low ? yes.low : no.low, mask.high ? yes.high : no.high};
}
TAMIS_INLINE LaneBits choose(const LaneBits& mask, const LaneBits& yes, const LaneBits& no) {
  return {mask.low ? yes.low : no.low, mask.high ? yes.high : no.high};
}

// The second where either is NaN.
TAMIS_INLINE HalfLanes larger(const HalfLanes& a, const HalfLanes& b) { return a > b ? a : b; }
TAMIS_INLINE Lanes larger(const Lanes& a, const Lanes& b) { return {larger(a.low, b.low), larger(a.high, b.high)}; }
TAMIS_INLINE Lanes smaller(const Lanes& a, const Lanes& b) {
  return {a.low < b.low ? a.low : b.low, a.high < b.high ? a.high : b.high};
}
TAMIS_INLINE LaneBits smaller(const LaneBits& a, const LaneBits& b) {
  return {a.low < b.low ? a.low : b.low, a.high < b.high ? a.high : b.high};
}
TAMIS_INLINE LaneBits larger(const LaneBits& a, const LaneBits& b) {
  return {a.low > b.low ? a.low : b.low, a.high > b.high ? a.high : b.high};
}

TAMIS_INLINE Lanes clamped(const Lanes& value, float low, float high) {  // NaN: high
  return larger(smaller(value, unknown_constant(high)), unknown_constant(low));
}

TAMIS_INLINE LaneBits bits_of(const Lanes& lanes) {
  return {std::bit_cast<HalfBits>(lanes.low), std::bit_cast<HalfBits>(lanes.high)};
}
TAMIS_INLINE Lanes lanes_of(const LaneBits& bits) {
  return {std::bit_cast<HalfLanes>(bits.low), std::bit_cast<HalfLanes>(bits.high)};
}
TAMIS_INLINE LaneBits whole_numbers(const Lanes& lanes) {  // cut toward 0
  return {__builtin_convertvector(lanes.low, HalfBits), __builtin_convertvector(lanes.high, HalfBits)};
}
TAMIS_INLINE Lanes as_floats(const LaneBits& whole) {
  return {__builtin_convertvector(whole.low, HalfLanes), __builtin_convertvector(whole.high, HalfLanes)};
}
TAMIS_INLINE LaneBits lane_numbers() {
  return {HalfBits{0, 1, 2, 3, 4, 5, 6, 7}, HalfBits{8, 9, 10, 11, 12, 13, 14, 15}};
}

TAMIS_INLINE Lanes magnitude(const Lanes& a) { return lanes_of(bits_of(a) & 0x7fffffff); }

// To the nearest integer, ties to even, for magnitudes below 2^22: the adder's own rounding.
TAMIS_INLINE Lanes nearest_integer(const Lanes& value) { return (value + 0x1.8p23f) - 0x1.8p23f; }

// 1/value; 0 for 0.
TAMIS_INLINE Lanes inverse_or_zero(const Lanes& value) { return choose(value == 0.0f, 0.0f, 1.0f / value); }

// Lanes that hold whole numbers 0 … 255, as sixteen bytes.
TAMIS_INLINE void store_bytes(const LaneBits& whole, uint8_t* to) {
  using HalfBytes = uint8_t __attribute__((vector_size(8)));
  const HalfBytes halves[2] = {__builtin_convertvector(whole.low, HalfBytes),
                               __builtin_convertvector(whole.high, HalfBytes)};
  std::memcpy(to, halves, sizeof(halves));
}

// Lane l + 4, l + 2, l + 1 of a half in lane l: the steps of a sum over the half.
TAMIS_INLINE HalfLanes turned_by_4(const HalfLanes& a) { return __builtin_shufflevector(a, a, 4, 5, 6, 7, 0, 1, 2, 3); }
TAMIS_INLINE HalfLanes turned_by_2(const HalfLanes& a) { return __builtin_shufflevector(a, a, 2, 3, 0, 1, 6, 7, 4, 5); }
TAMIS_INLINE HalfLanes turned_by_1(const HalfLanes& a) { return __builtin_shufflevector(a, a, 1, 0, 3, 2, 5, 4, 7, 6); }

// The sum (in one fixed order) and the largest of a half, in all its lanes.
TAMIS_INLINE HalfLanes sum_of_half(const HalfLanes& a) {
  const HalfLanes pairs = a + turned_by_4(a);
  const HalfLanes fours = pairs + turned_by_2(pairs);
  return fours + turned_by_1(fours);
}
TAMIS_INLINE HalfLanes largest_of_half(const HalfLanes& a) {
  const HalfLanes pairs = larger(a, turned_by_4(a));
  const HalfLanes fours = larger(pairs, turned_by_2(pairs));
  return larger(fours, turned_by_1(fours));
}
TAMIS_INLINE float sum_of_lanes(const Lanes& a) { return sum_of_half(a.low + a.high)[0]; }
TAMIS_INLINE float largest_of_lanes(const Lanes& a) { return largest_of_half(larger(a.low, a.high))[0]; }

// The first lane that holds the largest number; lanes with NaN count as −infinity.
TAMIS_INLINE size_t largest_lane(const Lanes& lanes) {
  const Lanes numbers = choose(lanes == lanes, lanes, -__builtin_inff());
  const Lanes backwards{HalfLanes{15, 14, 13, 12, 11, 10, 9, 8}, HalfLanes{7, 6, 5, 4, 3, 2, 1, 0}};
  const Lanes winners = choose(numbers == largest_of_lanes(numbers), backwards, 0.0f);
  return static_cast<size_t>(15.0f - largest_of_lanes(winners));
}

// Two sixteens of codes 0 … 15 in sixteen bytes, the second in the high halves.
TAMIS_INLINE void pack_nibbles(const Lanes& low, const Lanes& high, uint8_t* qs) {
  store_bytes(whole_numbers(low + high * 16.0f), qs);
}

// Two sixteens of codes 0 … 31: low halves as above, fifth bits in the 32 bits of qh.
TAMIS_INLINE void pack_five_bits(const Lanes& first, const Lanes& second, uint8_t* qh, uint8_t* qs) {
  const LaneBits a = whole_numbers(first);
  const LaneBits b = whole_numbers(second);
  store_bytes((a & 15) | (b & 15) << 4, qs);
  const Lanes fifth = as_floats((a >> 4) << lane_numbers());  // sums of different powers of 2: exact
  const Lanes fifth_of_second = as_floats((b >> 4) << lane_numbers());
  const uint32_t bits =
      static_cast<uint32_t>(sum_of_lanes(fifth)) | static_cast<uint32_t>(sum_of_lanes(fifth_of_second)) << 16;
  std::memcpy(qh, &bits, sizeof(bits));
}

}  // namespace tamis
