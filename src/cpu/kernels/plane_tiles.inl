// Matrix times columns on planes, for every type: integer sums of a group are exact, floating-point steps have one
// order, so a column's result does not depend on how many columns are computed with it or on the target.

namespace tamis::cpu::TAMIS_TARGET {

// ---- super-blocks of 256 with integer scales (K-quants): activations A8/256
// -------------------------------------------------

// Q4_K: [codes 32 × 64][scales 4 pairs × 32][mins 4 pairs × 32][d 16 × f16][dmin 16 × f16]
struct Q4K {
  static constexpr int kBytes = 2368, kGroup = 32, kOffset = 0;
  static constexpr bool kHasMin = true, kSignedScale = false, kAddsOffset = false;
  template <int kPair>
  static TAMIS_METHOD void pair(const uint8_t* p, int g, Codes& a, Codes& b) {
    const Codes x = codes_load(p + (g * 4 + kPair) * 64);
    a = codes_bits<0, 15, 0>(x);
    b = codes_bits<4, 15, 0>(x);
  }
  static TAMIS_METHOD const uint8_t* scales(const uint8_t* p, int pair_idx) { return p + 2048 + pair_idx * 32; }
  static TAMIS_METHOD const uint8_t* mins(const uint8_t* p, int pair_idx) { return p + 2176 + pair_idx * 32; }
  static TAMIS_METHOD F32x16 d(const uint8_t* p) { return f32_from_f16(p + 2304); }
  static TAMIS_METHOD F32x16 dmin(const uint8_t* p) { return f32_from_f16(p + 2336); }
};

// Q5_K: [codes 32 × 64][bit plane 8 × 64: bit q of a byte belongs to quad q][scales][mins][d][dmin]
struct Q5K {
  static constexpr int kBytes = 2880, kGroup = 32, kOffset = 16;
  static constexpr bool kHasMin = true, kSignedScale = false, kAddsOffset = true;
  template <int kPair>
  static TAMIS_METHOD void pair(const uint8_t* p, int g, Codes& a, Codes& b) {
    const Codes x = codes_load(p + (g * 4 + kPair) * 64), h = codes_load(p + 2048 + g * 64);
    a = codes_or(codes_bits<0, 15, 0>(x), codes_bits<2 * kPair, 1, 4>(h));
    b = codes_or(codes_bits<4, 15, 0>(x), codes_bits<2 * kPair + 1, 1, 4>(h));
  }
  static TAMIS_METHOD const uint8_t* scales(const uint8_t* p, int pair_idx) { return p + 2560 + pair_idx * 32; }
  static TAMIS_METHOD const uint8_t* mins(const uint8_t* p, int pair_idx) { return p + 2688 + pair_idx * 32; }
  static TAMIS_METHOD F32x16 d(const uint8_t* p) { return f32_from_f16(p + 2816); }
  static TAMIS_METHOD F32x16 dmin(const uint8_t* p) { return f32_from_f16(p + 2848); }
};

// Q6_K: [codes 32 × 64][two-bit plane 16 × 64: bits 2q, 2q+1 belong to quad q of the group][scales 8 pairs × 32][d]
struct Q6K {
  static constexpr int kBytes = 3360, kGroup = 16, kOffset = 32;
  static constexpr bool kHasMin = false, kSignedScale = true, kAddsOffset = false;
  template <int kPair>
  static TAMIS_METHOD void pair(const uint8_t* p, int g, Codes& a, Codes& b) {
    const Codes x = codes_load(p + (g * 2 + kPair) * 64), h = codes_load(p + 2048 + g * 64);
    a = codes_or(codes_bits<0, 15, 0>(x), codes_bits<4 * kPair, 3, 4>(h));
    b = codes_or(codes_bits<4, 15, 0>(x), codes_bits<4 * kPair + 2, 3, 4>(h));
  }
  static TAMIS_METHOD const uint8_t* scales(const uint8_t* p, int pair_idx) { return p + 3072 + pair_idx * 32; }
  static TAMIS_METHOD const uint8_t* mins(const uint8_t* p, int) { return p; }
  static TAMIS_METHOD F32x16 d(const uint8_t* p) { return f32_from_f16(p + 3328); }
  static TAMIS_METHOD F32x16 dmin(const uint8_t*) { return f32_zero(); }
};

// Where the codes of a block come from: the planes themselves, or a panel of bytes unpacked before ([64 quads][64]).
struct FromPlanes {
  static constexpr bool kIsStream = true;
  template <class W, int kPair>
  static TAMIS_METHOD void pair(const uint8_t* block, const uint8_t*, int g, Codes& a, Codes& b) {
    W::template pair<kPair>(block, g, a, b);
  }
};
struct FromPanel {
  static constexpr bool kIsStream = false;
  template <class W, int kPair>
  static TAMIS_METHOD void pair(const uint8_t*, const uint8_t* panel, int g, Codes& a, Codes& b) {
    const uint8_t* p = panel + (g * (W::kGroup / 4) + 2 * kPair) * 64;
    a = codes_load(p);
    b = codes_load(p + 64);
  }
};

template <class W, class From, int NC, int kPair>
TAMIS_INLINE void dot_pair(const uint8_t* block, const uint8_t* panel, int g, const int8_t* quads, GroupAcc* acc) {
  Codes a, b;
  From::template pair<W, kPair>(block, panel, g, a, b);
  const int8_t* q = quads + (g * (W::kGroup / 4) + 2 * kPair) * NC * 4;
  TAMIS_UNROLL for (int c = 0; c < NC; ++c) {
    acc[c] = group_dot(acc[c], a, q + c * 4);
    keep(acc[c]);
  }
  TAMIS_UNROLL for (int c = 0; c < NC; ++c) {
    acc[c] = group_dot(acc[c], b, q + (NC + c) * 4);
    keep(acc[c]);
  }
}

template <class W, class From, int NC, bool kOdd>
TAMIS_INLINE void super_group(const uint8_t* block, const uint8_t* panel, int g, const int8_t* acts, I32* isum) {
  const auto* lanes = reinterpret_cast<const int16_t*>(acts + (W::kGroup == 16 ? 256 : 320) * NC) + g * NC * 2;
  GroupAcc acc[NC];
  TAMIS_UNROLL for (int c = 0; c < NC; ++c) {
    if constexpr (W::kOffset == 0)
      acc[c] = group_start();
    else
      acc[c] = group_start_offset<W::kOffset>(lanes + c * 2);
  }
  dot_pair<W, From, NC, 0>(block, panel, g, acts, acc);
  dot_pair<W, From, NC, 1>(block, panel, g, acts, acc);
  if constexpr (W::kGroup == 32) {
    dot_pair<W, From, NC, 2>(block, panel, g, acts, acc);
    dot_pair<W, From, NC, 3>(block, panel, g, acts, acc);
  }
  const Scales s = scales_load<W::kSignedScale, kOdd>(W::scales(block, g / 2));
  TAMIS_UNROLL for (int c = 0; c < NC; ++c) isum[c] = i32_add(isum[c], group_scaled(acc[c], s));
}

// acc[c] (a column's 16 rows, f32) += block · activations: d·Σ, − dmin·Σ, then one fma with the activations' scale.
template <class W, class From, int NC>
TAMIS_INLINE void super_block(const uint8_t* block, const uint8_t* panel, const int8_t* acts, float* acc) {
  I32 isum[NC];
  TAMIS_UNROLL for (int c = 0; c < NC; ++c) isum[c] = i32_zero();
  for (int g = 0; g < 256 / W::kGroup; g += 2) {
    super_group<W, From, NC, false>(block, panel, g, acts, isum);
    super_group<W, From, NC, true>(block, panel, g + 1, acts, isum);
  }
  const auto* sums = reinterpret_cast<const int16_t*>(acts + (W::kGroup == 32 ? 352 : 368) * NC);
  const auto* scale = reinterpret_cast<const float*>(acts + 400 * NC);
  const F32x16 d = W::d(block), dmin = W::dmin(block);
  TAMIS_UNROLL for (int c = 0; c < NC; ++c) {
    I32 extra = i32_zero(), msum = i32_zero();
    TAMIS_UNROLL for (int i = 0; i < 128 / W::kGroup; ++i) {
      if constexpr (W::kAddsOffset) extra = dot_pairs(extra, W::scales(block, i), sums + (i * NC + c) * 2);
      if constexpr (W::kHasMin) msum = dot_pairs(msum, W::mins(block, i), sums + (i * NC + c) * 2);
    }
    if constexpr (W::kAddsOffset) isum[c] = i32_add(isum[c], i32_shift_left<4>(extra));
    F32x16 y = f32_mul(d, f32_from_i32(isum[c]));
    if constexpr (W::kHasMin) y = f32_sub(y, f32_mul(dmin, f32_from_i32(msum)));
    f32_store(acc + c * 16, f32_add(f32_load(acc + c * 16), f32_mul(f32_set1(scale[c]), y)));
  }
}

template <class W>
TAMIS_INLINE void unpack_block(const uint8_t* block, uint8_t* panel) {
  for (int g = 0; g < 256 / W::kGroup; ++g) {
    uint8_t* out = panel + g * W::kGroup * 16;
    Codes a, b;
    W::template pair<0>(block, g, a, b);
    codes_store(out, a);
    codes_store(out + 64, b);
    W::template pair<1>(block, g, a, b);
    codes_store(out + 128, a);
    codes_store(out + 192, b);
    if constexpr (W::kGroup == 32) {
      W::template pair<2>(block, g, a, b);
      codes_store(out + 256, a);
      codes_store(out + 320, b);
      W::template pair<3>(block, g, a, b);
      codes_store(out + 384, a);
      codes_store(out + 448, b);
    }
  }
}

// One panel × NC columns over n_blocks blocks.
template <class W, class From, int NC>
static __attribute__((noinline)) void super_tile(const uint8_t* planes, const uint8_t* panel, const int8_t* acts,
                                                 int n_blocks, float* acc) {
  for (int b = 0; b < n_blocks; ++b) {
    const uint8_t* block = planes + b * W::kBytes;
    if constexpr (NC <= 4 && From::kIsStream) {
      TAMIS_UNROLL for (int i = 0; i < W::kBytes / 64; ++i) prefetch(block + 1216 + i * 64);
    }
    super_block<W, From, NC>(block, panel + b * 4096, acts + b * kActs256Bytes * NC, acc);
  }
}

// ---- blocks of 32 with a float scale (legacy types): activations A8/32
// --------------------------------------------------------

// Q4_0: [d 16 × f16][codes 4 × 64]   Q4_1: [d][m][codes]   Q5_0: [d][codes][bit plane 64]   Q5_1: [d][m][codes][bit
// plane]
template <bool kHasMinT, bool kHasHighBit>
struct Legacy {
  static constexpr bool kHasMin = kHasMinT, kSigned = false, kAddsOffset = kHasMinT && kHasHighBit;
  static constexpr int kHeader = kHasMin ? 64 : 32, kBytes = kHeader + 256 + (kHasHighBit ? 64 : 0);
  static constexpr int kOffset = kHasHighBit ? 16 : kHasMin ? 0 : 8;
  template <int kPair>
  static TAMIS_METHOD void pair(const uint8_t* p, Codes& a, Codes& b) {
    const Codes x = codes_load(p + kHeader + kPair * 64);
    a = codes_bits<0, 15, 0>(x);
    b = codes_bits<4, 15, 0>(x);
    if constexpr (kHasHighBit) {
      const Codes h = codes_load(p + kHeader + 256);
      a = codes_or(a, codes_bits<2 * kPair, 1, 4>(h));
      b = codes_or(b, codes_bits<2 * kPair + 1, 1, 4>(h));
    }
  }
};
using Q40 = Legacy<false, false>;
using Q41 = Legacy<true, false>;
using Q50 = Legacy<false, true>;
using Q51 = Legacy<true, true>;

// Q8_0: [d 16 × f16][codes 8 × 64]
struct Q80 {
  static constexpr bool kHasMin = false, kSigned = true, kAddsOffset = false;
  static constexpr int kHeader = 32, kBytes = 544, kOffset = 0;
  template <int kPair>
  static TAMIS_METHOD void pair(const uint8_t* p, Codes& a, Codes& b) {
    a = codes_load(p + 32 + kPair * 128);
    b = codes_load(p + 96 + kPair * 128);
  }
};

template <class W, class From, int NC, int kPair, class Acc>
TAMIS_INLINE void small_pair(const uint8_t* block, const uint8_t* panel, const int8_t* quads, Acc* acc) {
  Codes a, b;
  if constexpr (From::kIsStream) {
    W::template pair<kPair>(block, a, b);
  } else {
    a = codes_load(panel + kPair * 128);
    b = codes_load(panel + kPair * 128 + 64);
  }
  const int8_t* q = quads + 2 * kPair * NC * 4;
  if constexpr (W::kSigned) {
    TAMIS_UNROLL for (int c = 0; c < NC; ++c) {
      acc[c] = dot_signed(acc[c], a, q + c * 4);
      keep(acc[c]);
    }
    TAMIS_UNROLL for (int c = 0; c < NC; ++c) {
      acc[c] = dot_signed(acc[c], b, q + (NC + c) * 4);
      keep(acc[c]);
    }
  } else {
    TAMIS_UNROLL for (int c = 0; c < NC; ++c) {
      acc[c] = group_dot(acc[c], a, q + c * 4);
      keep(acc[c]);
    }
    TAMIS_UNROLL for (int c = 0; c < NC; ++c) {
      acc[c] = group_dot(acc[c], b, q + (NC + c) * 4);
      keep(acc[c]);
    }
  }
}

template <class W>
struct SmallAcc {
  using type = GroupAcc;
};
template <>
struct SmallAcc<Q80> {
  using type = I32;
};

template <class W, class From, int NC>
TAMIS_INLINE void small_block(const uint8_t* block, const uint8_t* panel, const int8_t* acts, F32x16* acc) {
  const auto* lanes = reinterpret_cast<const int16_t*>(acts + 32 * NC);
  const auto* scale = reinterpret_cast<const float*>(acts + 36 * NC);
  const auto* scaled_sum = reinterpret_cast<const float*>(acts + 40 * NC);
  typename SmallAcc<W>::type dot[NC];
  TAMIS_UNROLL for (int c = 0; c < NC; ++c) {
    if constexpr (W::kSigned)
      dot[c] = signed_start(lanes + c * 2);
    else if constexpr (W::kOffset == 0)
      dot[c] = group_start();
    else
      dot[c] = group_start_offset<W::kOffset>(lanes + c * 2);
  }
  small_pair<W, From, NC, 0>(block, panel, acts, dot);
  small_pair<W, From, NC, 1>(block, panel, acts, dot);
  small_pair<W, From, NC, 2>(block, panel, acts, dot);
  small_pair<W, From, NC, 3>(block, panel, acts, dot);
  const F32x16 d = f32_from_f16(block);
  TAMIS_UNROLL for (int c = 0; c < NC; ++c) {
    I32 sum;
    if constexpr (W::kSigned)
      sum = dot[c];
    else
      sum = group_sum(dot[c]);
    if constexpr (W::kAddsOffset) sum = i32_add(sum, i32_set1(W::kOffset * (lanes[c * 2] + lanes[c * 2 + 1])));
    acc[c] = f32_add(acc[c], f32_mul(f32_mul(d, f32_set1(scale[c])), f32_from_i32(sum)));
    if constexpr (W::kHasMin) {
      const F32x16 m = f32_from_f16(block + 32);
      acc[c] = f32_add(acc[c], f32_mul(m, f32_set1(scaled_sum[c])));
    }
  }
}

template <class W>
TAMIS_INLINE void unpack_small(const uint8_t* block, uint8_t* out) {
  Codes a, b;
  W::template pair<0>(block, a, b);
  codes_store(out, a);
  codes_store(out + 64, b);
  W::template pair<1>(block, a, b);
  codes_store(out + 128, a);
  codes_store(out + 192, b);
  W::template pair<2>(block, a, b);
  codes_store(out + 256, a);
  codes_store(out + 320, b);
  W::template pair<3>(block, a, b);
  codes_store(out + 384, a);
  codes_store(out + 448, b);
}

template <class W, class From, int NC>
static __attribute__((noinline)) void small_tile(const uint8_t* planes, const uint8_t* panel, const int8_t* acts,
                                                 int n_blocks, float* out) {
  F32x16 acc[NC];
  TAMIS_UNROLL for (int c = 0; c < NC; ++c) acc[c] = f32_load(out + c * 16);
  for (int b = 0; b < n_blocks; ++b) {
    const uint8_t* block = planes + b * W::kBytes;
    if constexpr (NC <= 4 && From::kIsStream) {
      TAMIS_UNROLL for (int i = 0; i < (W::kBytes + 63) / 64; ++i) prefetch(block + 1216 + i * 64);
    }
    small_block<W, From, NC>(block, panel + b * 512, acts + b * kActs32Bytes * NC, acc);
  }
  TAMIS_UNROLL for (int c = 0; c < NC; ++c) f32_store(out + c * 16, acc[c]);
}

}  // namespace tamis::cpu::TAMIS_TARGET
