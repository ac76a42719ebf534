// Made-up weights of every tensor type, for tests of the CPU backend.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace tamis::test {

// Matrix types with a decoder of their own in src/cpu, and a few without.
std::vector<DType> matrix_types();

// n_rows rows of n_cols elements: random bytes with scale fields set to small finite numbers, or encoded normal
// numbers.
std::vector<std::byte> random_weights(DType dtype, size_t n_rows, size_t n_cols, uint64_t seed);

std::vector<float> random_floats(size_t n, uint64_t seed);  // normal, variance 1

}  // namespace tamis::test
