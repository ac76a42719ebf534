// Which form a matrix gets in memory, and how large it is: known from its type and shape alone, before anything is
// loaded.
#pragma once

#include <cstdint>
#include <optional>

#include "base/dtype.h"
#include "base/shape.h"
#include "cpu/backend.h"

namespace tamis::cpu {

enum class MatrixForm : uint8_t {
  file,    // the mapped bytes themselves (FileWeight)
  planes,  // PlaneWeight
  affine,  // AffineWeight
  floats,  // FloatWeight
};

// The form of a matrix that is multiplied.
MatrixForm matrix_form(DType dtype, CpuLayout layout, CpuActivations activations);

// Bytes it takes; nothing when the shape is not whole blocks or the number does not fit.
std::optional<uint64_t> matrix_bytes(DType dtype, const Shape& shape, MatrixForm form);

}  // namespace tamis::cpu
