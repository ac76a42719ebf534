// One panel times a tile of NC columns on planes, for every type: integer sums of a group are exact, floating-point
// steps have one order, so a column's result does not depend on how many columns are computed with it or on the target.

namespace tamis::cpu::TAMIS_TARGET {

// Where the codes of a block come from: the planes themselves, or a panel of codes unpacked before ([quads][64]).
struct FromPlanes {
  static constexpr bool kIsStream = true;
};
struct FromPanel {
  static constexpr bool kIsStream = false;
};

template <class W>
struct SumOf {
  typedef GroupAcc type;
};
template <class W>
requires(W::kSigned) struct SumOf<W> {
  typedef I32 type;
};

// sums[c] += codes · quad of column c, for both quads of a pair.
template <class W, int NC, class Sum>
TAMIS_INLINE void dot_pair(Codes a, Codes b, const int8_t* quads, Sum* sums) {
  for (int q = 0; q < 2; ++q) {
    TAMIS_UNROLL for (int c = 0; c < NC; ++c) {
      const int8_t* quad = quads + (q * NC + c) * 4;
      if constexpr (W::kSigned)
        sums[c] = dot_signed(sums[c], q == 0 ? a : b, quad);
      else
        sums[c] = group_dot(sums[c], q == 0 ? a : b, quad);
      keep(sums[c]);
    }
  }
}

// Part kPart of the next kBytes of packed columns after those at `acts`. They come from the second cache in one stream,
// which Zen 4's own prefetcher does not keep ahead of products that take a cycle each: 5 % of a prompt's time.
template <int kBytes, int kParts>
TAMIS_INLINE void prefetch_columns(const int8_t* acts, int part) {
  if constexpr (kPrefetchesColumns)
    for (int i = 0; i < kBytes / kParts; i += 64) prefetch(acts + kBytes + part * (kBytes / kParts) + i);
}

// ---- blocks of 256 with integer scales: activations A8/256

// What is taken off codes before their products are added (kStart), and what is left to take off by sums of
// activations (kRest).
template <class W>
struct Offset {
  static constexpr int kStart = W::kSigned || (kWideSums && W::kHasScale) ? 0 : W::kNarrowStart;
  static constexpr int kRest = (W::kSigned ? kSignedBias : W::kOffset) - kStart;
};

// One block, one unit of 64 elements in it, and the columns.
struct UnitAt {
  const uint8_t* block;
  const uint8_t* unit;   // codes in planes
  const uint8_t* panel;  // codes unpacked, [16 quads][64]
  const int8_t* acts;
  int unit_idx;
};

template <class W, class From, int kPair>
TAMIS_INLINE void codes_of_pair(const UnitAt& at, Codes& a, Codes& b) {
  if constexpr (From::kIsStream) {
    W::template pair<kPair>(at.unit, a, b);
  } else {
    a = codes_load(at.panel + kPair * 128);
    b = codes_load(at.panel + kPair * 128 + 64);
  }
}

template <class W, int NC, int kGroup, class Sum>
TAMIS_INLINE void start_sums(const UnitAt& at, Sum* sums) {
  constexpr int kPerUnit = 64 / W::kGroup;
  const auto* lanes = reinterpret_cast<const int16_t*>(at.acts + (W::kGroup == 16 ? 256 : 320) * NC) +
                      (at.unit_idx * kPerUnit + kGroup) * NC * 2;
  TAMIS_UNROLL for (int c = 0; c < NC; ++c) {
    if constexpr (W::kSigned)
      sums[c] = i32_zero();
    else if constexpr (Offset<W>::kStart == 0)
      sums[c] = group_start();
    else
      sums[c] = group_start_offset<Offset<W>::kStart>(lanes + c * 2);
  }
}

// sums[c] = Σ codes · activations of group kGroup of the unit, after what start_sums takes off.
template <class W, class From, int NC, int kGroup, class Sum>
TAMIS_INLINE void sum_group(const UnitAt& at, Sum* sums) {
  constexpr int kFirst = kGroup * W::kGroup / 8;
  start_sums<W, NC, kGroup>(at, sums);
  if constexpr (kHasTiles && NC == kTileColumns) {
    add_by_tiles<W, Offset<W>::kStart == 0>(at.acts + at.unit_idx * 64 + kGroup * W::kGroup, 256,
                                            at.panel + kFirst * 128, sums);
    return;
  }
  const int8_t* quads = at.acts + (at.unit_idx * 8 + kFirst) * NC * 8;
  Codes a, b;
  codes_of_pair<W, From, kFirst>(at, a, b);
  dot_pair<W, NC>(a, b, quads, sums);
  codes_of_pair<W, From, kFirst + 1>(at, a, b);
  dot_pair<W, NC>(a, b, quads + NC * 8, sums);
  if constexpr (W::kGroup == 32) {
    codes_of_pair<W, From, kFirst + 2>(at, a, b);
    dot_pair<W, NC>(a, b, quads + NC * 16, sums);
    codes_of_pair<W, From, kFirst + 3>(at, a, b);
    dot_pair<W, NC>(a, b, quads + NC * 24, sums);
  }
}

// products[c] (+)= scale · Σ codes · activations of group kGroup of the unit; kIsFirst: products hold nothing before.
template <class W, class From, int NC, int kGroup, bool kIsFirst>
TAMIS_INLINE void add_group(const UnitAt& at, I32* products) {
  constexpr int kScale = kGroup * W::kGroup / W::kScaleGroup;
  typename SumOf<W>::type sums[NC];
  sum_group<W, From, NC, kGroup>(at, sums);
  Scales s;
  if constexpr (W::kHasScale)
    s = W::template scale<kScale % 2 != 0>(at.block, at.unit_idx * (32 / W::kScaleGroup) + kScale / 2);
  TAMIS_UNROLL for (int c = 0; c < NC; ++c) {
    I32 product;
    if constexpr (!W::kHasScale)
      product = group_sum(sums[c]);
    else if constexpr (W::kSigned)
      product = signed_scaled(sums[c], s);
    else
      product = group_scaled(sums[c], s);
    products[c] = kIsFirst ? product : i32_add(products[c], product);
  }
}

template <int NC>
TAMIS_INLINE const int8_t* shifts_of_half(const UnitAt& at, int half) {
  return at.acts + (404 + (at.unit_idx * 2 + half) * 4) * NC;
}

// total[c] += the products of 32 elements, half kHalf of the unit, shifted as those activations are.
template <class W, class From, int NC, int kHalf>
TAMIS_INLINE void add_half_unit(const UnitAt& at, I32* total) {
  I32 products[NC];
  if constexpr (W::kGroup == 32) {
    add_group<W, From, NC, kHalf, true>(at, products);
  } else {
    add_group<W, From, NC, 2 * kHalf, true>(at, products);
    add_group<W, From, NC, 2 * kHalf + 1, false>(at, products);
  }
  const int8_t* const shifts = shifts_of_half<NC>(at, kHalf);
  TAMIS_UNROLL for (int c = 0; c < NC; ++c) total[c] = i32_add(total[c], i32_shifted(products[c], shifts + 4 * c));
}

// The same, given the sums of that half's two groups.
template <class W, int NC, int kHalf>
TAMIS_INLINE void add_pair_of_half(const UnitAt& at, const GroupAcc* first, const GroupAcc* second, I32* total) {
  const ScalePairs s = W::scale_pairs(at.block, at.unit_idx * 2 + kHalf);
  const int8_t* const shifts = shifts_of_half<NC>(at, kHalf);
  TAMIS_UNROLL for (int c = 0; c < NC; ++c) {
    const I32 products = add_scaled_pair(i32_zero(), first[c], second[c], s);
    total[c] = i32_add(total[c], i32_shifted(products, shifts + 4 * c));
  }
}

// The same for all of the unit, a product for every two groups.
template <class W, class From, int NC>
TAMIS_INLINE void add_unit_by_pairs(const UnitAt& at, I32* total) {
  GroupAcc first[NC], second[NC];
  if constexpr (W::kGroup == 32) {
    sum_group<W, From, NC, 0>(at, first);
    sum_group<W, From, NC, 1>(at, second);
    const ScalePairs s = W::scale_pairs(at.block, at.unit_idx);
    const int8_t* const shift_pairs = at.acts + (436 + at.unit_idx * 4) * NC;
    TAMIS_UNROLL for (int c = 0; c < NC; ++c) total[c] =
        add_scaled_pair(total[c], first[c], second[c], scale_pairs_shifted(s, shift_pairs + 4 * c));
  } else {
    sum_group<W, From, NC, 0>(at, first);
    sum_group<W, From, NC, 1>(at, second);
    add_pair_of_half<W, NC, 0>(at, first, second, total);
    sum_group<W, From, NC, 2>(at, first);
    sum_group<W, From, NC, 3>(at, second);
    add_pair_of_half<W, NC, 1>(at, first, second, total);
  }
}

// out [NC][16] (f32) += block · activations, given total[c] = Σ scale · codes · activations: one multiply by d, one by
// dmin where there is one, one by the activations' scale. What is the same for all columns is read once: a store may
// alias a block.
template <class W, int NC>
TAMIS_INLINE void finish_block(const uint8_t* block, const int8_t* acts, I32* total, float* out) {
  const auto* sums = reinterpret_cast<const int16_t*>(acts + (W::kScaleGroup == 32 ? 352 : 368) * NC);
  constexpr bool kHasRest = W::kHasScale && Offset<W>::kRest != 0, kHasMins = W::kHasMin || W::kHasIntegerMin;
  I32 rest[NC], mins[NC];
  TAMIS_UNROLL for (int c = 0; c < NC; ++c) rest[c] = mins[c] = i32_zero();
  TAMIS_UNROLL for (int i = 0; i < 128 / W::kScaleGroup; ++i) {
    TAMIS_UNROLL for (int c = 0; c < NC; ++c) {
      const int16_t* const pair = sums + (i * NC + c) * 2;
      if constexpr (kHasRest) rest[c] = dot_pairs<W::kSignedScale>(rest[c], block + i * 32, pair);
      if constexpr (kHasMins) mins[c] = W::add_mins(mins[c], block, i, pair);
    }
  }
  F32x16 d = f32_from_f16(block + W::kLayout.d), dmin = d;
  if constexpr (W::kFactor != 1.0f) d = f32_mul(d, f32_set1(W::kFactor));
  if constexpr (W::kHasMin) dmin = f32_from_f16(block + W::kLayout.dmin);
  TAMIS_UNROLL for (int c = 0; c < NC; ++c) {
    I32 sum = total[c];
    if constexpr (kHasRest) sum = i32_sub(sum, i32_times<Offset<W>::kRest>(rest[c]));
    if constexpr (W::kHasIntegerMin) sum = i32_sub(i32_times<8>(sum), mins[c]);
    F32x16 y = f32_mul(d, f32_from_i32(sum));
    if constexpr (W::kHasMin) y = f32_sub(y, f32_mul(dmin, f32_from_i32(mins[c])));
    float scale;
    memcpy(&scale, acts + 400 * NC + c * 4, 4);
    f32_store(out + c * 16, f32_add(f32_load(out + c * 16), f32_mul(f32_set1(scale), y)));
  }
}

template <class W, class From, int NC>
TAMIS_INLINE void super_block(const uint8_t* block, const uint8_t* panel, const int8_t* acts, float* out) {
  I32 total[NC];
  TAMIS_UNROLL for (int c = 0; c < NC; ++c) total[c] = i32_zero();
  for (int u = 0; u < 4; ++u) {
    const UnitAt at{block, block + W::kLayout.units + u * W::kLayout.unit_bytes, panel + u * 1024, acts, u};
    if constexpr (From::kIsStream && NC <= 4 && kPrefetchAhead != 0) {
      constexpr int kShare = W::kLayout.bytes / 4;
      TAMIS_UNROLL for (int i = 0; i < (kShare + 63) / 64; ++i) prefetch(block + kPrefetchAhead + u * kShare + i * 64);
    }
    if constexpr (NC == kTileColumns) prefetch_columns<kActs256Bytes * NC, 4>(acts, u);
    if constexpr (kPairsGroups && W::kHasNarrowSums) {
      add_unit_by_pairs<W, From, NC>(at, total);
    } else {
      add_half_unit<W, From, NC, 0>(at, total);
      add_half_unit<W, From, NC, 1>(at, total);
    }
  }
  finish_block<W, NC>(block, acts, total, out);
}

// ---- blocks of 32 with float scales: activations A8/32

template <class W, int NC, int kHalf, class Sum>
TAMIS_INLINE void small_start(const int8_t* acts, int c, Sum& sum) {
  const auto* lanes = reinterpret_cast<const int16_t*>(acts + 32 * NC) + c * 2;
  if constexpr (W::kSigned && !W::kHasHalves) {
    sum = signed_start(lanes);
  } else if constexpr (W::kSigned) {
    const auto* first = reinterpret_cast<const int16_t*>(acts + 44 * NC) + c * 2;
    sum = kHalf == 0 ? signed_start(first) : i32_sub(signed_start(lanes), signed_start(first));
  } else if constexpr (W::kOffset == 0) {
    sum = group_start();
  } else {
    sum = group_start_offset<W::kOffset>(lanes);
  }
}

template <class W, class From, int NC, int kPair, class Sum>
TAMIS_INLINE void small_pair(const uint8_t* block, const uint8_t* panel, const int8_t* acts, Sum* sums) {
  Codes a, b;
  if constexpr (From::kIsStream) {
    W::template pair<kPair>(block, a, b);
  } else {
    a = codes_load(panel + kPair * 128);
    b = codes_load(panel + kPair * 128 + 64);
  }
  dot_pair<W, NC>(a, b, acts + kPair * NC * 8, sums);
}

// out += (d · scale of the activations) · Σ; then, where there is one, m · (scale · Σ of the activations).
template <class W, int NC, int kHalf, class Sum>
TAMIS_INLINE void small_finish(const uint8_t* block, const int8_t* acts, int c, const Sum& sum, F32x16& out) {
  float scale, scaled_sum;
  memcpy(&scale, acts + 36 * NC + c * 4, 4);
  memcpy(&scaled_sum, acts + 40 * NC + c * 4, 4);
  I32 total;
  if constexpr (W::kSigned)
    total = sum;
  else
    total = group_sum(sum);
  if constexpr (W::kAddsOffset) {
    int16_t lanes[2];
    memcpy(lanes, acts + 32 * NC + c * 4, 4);
    total = i32_add(total, i32_set1(W::kOffset * (lanes[0] + lanes[1])));
  }
  out = f32_add(out, f32_mul(f32_mul(W::template scale<kHalf>(block), f32_set1(scale)), f32_from_i32(total)));
  if constexpr (W::kHasMin) out = f32_add(out, f32_mul(f32_from_f16(block + 32), f32_set1(scaled_sum)));
}

template <class W, class From, int NC>
TAMIS_INLINE void small_block(const uint8_t* block, const uint8_t* panel, const int8_t* acts, F32x16* out) {
  typename SumOf<W>::type sums[NC];
  TAMIS_UNROLL for (int c = 0; c < NC; ++c) small_start<W, NC, 0>(acts, c, sums[c]);
  constexpr bool kByTiles = kHasTiles && NC == kTileColumns;
  if constexpr (kByTiles) {
    add_by_tiles<W, false>(acts, 32, panel, sums);
  } else {
    small_pair<W, From, NC, 0>(block, panel, acts, sums);
    small_pair<W, From, NC, 1>(block, panel, acts, sums);
  }
  if constexpr (W::kHasHalves) {
    TAMIS_UNROLL for (int c = 0; c < NC; ++c) {
      small_finish<W, NC, 0>(block, acts, c, sums[c], out[c]);
      small_start<W, NC, 1>(acts, c, sums[c]);
    }
    if constexpr (kByTiles) add_by_tiles<W, false>(acts + 16, 32, panel + 256, sums);
  }
  if constexpr (!kByTiles) {
    small_pair<W, From, NC, 2>(block, panel, acts, sums);
    small_pair<W, From, NC, 3>(block, panel, acts, sums);
  }
  TAMIS_UNROLL for (int c = 0; c < NC; ++c) small_finish<W, NC, W::kHasHalves>(block, acts, c, sums[c], out[c]);
}

// ---- both

template <class W>
concept IsSuper = requires {
  W::kScaleGroup;
};

template <class W>
struct Geometry {
  static constexpr int kBytes = W::kBytes, kCodes = 512,
                       kActs = kActs32Bytes;  // of a block: planes, unpacked, a column
};
template <IsSuper W>
struct Geometry<W> {
  static constexpr int kBytes = W::kLayout.bytes, kCodes = 4096, kActs = kActs256Bytes;
};

TAMIS_INLINE void prefetch_second(const void* p) { __builtin_prefetch(p, 0, 2); }  // into the second cache

// Bytes that are multiplied later, asked for along a tile's blocks: all at once they would wait for each other in the
// queue of misses (a tenth of the time of 16 columns on Zen 4).
class Fetch {
 public:
  Fetch(const uint8_t* from, size_t n_bytes, int n_blocks)
      : from_(from),
        n_lines_((n_bytes + 63) / 64),
        share_((n_lines_ + static_cast<size_t>(n_blocks) - 1) / static_cast<size_t>(n_blocks)) {}
  // As many lines for every block: a count that changes is a branch foreseen wrongly.
  TAMIS_METHOD void next_block() {
    const size_t n = share_ < n_lines_ ? share_ : n_lines_;
    for (size_t i = 0; i < n; ++i) prefetch_second(from_ + 64 * i);
    from_ += 64 * n;
    n_lines_ -= n;
  }

 private:
  const uint8_t* from_;
  size_t n_lines_, share_;
};

// out [NC][16] += one panel × NC columns over n_blocks blocks.
template <class W, class From, int NC>
static __attribute__((noinline)) void run_tile(const uint8_t* planes, const uint8_t* panel, const int8_t* acts,
                                               int n_blocks, Fetch fetch, float* out) {
  typedef Geometry<W> G;
  if constexpr (IsSuper<W>) {
    for (int b = 0; b < n_blocks; ++b) {
      fetch.next_block();
      super_block<W, From, NC>(planes + b * G::kBytes, panel + b * G::kCodes, acts + b * G::kActs * NC, out);
    }
  } else {
    F32x16 acc[NC];
    TAMIS_UNROLL for (int c = 0; c < NC; ++c) acc[c] = f32_load(out + c * 16);
    for (int b = 0; b < n_blocks; ++b) {
      const uint8_t* block = planes + b * G::kBytes;
      fetch.next_block();
      if constexpr (From::kIsStream && NC <= 4 && kPrefetchAhead != 0) {
        TAMIS_UNROLL for (int i = 0; i < (G::kBytes + 63) / 64; ++i) prefetch(block + kPrefetchAhead + i * 64);
      }
      if constexpr (!From::kIsStream) prefetch_columns<8 * G::kActs * NC, 8>(acts + b * G::kActs * NC, 0);
      small_block<W, From, NC>(block, panel + b * G::kCodes, acts + b * G::kActs * NC, acc);
    }
    TAMIS_UNROLL for (int c = 0; c < NC; ++c) f32_store(out + c * 16, acc[c]);
  }
}

template <class W, int kPair>
TAMIS_INLINE void unpack_pair(const uint8_t* from, uint8_t* codes) {
  Codes a, b;
  W::template pair<kPair>(from, a, b);
  codes_store(codes + kPair * 128, a);
  codes_store(codes + kPair * 128 + 64, b);
}
template <class W>
TAMIS_INLINE void unpack_block(const uint8_t* block, uint8_t* codes) {
  if constexpr (IsSuper<W>) {
    for (int u = 0; u < 4; ++u, codes += 1024) {
      const uint8_t* unit = block + W::kLayout.units + u * W::kLayout.unit_bytes;
      unpack_pair<W, 0>(unit, codes);
      unpack_pair<W, 1>(unit, codes);
      unpack_pair<W, 2>(unit, codes);
      unpack_pair<W, 3>(unit, codes);
      unpack_pair<W, 4>(unit, codes);
      unpack_pair<W, 5>(unit, codes);
      unpack_pair<W, 6>(unit, codes);
      unpack_pair<W, 7>(unit, codes);
    }
  } else {
    unpack_pair<W, 0>(block, codes);
    unpack_pair<W, 1>(block, codes);
    unpack_pair<W, 2>(block, codes);
    unpack_pair<W, 3>(block, codes);
  }
}

}  // namespace tamis::cpu::TAMIS_TARGET
