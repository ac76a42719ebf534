// The SIMD vocabulary on AVX2 with F16C: a group's products add up in int16 lanes (two a row), widened once a group
// by the multiply with the scale.
#pragma once

#include <immintrin.h>

namespace tamis::cpu::TAMIS_TARGET {

struct I32 {
  __m256i lo, hi;
};
struct Codes {
  __m256i lo, hi;
};
// int16: row r has lanes 2r and 2r+1.
struct GroupAcc {
  __m256i lo, hi;
};
// int16: row r's scale in lanes 2r and 2r+1.
struct Scales {
  __m256i lo, hi;
};

constexpr int kTileColumns = 4;
constexpr bool kWideSums = false;     // sums of a group have 16 bits
constexpr int kSignedBias = 0;        // signed codes go into products as they are
constexpr uint64_t kSignedFlip = 0;   // eight signed bytes as dot_signed wants them, by exclusive or
constexpr int kPrefetchAhead = 1152;  // bytes; Zen 3 reads 15 % faster with it (the machines that stop at AVX2)
constexpr bool kPrefetchesColumns = false;

TAMIS_INLINE void keep(GroupAcc& a) { asm volatile("" : "+x"(a.lo), "+x"(a.hi)); }

TAMIS_INLINE F32x16 f32_from_f16(const uint8_t* p) {
  return {(VecF)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
          (VecF)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 16)))};
}
TAMIS_INLINE F32x16 f32_from_bf16(const uint8_t* p) {
  auto one = [](const uint8_t* from) {
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
    return (VecF)_mm256_slli_epi32(wide, 16);
  };
  return {one(p), one(p + 16)};
}
// Half of the unsigned E4M3 number in byte 2 · row + kOdd: its bits are those of an f16 whose exponent is 8 too low.
template <bool kOdd>
TAMIS_INLINE F32x16 f32_from_ue4m3_half(const uint8_t* p) {
  auto one = [](const uint8_t* from) {
    const __m128i pairs = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    const __m128i halfs = kOdd ? _mm_slli_epi16(_mm_srli_epi16(pairs, 8), 7)
                               : _mm_slli_epi16(_mm_and_si128(pairs, _mm_set1_epi16(255)), 7);
    return (VecF)(_mm256_cvtph_ps(halfs) * 128.0f);
  };
  return {one(p), one(p + 16)};
}
TAMIS_INLINE F32x16 f32_from_i32(I32 a) { return {(VecF)_mm256_cvtepi32_ps(a.lo), (VecF)_mm256_cvtepi32_ps(a.hi)}; }

TAMIS_INLINE I32 i32_zero() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
TAMIS_INLINE I32 i32_add(I32 a, I32 b) { return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)}; }
// a << *count, for a count that four bytes give.
TAMIS_INLINE I32 i32_shifted(I32 a, const int8_t* count) {
  int32_t n;
  __builtin_memcpy(&n, count, 4);
  const __m256i by = _mm256_set1_epi32(n);
  return {_mm256_sllv_epi32(a.lo, by), _mm256_sllv_epi32(a.hi, by)};
}
TAMIS_INLINE I32 i32_set1(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
TAMIS_INLINE I32 i32_sub(I32 a, I32 b) { return {_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)}; }
template <int kFactor>
TAMIS_INLINE I32 i32_times(I32 a) {
  const __m256i factor = _mm256_set1_epi32(kFactor);
  return {_mm256_mullo_epi32(a.lo, factor), _mm256_mullo_epi32(a.hi, factor)};
}

TAMIS_INLINE Codes codes_load(const uint8_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32))};
}
TAMIS_INLINE Codes held(Codes a) { return a; }
TAMIS_INLINE void codes_store(uint8_t* p, Codes a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.lo);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 32), a.hi);
}
TAMIS_INLINE Codes codes_or(Codes a, Codes b) { return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)}; }
// ((byte >> kRight) & kMask) << kLeft
template <int kRight, int kMask, int kLeft>
TAMIS_INLINE Codes codes_bits(Codes a) {
  const __m256i mask = _mm256_set1_epi8(static_cast<char>(kMask << kLeft));
  auto one = [&](__m256i x) {
    if constexpr (kRight > kLeft) x = _mm256_srli_epi16(x, kRight - kLeft);
    if constexpr (kLeft > kRight) x = _mm256_slli_epi16(x, kLeft - kRight);
    return _mm256_and_si256(x, mask);
  };
  return {one(a.lo), one(a.hi)};
}

// Byte i of the table (kLow the first eight, lowest byte first) for a code i < 16.
template <uint64_t kLow, uint64_t kHigh>
TAMIS_INLINE Codes codes_lookup(Codes a) {
  const __m256i table = _mm256_set_epi64x(static_cast<int64_t>(kHigh), static_cast<int64_t>(kLow),
                                          static_cast<int64_t>(kHigh), static_cast<int64_t>(kLow));
  return {_mm256_shuffle_epi8(table, a.lo), _mm256_shuffle_epi8(table, a.hi)};
}
TAMIS_INLINE Codes codes_signed(Codes a) { return a; }

TAMIS_INLINE GroupAcc group_start() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
// -kOffset · (lane sums of the group's activations), modulo 2^16.
template <int kOffset>
TAMIS_INLINE GroupAcc group_start_offset(const int16_t* lane_sums) {
  int32_t pair;
  __builtin_memcpy(&pair, lane_sums, 4);
  const __m256i start = _mm256_mullo_epi16(_mm256_set1_epi32(pair), _mm256_set1_epi16(-kOffset));
  return {start, start};
}
TAMIS_INLINE GroupAcc group_dot(GroupAcc acc, Codes w, const int8_t* quad) {
  int32_t bits;
  __builtin_memcpy(&bits, quad, 4);
  const __m256i a = _mm256_set1_epi32(bits);
  acc.lo = _mm256_add_epi16(acc.lo, _mm256_maddubs_epi16(w.lo, a));
  acc.hi = _mm256_add_epi16(acc.hi, _mm256_maddubs_epi16(w.hi, a));
  return acc;
}
TAMIS_INLINE I32 group_sum(GroupAcc acc) {
  const __m256i ones = _mm256_set1_epi16(1);
  return {_mm256_madd_epi16(acc.lo, ones), _mm256_madd_epi16(acc.hi, ones)};
}
TAMIS_INLINE I32 group_scaled(GroupAcc acc, Scales s) {
  return {_mm256_madd_epi16(acc.lo, s.lo), _mm256_madd_epi16(acc.hi, s.hi)};
}

// Scales come as 16 rows × (group 2i, group 2i+1) bytes; kOdd picks one.
template <bool kSigned, bool kOdd>
TAMIS_INLINE Scales scales_load(const uint8_t* pairs) {
  auto one = [](__m128i bytes) {
    const __m256i wide = kSigned ? _mm256_cvtepi8_epi16(bytes) : _mm256_cvtepu8_epi16(bytes);
    constexpr int kPick = kOdd ? 0xf5 : 0xa0;
    return _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(wide, kPick), kPick);
  };
  return {one(_mm_loadu_si128(reinterpret_cast<const __m128i*>(pairs))),
          one(_mm_loadu_si128(reinterpret_cast<const __m128i*>(pairs + 16)))};
}
// Low nibbles of such bytes.
template <bool kOdd>
TAMIS_INLINE Scales scales_load_nibbles(const uint8_t* pairs) {
  const Scales s = scales_load<false, kOdd>(pairs);
  const __m256i mask = _mm256_set1_epi16(15);
  return {_mm256_and_si256(s.lo, mask), _mm256_and_si256(s.hi, mask)};
}
// Signed sums times signed scales.
TAMIS_INLINE I32 signed_scaled(I32 a, Scales s) {
  return {_mm256_mullo_epi32(a.lo, _mm256_srai_epi32(s.lo, 16)), _mm256_mullo_epi32(a.hi, _mm256_srai_epi32(s.hi, 16))};
}
// acc[row] += pairs[row][0] · sums[0] + pairs[row][1] · sums[1].
template <bool kSigned>
TAMIS_INLINE I32 dot_pairs(I32 acc, const uint8_t* pairs, const int16_t* sums) {
  int32_t bits;
  __builtin_memcpy(&bits, sums, 4);
  const __m256i s = _mm256_set1_epi32(bits);
  auto wide = [](const uint8_t* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return kSigned ? _mm256_cvtepi8_epi16(bytes) : _mm256_cvtepu8_epi16(bytes);
  };
  return {_mm256_add_epi32(acc.lo, _mm256_madd_epi16(wide(pairs), s)),
          _mm256_add_epi32(acc.hi, _mm256_madd_epi16(wide(pairs + 16), s))};
}
// The same with the bytes' high nibbles.
TAMIS_INLINE I32 dot_high_nibbles(I32 acc, const uint8_t* pairs, const int16_t* sums) {
  int32_t bits;
  __builtin_memcpy(&bits, sums, 4);
  const __m256i s = _mm256_set1_epi32(bits);
  auto wide = [](const uint8_t* p) {
    return _mm256_srli_epi16(_mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))), 4);
  };
  return {_mm256_add_epi32(acc.lo, _mm256_madd_epi16(wide(pairs), s)),
          _mm256_add_epi32(acc.hi, _mm256_madd_epi16(wide(pairs + 16), s))};
}
// Signed codes: acc[row] += Σ of 4 products, exact for activations in ±127.
TAMIS_INLINE I32 dot_signed(I32 acc, Codes w, const int8_t* quad) {
  int32_t bits;
  __builtin_memcpy(&bits, quad, 4);
  const __m256i a = _mm256_set1_epi32(bits), ones = _mm256_set1_epi16(1);
  auto one = [&](__m256i x) {
    return _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_abs_epi8(x), _mm256_sign_epi8(a, x)), ones);
  };
  return {_mm256_add_epi32(acc.lo, one(w.lo)), _mm256_add_epi32(acc.hi, one(w.hi))};
}
TAMIS_INLINE I32 signed_start(const int16_t*) { return i32_zero(); }
TAMIS_INLINE void keep(I32& a) { asm volatile("" : "+x"(a.lo), "+x"(a.hi)); }
TAMIS_INLINE void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }

}  // namespace tamis::cpu::TAMIS_TARGET
