// x · sigmoid(z): with z = x it is SiLU; with z = 2·√(2/π)·(x + 0.044715 x³) it is GELU's tanh form, since
// (1 + tanh(u)) / 2 = sigmoid(2u).  Sources: Hendrycks & Gimpel 2016, arXiv:1606.08415; Shazeer 2020, arXiv:2002.05202.

namespace tamis::cpu::TAMIS_TARGET {

template <bool kIsGelu>
TAMIS_INLINE VecF gate_part(VecF x) {
  const VecF z = kIsGelu ? -1.5957691216057308f * (x + 0.044715f * x * x * x) : -x;
  return x / (1.0f + exp_of_part(z));
}

template <bool kIsGelu>
TAMIS_INLINE void gate_lanes(F32x16& x) {
#define TAMIS_GATE(part) x.part = gate_part<kIsGelu>(x.part);
  TAMIS_PARTS(TAMIS_GATE)
#undef TAMIS_GATE
}

template <bool kIsGelu>
TAMIS_INLINE void gate_all(float* x, const float* factor, size_t n) {
  for (size_t i = 0; i < n; i += 16) {
    const size_t n_here = n - i < 16 ? n - i : 16;
    float lanes[16];
    F32x16 v;
    load_first(v, x + i, n_here);
    gate_lanes<kIsGelu>(v);
    store(lanes, v);
    for (size_t j = 0; j < n_here; ++j) x[i + j] = factor != nullptr ? lanes[j] * factor[i + j] : lanes[j];
  }
}

static void silu(float* x, const float* factor, size_t n) { gate_all<false>(x, factor, n); }
static void gelu_tanh(float* x, const float* factor, size_t n) { gate_all<true>(x, factor, n); }

}  // namespace tamis::cpu::TAMIS_TARGET
