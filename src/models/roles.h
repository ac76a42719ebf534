// What a tensor is for, and which element types each role may have: one table, checked once at load.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/dtype.h"

namespace tamis {

enum class Role : uint8_t {
  embedding,  // looked up by token id; the output matrix too when tied
  output,     // the last linear map
  linear,     // a matrix of attention or feed-forward
  expert,     // stacked matrices of a mixture
  router,     // chooses experts
  norm,       // gain of a normalisation
  bias,
  scale,  // one number that multiplies a linear's output
  rope_factors,
};

std::string_view role_name(Role role);

// Whether a tensor of this role may be stored as this type. Matrices: every float and block type; small vectors: floats
// only.
bool is_dtype_allowed(Role role, DType dtype);

// "F32, F16, BF16, Q4_0, …", for error messages.
std::string_view allowed_dtypes(Role role);

}  // namespace tamis
