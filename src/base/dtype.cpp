// The table of tensor element types.
#include "base/dtype.h"

#include <cctype>

#include "base/checked.h"
#include "base/result.h"

namespace tamis {
namespace {

constexpr DTypeInfo kTypes[] = {
    {DType::f32, "F32", 1, 4},
    {DType::f16, "F16", 1, 2},
    {DType::q4_0, "Q4_0", 32, 18},
    {DType::q4_1, "Q4_1", 32, 20},
    {DType::q5_0, "Q5_0", 32, 22},
    {DType::q5_1, "Q5_1", 32, 24},
    {DType::q8_0, "Q8_0", 32, 34},
    {DType::q8_1, "Q8_1", 32, 36},
    {DType::q2_k, "Q2_K", 256, 84},
    {DType::q3_k, "Q3_K", 256, 110},
    {DType::q4_k, "Q4_K", 256, 144},
    {DType::q5_k, "Q5_K", 256, 176},
    {DType::q6_k, "Q6_K", 256, 210},
    {DType::q8_k, "Q8_K", 256, 292},
    {DType::iq2_xxs, "IQ2_XXS", 256, 66},
    {DType::iq2_xs, "IQ2_XS", 256, 74},
    {DType::iq3_xxs, "IQ3_XXS", 256, 98},
    {DType::iq1_s, "IQ1_S", 256, 50},
    {DType::iq4_nl, "IQ4_NL", 32, 18},
    {DType::iq3_s, "IQ3_S", 256, 110},
    {DType::iq2_s, "IQ2_S", 256, 82},
    {DType::iq4_xs, "IQ4_XS", 256, 136},
    {DType::i8, "I8", 1, 1},
    {DType::i16, "I16", 1, 2},
    {DType::i32, "I32", 1, 4},
    {DType::i64, "I64", 1, 8},
    {DType::f64, "F64", 1, 8},
    {DType::iq1_m, "IQ1_M", 256, 56},
    {DType::bf16, "BF16", 1, 2},
    {DType::tq1_0, "TQ1_0", 256, 54},
    {DType::tq2_0, "TQ2_0", 256, 66},
    {DType::mxfp4, "MXFP4", 32, 17},
    {DType::nvfp4, "NVFP4", 64, 36},
    {DType::q1_0, "Q1_0", 128, 18},
    {DType::q2_0, "Q2_0", 64, 18},
};

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (std::toupper(static_cast<unsigned char>(a[i])) != std::toupper(static_cast<unsigned char>(b[i]))) return false;
  return true;
}

}  // namespace

const DTypeInfo* dtype_info(uint32_t id) {
  for (const DTypeInfo& row : kTypes)
    if (static_cast<uint32_t>(row.dtype) == id) return &row;
  return nullptr;
}

const DTypeInfo& dtype_info(DType dtype) {
  const DTypeInfo* row = dtype_info(static_cast<uint32_t>(dtype));
  TAMIS_CHECK(row != nullptr);
  return *row;
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const DTypeInfo& row : kTypes)
    if (equals_ignoring_case(row.name, name)) return row.dtype;
  return std::nullopt;
}

std::optional<uint64_t> dtype_bytes(DType dtype, uint64_t n_elements) {
  const DTypeInfo& row = dtype_info(dtype);
  if (n_elements % row.block_len != 0) return std::nullopt;
  return checked_mul(n_elements / row.block_len, row.block_bytes);
}

}  // namespace tamis
