// Sixteen floats at a time for the searches of the fast encoders, written with the compilers' vector extension: one
// source, any machine, the same bits (every lane rounds as scalar code does; nothing is fused). A lane is mostly one
// candidate scale, so that sums over a block's values need no order of their own. What uses them is inlined into
// functions under TAMIS_WIDE (base/cpu_clones.h); lanes never cross a call that is not (-Wno-psabi is for that).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/cpu_clones.h"

namespace tamis {

inline constexpr size_t kLanes = 16;
typedef float Lanes __attribute__((vector_size(64)));
typedef int32_t LaneBits __attribute__((vector_size(64)));
typedef uint8_t LaneBytes __attribute__((vector_size(16)));

TAMIS_INLINE Lanes load_lanes(const float* from) {
  Lanes out;
  std::memcpy(&out, from, sizeof(out));
  return out;
}
TAMIS_INLINE void store_lanes(const Lanes& lanes, float* to) { std::memcpy(to, &lanes, sizeof(lanes)); }

TAMIS_INLINE LaneBits bits_of(const Lanes& lanes) {
  LaneBits out;
  std::memcpy(&out, &lanes, sizeof(out));
  return out;
}
TAMIS_INLINE Lanes lanes_of(const LaneBits& bits) {
  Lanes out;
  std::memcpy(&out, &bits, sizeof(out));
  return out;
}

TAMIS_INLINE Lanes smaller(const Lanes& a, const Lanes& b) { return a < b ? a : b; }
TAMIS_INLINE Lanes larger(const Lanes& a, const Lanes& b) { return a > b ? a : b; }
TAMIS_INLINE Lanes magnitude(const Lanes& a) { return lanes_of(bits_of(a) & 0x7fffffff); }
TAMIS_INLINE Lanes clamped(const Lanes& value, float low, float high) {
  const Lanes lows = Lanes{} + low;
  const Lanes highs = Lanes{} + high;
  return smaller(larger(value, lows), highs);
}

// To the nearest integer, ties to even, for magnitudes below 2^22: the adder's own rounding.
TAMIS_INLINE Lanes nearest_integer(const Lanes& value) { return (value + 0x1.8p23f) - 0x1.8p23f; }

// Lanes that hold whole numbers 0 … 255, as bytes.
TAMIS_INLINE LaneBytes bytes_of(const Lanes& whole) {
  return __builtin_convertvector(__builtin_convertvector(whole, LaneBits), LaneBytes);
}

// Lane l + 8, l + 4, l + 2 and l + 1 (modulo 16) in lane l: the steps of a sum or maximum over all lanes.
TAMIS_INLINE Lanes rotated_by_8(const Lanes& a) {
  return __builtin_shufflevector(a, a, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
}
TAMIS_INLINE Lanes rotated_by_4(const Lanes& a) {
  return __builtin_shufflevector(a, a, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3);
}
TAMIS_INLINE Lanes rotated_by_2(const Lanes& a) {
  return __builtin_shufflevector(a, a, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1);
}
TAMIS_INLINE Lanes rotated_by_1(const Lanes& a) {
  return __builtin_shufflevector(a, a, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0);
}

// The sum (in one fixed order) and the largest of the lanes, in every lane.
TAMIS_INLINE Lanes sum_of_lanes(Lanes a) {
  a += rotated_by_8(a);
  a += rotated_by_4(a);
  a += rotated_by_2(a);
  a += rotated_by_1(a);
  return a;
}
TAMIS_INLINE Lanes largest_of_lanes(Lanes a) {
  a = larger(a, rotated_by_8(a));
  a = larger(a, rotated_by_4(a));
  a = larger(a, rotated_by_2(a));
  return larger(a, rotated_by_1(a));
}

// The first lane that holds the largest number; lanes with NaN count as −infinity.
TAMIS_INLINE size_t largest_lane(const Lanes& lanes) {
  constexpr float kLowest = -__builtin_inff();
  const Lanes numbers = lanes == lanes ? lanes : Lanes{} + kLowest;
  const Lanes backwards = {15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0};
  const Lanes winners = numbers == largest_of_lanes(numbers) ? backwards : Lanes{};
  return static_cast<size_t>(15.0f - largest_of_lanes(winners)[0]);
}

// Two sixteens of codes 0 … 15 in sixteen bytes, the second in the high halves.
TAMIS_INLINE void pack_nibbles(const Lanes& low, const Lanes& high, uint8_t* qs) {
  const LaneBytes packed = bytes_of(low + high * 16.0f);
  std::memcpy(qs, &packed, sizeof(packed));
}

// Two sixteens of codes 0 … 31: low halves as above, fifth bits in the 32 bits of qh.
TAMIS_INLINE void pack_five_bits(const Lanes& first, const Lanes& second, uint8_t* qh, uint8_t* qs) {
  const LaneBits places = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const LaneBits a = __builtin_convertvector(first, LaneBits);
  const LaneBits b = __builtin_convertvector(second, LaneBits);
  const LaneBytes packed = __builtin_convertvector((a & 15) | (b & 15) << 4, LaneBytes);
  std::memcpy(qs, &packed, sizeof(packed));
  const Lanes fifth = __builtin_convertvector((a >> 4) << places, Lanes);  // sums of different powers of 2: exact
  const Lanes fifth_of_second = __builtin_convertvector((b >> 4) << places, Lanes);
  const auto low = static_cast<uint32_t>(sum_of_lanes(fifth)[0]);
  const uint32_t bits = low | static_cast<uint32_t>(sum_of_lanes(fifth_of_second)[0]) << 16;
  std::memcpy(qh, &bits, sizeof(bits));
}

}  // namespace tamis
