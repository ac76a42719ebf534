// Matrix times columns in the group-affine form. Integer sums of a unit (16 or 32 elements) are exact; what follows
// rounds where the planes of the same type round (plane_tiles.inl), so that a model's logits do not depend on the
// layout: a block's scaled sums are formed in double and rounded once. (Only where the planes' integer passes 2^24 do
// they round once more.)

namespace tamis::cpu::TAMIS_TARGET {

enum class AffineCodes {
  nibbles,
  unpacked,
  bytes
};  // unpacked: nibbles one a byte, in a panel that stays in the cache

template <AffineCodes kCodes>
struct AffineSum {
  typedef GroupAcc type;
};
template <>
struct AffineSum<AffineCodes::bytes> {
  typedef I32 type;
};

// Four activations of quad q of the block, column c.
template <int NC>
TAMIS_INLINE const int8_t* affine_quad(const int8_t* acts, int block_len, int q, int c) {
  if constexpr (kHasTiles && NC == kTileColumns)
    return acts + c * block_len + 4 * q;
  else
    return acts + (q * NC + c) * 4;
}

// Sums of even and odd pairs of unit u of the block, column c.
template <int NC>
TAMIS_INLINE void affine_lanes(const int8_t* acts, int block_len, int unit_len, int u, int c, int16_t* lanes) {
  if (block_len == 256) {
    memcpy(lanes, acts + ((unit_len == 16 ? 256 : 320) + 4 * u) * NC + 4 * c, 4);
    return;
  }
  memcpy(lanes, acts + 32 * NC + 4 * c, 4);
  if (unit_len == 32) return;
  int16_t first[2];
  memcpy(first, acts + 44 * NC + 4 * c, 4);
  for (int i = 0; i < 2; ++i) lanes[i] = u == 0 ? first[i] : static_cast<int16_t>(lanes[i] - first[i]);
}

template <AffineCodes kCodes, int NC>
TAMIS_INLINE void affine_dot(const uint8_t* codes, const AffineFormat& format, int unit_len, int u, const int8_t* acts,
                             typename AffineSum<kCodes>::type* sums) {
  const int block_len = static_cast<int>(format.block_len);
  constexpr int kQuads = kCodes == AffineCodes::nibbles ? 2 : 1;  // of a vector
  TAMIS_UNROLL for (int c = 0; c < NC; ++c) {
    if constexpr (kCodes == AffineCodes::bytes) {
      int16_t lanes[2];
      affine_lanes<NC>(acts, block_len, unit_len, u, c, lanes);
      sums[c] = signed_start(lanes);
    } else {
      sums[c] = group_start();
    }
  }
  for (int q = u * unit_len / 4; q < (u + 1) * unit_len / 4; q += kQuads, codes += 64) {
    const Codes x = codes_load(codes);
    if constexpr (kCodes == AffineCodes::bytes) {
      const Codes w = held(codes_signed(x));
      TAMIS_UNROLL for (int c = 0; c < NC; ++c) {
        sums[c] = dot_signed(sums[c], w, affine_quad<NC>(acts, block_len, q, c));
        keep(sums[c]);
      }
    } else if constexpr (kCodes == AffineCodes::unpacked) {
      const Codes w = held(x);
      TAMIS_UNROLL for (int c = 0; c < NC; ++c) {
        sums[c] = group_dot(sums[c], w, affine_quad<NC>(acts, block_len, q, c));
        keep(sums[c]);
      }
    } else {
      const Codes a = held(codes_bits<0, 15, 0>(x)), b = held(codes_bits<4, 15, 0>(x));
      TAMIS_UNROLL for (int c = 0; c < NC; ++c) {
        sums[c] = group_dot(sums[c], a, affine_quad<NC>(acts, block_len, q, c));
        sums[c] = group_dot(sums[c], b, affine_quad<NC>(acts, block_len, q + 1, c));
        keep(sums[c]);
      }
    }
  }
}

template <AffineCodes kCodes, class Sum>
TAMIS_INLINE I32 affine_total(const Sum& sum, int zero, int sum_of_acts) {
  if constexpr (kCodes == AffineCodes::bytes)
    return sum;
  else
    return i32_sub(group_sum(sum), i32_set1(zero * sum_of_acts));
}

template <int NC>
TAMIS_INLINE int affine_sum_of_acts(const int8_t* acts, const AffineFormat& format, int unit_len, int u, int c) {
  int16_t lanes[2];
  affine_lanes<NC>(acts, static_cast<int>(format.block_len), unit_len, u, c, lanes);
  return lanes[0] + lanes[1];
}

// out[c] += (scale · activations' scale) · Σ, + offset · (activations' scale · their sum): one unit of a block of 32.
template <AffineCodes kCodes, int NC>
TAMIS_INLINE void affine_small_unit(const uint8_t* header, const uint8_t* codes, const AffineFormat& format, int u,
                                    const int8_t* acts, F32x16* out) {
  const int unit_len = format.group_len % 32 == 0 ? 32 : 16;
  typename AffineSum<kCodes>::type sums[NC];
  affine_dot<kCodes, NC>(codes, format, unit_len, u, acts, sums);
  const F32x16 scale = f32_load(reinterpret_cast<const float*>(header));
  const F32x16 offset = f32_load(reinterpret_cast<const float*>(header) + kPanelRows);
  TAMIS_UNROLL for (int c = 0; c < NC; ++c) {
    const int sum_of_acts = affine_sum_of_acts<NC>(acts, format, unit_len, u, c);
    float act_scale;
    memcpy(&act_scale, acts + 36 * NC + c * 4, 4);
    add_product(out[c], f32_mul(scale, f32_set1(act_scale)),
                f32_from_i32(affine_total<kCodes>(sums[c], format.zero, sum_of_acts)));
    if (format.has_offset) add_product(out[c], offset, f32_set1(act_scale * static_cast<float>(sum_of_acts)));
  }
}

// Σ scale · (integer sum) over a block of 256, in double: exact where scales have a type's few bits, so that rounding
// it once gives what the planes' integer sum times d gives.
template <AffineCodes kCodes, int NC>
TAMIS_INLINE void affine_block_sums(const uint8_t* groups, const AffineFormat& format, int unit_len, const int8_t* acts,
                                    F32x16* y) {
  constexpr int kBits = kCodes == AffineCodes::nibbles ? 4 : 8;
  const int units_of_group = static_cast<int>(format.group_len) / unit_len;
  F64x16 wide[NC];
  TAMIS_UNROLL for (int c = 0; c < NC; ++c) set_zero(wide[c]);
  F64x16 scale;
  set_zero(scale);
  for (int u = 0; u < 256 / unit_len; ++u, groups += unit_len * 2 * kBits) {
    if (u % units_of_group == 0) {
      widen(scale, reinterpret_cast<const float*>(groups));
      groups += kAffineHeader;
    }
    typename AffineSum<kCodes>::type sums[NC];
    affine_dot<kCodes, NC>(groups, format, unit_len, u, acts, sums);
    TAMIS_UNROLL for (int c = 0; c < NC; ++c) {
      const I32 total =
          affine_total<kCodes>(sums[c], format.zero, affine_sum_of_acts<NC>(acts, format, unit_len, u, c));
      static_assert(sizeof(I32) == 64);
      const I32 shifted = i32_shifted(total, acts + (404 + u * unit_len / 32 * 4) * NC + 4 * c);
      int32_t lanes[16];
      memcpy(lanes, &shifted, 64);
      add_product(wide[c], scale, lanes);
    }
  }
  TAMIS_UNROLL for (int c = 0; c < NC; ++c) narrow(y[c], wide[c]);
}

// y[c] += Σ offset · (sum of activations) over a block of 256, exact in the same way.
template <int NC>
TAMIS_INLINE void affine_block_offsets(const uint8_t* groups, size_t group_bytes, const AffineFormat& format,
                                       int unit_len, const int8_t* acts, F32x16* y) {
  const int units_of_group = static_cast<int>(format.group_len) / unit_len;
  TAMIS_UNROLL for (int c = 0; c < NC; ++c) {
    F64x16 wide, offset;
    set_zero(wide);
    for (int u = 0; u < 256 / unit_len; ++u) {
      widen(offset, reinterpret_cast<const float*>(groups + u / units_of_group * group_bytes) + kPanelRows);
      int32_t shift;
      memcpy(&shift, acts + (404 + u * unit_len / 32 * 4) * NC + 4 * c, 4);
      const int sum_of_acts = affine_sum_of_acts<NC>(acts, format, unit_len, u, c) * (1 << shift);
      add_product(wide, offset, static_cast<double>(sum_of_acts));
    }
    F32x16 sum;
    narrow(sum, wide);
    add(y[c], sum);
  }
}

// One panel × NC columns over n_blocks blocks of 256.
template <AffineCodes kCodes, int NC>
TAMIS_INLINE void affine_large_blocks(const AffineFormat& format, const uint8_t* groups, const int8_t* acts,
                                      size_t n_blocks, F32x16* acc) {
  constexpr size_t kBits = kCodes == AffineCodes::nibbles ? 4 : 8;
  const int unit_len = format.group_len % 32 == 0 ? 32 : 16;
  const size_t group_bytes = kAffineHeader + kPanelRows * format.group_len * kBits / 8;
  for (size_t b = 0; b < n_blocks; ++b, acts += kActs256Bytes * NC, groups += 256 / format.group_len * group_bytes) {
    F32x16 y[NC];
    affine_block_sums<kCodes, NC>(groups, format, unit_len, acts, y);
    if (format.has_offset) affine_block_offsets<NC>(groups, group_bytes, format, unit_len, acts, y);
    const float* scale = reinterpret_cast<const float*>(acts + 400 * NC);
    TAMIS_UNROLL for (int c = 0; c < NC; ++c) add_product(acc[c], f32_set1(scale[c]), y[c]);
  }
}

// The same over blocks of 32; a group may be several of them.
template <AffineCodes kCodes, int NC>
TAMIS_INLINE void affine_small_blocks(const AffineFormat& format, const uint8_t* groups, const int8_t* acts,
                                      size_t n_blocks, F32x16* acc) {
  constexpr int kBits = kCodes == AffineCodes::nibbles ? 4 : 8;
  const int unit_len = format.group_len % 32 == 0 ? 32 : 16;
  const int units_of_group = static_cast<int>(format.group_len) / unit_len;
  const uint8_t *header = groups, *codes = groups;
  int n_left = 0;  // units of the group
  for (size_t b = 0; b < n_blocks; ++b, acts += kActs32Bytes * NC)
    for (int u = 0; u < 32 / unit_len; ++u, codes += unit_len * 2 * kBits) {
      if (n_left == 0) {
        header = codes;
        codes += kAffineHeader;
        n_left = units_of_group;
      }
      --n_left;
      affine_small_unit<kCodes, NC>(header, codes, format, u, acts, acc);
    }
}

template <AffineCodes kCodes, int NC>
static __attribute__((noinline)) void affine_tile(const AffineFormat& format, const uint8_t* groups, const int8_t* acts,
                                                  size_t n_blocks, float* out) {
  F32x16 acc[NC];
  TAMIS_UNROLL for (int c = 0; c < NC; ++c) acc[c] = f32_load(out + c * kPanelRows);
  if (format.block_len == 256)
    affine_large_blocks<kCodes, NC>(format, groups, acts, n_blocks, acc);
  else
    affine_small_blocks<kCodes, NC>(format, groups, acts, n_blocks, acc);
  TAMIS_UNROLL for (int c = 0; c < NC; ++c) f32_store(out + c * kPanelRows, acc[c]);
}

// Groups of nibbles → the same groups with a code a byte.
static void affine_unpack(const AffineFormat& format, const uint8_t* groups, size_t n_groups, uint8_t* out) {
  for (size_t g = 0; g < n_groups; ++g) {
    memcpy(out, groups, kAffineHeader);
    groups += kAffineHeader;
    out += kAffineHeader;
    for (uint32_t i = 0; i < format.group_len / 8; ++i, groups += 64, out += 128) {
      const Codes x = codes_load(groups);
      codes_store(out, codes_bits<0, 15, 0>(x));
      codes_store(out + 64, codes_bits<4, 15, 0>(x));
    }
  }
}

// Columns tile by tile, as pack_columns cut them. kWide: how the widest tiles find their codes, in `wide_groups`.
template <AffineCodes kCodes, AffineCodes kWide>
TAMIS_INLINE void affine_tiles(const AffineTask& task, size_t first_block, size_t n_blocks, const uint8_t* groups,
                               const uint8_t* wide_groups) {
  const size_t act_bytes = task.format.block_len == 256 ? kActs256Bytes : kActs32Bytes;
  const int8_t* tile = task.acts;
  for (size_t begin = 0; begin < task.n_columns;) {
    const size_t nc = tile_width(task.n_columns - begin);
    const int8_t* acts = tile + first_block * act_bytes * nc;
    float* acc = task.acc + begin * kPanelRows;
    switch (nc) {
      case 1: affine_tile<kCodes, 1>(task.format, groups, acts, n_blocks, acc); break;
      case 2: affine_tile<kCodes, 2>(task.format, groups, acts, n_blocks, acc); break;
      case 3: affine_tile<kCodes, 3>(task.format, groups, acts, n_blocks, acc); break;
      case kTileColumns: affine_tile<kWide, kTileColumns>(task.format, wide_groups, acts, n_blocks, acc); break;
      default:
        if (nc == kHalfColumns)
          affine_tile<kCodes, kHalfColumns>(task.format, groups, acts, n_blocks, acc);
        else
          affine_tile<kCodes, 4>(task.format, groups, acts, n_blocks, acc);
    }
    tile += task.n_blocks * act_bytes * nc;
    begin += nc;
  }
}

// acc [n_columns][16] = one panel times all columns.
static void multiply_affine(const AffineTask& task) {
  constexpr size_t kStepColumns = 1024, kUnpackColumns = 32;  // columns of the matrix whose bytes `panel` holds; tokens
  const AffineFormat& format = task.format;
  if (!task.is_added) memset(task.acc, 0, task.n_columns * kPanelRows * sizeof(float));
  const bool is_unpacked = format.code_bits == 4 && task.n_columns >= kUnpackColumns;
  const size_t step = task.n_columns <= kTileColumns ? task.n_blocks : kStepColumns / format.block_len;
  const size_t groups_of_step = step * format.block_len / format.group_len;
  const uint8_t* groups = task.groups;
  for (size_t b = 0; b < task.n_blocks; b += step, groups += groups_of_step * affine_group_bytes(format)) {
    const size_t n = task.n_blocks - b < step ? task.n_blocks - b : step;
    if (is_unpacked) {
      affine_unpack(format, groups, n * format.block_len / format.group_len, task.panel);
      affine_tiles<AffineCodes::nibbles, AffineCodes::unpacked>(task, b, n, groups, task.panel);
    } else if (format.code_bits == 4) {
      affine_tiles<AffineCodes::nibbles, AffineCodes::nibbles>(task, b, n, groups, groups);
    } else {
      affine_tiles<AffineCodes::bytes, AffineCodes::bytes>(task, b, n, groups, groups);
    }
  }
}

}  // namespace tamis::cpu::TAMIS_TARGET
