// Matrix times columns in float32: every sum goes through the elements of a run in order, products and sums rounded one
// by one, whatever the number of columns.

namespace tamis::cpu::TAMIS_TARGET {

// Columns whose sums stay in registers together.
constexpr int kFloatColumns = kFloats == 16 ? 12 : kFloats == 8 ? 6 : 2;

template <FloatKind kKind>
TAMIS_INLINE F32x16 float_row(const uint8_t* p) {
  if constexpr (kKind == FloatKind::f16)
    return f32_from_f16(p);
  else if constexpr (kKind == FloatKind::bf16)
    return f32_from_bf16(p);
  else
    return f32_load(reinterpret_cast<const float*>(p));
}

template <FloatKind kKind, int NC>
static __attribute__((noinline)) void floats_tile(const uint8_t* panel, const float* x, size_t x_stride, size_t k,
                                                  float* acc) {
  F32x16 sums[NC];
  TAMIS_UNROLL for (int c = 0; c < NC; ++c) sums[c] = f32_zero();
  for (size_t i = 0; i < k; ++i, panel += kPanelRows * float_bytes(kKind)) {
    const F32x16 w = float_row<kKind>(panel);
    TAMIS_UNROLL for (int c = 0; c < NC; ++c) add_product(sums[c], w, f32_set1(x[c * x_stride + i]));
  }
  TAMIS_UNROLL for (int c = 0; c < NC; ++c) {
    F32x16 total = f32_load(acc + c * kPanelRows);
    add(total, sums[c]);
    f32_store(acc + c * kPanelRows, total);
  }
}

template <FloatKind kKind>
TAMIS_INLINE void floats_run(const FloatsTask& task, size_t first, size_t k) {
  const auto* panel = static_cast<const uint8_t*>(task.panel) + first * kPanelRows * float_bytes(kKind);
  size_t c = 0;
  for (; c + kFloatColumns <= task.n_columns; c += kFloatColumns)
    floats_tile<kKind, kFloatColumns>(panel, task.x + c * task.x_stride + first, task.x_stride, k,
                                      task.acc + c * kPanelRows);
  for (; c + 4 <= task.n_columns; c += 4)
    floats_tile<kKind, 4>(panel, task.x + c * task.x_stride + first, task.x_stride, k, task.acc + c * kPanelRows);
  for (; c < task.n_columns; ++c)
    floats_tile<kKind, 1>(panel, task.x + c * task.x_stride + first, task.x_stride, k, task.acc + c * kPanelRows);
}

// acc [n_columns][16] = one panel times all columns.
static void multiply_floats(const FloatsTask& task) {
  if (!task.is_added) memset(task.acc, 0, task.n_columns * kPanelRows * sizeof(float));
  for (size_t first = 0; first < task.k; first += kFloatRun) {
    const size_t k = task.k - first < kFloatRun ? task.k - first : kFloatRun;
    switch (task.kind) {
      case FloatKind::f16: floats_run<FloatKind::f16>(task, first, k); break;
      case FloatKind::bf16: floats_run<FloatKind::bf16>(task, first, k); break;
      case FloatKind::f32: floats_run<FloatKind::f32>(task, first, k); break;
    }
  }
}

}  // namespace tamis::cpu::TAMIS_TARGET
