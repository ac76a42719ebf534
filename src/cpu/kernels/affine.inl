// Matrix times columns in the group-affine form. Integer sums of a unit (16 or 32 elements) are exact; the float steps
// have one order: units of a block, scale before offset, then the block's activation scale.

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

// y[c] += scale · Σ + offset · (sum of activations), of one unit.
template <AffineCodes kCodes, int NC>
TAMIS_INLINE void affine_unit(const uint8_t* header, const uint8_t* codes, const AffineFormat& format, int unit_len,
                              int u, const int8_t* acts, F32x16* y) {
  typename AffineSum<kCodes>::type sums[NC];
  affine_dot<kCodes, NC>(codes, format, unit_len, u, acts, sums);
  const F32x16 scale = f32_load(reinterpret_cast<const float*>(header));
  const F32x16 offset = f32_load(reinterpret_cast<const float*>(header) + kPanelRows);
  TAMIS_UNROLL for (int c = 0; c < NC; ++c) {
    int16_t lanes[2];
    affine_lanes<NC>(acts, static_cast<int>(format.block_len), unit_len, u, c, lanes);
    const int sum_of_acts = lanes[0] + lanes[1];
    I32 sum;
    if constexpr (kCodes == AffineCodes::bytes)
      sum = sums[c];
    else
      sum = i32_sub(group_sum(sums[c]), i32_set1(format.zero * sum_of_acts));
    add_product(y[c], scale, f32_from_i32(sum));
    if (format.has_offset) add_product(y[c], offset, f32_set1(static_cast<float>(sum_of_acts)));
  }
}

// One panel × NC columns over n_blocks blocks.
template <AffineCodes kCodes, int NC>
static __attribute__((noinline)) void affine_tile(const AffineFormat& format, const uint8_t* groups, const int8_t* acts,
                                                  size_t n_blocks, float* out) {
  constexpr int kBits = kCodes == AffineCodes::nibbles ? 4 : 8;
  const int unit_len = format.group_len % 32 == 0 ? 32 : 16, n_units = static_cast<int>(format.block_len) / unit_len;
  const int units_of_group = static_cast<int>(format.group_len) / unit_len;
  const size_t act_bytes = (format.block_len == 256 ? kActs256Bytes : kActs32Bytes) * NC;
  const uint8_t *header = groups, *codes = groups;
  int n_left = 0;  // units of the group
  F32x16 acc[NC];
  TAMIS_UNROLL for (int c = 0; c < NC; ++c) acc[c] = f32_load(out + c * kPanelRows);
  for (size_t b = 0; b < n_blocks; ++b, acts += act_bytes) {
    F32x16 y[NC];
    TAMIS_UNROLL for (int c = 0; c < NC; ++c) y[c] = f32_zero();
    for (int u = 0; u < n_units; ++u, codes += unit_len * 2 * kBits) {
      if (n_left == 0) {
        header = codes;
        codes += kAffineHeader;
        n_left = units_of_group;
      }
      --n_left;
      affine_unit<kCodes, NC>(header, codes, format, unit_len, u, acts, y);
    }
    const float* scale = reinterpret_cast<const float*>(acts + (format.block_len == 256 ? 400 : 36) * NC);
    TAMIS_UNROLL for (int c = 0; c < NC; ++c) add_product(acc[c], f32_set1(scale[c]), y[c]);
  }
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
