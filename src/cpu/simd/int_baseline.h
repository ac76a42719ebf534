// The integer vocabulary in plain C++: runs everywhere, and is what the other targets' integer code is tested against.
// See int_avx2.h and int_avx512.h; every operation gives the same integers.
#pragma once

#include "base/float16.h"

// Calls, not inlined: sixteen-lane loops unrolled into every tile take GCC minutes to compile.
#define TAMIS_CALL static __attribute__((noinline, unused))

namespace tamis::cpu::TAMIS_TARGET {

struct I32 {
  int32_t v[16];
};
struct Codes {
  uint8_t v[64];
};
struct GroupAcc {
  int32_t v[16];
};
struct Scales {
  int32_t v[16];
};

constexpr int kTileColumns = 4;
constexpr bool kWideSums = true;
constexpr int kSignedBias = 0;
constexpr uint64_t kSignedFlip = 0;
constexpr int kPrefetchAhead = 0;
constexpr bool kPrefetchesColumns = false;

TAMIS_CALL void keep(GroupAcc&) {}
TAMIS_CALL void keep(I32&) {}
TAMIS_CALL void prefetch(const void*) {}

TAMIS_CALL F32x16 f32_from_f16(const uint8_t* p) {
  float lanes[16];
  for (int i = 0; i < 16; ++i) {
    uint16_t bits;
    memcpy(&bits, p + 2 * i, 2);
    lanes[i] = f16_to_f32(bits);
  }
  return f32_load(lanes);
}
TAMIS_CALL F32x16 f32_from_bf16(const uint8_t* p) {
  float lanes[16];
  for (int i = 0; i < 16; ++i) {
    uint16_t bits;
    memcpy(&bits, p + 2 * i, 2);
    lanes[i] = bf16_to_f32(bits);
  }
  return f32_load(lanes);
}
template <bool kOdd>
TAMIS_CALL F32x16 f32_from_ue4m3_half(const uint8_t* p) {
  float lanes[16];
  for (int i = 0; i < 16; ++i) lanes[i] = f16_to_f32(static_cast<uint16_t>(p[2 * i + kOdd] << 7)) * 128.0f;
  return f32_load(lanes);
}
TAMIS_CALL F32x16 f32_from_i32(I32 a) {
  float lanes[16];
  for (int i = 0; i < 16; ++i) lanes[i] = static_cast<float>(a.v[i]);
  return f32_load(lanes);
}

TAMIS_CALL I32 i32_zero() { return I32{}; }
TAMIS_CALL I32 i32_set1(int32_t x) {
  I32 r;
  for (int i = 0; i < 16; ++i) r.v[i] = x;
  return r;
}
TAMIS_CALL I32 i32_add(I32 a, I32 b) {
  for (int i = 0; i < 16; ++i) a.v[i] += b.v[i];
  return a;
}
// a << *count, for a count that four bytes give.
TAMIS_CALL I32 i32_shifted(I32 a, const int8_t* count) {
  int32_t n;
  __builtin_memcpy(&n, count, 4);
  for (int i = 0; i < 16; ++i) a.v[i] *= 1 << n;
  return a;
}
TAMIS_CALL I32 i32_sub(I32 a, I32 b) {
  for (int i = 0; i < 16; ++i) a.v[i] -= b.v[i];
  return a;
}
template <int kFactor>
TAMIS_CALL I32 i32_times(I32 a) {
  for (int i = 0; i < 16; ++i) a.v[i] *= kFactor;
  return a;
}

TAMIS_CALL Codes codes_load(const uint8_t* p) {
  Codes r;
  memcpy(r.v, p, 64);
  return r;
}
TAMIS_CALL Codes held(const Codes& a) { return a; }
TAMIS_CALL void codes_store(uint8_t* p, Codes a) { memcpy(p, a.v, 64); }
TAMIS_CALL Codes codes_or(Codes a, Codes b) {
  for (int i = 0; i < 64; ++i) a.v[i] |= b.v[i];
  return a;
}
template <int kRight, int kMask, int kLeft>
TAMIS_CALL Codes codes_bits(Codes a) {
  for (int i = 0; i < 64; ++i) a.v[i] = static_cast<uint8_t>(((a.v[i] >> kRight) & kMask) << kLeft);
  return a;
}

template <uint64_t kLow, uint64_t kHigh>
TAMIS_CALL Codes codes_lookup(Codes a) {
  for (int i = 0; i < 64; ++i) a.v[i] = static_cast<uint8_t>((a.v[i] < 8 ? kLow : kHigh) >> (8 * (a.v[i] % 8)));
  return a;
}
TAMIS_CALL Codes codes_signed(const Codes& a) { return a; }

TAMIS_CALL GroupAcc group_start() { return GroupAcc{}; }
template <int kOffset>
TAMIS_CALL GroupAcc group_start_offset(const int16_t* lane_sums) {
  GroupAcc r;
  for (int i = 0; i < 16; ++i) r.v[i] = -kOffset * (lane_sums[0] + lane_sums[1]);
  return r;
}
TAMIS_CALL GroupAcc group_dot(GroupAcc acc, const Codes& w, const int8_t* quad) {
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 4; ++j) acc.v[i] += w.v[4 * i + j] * quad[j];
  return acc;
}
TAMIS_CALL I32 group_sum(GroupAcc acc) {
  I32 r;
  memcpy(r.v, acc.v, sizeof(r.v));
  return r;
}
TAMIS_CALL I32 group_scaled(GroupAcc acc, const Scales& s) {
  I32 r;
  for (int i = 0; i < 16; ++i) r.v[i] = acc.v[i] * s.v[i];
  return r;
}
template <bool kSigned, bool kOdd>
TAMIS_CALL Scales scales_load(const uint8_t* pairs) {
  Scales r;
  for (int i = 0; i < 16; ++i) {
    const uint8_t byte = pairs[2 * i + kOdd];
    r.v[i] = kSigned ? static_cast<int8_t>(byte) : byte;
  }
  return r;
}
template <bool kOdd>
TAMIS_CALL Scales scales_load_nibbles(const uint8_t* pairs) {
  Scales r;
  for (int i = 0; i < 16; ++i) r.v[i] = pairs[2 * i + kOdd] & 15;
  return r;
}
TAMIS_CALL I32 signed_scaled(I32 a, const Scales& s) {
  for (int i = 0; i < 16; ++i) a.v[i] *= s.v[i];
  return a;
}
template <bool kSigned>
TAMIS_CALL I32 dot_pairs(I32 acc, const uint8_t* pairs, const int16_t* sums) {
  for (int i = 0; i < 32; ++i) acc.v[i / 2] += (kSigned ? static_cast<int8_t>(pairs[i]) : pairs[i]) * sums[i % 2];
  return acc;
}
TAMIS_CALL I32 dot_high_nibbles(I32 acc, const uint8_t* pairs, const int16_t* sums) {
  for (int i = 0; i < 32; ++i) acc.v[i / 2] += (pairs[i] >> 4) * sums[i % 2];
  return acc;
}
TAMIS_CALL I32 signed_start(const int16_t*) { return I32{}; }
TAMIS_CALL I32 dot_signed(I32 acc, const Codes& w, const int8_t* quad) {
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 4; ++j) acc.v[i] += static_cast<int8_t>(w.v[4 * i + j]) * quad[j];
  return acc;
}

}  // namespace tamis::cpu::TAMIS_TARGET
