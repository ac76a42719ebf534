// Dot products of a few rows with a few tokens at once: each loaded vector is used several times. How many rows and
// tokens go together is the target's choice (TAMIS_TILE_ROWS, TAMIS_TILE_TOKENS) and changes no bit: every dot product
// has its own lanes.

namespace tamis::cpu::TAMIS_TARGET {

template <int kRows, int kTokens>
TAMIS_INLINE void multiply_tile(const MultiplyTask& task, size_t row, size_t token) {
  const float* w = task.w + row * task.w_stride;
  const float* x = task.x + token * task.x_stride;
  F32x16 acc[kRows][kTokens];
  for (int r = 0; r < kRows; ++r)
    for (int t = 0; t < kTokens; ++t) set_all(acc[r][t], 0.0f);
  size_t i = 0;
  for (; i + 16 <= task.k; i += 16) {
    F32x16 a[kRows];
    for (int r = 0; r < kRows; ++r) load(a[r], w + r * task.w_stride + i);
    for (int t = 0; t < kTokens; ++t) {
      F32x16 b;
      load(b, x + t * task.x_stride + i);
      for (int r = 0; r < kRows; ++r) add_product(acc[r][t], a[r], b);
    }
  }
  if (i < task.k) {
    for (int r = 0; r < kRows; ++r) {
      F32x16 a;
      load_first(a, w + r * task.w_stride + i, task.k - i);
      for (int t = 0; t < kTokens; ++t) {
        F32x16 b;
        load_first(b, x + t * task.x_stride + i, task.k - i);
        add_product(acc[r][t], a, b);
      }
    }
  }
  for (int t = 0; t < kTokens; ++t) {
    float* const out = task.out + (token + t) * task.out_stride + row;
    for (int r = 0; r < kRows; ++r) out[r] = task.is_added ? out[r] + sum(acc[r][t]) : sum(acc[r][t]);
  }
}

template <int kTokens>
TAMIS_INLINE void multiply_tokens(const MultiplyTask& task, size_t row, size_t n_rows, size_t& token) {
  for (; token + kTokens <= task.n_tokens; token += kTokens) {
    size_t r = row;
    for (; r + TAMIS_TILE_ROWS <= row + n_rows; r += TAMIS_TILE_ROWS)
      multiply_tile<TAMIS_TILE_ROWS, kTokens>(task, r, token);
    for (; r < row + n_rows; ++r) multiply_tile<1, kTokens>(task, r, token);
  }
}

static void multiply(const MultiplyTask& task) {
  size_t token = 0;
  multiply_tokens<TAMIS_TILE_TOKENS>(task, 0, task.n_rows, token);
  multiply_tokens<1>(task, 0, task.n_rows, token);
}

}  // namespace tamis::cpu::TAMIS_TARGET
