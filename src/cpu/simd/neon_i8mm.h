// Eight columns times sixteen rows with `smmla`, which multiplies 2 × 8 signed bytes by 8 × 2 in one instruction: twice
// the products of `sdot`. Source: Arm Architecture Reference Manual, A-profile, C7 (SMMLA).
#pragma once

#include "cpu/simd/no_tile_registers.h"

namespace tamis::cpu::TAMIS_TARGET {

constexpr bool kHasTiles = true, kHasTileRegisters = false;

// Results of one instruction: {column 0 · row 0, column 0 · row 1, column 1 · row 0, column 1 · row 1}. Two of them,
// rows 0 … 3, become four rows of either column.
TAMIS_INLINE int32x4_t first_column(int32x4_t low, int32x4_t high) {
  return vreinterpretq_s32_s64(vtrn1q_s64(vreinterpretq_s64_s32(low), vreinterpretq_s64_s32(high)));
}
TAMIS_INLINE int32x4_t second_column(int32x4_t low, int32x4_t high) {
  return vreinterpretq_s32_s64(vtrn2q_s64(vreinterpretq_s64_s32(low), vreinterpretq_s64_s32(high)));
}

template <int kElements, bool kIsFirst>
TAMIS_INLINE void add_four_columns(const int8_t* columns, int stride, const uint8_t* codes, I32* sums) {
  int32x4_t acc[2][8];  // [pair of columns][pair of rows]
  TAMIS_UNROLL for (int i = 0; i < 16; ++i) acc[i / 8][i % 8] = vdupq_n_s32(0);
  for (int k = 0; k < kElements; k += 8) {
    int8x16_t x[2];
    TAMIS_UNROLL for (int p = 0; p < 2; ++p) {
      x[p] = vcombine_s8(vld1_s8(columns + 2 * p * stride + k), vld1_s8(columns + (2 * p + 1) * stride + k));
    }
    TAMIS_UNROLL for (int r = 0; r < 4; ++r) {
      const uint32x4_t near = vreinterpretq_u32_u8(vld1q_u8(codes + k * 16 + r * 16)),
                       far = vreinterpretq_u32_u8(vld1q_u8(codes + k * 16 + 64 + r * 16));
      const int8x16_t low = vreinterpretq_s8_u32(vzip1q_u32(near, far)),
                      high = vreinterpretq_s8_u32(vzip2q_u32(near, far));
      TAMIS_UNROLL for (int p = 0; p < 2; ++p) {
        acc[p][2 * r] = vmmlaq_s32(acc[p][2 * r], x[p], low);
        acc[p][2 * r + 1] = vmmlaq_s32(acc[p][2 * r + 1], x[p], high);
      }
    }
  }
  TAMIS_UNROLL for (int p = 0; p < 2; ++p) {
    const int32x4_t* const a = acc[p];
    const I32 first{first_column(a[0], a[1]), first_column(a[2], a[3]), first_column(a[4], a[5]),
                    first_column(a[6], a[7])};
    const I32 second{second_column(a[0], a[1]), second_column(a[2], a[3]), second_column(a[4], a[5]),
                     second_column(a[6], a[7])};
    sums[2 * p] = kIsFirst ? first : i32_add(sums[2 * p], first);
    sums[2 * p + 1] = kIsFirst ? second : i32_add(sums[2 * p + 1], second);
  }
}

// sums [8 columns] += columns · codes, see add_by_tiles. Codes are at most 127, so signed products serve all types.
template <int kElements, bool kIsFirst, class Sum>
TAMIS_INLINE void add_by_vectors(const int8_t* columns, int stride, const uint8_t* codes, Sum* sums) {
  add_four_columns<kElements, kIsFirst>(columns, stride, codes, sums);
  add_four_columns<kElements, kIsFirst>(columns + 4 * stride, stride, codes, sums + 4);
}

}  // namespace tamis::cpu::TAMIS_TARGET
