// Columns quantized and packed for planes, and one panel times all columns.

namespace tamis::cpu::TAMIS_TARGET {

constexpr int kHalfColumns = kTileColumns > 8 ? 8 : 4;

// The widest tile for what is left: packing and multiplying cut columns alike.
TAMIS_INLINE size_t tile_width(size_t n_left) {
  if (n_left >= kTileColumns) return kTileColumns;
  if (n_left >= kHalfColumns) return kHalfColumns;
  return n_left >= 4 ? 4 : n_left;
}

// |x| as bits grows with x, infinity and NaN on top: the largest in one integer maximum.
TAMIS_INLINE uint32_t largest_bits(const float* x, int n) {
  uint32_t largest = 0;
  for (int i = 0; i < n; ++i) {
    uint32_t bits;
    memcpy(&bits, x + i, 4);
    bits &= 0x7fffffffu;
    largest = bits > largest ? bits : largest;
  }
  return largest;
}

// What a largest magnitude that cannot be divided by means: the scale of a run of zeros, NaN for one that is not
// finite.
TAMIS_INLINE bool is_flat(uint32_t bits, float& scale) {
  float largest;
  memcpy(&largest, &bits, 4);
  scale = bits >= 0x7f800000u ? __builtin_nanf("") : 0.0f;
  return bits >= 0x7f800000u || largest < 1e-30f;
}

// q = x · inverse, rounded to nearest even.
TAMIS_INLINE void round_32(const float* x, float inverse, int8_t* q) {
  constexpr float kRound = 12582912.0f;  // 1.5 · 2^23: adding it rounds to an integer, ties to even
  for (int i = 0; i < 32; ++i) {
    const float rounded = x[i] * inverse + kRound;
    int32_t code;
    memcpy(&code, &rounded, 4);
    q[i] = static_cast<int8_t>(code);
  }
}

// q = x · 127/max|x|, in ±127; returns the scale max|x|/127, NaN when an element is not finite.
TAMIS_INLINE float quantize_32(const float* x, int8_t* q) {
  const uint32_t bits = largest_bits(x, 32);
  float scale, largest;
  if (is_flat(bits, scale)) {
    memset(q, 0, 32);
    return scale;
  }
  memcpy(&largest, &bits, 4);
  round_32(x, 127.0f / largest, q);
  return largest / 127.0f;
}

TAMIS_INLINE int magnitude_32(const int8_t* q) {
  int sum = 0;
  for (int i = 0; i < 32; ++i) sum += q[i] < 0 ? -q[i] : q[i];
  return sum;
}

// The same for 256 in ±limit, each 32 with as many halvings of the step as its own largest magnitude (as bits) leaves
// room for; shifts[g]: what lifts 32 codes to the finest step. Returns the most that magnitudes of 32 codes sum to.
TAMIS_INLINE int round_256(const float* x, const uint32_t* bits, float largest, float limit, int8_t* q,
                           int32_t* shifts) {
  int most = 0;
  for (int g = 0; g < 8; ++g) {
    float own, inverse = limit / largest;
    memcpy(&own, &bits[g], 4);
    shifts[g] = kMostShift;
    for (; shifts[g] > 0 && own * 2.0f <= largest; own *= 2.0f, --shifts[g]) inverse *= 2.0f;
    round_32(x + 32 * g, inverse, q + 32 * g);
    const int magnitude = magnitude_32(q + 32 * g);
    most = magnitude > most ? magnitude : most;
  }
  return most;
}

// Returns the scale of the finest step, NaN when an element is not finite.
TAMIS_INLINE float quantize_256(const float* x, int8_t* q, int32_t* shifts) {
  uint32_t bits[8], most = 0;
  for (int g = 0; g < 8; ++g) {
    bits[g] = largest_bits(x + 32 * g, 32);
    most = bits[g] > most ? bits[g] : most;
  }
  float scale, largest, limit = 127.0f;
  if (is_flat(most, scale)) {
    memset(q, 0, 256);
    memset(shifts, 0, 8 * sizeof(int32_t));
    return scale;
  }
  memcpy(&largest, &most, 4);
  if (round_256(x, bits, largest, limit, q, shifts) > kMostMagnitude) {
    limit = 63.0f;
    round_256(x, bits, largest, limit, q, shifts);
  }
  return largest / limit * (1.0f / (1 << kMostShift));
}

// Column c's quads, [quad][nc][4]; a tile register's columns lie one after another instead.
TAMIS_INLINE void pack_quads(const int8_t* q, int n_quads, size_t c, size_t nc, int8_t* out) {
  if (kHasTiles && nc == kTileColumns) {
    memcpy(out + c * static_cast<size_t>(n_quads) * 4, q, static_cast<size_t>(n_quads) * 4);
    return;
  }
  out += c * 4;
  for (int i = 0; i < n_quads; ++i) memcpy(out + static_cast<size_t>(i) * nc * 4, q + 4 * i, 4);
}

TAMIS_INLINE void lane_sums(const int8_t* q, int n_quads, int16_t* sums) {
  int first = 0, second = 0;
  for (int i = 0; i < n_quads; ++i) {
    first += q[4 * i] + q[4 * i + 1];
    second += q[4 * i + 2] + q[4 * i + 3];
  }
  sums[0] = static_cast<int16_t>(first);
  sums[1] = static_cast<int16_t>(second);
}

TAMIS_INLINE void pack_256(const float* x, size_t c, size_t nc, int8_t* block) {
  int8_t q[256];
  int32_t shifts[8];
  const float scale = quantize_256(x, q, shifts);
  pack_quads(q, 64, c, nc, block);
  int16_t lanes16[16][2];
  for (int g = 0; g < 16; ++g) lane_sums(q + 16 * g, 4, lanes16[g]);
  int8_t *at16 = block + 256 * nc, *at32 = block + 320 * nc, *pairs32 = block + 352 * nc, *pairs16 = block + 368 * nc;
  int8_t *const at_shifts = block + 404 * nc, *const shift_pairs = block + 436 * nc;
  for (size_t g = 0; g < 16; ++g) memcpy(at16 + (g * nc + c) * 4, lanes16[g], 4);
  for (size_t g = 0; g < 8; ++g) {
    const int16_t *a = lanes16[2 * g], *b = lanes16[2 * g + 1];
    const int16_t lanes[2] = {static_cast<int16_t>(a[0] + b[0]), static_cast<int16_t>(a[1] + b[1])};
    const int16_t pair[2] = {static_cast<int16_t>((a[0] + a[1]) * (1 << shifts[g])),
                             static_cast<int16_t>((b[0] + b[1]) * (1 << shifts[g]))};
    const int16_t sum = static_cast<int16_t>(pair[0] + pair[1]);
    memcpy(at32 + (g * nc + c) * 4, lanes, 4);
    memcpy(pairs16 + (g * nc + c) * 4, pair, 4);
    memcpy(pairs32 + (g / 2 * nc + c) * 4 + g % 2 * 2, &sum, 2);
    memcpy(at_shifts + (g * nc + c) * 4, shifts + g, 4);
    const auto narrow = static_cast<int16_t>(shifts[g]);
    memcpy(shift_pairs + (g / 2 * nc + c) * 4 + g % 2 * 2, &narrow, 2);
  }
  memcpy(block + 400 * nc + c * 4, &scale, 4);
}

TAMIS_INLINE void pack_32(const float* x, size_t c, size_t nc, int8_t* block) {
  int8_t q[32];
  const float scale = quantize_32(x, q);
  pack_quads(q, 8, c, nc, block);
  int16_t lanes[2];
  lane_sums(q, 8, lanes);
  const float scaled_sum = scale * static_cast<float>(lanes[0] + lanes[1]);
  memcpy(block + 32 * nc + c * 4, lanes, 4);
  memcpy(block + 36 * nc + c * 4, &scale, 4);
  memcpy(block + 40 * nc + c * 4, &scaled_sum, 4);
  lane_sums(q, 4, lanes);
  memcpy(block + 44 * nc + c * 4, lanes, 4);
}

// Blocks first_block … first_block + n_blocks - 1 of all columns.
static void pack_columns(const PackTask& task, size_t first_block, size_t n_blocks) {
  const size_t bytes = task.block_len == 256 ? kActs256Bytes : kActs32Bytes;
  int8_t* tile = task.out;
  for (size_t begin = 0; begin < task.n_columns;) {
    const size_t nc = tile_width(task.n_columns - begin);
    for (size_t b = first_block; b < first_block + n_blocks; ++b)
      for (size_t c = 0; c < nc; ++c) {
        const float* x = task.x + (begin + c) * task.x_stride + b * task.block_len;
        if (task.block_len == 256)
          pack_256(x, c, nc, tile + b * bytes * nc);
        else
          pack_32(x, c, nc, tile + b * bytes * nc);
      }
    tile += task.n_blocks * bytes * nc;
    begin += nc;
  }
}

template <class W, class From>
TAMIS_INLINE void run_tiles(const PlanesTask& task, size_t first_block, size_t n_blocks) {
  typedef Geometry<W> G;
  const uint8_t* planes = task.planes + first_block * G::kBytes;
  const int8_t* tile = task.acts;
  const int n = static_cast<int>(n_blocks);
  size_t fetched = 0;  // bytes of task.next: each tile asks for its columns' share
  for (size_t begin = 0; begin < task.n_columns;) {
    const size_t nc = tile_width(task.n_columns - begin);
    const size_t fetch_end = task.next_bytes * (begin + nc) / task.n_columns / 64 * 64;
    const Fetch fetch(task.next + fetched, fetch_end - fetched, n);
    fetched = fetch_end;
    const int8_t* acts = tile + first_block * G::kActs * nc;
    float* acc = task.acc + begin * kPanelRows;
    // The few columns left over are read from the planes: one way less to compile.
    switch (nc) {
      case 1: run_tile<W, FromPlanes, 1>(planes, task.panel, acts, n, fetch, acc); break;
      case 2: run_tile<W, FromPlanes, 2>(planes, task.panel, acts, n, fetch, acc); break;
      case 3: run_tile<W, FromPlanes, 3>(planes, task.panel, acts, n, fetch, acc); break;
      case kTileColumns: run_tile<W, From, kTileColumns>(planes, task.panel, acts, n, fetch, acc); break;
      default:
        if (nc == kHalfColumns)
          run_tile<W, FromPlanes, kHalfColumns>(planes, task.panel, acts, n, fetch, acc);
        else
          run_tile<W, FromPlanes, 4>(planes, task.panel, acts, n, fetch, acc);
    }
    tile += task.n_blocks * G::kActs * nc;
    begin += nc;
  }
}

// Where two instructions unpack 128 codes, reading them as they lie takes less time than what the panel displaces.
template <class W>
constexpr bool kUnpacksInRegisters = kPairsGroups && !kHasTiles && requires {
  requires W::kIsCheap;
};

// acc [n_columns][16] = one panel times all columns. From kUnpackColumns on, codes are unpacked once into task.panel.
template <class W>
static void multiply_panel(const PlanesTask& task) {
  typedef Geometry<W> G;
  constexpr size_t kBlocksOfPanel = kPanelBytes / G::kCodes;
  constexpr size_t kBlocksOfStream = IsSuper<W> ? 6 : 32;
  constexpr size_t kUnpackColumns = kHasTiles ? kTileColumns : 32;
  if (!task.is_added) memset(task.acc, 0, task.n_columns * kPanelRows * sizeof(float));
  const bool is_unpacked = !kUnpacksInRegisters<W> && task.n_columns >= kUnpackColumns;
  const size_t step = is_unpacked ? kBlocksOfPanel : task.n_columns <= kTileColumns ? task.n_blocks : kBlocksOfStream;
  for (size_t b = 0; b < task.n_blocks; b += step) {
    const size_t n = task.n_blocks - b < step ? task.n_blocks - b : step;
    if (!is_unpacked) {
      run_tiles<W, FromPlanes>(task, b, n);
      continue;
    }
    for (size_t i = 0; i < n; ++i) unpack_block<W>(task.planes + (b + i) * G::kBytes, task.panel + i * G::kCodes);
    begin_tiles<W>();
    run_tiles<W, FromPanel>(task, b, n);
    end_tiles();
  }
}

}  // namespace tamis::cpu::TAMIS_TARGET
