// A number of each of sixteen groups side by side, for the searches of K-quants, which handle one group of weights a
// lane: what belongs to a group (its sums, scale, error) needs no reduction, and every choice is made lane by lane.
// Plain arithmetic in the compilers' vector extension, so the same bits on every machine; inlined into functions under
// TAMIS_WIDE (base/cpu_clones.h). Two halves of eight, because g++ takes vectors apart badly that are wider than the
// registers (measured: 9 times slower for AVX2 than these halves).
#pragma once

#include <cstdint>
#include <cstring>

#include "base/cpu_clones.h"

namespace tamis {

inline constexpr int kGroups = 16;

using HalfGroups = float __attribute__((vector_size(32)));
using HalfMask = int32_t __attribute__((vector_size(32)));

struct GroupMask {
  HalfMask low, high;  // −1 where true
};
struct Groups {
  HalfGroups low, high;
};

TAMIS_INLINE Groups all_groups(float value) { return {HalfGroups{} + value, HalfGroups{} + value}; }
TAMIS_INLINE Groups load_groups(const float* from) {
  Groups out;
  std::memcpy(&out, from, sizeof(out));
  return out;
}
TAMIS_INLINE void store_groups(const Groups& value, float* to) { std::memcpy(to, &value, sizeof(value)); }

TAMIS_INLINE Groups operator+(const Groups& a, const Groups& b) { return {a.low + b.low, a.high + b.high}; }
TAMIS_INLINE Groups operator-(const Groups& a, const Groups& b) { return {a.low - b.low, a.high - b.high}; }
TAMIS_INLINE Groups operator*(const Groups& a, const Groups& b) { return {a.low * b.low, a.high * b.high}; }
TAMIS_INLINE Groups operator/(const Groups& a, const Groups& b) { return {a.low / b.low, a.high / b.high}; }
TAMIS_INLINE Groups operator-(const Groups& a) { return {-a.low, -a.high}; }
TAMIS_INLINE GroupMask operator<(const Groups& a, const Groups& b) { return {a.low < b.low, a.high < b.high}; }
TAMIS_INLINE GroupMask operator==(const Groups& a, const Groups& b) { return {a.low == b.low, a.high == b.high}; }

TAMIS_INLINE Groups choose(const GroupMask& mask, const Groups& yes, const Groups& no) {
  return {mask.low ? yes.low : no.low, mask.high ? yes.high : no.high};
}
// The second where either is NaN.
TAMIS_INLINE HalfGroups larger(const HalfGroups& a, const HalfGroups& b) { return a > b ? a : b; }
TAMIS_INLINE Groups larger(const Groups& a, const Groups& b) { return {larger(a.low, b.low), larger(a.high, b.high)}; }
TAMIS_INLINE Groups smaller(const Groups& a, const Groups& b) {
  return {a.low < b.low ? a.low : b.low, a.high < b.high ? a.high : b.high};
}
TAMIS_INLINE Groups clamped(const Groups& value, float low, float high) {
  return larger(smaller(value, all_groups(high)), all_groups(low));
}

// To the nearest integer, ties to even; |value| < 2^22.
TAMIS_INLINE Groups nearest_integer(const Groups& value) {
  const Groups shift = all_groups(0x1.8p23f);  // here a float's last bit is 1
  return (value + shift) - shift;
}
// 1/value; 0 for 0.
TAMIS_INLINE Groups inverse_or_zero(const Groups& value) {
  return choose(value == all_groups(0.0f), all_groups(0.0f), all_groups(1.0f) / value);
}

// Numbers >= 0 as an f16 holds them: rounded to nearest, at most 65504, and not below the smallest subnormal unless 0,
// so that a super-block of tiny weights keeps a scale.
TAMIS_INLINE Groups as_stored(const Groups& value) {
  const Groups magnitude = clamped(value, 0.0f, 65504.0f);
  const Groups split = magnitude * all_groups(0x1p13f + 1.0f);  // Veltkamp: the upper 11 of 24 bits
  const Groups normal = split - (split - magnitude);
  const Groups subnormal = (magnitude + all_groups(0.5f)) - all_groups(0.5f);  // [½, 1) steps by 2^-24
  const Groups stored = choose(magnitude < all_groups(0x1p-14f), subnormal, normal);
  return choose(all_groups(0.0f) < value, larger(stored, all_groups(0x1p-24f)), all_groups(0.0f));
}

// Lane l + 4, l + 2, l + 1 of a half in lane l: the steps of a sum over the half.
TAMIS_INLINE HalfGroups turned_by_4(const HalfGroups& a) {
  return __builtin_shufflevector(a, a, 4, 5, 6, 7, 0, 1, 2, 3);
}
TAMIS_INLINE HalfGroups turned_by_2(const HalfGroups& a) {
  return __builtin_shufflevector(a, a, 2, 3, 0, 1, 6, 7, 4, 5);
}
TAMIS_INLINE HalfGroups turned_by_1(const HalfGroups& a) {
  return __builtin_shufflevector(a, a, 1, 0, 3, 2, 5, 4, 7, 6);
}
TAMIS_INLINE HalfGroups sum_of_half(const HalfGroups& a) {
  const HalfGroups pairs = a + turned_by_4(a);
  const HalfGroups fours = pairs + turned_by_2(pairs);
  return fours + turned_by_1(fours);
}
TAMIS_INLINE HalfGroups largest_of_half(const HalfGroups& a) {
  const HalfGroups pairs = larger(a, turned_by_4(a));
  const HalfGroups fours = larger(pairs, turned_by_2(pairs));
  return larger(fours, turned_by_1(fours));
}

// The sum and the largest over each super-block's lanes, in all of them: kSupers = 2 super-blocks of 8 groups, or one
// of 16.
template <int kSupers>
TAMIS_INLINE Groups super_sum(const Groups& a) {
  if constexpr (kSupers == 2) return {sum_of_half(a.low), sum_of_half(a.high)};
  const HalfGroups sum = sum_of_half(a.low + a.high);
  return {sum, sum};
}
template <int kSupers>
TAMIS_INLINE Groups super_largest(const Groups& a) {
  if constexpr (kSupers == 2) return {largest_of_half(a.low), largest_of_half(a.high)};
  const HalfGroups top = largest_of_half(larger(a.low, a.high));
  return {top, top};
}

}  // namespace tamis
