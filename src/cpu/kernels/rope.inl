// Rotation of one head's pairs: a' = a·cos − b·sin, b' = b·cos + a·sin, every product and sum rounded.  Source: Su et
// al. 2021, arXiv:2104.09864, eq. 34.

namespace tamis::cpu::TAMIS_TARGET {

TAMIS_INLINE void rotate_one(float* first, float* second, float cosine, float sine) {
  const float a = *first, b = *second;
  *first = a * cosine - b * sine;
  *second = b * cosine + a * sine;
}

static void rotate_halves(float* x, const float* cosines, const float* sines, size_t n_pairs) {
  size_t i = 0;
  for (; i + 16 <= n_pairs; i += 16) {
    const F32x16 a = f32_load(x + i), b = f32_load(x + n_pairs + i);
    const F32x16 cosine = f32_load(cosines + i), sine = f32_load(sines + i);
    store(x + i, f32_sub(f32_mul(a, cosine), f32_mul(b, sine)));
    store(x + n_pairs + i, f32_add(f32_mul(b, cosine), f32_mul(a, sine)));
  }
  for (; i < n_pairs; ++i) rotate_one(x + i, x + n_pairs + i, cosines[i], sines[i]);
}

static void rotate_pairs(float* x, const float* cosines, const float* sines, size_t n_pairs) {
  for (size_t i = 0; i < n_pairs; ++i) rotate_one(x + 2 * i, x + 2 * i + 1, cosines[i], sines[i]);
}

}  // namespace tamis::cpu::TAMIS_TARGET
