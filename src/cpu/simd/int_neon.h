// The SIMD vocabulary on NEON: one register is 4 rows × 4 codes, sixteen rows are four of them. With the dot-product
// extension `sdot` adds the products of four codes to a row's int32 at once. Source: Arm Architecture Reference
// Manual, A-profile, C7 (SMULL, SADALP, SDOT).
#pragma once

#include <arm_neon.h>

namespace tamis::cpu::TAMIS_TARGET {

// Rows 0 … 3, 4 … 7, 8 … 11, 12 … 15: names, not an array, so that compilers keep them in registers.
struct I32 {
  int32x4_t a, b, c, d;
};
struct Codes {
  uint8x16_t a, b, c, d;
};
typedef I32 GroupAcc;
typedef I32 Scales;

#ifdef TAMIS_TILES
constexpr int kTileColumns = 8;
#else
constexpr int kTileColumns = 4;
#endif
constexpr bool kWideSums = true;
constexpr int kSignedBias = 0;
constexpr uint64_t kSignedFlip = 0;
constexpr int kPrefetchAhead = 0;
constexpr bool kPrefetchesColumns = false;

TAMIS_INLINE void keep(I32& v) { asm volatile("" : "+w"(v.a), "+w"(v.b), "+w"(v.c), "+w"(v.d)); }
TAMIS_INLINE void prefetch(const void* p) { __builtin_prefetch(p); }

TAMIS_INLINE F32x16 f32_from_f16(const uint8_t* p) {
  const float16x8_t low = vreinterpretq_f16_u8(vld1q_u8(p)), high = vreinterpretq_f16_u8(vld1q_u8(p + 16));
  return {(VecF)vcvt_f32_f16(vget_low_f16(low)), (VecF)vcvt_f32_f16(vget_high_f16(low)),
          (VecF)vcvt_f32_f16(vget_low_f16(high)), (VecF)vcvt_f32_f16(vget_high_f16(high))};
}
TAMIS_INLINE F32x16 f32_from_bf16(const uint8_t* p) {
  const uint16x8_t low = vreinterpretq_u16_u8(vld1q_u8(p)), high = vreinterpretq_u16_u8(vld1q_u8(p + 16));
  return {(VecF)vshll_n_u16(vget_low_u16(low), 16), (VecF)vshll_high_n_u16(low, 16),
          (VecF)vshll_n_u16(vget_low_u16(high), 16), (VecF)vshll_high_n_u16(high, 16)};
}
// Half of each unsigned E4M3 byte (see int_avx512.h): its bits seven places up are those of a half-precision number.
template <bool kOdd>
TAMIS_INLINE F32x16 f32_from_ue4m3_half(const uint8_t* p) {
  const uint8x16_t bytes = vld2q_u8(p).val[kOdd ? 1 : 0];
  const float16x8_t low = vreinterpretq_f16_u16(vshll_n_u8(vget_low_u8(bytes), 7)),
                    high = vreinterpretq_f16_u16(vshll_high_n_u8(bytes, 7));
  return {(VecF)vcvt_f32_f16(vget_low_f16(low)) * 128.0f, (VecF)vcvt_f32_f16(vget_high_f16(low)) * 128.0f,
          (VecF)vcvt_f32_f16(vget_low_f16(high)) * 128.0f, (VecF)vcvt_f32_f16(vget_high_f16(high)) * 128.0f};
}
TAMIS_INLINE F32x16 f32_from_i32(I32 v) {
  return {(VecF)vcvtq_f32_s32(v.a), (VecF)vcvtq_f32_s32(v.b), (VecF)vcvtq_f32_s32(v.c), (VecF)vcvtq_f32_s32(v.d)};
}

TAMIS_INLINE I32 i32_set1(int32_t x) { return {vdupq_n_s32(x), vdupq_n_s32(x), vdupq_n_s32(x), vdupq_n_s32(x)}; }
TAMIS_INLINE I32 i32_zero() { return i32_set1(0); }
TAMIS_INLINE I32 i32_add(I32 x, I32 y) {
  return {vaddq_s32(x.a, y.a), vaddq_s32(x.b, y.b), vaddq_s32(x.c, y.c), vaddq_s32(x.d, y.d)};
}
// a << *count, for a count that four bytes give.
TAMIS_INLINE I32 i32_shifted(I32 x, const int8_t* count) {
  int32_t n;
  __builtin_memcpy(&n, count, 4);
  const int32x4_t by = vdupq_n_s32(n);
  return {vshlq_s32(x.a, by), vshlq_s32(x.b, by), vshlq_s32(x.c, by), vshlq_s32(x.d, by)};
}
TAMIS_INLINE I32 i32_sub(I32 x, I32 y) {
  return {vsubq_s32(x.a, y.a), vsubq_s32(x.b, y.b), vsubq_s32(x.c, y.c), vsubq_s32(x.d, y.d)};
}
TAMIS_INLINE I32 i32_mul(I32 x, I32 y) {
  return {vmulq_s32(x.a, y.a), vmulq_s32(x.b, y.b), vmulq_s32(x.c, y.c), vmulq_s32(x.d, y.d)};
}
template <int kFactor>
TAMIS_INLINE I32 i32_times(I32 v) {
  return i32_mul(v, i32_set1(kFactor));
}

TAMIS_INLINE Codes codes_load(const uint8_t* p) {
  return {vld1q_u8(p), vld1q_u8(p + 16), vld1q_u8(p + 32), vld1q_u8(p + 48)};
}
TAMIS_INLINE Codes held(Codes v) {
  asm("" : "+w"(v.a), "+w"(v.b), "+w"(v.c), "+w"(v.d));
  return v;
}
TAMIS_INLINE void codes_store(uint8_t* p, Codes v) {
  vst1q_u8(p, v.a);
  vst1q_u8(p + 16, v.b);
  vst1q_u8(p + 32, v.c);
  vst1q_u8(p + 48, v.d);
}
TAMIS_INLINE Codes codes_or(Codes x, Codes y) {
  return {vorrq_u8(x.a, y.a), vorrq_u8(x.b, y.b), vorrq_u8(x.c, y.c), vorrq_u8(x.d, y.d)};
}
// ((byte >> kRight) & kMask) << kLeft
template <int kRight, int kMask, int kLeft>
TAMIS_INLINE uint8x16_t bits_of(uint8x16_t v) {
  if constexpr (kRight > kLeft) v = vshrq_n_u8(v, kRight - kLeft);
  if constexpr (kLeft > kRight) v = vshlq_n_u8(v, kLeft - kRight);
  return vandq_u8(v, vdupq_n_u8(kMask << kLeft));
}
template <int kRight, int kMask, int kLeft>
TAMIS_INLINE Codes codes_bits(Codes v) {
  return {bits_of<kRight, kMask, kLeft>(v.a), bits_of<kRight, kMask, kLeft>(v.b), bits_of<kRight, kMask, kLeft>(v.c),
          bits_of<kRight, kMask, kLeft>(v.d)};
}

// Byte i becomes byte (i mod 16) of kLow, kHigh; bytes are below 16.
template <uint64_t kLow, uint64_t kHigh>
TAMIS_INLINE Codes codes_lookup(Codes v) {
  const uint8x16_t table = vreinterpretq_u8_u64(vcombine_u64(vcreate_u64(kLow), vcreate_u64(kHigh)));
  return {vqtbl1q_u8(table, v.a), vqtbl1q_u8(table, v.b), vqtbl1q_u8(table, v.c), vqtbl1q_u8(table, v.d)};
}
TAMIS_INLINE Codes codes_signed(Codes v) { return v; }

// acc[row] += Σ of 4 products. Without `sdot` two products meet in int16: |2 · 128 · 127| fits.
TAMIS_INLINE int32x4_t dot_of(int32x4_t acc, int8x16_t w, int8x16_t x) {
#ifdef __ARM_FEATURE_DOTPROD
  return vdotq_s32(acc, w, x);
#else
  const int16x8_t low = vmull_s8(vget_low_s8(w), vget_low_s8(x)), high = vmull_high_s8(w, x);
  return vpadalq_s16(acc, vpaddq_s16(low, high));
#endif
}
// Signed codes, exact for activations in ±127.
TAMIS_INLINE I32 dot_signed(I32 acc, Codes w, const int8_t* quad) {
  int32_t bits;
  __builtin_memcpy(&bits, quad, 4);
  const int8x16_t x = vreinterpretq_s8_s32(vdupq_n_s32(bits));
  return {dot_of(acc.a, vreinterpretq_s8_u8(w.a), x), dot_of(acc.b, vreinterpretq_s8_u8(w.b), x),
          dot_of(acc.c, vreinterpretq_s8_u8(w.c), x), dot_of(acc.d, vreinterpretq_s8_u8(w.d), x)};
}
TAMIS_INLINE I32 signed_start(const int16_t*) { return i32_zero(); }

// A group's codes are at most 127 on every target (AVX2's int16 lanes need less), so signed products serve them too.
TAMIS_INLINE GroupAcc group_start() { return i32_zero(); }
template <int kOffset>
TAMIS_INLINE GroupAcc group_start_offset(const int16_t* lane_sums) {
  return i32_set1(-kOffset * (lane_sums[0] + lane_sums[1]));
}
TAMIS_INLINE GroupAcc group_dot(GroupAcc acc, Codes w, const int8_t* quad) { return dot_signed(acc, w, quad); }
TAMIS_INLINE I32 group_sum(GroupAcc acc) { return acc; }
TAMIS_INLINE I32 group_scaled(GroupAcc acc, Scales s) { return i32_mul(acc, s); }
TAMIS_INLINE I32 signed_scaled(I32 sum, Scales s) { return i32_mul(sum, s); }

// Sixteen bytes as int32.
template <bool kSigned>
TAMIS_INLINE I32 widened(uint8x16_t bytes) {
  int16x8_t low, high;
  if constexpr (kSigned) {
    low = vmovl_s8(vget_low_s8(vreinterpretq_s8_u8(bytes)));
    high = vmovl_high_s8(vreinterpretq_s8_u8(bytes));
  } else {
    low = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(bytes)));
    high = vreinterpretq_s16_u16(vmovl_high_u8(bytes));
  }
  return {vmovl_s16(vget_low_s16(low)), vmovl_high_s16(low), vmovl_s16(vget_low_s16(high)), vmovl_high_s16(high)};
}
// Scales come as 16 rows × (group 2i, group 2i+1) bytes; kOdd picks one.
template <bool kSigned, bool kOdd>
TAMIS_INLINE Scales scales_load(const uint8_t* pairs) {
  return widened<kSigned>(vld2q_u8(pairs).val[kOdd ? 1 : 0]);
}
template <bool kOdd>
TAMIS_INLINE Scales scales_load_nibbles(const uint8_t* pairs) {
  return widened<false>(vandq_u8(vld2q_u8(pairs).val[kOdd ? 1 : 0], vdupq_n_u8(15)));
}
TAMIS_INLINE I32 add_scaled(I32 acc, I32 v, int16_t factor) {
  return {vmlaq_n_s32(acc.a, v.a, factor), vmlaq_n_s32(acc.b, v.b, factor), vmlaq_n_s32(acc.c, v.c, factor),
          vmlaq_n_s32(acc.d, v.d, factor)};
}
// acc[row] += pairs[row][0] · sums[0] + pairs[row][1] · sums[1]
template <bool kSigned>
TAMIS_INLINE I32 dot_pairs(I32 acc, const uint8_t* pairs, const int16_t* sums) {
  const uint8x16x2_t both = vld2q_u8(pairs);
  return add_scaled(add_scaled(acc, widened<kSigned>(both.val[0]), sums[0]), widened<kSigned>(both.val[1]), sums[1]);
}
TAMIS_INLINE I32 dot_high_nibbles(I32 acc, const uint8_t* pairs, const int16_t* sums) {
  const uint8x16x2_t both = vld2q_u8(pairs);
  acc = add_scaled(acc, widened<false>(vshrq_n_u8(both.val[0], 4)), sums[0]);
  return add_scaled(acc, widened<false>(vshrq_n_u8(both.val[1], 4)), sums[1]);
}

}  // namespace tamis::cpu::TAMIS_TARGET
