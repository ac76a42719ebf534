// Sixteen float lanes on whatever vectors a target has, by the compilers' vector extension: no intrinsics, one
// definition. Included by target files only, after they have defined
//   TAMIS_TARGET         the target's namespace, e.g. avx2
//   TAMIS_VECTOR_FLOATS  floats in one native vector: 4, 8 or 16
// Everything is static and always inlined, so that no symbol compiled for one target can be used by another.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if TAMIS_VECTOR_FLOATS > 4
#include <immintrin.h>  // wider vectors than the baseline's exist on x86-64 only
#endif

#ifndef TAMIS_INLINE
#define TAMIS_INLINE static inline __attribute__((always_inline))
#endif
#define TAMIS_METHOD inline __attribute__((always_inline))

namespace tamis::cpu::TAMIS_TARGET {

constexpr int kFloats = TAMIS_VECTOR_FLOATS;

// Sixteen lanes are one, two or four vectors with names, not an array: compilers keep named members in registers.
// TAMIS_PARTS(m) writes m(part) for each.
#if TAMIS_VECTOR_FLOATS == 16
#define TAMIS_PARTS(m) m(a)
#elif TAMIS_VECTOR_FLOATS == 8
#define TAMIS_PARTS(m) m(a) m(b)
#else
#define TAMIS_PARTS(m) m(a) m(b) m(c) m(d)
#endif

typedef float VecF __attribute__((vector_size(TAMIS_VECTOR_FLOATS * 4)));
typedef float VecFAnywhere __attribute__((vector_size(TAMIS_VECTOR_FLOATS * 4), aligned(4), may_alias));
typedef int32_t VecI __attribute__((vector_size(TAMIS_VECTOR_FLOATS * 4)));

struct F32x16 {
#define TAMIS_DECLARE(part) VecF part;
  TAMIS_PARTS(TAMIS_DECLARE)
#undef TAMIS_DECLARE
};

// v = from[0 … 15], any alignment.
TAMIS_INLINE void load(F32x16& v, const float* from) {
#define TAMIS_LOAD(part) v.part = *(const VecFAnywhere*)from, from += kFloats;
  TAMIS_PARTS(TAMIS_LOAD)
#undef TAMIS_LOAD
}
TAMIS_INLINE void store(float* to, const F32x16& v) {
#define TAMIS_STORE(part) *(VecFAnywhere*)to = v.part, to += kFloats;
  TAMIS_PARTS(TAMIS_STORE)
#undef TAMIS_STORE
}

// The first n < 16 lanes from memory, the rest 0.
TAMIS_INLINE void load_first(F32x16& v, const float* from, size_t n) {
  float lanes[16] = {};
  for (size_t i = 0; i < n; ++i) lanes[i] = from[i];
  load(v, lanes);
}

TAMIS_INLINE void set_all(F32x16& v, float value) {
#define TAMIS_SET(part) v.part = value - VecF{};
  TAMIS_PARTS(TAMIS_SET)
#undef TAMIS_SET
}

TAMIS_INLINE F32x16 f32_zero() { return F32x16{}; }
TAMIS_INLINE F32x16 f32_set1(float value) {
  F32x16 v;
  set_all(v, value);
  return v;
}
TAMIS_INLINE F32x16 f32_load(const float* from) {
  F32x16 v;
  load(v, from);
  return v;
}
TAMIS_INLINE void f32_store(float* to, F32x16 v) { store(to, v); }
// acc += a · b: two roundings.
TAMIS_INLINE void add_product(F32x16& acc, const F32x16& a, const F32x16& b) {
#define TAMIS_ADD(part) acc.part = acc.part + a.part * b.part;
  TAMIS_PARTS(TAMIS_ADD)
#undef TAMIS_ADD
}

// acc += a.
TAMIS_INLINE void add(F32x16& acc, const F32x16& a) {
#define TAMIS_ADD(part) acc.part = acc.part + a.part;
  TAMIS_PARTS(TAMIS_ADD)
#undef TAMIS_ADD
}

// acc -= a.
TAMIS_INLINE void subtract(F32x16& acc, const F32x16& a) {
#define TAMIS_SUBTRACT(part) acc.part = acc.part - a.part;
  TAMIS_PARTS(TAMIS_SUBTRACT)
#undef TAMIS_SUBTRACT
}

TAMIS_INLINE F32x16 f32_add(F32x16 x, const F32x16& y) {
  add(x, y);
  return x;
}
TAMIS_INLINE F32x16 f32_sub(F32x16 x, const F32x16& y) {
  subtract(x, y);
  return x;
}
TAMIS_INLINE F32x16 f32_mul(F32x16 x, const F32x16& y) {
#define TAMIS_MULTIPLY(part) x.part = x.part * y.part;
  TAMIS_PARTS(TAMIS_MULTIPLY)
#undef TAMIS_MULTIPLY
  return x;
}

// Sixteen bytes: codes of quantized weights.
typedef uint8_t Bytes __attribute__((vector_size(16)));

TAMIS_INLINE Bytes load_bytes(const uint8_t* from) {
  Bytes v;
  memcpy(&v, from, 16);
  return v;
}

// Lane j is bit j of `bits` in place 4: 16 or 0.
TAMIS_INLINE Bytes bits_as_16(uint16_t bits) {
  typedef uint64_t Quads __attribute__((vector_size(16)));
  constexpr uint64_t kEveryByte = 0x0101010101010101u;
  const Bytes spread = (Bytes)Quads{(bits & 255) * kEveryByte, (uint64_t)(bits >> 8) * kEveryByte};
  const Bytes mask = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
  return (Bytes)((spread & mask) == mask) & 16;
}

// v = the bytes as numbers 0 … 255.
TAMIS_INLINE void widen(F32x16& v, Bytes bytes) {
#if TAMIS_VECTOR_FLOATS == 16
  v.a = (VecF)_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32((__m128i)bytes));
#elif TAMIS_VECTOR_FLOATS == 8
  v.a = (VecF)_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32((__m128i)bytes));
  v.b = (VecF)_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128((__m128i)bytes, 8)));
#else
  typedef uint16_t Words __attribute__((vector_size(16)));
  const Bytes zero = {};
  const Bytes low = __builtin_shufflevector(bytes, zero, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const Bytes high = __builtin_shufflevector(bytes, zero, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  const Words none = {};
  v.a = __builtin_convertvector((VecI)__builtin_shufflevector((Words)low, none, 0, 8, 1, 9, 2, 10, 3, 11), VecF);
  v.b = __builtin_convertvector((VecI)__builtin_shufflevector((Words)low, none, 4, 12, 5, 13, 6, 14, 7, 15), VecF);
  v.c = __builtin_convertvector((VecI)__builtin_shufflevector((Words)high, none, 0, 8, 1, 9, 2, 10, 3, 11), VecF);
  v.d = __builtin_convertvector((VecI)__builtin_shufflevector((Words)high, none, 4, 12, 5, 13, 6, 14, 7, 15), VecF);
#endif
}

// out[0 … 15] = scale · code + offset: two roundings.
TAMIS_INLINE void store_affine(float* out, Bytes codes, float scale, float offset) {
  F32x16 v;
  widen(v, codes);
#define TAMIS_AFFINE(part) v.part = scale * v.part + offset;
  TAMIS_PARTS(TAMIS_AFFINE)
#undef TAMIS_AFFINE
  store(out, v);
}

// out[0 … 15] = scale · (code − zero): the difference is exact, one rounding.
TAMIS_INLINE void store_centred(float* out, Bytes codes, float scale, float zero) {
  F32x16 v;
  widen(v, codes);
#define TAMIS_CENTRED(part) v.part = scale * (v.part - zero);
  TAMIS_PARTS(TAMIS_CENTRED)
#undef TAMIS_CENTRED
  store(out, v);
}

// The one order in which lanes are added: 16 → 8 → 4 → 2 → 1, lane i with lane i + half.
TAMIS_INLINE float sum(const F32x16& v) {
  float lanes[16];
  store(lanes, v);
  float eight[8], four[4];
  for (int i = 0; i < 8; ++i) eight[i] = lanes[i] + lanes[i + 8];
  for (int i = 0; i < 4; ++i) four[i] = eight[i] + eight[i + 4];
  return (four[0] + four[2]) + (four[1] + four[3]);
}

// e^x by x = n·ln 2 + r, |r| ≤ ln 2 / 2, and the Taylor sum of e^r to r^7 (its rest, r^8/8!, is below 6e-9 of the sum).
// At most 2 ulp off for x in [-87, 88]; x beyond is taken as that border; NaN stays NaN.
TAMIS_INLINE VecF exp_of_part(VecF x) {
  constexpr float kLog2E = 1.44269504088896341f;
  constexpr float kLn2High = 0.693359375f;  // nine bits: its product with any |n| ≤ 128 is exact
  constexpr float kLn2Low = -2.12194440054690583e-4f;
  constexpr float kRound = 12582912.0f;  // 1.5 · 2^23: adding it rounds to an integer, held in the low bits
  const VecF low = -87.0f - VecF{}, high = 88.0f - VecF{};
  VecF v = x < low ? low : x;
  v = v > high ? high : v;
  const VecF rounded = v * kLog2E + kRound;
  const VecF n = rounded - kRound;
  const VecF r = (v - n * kLn2High) - n * kLn2Low;
  VecF e = r * (1.0f / 5040) + 1.0f / 720;
  e = e * r + 1.0f / 120;
  e = e * r + 1.0f / 24;
  e = e * r + 1.0f / 6;
  e = e * r + 0.5f;
  e = (e * r) * r + r + 1.0f;
  const VecI bits = (VecI)e + ((VecI)rounded << 23);  // times 2^n
  return x == x ? (VecF)bits : x;
}

TAMIS_INLINE void exp_of(F32x16& out, const F32x16& x) {
#define TAMIS_EXP(part) out.part = exp_of_part(x.part);
  TAMIS_PARTS(TAMIS_EXP)
#undef TAMIS_EXP
}

}  // namespace tamis::cpu::TAMIS_TARGET
