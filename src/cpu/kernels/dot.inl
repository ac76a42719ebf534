// Dot products of floats, every product and sum rounded.

namespace tamis::cpu::TAMIS_TARGET {

// Of at most kChunk elements.
TAMIS_INLINE float dot_chunk(const float* a, const float* b, size_t n) {
  F32x16 acc;
  set_all(acc, 0.0f);
  size_t i = 0;
  for (; i + 16 <= n; i += 16) add_product(acc, f32_load(a + i), f32_load(b + i));
  if (i < n) {
    F32x16 x, y;
    load_first(x, a + i, n - i);
    load_first(y, b + i, n - i);
    add_product(acc, x, y);
  }
  return sum(acc);
}

static float dot(const float* a, const float* b, size_t n) {
  float total = 0.0f;
  for (size_t i = 0; i < n; i += kChunk) {
    const float part = dot_chunk(a + i, b + i, n - i < kChunk ? n - i : kChunk);
    total = i == 0 ? part : total + part;
  }
  return total;
}

}  // namespace tamis::cpu::TAMIS_TARGET
