// The two halves of attention after the scores: streaming softmax and the weighted sum of values.

namespace tamis::cpu::TAMIS_TARGET {

TAMIS_INLINE float exp_of_one(float x) {
  F32x16 v;
  set_all(v, x);
  exp_of(v, v);
  return v.a[0];
}

static void softmax_step(float* scores, size_t n_keys, float* maximum, float* total, float* acc, size_t v_dim) {
  float new_maximum = *maximum;
  for (size_t i = 0; i < n_keys; ++i) new_maximum = scores[i] > new_maximum ? scores[i] : new_maximum;
  F32x16 sums, shift;
  set_all(sums, 0.0f);
  set_all(shift, new_maximum);
  for (size_t i = 0; i < n_keys; i += 16) {
    const size_t n = n_keys - i < 16 ? n_keys - i : 16;
    F32x16 v;
    if (n == 16) {
      load(v, scores + i);
    } else {
      load_first(v, scores + i, n);
    }
    subtract(v, shift);
    exp_of(v, v);
    float e[16];
    store(e, v);
    for (size_t j = 0; j < n; ++j) scores[i + j] = e[j];
    if (n < 16) load_first(v, e, n);
    add(sums, v);
  }
  // The first tile has nothing to rescale: *total and acc are 0 then.
  if (*total > 0.0f && new_maximum > *maximum) {
    const float correction = exp_of_one(*maximum - new_maximum);
    *total = *total * correction;
    for (size_t d = 0; d < v_dim; ++d) acc[d] = acc[d] * correction;
  }
  *total = *total + sum(sums);
  *maximum = new_maximum;
}

template <int kBlocks>
TAMIS_INLINE void add_values_columns(const float* p, size_t n_keys, const float* v, size_t v_stride, float* acc) {
  F32x16 sums[kBlocks];
  for (int b = 0; b < kBlocks; ++b) load(sums[b], acc + 16 * b);
  for (size_t j = 0; j < n_keys; ++j) {
    F32x16 weight;
    set_all(weight, p[j]);
    for (int b = 0; b < kBlocks; ++b) {
      F32x16 value;
      load(value, v + j * v_stride + 16 * b);
      add_product(sums[b], weight, value);
    }
  }
  for (int b = 0; b < kBlocks; ++b) store(acc + 16 * b, sums[b]);
}

static void add_values(const float* p, size_t n_keys, const float* v, size_t v_stride, float* acc, size_t v_dim) {
  constexpr int kBlocks = kFloats == 4 ? 2 : 4;
  size_t d = 0;
  for (; d + 16 * kBlocks <= v_dim; d += 16 * kBlocks) add_values_columns<kBlocks>(p, n_keys, v + d, v_stride, acc + d);
  for (; d + 16 <= v_dim; d += 16) add_values_columns<1>(p, n_keys, v + d, v_stride, acc + d);
  for (; d < v_dim; ++d)
    for (size_t j = 0; j < n_keys; ++j) acc[d] = acc[d] + p[j] * v[j * v_stride + d];
}

}  // namespace tamis::cpu::TAMIS_TARGET
