// Plain loops, as wide as the machine allows.
#include "quants/feedback_kernels.h"

#include <algorithm>

#include "base/cpu_clones.h"

namespace tamis {

TAMIS_WIDE void add_products(const float* e, const float* m, uint64_t stride, uint64_t n_rows, float* out, uint64_t n) {
  float sums[kChunk];
  for (uint64_t first = 0; first < n; first += kChunk) {
    const uint64_t len = std::min(kChunk, n - first);
    std::copy_n(out + first, len, sums);
    for (uint64_t i = 0; i < n_rows; ++i) {
      const float factor = e[i];
      if (factor == 0.0f) continue;
      const float* const row = m + i * stride + first;
      if (len == kChunk) {
        for (uint64_t j = 0; j < kChunk; ++j) sums[j] += factor * row[j];
      } else {
        for (uint64_t j = 0; j < len; ++j) sums[j] += factor * row[j];
      }
    }
    std::copy_n(sums, len, out + first);
  }
}

TAMIS_WIDE float dot(const float* a, const float* b, uint64_t n) {
  float sums[16] = {};
  uint64_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (uint64_t lane = 0; lane < 16; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  for (; i < n; ++i) sums[0] += a[i] * b[i];
  float sum = 0;
  for (const float part : sums) sum += part;
  return sum;
}

TAMIS_WIDE void subtract_multiple(float factor, const float* row, float* out, uint64_t n) {
  for (uint64_t j = 0; j < n; ++j) out[j] -= factor * row[j];
}

}  // namespace tamis
