// The SIMD vocabulary on AVX-512 with VNNI: one register is 16 rows × 4 codes, `vpdpbusd` adds their products to 16
// int32 sums.
#pragma once

#include <immintrin.h>

#ifndef TAMIS_REGISTER  // tests that emulate the intrinsics have no such register
#define TAMIS_REGISTER "+v"
#define TAMIS_HAS_EMBEDDED_BROADCAST
#endif

namespace tamis::cpu::TAMIS_TARGET {

struct I32 {
  __m512i v;
};
struct Codes {
  __m512i v;
};
struct GroupAcc {
  __m512i v;
};  // int32
struct Scales {
  __m512i v;
};  // int32

#ifdef TAMIS_TILES
constexpr int kTileColumns = 16;  // the rows of a tile register
#else
constexpr int kTileColumns = 8;
#endif
constexpr bool kWideSums = true;
// Scales of two groups multiply their sums in one instruction, where those fit 16 bits.
#define TAMIS_PAIRS_GROUPS
constexpr bool kPairsGroups = true;
constexpr int kSignedBias = 128;  // signed codes go into products as unsigned + 128
constexpr uint64_t kSignedFlip = 0x8080808080808080;
constexpr int kPrefetchAhead = 0;  // Zen 4's own prefetcher follows the stream at 90-99 %; prefetches slow it down
constexpr bool kPrefetchesColumns = true;

TAMIS_INLINE void keep(GroupAcc& a) { asm volatile("" : TAMIS_REGISTER(a.v)); }

TAMIS_INLINE F32x16 f32_from_f16(const uint8_t* p) {
  return {(VecF)_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
TAMIS_INLINE F32x16 f32_from_bf16(const uint8_t* p) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return {(VecF)_mm512_slli_epi32(wide, 16)};
}
template <bool kOdd>
TAMIS_INLINE F32x16 f32_from_ue4m3_half(const uint8_t* p) {
  const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  const __m256i bytes = kOdd ? _mm256_srli_epi16(pairs, 8) : _mm256_and_si256(pairs, _mm256_set1_epi16(255));
  return {(VecF)(_mm512_cvtph_ps(_mm256_slli_epi16(bytes, 7)) * 128.0f)};
}
TAMIS_INLINE F32x16 f32_from_i32(I32 a) { return {(VecF)_mm512_cvtepi32_ps(a.v)}; }

TAMIS_INLINE I32 i32_zero() { return {_mm512_setzero_si512()}; }
TAMIS_INLINE I32 i32_add(I32 a, I32 b) { return {_mm512_add_epi32(a.v, b.v)}; }
// a << *count, for a count that four bytes give.
TAMIS_INLINE I32 i32_shifted(I32 a, const int8_t* count) {
  int32_t n;
  __builtin_memcpy(&n, count, 4);
  return {_mm512_sllv_epi32(a.v, _mm512_set1_epi32(n))};
}
TAMIS_INLINE I32 i32_set1(int32_t x) { return {_mm512_set1_epi32(x)}; }
TAMIS_INLINE I32 i32_sub(I32 a, I32 b) { return {_mm512_sub_epi32(a.v, b.v)}; }
template <int kFactor>
TAMIS_INLINE I32 i32_times(I32 a) {
  return {_mm512_mullo_epi32(a.v, _mm512_set1_epi32(kFactor))};
}

TAMIS_INLINE Codes codes_load(const uint8_t* p) { return {_mm512_loadu_si512(p)}; }
// In a register, once: GCC would load a vector again for every use of it.
TAMIS_INLINE Codes held(Codes a) {
  asm("" : TAMIS_REGISTER(a.v));
  return a;
}
TAMIS_INLINE void codes_store(uint8_t* p, Codes a) { _mm512_storeu_si512(p, a.v); }
TAMIS_INLINE Codes codes_or(Codes a, Codes b) { return {_mm512_or_si512(a.v, b.v)}; }
template <int kRight, int kMask, int kLeft>
TAMIS_INLINE Codes codes_bits(Codes a) {
  __m512i x = a.v;
  if constexpr (kRight > kLeft) x = _mm512_srli_epi16(x, kRight - kLeft);
  if constexpr (kLeft > kRight) x = _mm512_slli_epi16(x, kLeft - kRight);
  return {_mm512_and_si512(x, _mm512_set1_epi8(static_cast<char>(kMask << kLeft)))};
}

template <uint64_t kLow, uint64_t kHigh>
TAMIS_INLINE Codes codes_lookup(Codes a) {
  const __m512i table = _mm512_set_epi64(
      static_cast<int64_t>(kHigh), static_cast<int64_t>(kLow), static_cast<int64_t>(kHigh), static_cast<int64_t>(kLow),
      static_cast<int64_t>(kHigh), static_cast<int64_t>(kLow), static_cast<int64_t>(kHigh), static_cast<int64_t>(kLow));
  return {_mm512_shuffle_epi8(table, a.v)};
}
TAMIS_INLINE Codes codes_signed(Codes a) { return {_mm512_xor_si512(a.v, _mm512_set1_epi8(static_cast<char>(0x80)))}; }

TAMIS_INLINE __m512i set1_dword(const void* p) {
  int32_t bits;
  __builtin_memcpy(&bits, p, 4);
  return _mm512_set1_epi32(bits);
}
TAMIS_INLINE GroupAcc group_start() { return {_mm512_setzero_si512()}; }
template <int kOffset>
TAMIS_INLINE GroupAcc group_start_offset(const int16_t* lane_sums) {
  return {_mm512_dpwssd_epi32(_mm512_setzero_si512(), set1_dword(lane_sums), _mm512_set1_epi16(-kOffset))};
}
// acc + codes · the quad's four bytes, in one instruction: compilers load the quad into a register of its own first.
TAMIS_INLINE __m512i dot_broadcast(__m512i acc, __m512i w, const int8_t* quad) {
#ifdef TAMIS_HAS_EMBEDDED_BROADCAST
  typedef int32_t __attribute__((may_alias, aligned(1))) Dword;
  asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(w), "m"(*reinterpret_cast<const Dword*>(quad)));
  return acc;
#else
  return _mm512_dpbusd_epi32(acc, w, set1_dword(quad));
#endif
}
TAMIS_INLINE GroupAcc group_dot(GroupAcc acc, Codes w, const int8_t* quad) { return {dot_broadcast(acc.v, w.v, quad)}; }
TAMIS_INLINE I32 group_sum(GroupAcc acc) { return {acc.v}; }
TAMIS_INLINE I32 group_scaled(GroupAcc acc, Scales s) { return {_mm512_mullo_epi32(acc.v, s.v)}; }
template <bool kSigned, bool kOdd>
TAMIS_INLINE Scales scales_load(const uint8_t* pairs) {
  const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(pairs));
  const __m512i wide = kSigned ? _mm512_cvtepi8_epi16(bytes) : _mm512_cvtepu8_epi16(bytes);
  return {kOdd ? _mm512_srai_epi32(wide, 16) : _mm512_srai_epi32(_mm512_slli_epi32(wide, 16), 16)};
}
template <bool kOdd>
TAMIS_INLINE Scales scales_load_nibbles(const uint8_t* pairs) {
  return {_mm512_and_si512(scales_load<false, kOdd>(pairs).v, _mm512_set1_epi32(15))};
}
typedef Scales ScalePairs;  // int16, of two groups
template <bool kSigned>
TAMIS_INLINE ScalePairs scale_pairs_load(const uint8_t* pairs) {
  const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(pairs));
  return {kSigned ? _mm512_cvtepi8_epi16(bytes) : _mm512_cvtepu8_epi16(bytes)};
}
TAMIS_INLINE ScalePairs scale_pairs_load_nibbles(const uint8_t* pairs) {
  return {_mm512_and_si512(scale_pairs_load<false>(pairs).v, _mm512_set1_epi16(15))};
}
TAMIS_INLINE ScalePairs scale_pairs_shifted(ScalePairs s, const int8_t* shift_pair) {
  return {_mm512_sllv_epi16(s.v, set1_dword(shift_pair))};
}
// acc + first · scale + second · scale, for sums that fit 16 bits.
TAMIS_INLINE I32 add_scaled_pair(I32 acc, GroupAcc first, GroupAcc second, ScalePairs s) {
  const __m512i low_words = _mm512_set4_epi32(0x0d0c0000, 0x09080000, 0x05040000, 0x01000000);
  const __m512i sums = _mm512_mask_shuffle_epi8(first.v, 0xcccccccccccccccc, second.v, low_words);
  return {_mm512_dpwssd_epi32(acc.v, sums, s.v)};
}
TAMIS_INLINE I32 signed_scaled(I32 a, Scales s) { return {_mm512_mullo_epi32(a.v, s.v)}; }
template <bool kSigned>
TAMIS_INLINE I32 dot_pairs(I32 acc, const uint8_t* pairs, const int16_t* sums) {
  const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(pairs));
  const __m512i wide = kSigned ? _mm512_cvtepi8_epi16(bytes) : _mm512_cvtepu8_epi16(bytes);
  return {_mm512_dpwssd_epi32(acc.v, wide, set1_dword(sums))};
}
TAMIS_INLINE I32 dot_high_nibbles(I32 acc, const uint8_t* pairs, const int16_t* sums) {
  const __m512i wide = _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(pairs)));
  return {_mm512_dpwssd_epi32(acc.v, _mm512_srli_epi16(wide, 4), set1_dword(sums))};
}
// Codes + 128; signed_start takes 128 · (sum of the group's activations) off beforehand.
TAMIS_INLINE I32 dot_signed(I32 acc, Codes w, const int8_t* quad) { return {dot_broadcast(acc.v, w.v, quad)}; }
TAMIS_INLINE I32 signed_start(const int16_t* lane_sums) {
  return {_mm512_dpwssd_epi32(_mm512_setzero_si512(), set1_dword(lane_sums), _mm512_set1_epi16(-128))};
}
TAMIS_INLINE void keep(I32& a) { asm volatile("" : TAMIS_REGISTER(a.v)); }
TAMIS_INLINE void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }

}  // namespace tamis::cpu::TAMIS_TARGET
