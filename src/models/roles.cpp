// The table of (role, element type) pairs.
#include "models/roles.h"

#include <array>
#include <cstddef>

namespace tamis {
namespace {

constexpr std::array<DType, 3> kFloats = {DType::f32, DType::f16, DType::bf16};
// Q8_1 and Q8_K are forms of activations, integers and F64 have no use as weights of a transformer.
constexpr std::array<DType, 28> kMatrices = {
    DType::f32,    DType::f16,   DType::bf16,    DType::q4_0,  DType::q4_1,  DType::q5_0,  DType::q5_1,
    DType::q8_0,   DType::q2_k,  DType::q3_k,    DType::q4_k,  DType::q5_k,  DType::q6_k,  DType::iq2_xxs,
    DType::iq2_xs, DType::iq2_s, DType::iq3_xxs, DType::iq3_s, DType::iq1_s, DType::iq1_m, DType::iq4_nl,
    DType::iq4_xs, DType::tq1_0, DType::tq2_0,   DType::mxfp4, DType::nvfp4, DType::q1_0,  DType::q2_0,
};
constexpr std::string_view kFloatNames = "F32, F16 or BF16";
constexpr std::string_view kMatrixNames = "F32, F16, BF16 or a block-quantized type";

struct Row {
  Role role;
  std::string_view name;
  bool is_matrix;
};

constexpr std::array<Row, 9> kRoles = {{
    {Role::embedding, "embedding", true},
    {Role::output, "output", true},
    {Role::linear, "linear", true},
    {Role::expert, "expert", true},
    {Role::router, "router", true},
    {Role::norm, "norm", false},
    {Role::bias, "bias", false},
    {Role::scale, "scale", false},
    {Role::rope_factors, "rope_factors", false},
}};

const Row& row_of(Role role) { return kRoles[static_cast<size_t>(role)]; }

template <size_t kCount>
constexpr bool contains(const std::array<DType, kCount>& types, DType dtype) {
  for (const DType type : types) {
    if (type == dtype) return true;
  }
  return false;
}

}  // namespace

std::string_view role_name(Role role) { return row_of(role).name; }

bool is_dtype_allowed(Role role, DType dtype) {
  return row_of(role).is_matrix ? contains(kMatrices, dtype) : contains(kFloats, dtype);
}

std::string_view allowed_dtypes(Role role) { return row_of(role).is_matrix ? kMatrixNames : kFloatNames; }

}  // namespace tamis
