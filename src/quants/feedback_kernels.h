// The sums of error feedback, over rows of a matrix. Each sum has one order, whatever the machine.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tamis {

inline constexpr uint64_t kChunk = 256;  // columns whose sums stay in the first cache

// out[j] += Σ_i e[i] · m[i][j] over n_rows rows of m, n columns; i in order for every j.
void add_products(const float* e, const float* m, uint64_t stride, uint64_t n_rows, float* out, uint64_t n);

float dot(const float* a, const float* b, uint64_t n);

// out[j] -= factor · row[j].
void subtract_multiple(float factor, const float* row, float* out, uint64_t n);

}  // namespace tamis
