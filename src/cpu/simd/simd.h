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
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#ifndef TAMIS_INLINE
#define TAMIS_INLINE static inline __attribute__((always_inline))
#endif
#define TAMIS_METHOD inline __attribute__((always_inline))
#define TAMIS_LAMBDA __attribute__((always_inline))

namespace tamis::cpu::TAMIS_TARGET {

constexpr int kFloats = TAMIS_VECTOR_FLOATS;

// Columns of a float matrix product whose accumulators fit the registers.
#if TAMIS_VECTOR_FLOATS > 4 || defined(__aarch64__)
constexpr int kGemmColumns = 6;
#else
constexpr int kGemmColumns = 2;
#endif

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

// a · b + c, rounded once.
#if TAMIS_VECTOR_FLOATS == 16 && defined(__AVX512F__)
TAMIS_INLINE VecF fma_part(VecF a, VecF b, VecF c) { return (VecF)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
#elif TAMIS_VECTOR_FLOATS == 8 && defined(__FMA__)
TAMIS_INLINE VecF fma_part(VecF a, VecF b, VecF c) { return (VecF)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
#elif defined(__aarch64__)
TAMIS_INLINE VecF fma_part(VecF a, VecF b, VecF c) {
  return (VecF)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
#else
// Without the instruction: the product is exact in double; the sum is rounded to odd there, so that the rounding to
// float is the only one that counts (Boldo & Melquiond 2008, "Emulation of a FMA and correctly rounded sums").
static __attribute__((noinline, unused)) VecF fma_part(VecF a, VecF b, VecF c) {
  typedef double Wide __attribute__((vector_size(TAMIS_VECTOR_FLOATS * 8)));
  typedef int64_t WideBits __attribute__((vector_size(TAMIS_VECTOR_FLOATS * 8)));
  const Wide product = __builtin_convertvector(a, Wide) * __builtin_convertvector(b, Wide);
  const Wide addend = __builtin_convertvector(c, Wide);
  const Wide sum = product + addend;
  const Wide from_addend = sum - product;
  const Wide rest = (product - (sum - from_addend)) + (addend - from_addend);
  WideBits bits = (WideBits)sum;
  const WideBits is_inexact = (rest < 0.0) | (rest > 0.0);  // false when the rest is NaN: the sum is not finite
  const WideBits is_even = (bits & 1) - 1;
  const WideBits toward_rest = 1 - ((((bits ^ (WideBits)rest) >> 63) & 1) << 1);  // +1: away from zero, -1: toward it
  bits += is_inexact & is_even & toward_rest;
  return __builtin_convertvector((Wide)bits, VecF);
}
#endif

// acc = a · b + acc, rounded once.
TAMIS_INLINE void fma_into(F32x16& acc, const F32x16& a, const F32x16& b) {
#define TAMIS_FMA(part) acc.part = fma_part(a.part, b.part, acc.part);
  TAMIS_PARTS(TAMIS_FMA)
#undef TAMIS_FMA
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

TAMIS_INLINE F32x16 f32_div(F32x16 x, const F32x16& y) {
#define TAMIS_DIVIDE(part) x.part = x.part / y.part;
  TAMIS_PARTS(TAMIS_DIVIDE)
#undef TAMIS_DIVIDE
  return x;
}
// Lane by lane x > y ? x : y.
TAMIS_INLINE F32x16 f32_max(F32x16 x, const F32x16& y) {
#define TAMIS_MAX(part) x.part = x.part > y.part ? x.part : y.part;
  TAMIS_PARTS(TAMIS_MAX)
#undef TAMIS_MAX
  return x;
}

// The largest lane; any value when a lane is NaN.
TAMIS_INLINE float max_across(const F32x16& v) {
#if TAMIS_VECTOR_FLOATS == 16 && defined(__AVX512F__)
  return _mm512_reduce_max_ps((__m512)v.a);
#elif TAMIS_VECTOR_FLOATS == 8 && defined(__AVX2__)
  const __m256 both = _mm256_max_ps((__m256)v.a, (__m256)v.b);
  __m128 m = _mm_max_ps(_mm256_castps256_ps128(both), _mm256_extractf128_ps(both, 1));
  m = _mm_max_ps(m, _mm_movehl_ps(m, m));
  return _mm_cvtss_f32(_mm_max_ss(m, _mm_shuffle_ps(m, m, 1)));
#else
  float lanes[16];
  store(lanes, v);
  for (int n = 8; n > 0; n /= 2)
    for (int i = 0; i < n; ++i) lanes[i] = lanes[i] > lanes[i + n] ? lanes[i] : lanes[i + n];
  return lanes[0];
#endif
}

// Lanes outside begin … end-1 become `other`.
TAMIS_INLINE void keep_lanes(F32x16& v, int32_t begin, int32_t end, float other) {
  VecI lane;
  for (int i = 0; i < kFloats; ++i) lane[i] = i;
  const VecF others = other - VecF{};
#define TAMIS_KEEP(part) v.part = ((lane >= begin) & (lane < end)) ? v.part : others, lane += kFloats;
  TAMIS_PARTS(TAMIS_KEEP)
#undef TAMIS_KEEP
}

// Sixteen doubles: sums of products that must come out exact. Parts in an array: speed is not what they are for.
constexpr int kDoubles = kFloats / 2;
typedef double VecD __attribute__((vector_size(TAMIS_VECTOR_FLOATS * 4)));
typedef float HalfF __attribute__((vector_size(TAMIS_VECTOR_FLOATS * 2), aligned(4), may_alias));
typedef int32_t HalfI __attribute__((vector_size(TAMIS_VECTOR_FLOATS * 2), aligned(4), may_alias));
struct F64x16 {
  VecD part[16 / kDoubles];
};

TAMIS_INLINE void set_zero(F64x16& v) {
  for (int i = 0; i < 16 / kDoubles; ++i) v.part[i] = VecD{};
}
TAMIS_INLINE void widen(F64x16& v, const float* from) {
  for (int i = 0; i < 16 / kDoubles; ++i)
    v.part[i] = __builtin_convertvector(*(const HalfF*)(from + i * kDoubles), VecD);
}
// acc += a · b; b: 16 integers, or one number for all lanes.
TAMIS_INLINE void add_product(F64x16& acc, const F64x16& a, const int32_t* b) {
  for (int i = 0; i < 16 / kDoubles; ++i)
    acc.part[i] = acc.part[i] + a.part[i] * __builtin_convertvector(*(const HalfI*)(b + i * kDoubles), VecD);
}
TAMIS_INLINE void add_product(F64x16& acc, const F64x16& a, double b) {
  for (int i = 0; i < 16 / kDoubles; ++i) acc.part[i] = acc.part[i] + a.part[i] * b;
}
// Rounded to the nearest floats.
TAMIS_INLINE void narrow(F32x16& v, const F64x16& wide) {
  float lanes[16];
  for (int i = 0; i < 16 / kDoubles; ++i)
    *(HalfF*)(lanes + i * kDoubles) = __builtin_convertvector(wide.part[i], HalfF);
  load(v, lanes);
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
