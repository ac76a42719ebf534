// Attention over one split of keys, see attention.h: scores = queries × keys and sums += weights × values are the same
// loop, columns × steps times steps × lanes, every sum one chain of fused multiply-adds in order of the steps.

namespace tamis::cpu::TAMIS_TARGET {

// Element types that the loop reads in place; 16 elements at `from`.
struct ElementF32 {
  static constexpr size_t kBytes = 4;
  TAMIS_METHOD static void load16(F32x16& v, const uint8_t* from) { load(v, (const float*)from); }
};
struct ElementF16 {
  static constexpr size_t kBytes = 2;
  TAMIS_METHOD static void load16(F32x16& v, const uint8_t* from) { v = f32_from_f16(from); }
};
struct ElementBf16 {
  static constexpr size_t kBytes = 2;
  TAMIS_METHOD static void load16(F32x16& v, const uint8_t* from) { v = f32_from_bf16(from); }
};

// The right factor: vectors of sixteen lanes, n_vectors side by side, n_steps one after another.
struct Panels {
  const uint8_t* at;
  size_t vector_bytes, step_bytes;  // from one to the next
  size_t n_vectors, n_steps;
};

// out[c][lane] (+)= Σ_step a[c · kColumn + step · kStep] · panels[step][lane] for kColumns columns, kVectors vectors.
template <class Element, int kColumns, int kVectors, int kColumn, int kStep>
TAMIS_INLINE void accumulate(const float* a, const uint8_t* b, const Panels& panels, float* out, size_t out_stride,
                             bool is_added) {
  F32x16 acc[kColumns][kVectors];
  TAMIS_UNROLL for (int c = 0; c < kColumns; ++c) {
    TAMIS_UNROLL for (int v = 0; v < kVectors; ++v) {
      if (is_added) {
        load(acc[c][v], out + c * out_stride + 16 * v);
      } else {
        set_all(acc[c][v], 0.0f);
      }
    }
  }
  for (size_t step = 0; step < panels.n_steps; ++step, a += kStep, b += panels.step_bytes) {
    F32x16 right[kVectors];
    TAMIS_UNROLL for (int v = 0; v < kVectors; ++v) Element::load16(right[v], b + v * panels.vector_bytes);
    TAMIS_UNROLL for (int c = 0; c < kColumns; ++c) {
      F32x16 left;
      set_all(left, a[c * kColumn]);
      TAMIS_UNROLL for (int v = 0; v < kVectors; ++v) fma_into(acc[c][v], left, right[v]);
    }
  }
  TAMIS_UNROLL for (int c = 0; c < kColumns; ++c) TAMIS_UNROLL for (int v = 0; v < kVectors; ++v)
      store(out + c * out_stride + 16 * v, acc[c][v]);
}

// Sixteen-lane accumulators that fit the registers beside the operands: columns × vectors.
constexpr int vectors_for(int n_columns) {
  return kFloats == 16 ? 4 : kGemmColumns < 6 ? 1 : n_columns > 3 ? 1 : n_columns > 1 ? 2 : 4;
}

template <class Element, int kColumns, int kVectors, int kColumn, int kStep>
TAMIS_INLINE void accumulate_vectors(const float* a, const Panels& panels, float* out, size_t out_stride, bool is_added,
                                     size_t& v) {
  for (; v + kVectors <= panels.n_vectors; v += kVectors)
    accumulate<Element, kColumns, kVectors, kColumn, kStep>(a, panels.at + v * panels.vector_bytes, panels,
                                                            out + 16 * v, out_stride, is_added);
}

template <class Element, int kColumns, int kColumn, int kStep>
static void accumulate_columns(const float* a, const Panels& panels, float* out, size_t out_stride, bool is_added) {
  constexpr int kVectors = vectors_for(kColumns);
  size_t v = 0;
  accumulate_vectors<Element, kColumns, kVectors, kColumn, kStep>(a, panels, out, out_stride, is_added, v);
  if constexpr (kVectors > 2)
    accumulate_vectors<Element, kColumns, 2, kColumn, kStep>(a, panels, out, out_stride, is_added, v);
  if constexpr (kVectors > 1)
    accumulate_vectors<Element, kColumns, 1, kColumn, kStep>(a, panels, out, out_stride, is_added, v);
}

// The same for n_columns ≤ kColumns.
template <class Element, int kColumns, int kColumn, int kStep>
TAMIS_INLINE void accumulate_few(size_t n_columns, const float* a, const Panels& panels, float* out, size_t out_stride,
                                 bool is_added) {
  if (n_columns == kColumns) {
    accumulate_columns<Element, kColumns, kColumn, kStep>(a, panels, out, out_stride, is_added);
  } else if constexpr (kColumns > 1) {
    accumulate_few<Element, kColumns - 1, kColumn, kStep>(n_columns, a, panels, out, out_stride, is_added);
  }
}

// scores[c][16 v + lane] for columns begin … end-1, whole groups of packed queries.
template <class Element>
TAMIS_INLINE void multiply_keys(const AttentionTask& task, size_t begin, size_t end, const Panels& panels,
                                size_t first_vector) {
  for (size_t c = begin; c < end; c += kGemmColumns) {
    const size_t n = end - c < kGemmColumns ? end - c : kGemmColumns;
    accumulate_few<Element, kGemmColumns, 1, kGemmColumns>(
        n, task.q + c * task.k_dim, panels, task.scores + c * kTileKeys + 16 * first_vector, kTileKeys, false);
  }
}

// acc[c] += Σ_key scores[c][key] · values[key] for columns begin … end-1, keys `first` … first + n_steps - 1.
template <class Element>
TAMIS_INLINE void add_values(const AttentionTask& task, size_t begin, size_t end, size_t first, const Panels& panels) {
  for (size_t c = begin; c < end; c += kGemmColumns) {
    const size_t n = end - c < kGemmColumns ? end - c : kGemmColumns;
    accumulate_few<Element, kGemmColumns, kTileKeys, 1>(n, task.scores + c * kTileKeys + first, panels,
                                                        task.part.acc + c * task.v_stride, task.v_stride, true);
  }
}

TAMIS_INLINE const KvPage& page_of(const AttentionTask& task, uint32_t tile, uint32_t key) {
  return task.pages[(tile - task.split + key) / kPageKeys];
}

// The first n < 16 elements of a row, the rest 0.
template <class Element>
TAMIS_INLINE void load_first_elements(F32x16& v, const uint8_t* from, size_t n) {
  uint8_t padded[16 * Element::kBytes] = {};
  memcpy(padded, from, n * Element::kBytes);
  Element::load16(v, padded);
}

// Keys of a tile as floats, in groups of sixteen: task.keys[group][element][16]. `begin`, `end`: groups wanted.
template <class Element>
static void widen_keys(const AttentionTask& task, uint32_t tile, uint32_t begin, uint32_t end) {
  for (uint32_t group = begin; group < end; ++group) {
    const uint32_t key = 16 * group;
    const uint8_t* from = page_of(task, tile, key).k + key % kPageKeys * task.k_dim * Element::kBytes;
    float* to = task.keys + (size_t)group * task.k_dim * 16;
    for (uint32_t d = 0; d < task.k_dim; ++d, from += 16 * Element::kBytes, to += 16) {
      F32x16 v;
      Element::load16(v, from);
      store(to, v);
    }
  }
}

// Values of a tile as floats: task.values[d / 16][key][d % 16]; keys begin … end-1.
template <class Element>
static void widen_values(const AttentionTask& task, uint32_t tile, uint32_t begin, uint32_t end) {
  for (uint32_t key = begin; key < end; ++key) {
    const uint8_t* from = page_of(task, tile, key).v + (size_t)(key % kPageKeys) * task.v_dim * Element::kBytes;
    float* to = task.values + 16 * key;
    uint32_t d = 0;
    F32x16 v;
    for (; d + 16 <= task.v_dim; d += 16, from += 16 * Element::kBytes, to += 16 * kTileKeys) {
      Element::load16(v, from);
      store(to, v);
    }
    if (d == task.v_dim) continue;
    load_first_elements<Element>(v, from, task.v_dim - d);
    store(to, v);
  }
}

// Block types. Sixteen codes of a byte each, less their zero: exact.
struct CodesQ80 {
  static constexpr uint32_t kRows = 32;  // bytes of one token in a block
  // The elements that byte row j of a block holds: j (and, with two to a byte, j + 16).
  template <class Fn>
  TAMIS_METHOD static void each(const uint8_t* from, uint32_t j, Fn&& fn) {
    F32x16 v;
    widen(v, load_bytes(from) ^ 128);
    subtract(v, f32_set1(128.0f));
    fn(j, v);
  }
};
struct CodesQ40 {
  static constexpr uint32_t kRows = 16;
  template <class Fn>
  TAMIS_METHOD static void each(const uint8_t* from, uint32_t j, Fn&& fn) {
    const Bytes codes = load_bytes(from);
    F32x16 v;
    widen(v, codes & 15);
    subtract(v, f32_set1(8.0f));
    fn(j, v);
    widen(v, codes >> 4);
    subtract(v, f32_set1(8.0f));
    fn(j + 16, v);
  }
};

template <class Codes>
static void widen_block_keys(const AttentionTask& task, uint32_t tile, uint32_t begin, uint32_t end) {
  const uint32_t n_blocks = task.k_dim / 32;
  for (uint32_t group = begin; group < end; ++group) {
    const uint32_t in_page = 16 * group % kPageKeys / 16;
    const KvPage& page = page_of(task, tile, 16 * group);
    float* const to = task.keys + (size_t)group * task.k_dim * 16;
    for (uint32_t b = 0; b < n_blocks; ++b) {
      const F32x16 scale = f32_from_f16(page.k_scales + (in_page * n_blocks + b) * 32);
      const uint8_t* from = page.k + (size_t)(in_page * n_blocks + b) * Codes::kRows * 16;
      for (uint32_t j = 0; j < Codes::kRows; ++j, from += 16)
        Codes::each(from, j, [&](uint32_t d, const F32x16& v) TAMIS_LAMBDA {
          store(to + (size_t)(32 * b + d) * 16, f32_mul(v, scale));
        });
    }
  }
}

template <class Codes>
static void widen_block_values(const AttentionTask& task, uint32_t tile, uint32_t begin, uint32_t end) {
  const uint32_t n_blocks = task.v_dim / 32;
  for (uint32_t key = begin; key < end; ++key) {
    const KvPage& page = page_of(task, tile, key);
    const size_t row = (size_t)(key % kPageKeys) * n_blocks;
    for (uint32_t b = 0; b < n_blocks; ++b) {
      uint8_t halves[32] = {};
      memcpy(halves, page.v_scales + (row + b) * 2, 2);
      float scales[16];
      store(scales, f32_from_f16(halves));
      const F32x16 scale = f32_set1(scales[0]);
      const uint8_t* const from = page.v + (row + b) * Codes::kRows;
      // Sixteen bytes of a row are elements 16 i … 16 i + 15 of a block; with two to a byte, both halves at once.
      for (uint32_t i = 0; i < Codes::kRows / 16; ++i)
        Codes::each(from + 16 * i, 16 * i, [&](uint32_t d, const F32x16& v) TAMIS_LAMBDA {
          store(task.values + ((size_t)(2 * b + d / 16) * kTileKeys + key) * 16, f32_mul(v, scale));
        });
    }
  }
}

// Keys of a tile that a column sees.
struct KeyRange {
  uint32_t begin, end;  // begin ≥ end: none
};
// Columns begin … end-1, which all see `keys`.
struct Run {
  size_t begin, end;
  KeyRange keys;
};

// How a format is read: widened once a tile, or in place where few columns pass by.
struct KvReader {
  void (*widen_keys)(const AttentionTask&, uint32_t tile, uint32_t begin, uint32_t end);
  void (*widen_values)(const AttentionTask&, uint32_t tile, uint32_t begin, uint32_t end);
  // Null: always widened first.
  void (*multiply_keys)(const AttentionTask&, uint32_t tile, uint32_t begin, uint32_t end);
  void (*add_values)(const AttentionTask&, uint32_t tile, const Run& run);
};

// All columns (one group), key groups begin … end-1, from the pages themselves.
template <class Element>
static void multiply_keys_in_place(const AttentionTask& task, uint32_t tile, uint32_t begin, uint32_t end) {
  constexpr uint32_t kGroups = kPageKeys / 16;  // of a page
  for (uint32_t group = begin; group < end;) {
    const uint32_t page_end = group / kGroups * kGroups + kGroups, last = page_end < end ? page_end : end;
    const size_t vector_bytes = (size_t)task.k_dim * 16 * Element::kBytes;
    const Panels panels{page_of(task, tile, 16 * group).k + group % kGroups * vector_bytes, vector_bytes,
                        16 * Element::kBytes, last - group, task.k_dim};
    multiply_keys<Element>(task, 0, task.n_columns, panels, group);
    group = last;
  }
}

template <class Element>
static void add_values_in_place(const AttentionTask& task, uint32_t tile, const Run& run) {
  for (uint32_t key = run.keys.begin; key < run.keys.end;) {
    const uint32_t page_end = key / kPageKeys * kPageKeys + kPageKeys;
    const uint32_t last = page_end < run.keys.end ? page_end : run.keys.end;
    const size_t row_bytes = task.v_dim * Element::kBytes;
    const Panels panels{page_of(task, tile, key).v + key % kPageKeys * row_bytes, 16 * Element::kBytes, row_bytes,
                        task.v_dim / 16, last - key};
    add_values<Element>(task, run.begin, run.end, key, panels);
    key = last;
  }
}

template <class Element>
constexpr KvReader kPlainReader = {widen_keys<Element>, widen_values<Element>, multiply_keys_in_place<Element>,
                                   add_values_in_place<Element>};
template <class Codes>
constexpr KvReader kBlockReader = {widen_block_keys<Codes>, widen_block_values<Codes>, nullptr, nullptr};

static const KvReader kReaders[kKvFormats] = {kPlainReader<ElementF32>, kPlainReader<ElementF16>,
                                              kPlainReader<ElementBf16>, kBlockReader<CodesQ80>,
                                              kBlockReader<CodesQ40>};

TAMIS_INLINE float exp_of_one(float x) {
  F32x16 v;
  set_all(v, x);
  exp_of(v, v);
  return v.a[0];
}

// cap · tanh(s / cap), tanh(x) = 1 − 2 / (e^2x + 1): off by a few roundings of cap.
TAMIS_INLINE void softcap_lanes(F32x16& s, float cap) {
  F32x16 e = f32_div(s, f32_set1(0.5f * cap));
  exp_of(e, e);
  s = f32_mul(f32_set1(cap), f32_sub(f32_set1(1.0f), f32_div(f32_set1(2.0f), f32_add(e, f32_set1(1.0f)))));
}

TAMIS_INLINE void scale_row(float* row, size_t n, float factor) {
  const F32x16 f = f32_set1(factor);
  for (size_t i = 0; i < n; i += 16) store(row + i, f32_mul(f32_load(row + i), f));
}

// One column's scores of keys begin … end-1 of a tile become exp(score − maximum), 0 outside; its state follows.
template <bool kIsWhole>
TAMIS_INLINE void softmax_column(const AttentionTask& task, size_t c, uint32_t begin, uint32_t end) {
  constexpr float kLowest = -__builtin_inff();
  float* const scores = task.scores + c * kTileKeys;
  const int first = kIsWhole ? 0 : (int)begin / 16, last = kIsWhole ? kTileKeys / 16 : (int)(end + 15) / 16;
  F32x16 v[kTileKeys / 16];
  F32x16 highest = f32_set1(kLowest);
  TAMIS_UNROLL for (int i = 0; i < (int)kTileKeys / 16; ++i) {
    if (i < first || i >= last) continue;
    load(v[i], scores + 16 * i);
    if (task.softcap > 0.0f) softcap_lanes(v[i], task.softcap);
    if (!kIsWhole) keep_lanes(v[i], (int32_t)begin - 16 * i, (int32_t)end - 16 * i, kLowest);
    highest = f32_max(highest, v[i]);
  }
  const float old = task.part.maximum[c];
  float maximum = max_across(highest);
  if (!(maximum > old)) maximum = old;
  const F32x16 shift = f32_set1(maximum == kLowest ? 0.0f : maximum);
  float* const sums = task.part.sums + c * 16;
  // A column's first tile has nothing to rescale.
  if (maximum != old && old != kLowest) {
    const float factor = exp_of_one(old - maximum);
    scale_row(sums, 16, factor);
    scale_row(task.part.acc + c * task.v_stride, task.v_stride, factor);
  }
  F32x16 total;
  load(total, sums);
  TAMIS_UNROLL for (int i = 0; i < (int)kTileKeys / 16; ++i) {
    if (i < first || i >= last) continue;
    subtract(v[i], shift);
    exp_of(v[i], v[i]);
    if (!kIsWhole) keep_lanes(v[i], (int32_t)begin - 16 * i, (int32_t)end - 16 * i, 0.0f);
    add(total, v[i]);
    store(scores + 16 * i, v[i]);
  }
  store(sums, total);
  task.part.maximum[c] = maximum;
}

TAMIS_INLINE KeyRange keys_seen(const AttentionTask& task, size_t c, uint32_t tile) {
  const uint32_t first = task.first[c], n_seen = task.n_seen[c];
  return {first > tile ? first - tile : 0, n_seen < tile + kTileKeys ? (n_seen > tile ? n_seen - tile : 0) : kTileKeys};
}

// What every column of a tile sees together.
struct TileView {
  size_t c_begin, c_end;  // columns that see any key
  uint32_t begin, end;    // keys that any column sees
};
TAMIS_INLINE TileView view_tile(const AttentionTask& task, uint32_t tile) {
  TileView view{task.n_columns, 0, kTileKeys, 0};
  for (size_t c = 0; c < task.n_columns; ++c) {
    const KeyRange range = keys_seen(task, c, tile);
    if (range.begin >= range.end) continue;
    if (view.c_begin > c) view.c_begin = c;
    view.c_end = c + 1;
    if (range.begin < view.begin) view.begin = range.begin;
    if (range.end > view.end) view.end = range.end;
  }
  return view;
}

TAMIS_INLINE void score_tile(const AttentionTask& task, uint32_t tile, const TileView& view) {
  const KvReader& reader = kReaders[task.k_format];
  const uint32_t begin = view.begin / 16, end = (view.end + 15) / 16;
  if (task.n_columns <= kGemmColumns && reader.multiply_keys != nullptr)
    return reader.multiply_keys(task, tile, begin, end);
  reader.widen_keys(task, tile, begin, end);
  const size_t group_bytes = (size_t)task.k_dim * 16 * sizeof(float);
  const Panels panels{(const uint8_t*)task.keys + begin * group_bytes, group_bytes, 16 * sizeof(float), end - begin,
                      task.k_dim};
  multiply_keys<ElementF32>(task, view.c_begin / kGemmColumns * kGemmColumns, view.c_end, panels, begin);
}

static void attend_tile(const AttentionTask& task, uint32_t tile) {
  const TileView view = view_tile(task, tile);
  if (view.c_begin >= view.c_end) return;
  score_tile(task, tile, view);
  const KvReader& reader = kReaders[task.v_format];
  const bool is_in_place = task.n_columns <= kGemmColumns && reader.add_values != nullptr && task.v_dim % 16 == 0;
  if (!is_in_place) reader.widen_values(task, tile, view.begin, view.end);
  // A key that a column does not see enters no sum of it, whatever its value: columns that see the same keys go
  // together.
  for (Run run{view.c_begin, 0, {}}; run.begin < view.c_end; run.begin = run.end) {
    run.keys = keys_seen(task, run.begin, tile);
    for (run.end = run.begin + 1; run.end < view.c_end; ++run.end) {
      const KeyRange next = keys_seen(task, run.end, tile);
      if (next.begin != run.keys.begin || next.end != run.keys.end) break;
    }
    if (run.keys.begin >= run.keys.end) continue;
    const bool is_whole = run.keys.begin == 0 && run.keys.end == kTileKeys;
    for (size_t c = run.begin; c < run.end; ++c) {
      if (is_whole) {
        softmax_column<true>(task, c, 0, kTileKeys);
      } else {
        softmax_column<false>(task, c, run.keys.begin, run.keys.end);
      }
    }
    if (is_in_place) {
      reader.add_values(task, tile, run);
      continue;
    }
    const Panels panels{(const uint8_t*)(task.values + 16 * run.keys.begin), kTileKeys * 16 * sizeof(float),
                        16 * sizeof(float), task.v_stride / 16, run.keys.end - run.keys.begin};
    add_values<ElementF32>(task, run.begin, run.end, run.keys.begin, panels);
  }
}

static void attend(const AttentionTask& task) {
  for (size_t c = 0; c < task.n_columns; ++c) task.part.maximum[c] = -__builtin_inff();
  memset(task.part.sums, 0, (size_t)task.n_columns * 16 * sizeof(float));
  memset(task.part.acc, 0, (size_t)task.n_columns * task.v_stride * sizeof(float));
  for (uint32_t tile = task.split; tile < task.end; tile += kTileKeys) attend_tile(task, tile);
}

// rows: to = to · a + from · b.
TAMIS_INLINE void mix_rows(float* to, const float* from, size_t n, float a, float b) {
  for (size_t i = 0; i < n; i += 16) {
    F32x16 sum = f32_mul(f32_load(from + i), f32_set1(b));
    fma_into(sum, f32_load(to + i), f32_set1(a));
    store(to + i, sum);
  }
}

static void merge_attention(const AttentionTask& task, const AttentionPart& total) {
  const AttentionPart& part = task.part;
  for (size_t c = 0; c < task.n_columns; ++c) {
    if (task.first[c] >= task.end || task.n_seen[c] <= task.split) continue;  // it sees no key of this split
    float *const sums = total.sums + c * 16, *const acc = total.acc + c * task.v_stride;
    const float *const part_sums = part.sums + c * 16, *const part_acc = part.acc + c * task.v_stride;
    if (task.first[c] >= task.split) {  // nor any before it
      total.maximum[c] = part.maximum[c];
      memcpy(sums, part_sums, 16 * sizeof(float));
      memcpy(acc, part_acc, task.v_stride * sizeof(float));
      continue;
    }
    const float old = total.maximum[c], other = part.maximum[c];
    const float maximum = other > old ? other : old;
    const float shift = maximum == -__builtin_inff() ? 0.0f : maximum;
    const float a = exp_of_one(old - shift), b = exp_of_one(other - shift);
    mix_rows(sums, part_sums, 16, a, b);
    mix_rows(acc, part_acc, task.v_stride, a, b);
    total.maximum[c] = maximum;
  }
}

static void finish_attention(const AttentionTask& task, const AttentionPart& total, float* const* out) {
  for (size_t c = 0; c < task.n_columns; ++c) {
    const F32x16 divisor = f32_set1(sum(f32_load(total.sums + c * 16)));
    const float* const acc = total.acc + c * task.v_stride;
    for (uint32_t d = 0; d < task.v_dim; d += 16) {
      float lanes[16];
      store(lanes, f32_div(f32_load(acc + d), divisor));
      const uint32_t n = task.v_dim - d < 16 ? task.v_dim - d : 16;
      memcpy(out[c] + d, lanes, n * sizeof(float));
    }
  }
}

// Groups of kGemmColumns columns: q[group][element][column].
static void pack_queries(const PackQueriesTask& task) {
  for (uint32_t c = 0; c < task.n_columns; ++c) {
    float* const to = task.q + (size_t)(c / kGemmColumns) * kGemmColumns * task.k_dim + c % kGemmColumns;
    for (uint32_t d = 0; d < task.k_dim; ++d) to[(size_t)d * kGemmColumns] = task.columns[c][d] * task.scale;
  }
}

}  // namespace tamis::cpu::TAMIS_TARGET
