// Matrices of plain numbers in panels of 16 rows, [k][16], so that a vector of weights meets one element of a column.
// POD and constants only: included by target files.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "cpu/kernels/planes.h"

namespace tamis::cpu {

enum class FloatKind : uint8_t { f32, f16, bf16 };
constexpr size_t float_bytes(FloatKind kind) { return kind == FloatKind::f32 ? 4 : 2; }

// A dot product is the sum, in order, of the sums over runs of this many elements: shorter sums round less, and a run
// of decoded weights stays in the nearest cache.
constexpr size_t kFloatRun = 256;
static_assert(kFloatRun * kPanelRows * sizeof(float) <= kPanelBytes);

struct FloatsTask {
  const void* panel;  // [k][16] of `kind`
  FloatKind kind;
  const float* x;  // column i at x + i · x_stride
  size_t x_stride;
  size_t n_columns;
  size_t k;
  float* acc;     // [n_columns][16], out
  bool is_added;  // to what acc holds; the elements before were whole runs
};

}  // namespace tamis::cpu
