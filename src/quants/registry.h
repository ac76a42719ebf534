// The registry of tensor types: one row a type, one file a type. No other code switches on DType.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/dtype.h"
#include "base/result.h"
#include "quants/block.h"

namespace tamis {

// How a type's codes enter an integer dot product (kernels.md §0.5).
enum class OperandClass : uint8_t {
  plain,   // floats or integers, one element a "block"
  affine,  // w = scale·code + offset for each group
  lookup,  // w = scale·table[code]
  grid,    // vectors from a fixed grid (IQ1–IQ3)
};

// The codes of a type under given scales: what rounding with error feedback changes (hessian_rows.h).
struct CodeGrid {
  uint32_t n_codes = 0;    // 0: its values are not codes one by one (vectors of a grid, plain elements)
  uint32_t group_len = 0;  // neighbours in a block whose codes mean the same values
  void (*put_codes)(const uint8_t* codes, std::byte* block) = nullptr;  // [block_len]; the block's scales stay
  // The block's scales as numbers and back, its codes stay; null for a type whose scales are no f16 and integers.
  ScaleRange range{};
  void (*get_scales)(const std::byte* block, BlockScales& scales) = nullptr;
  void (*put_scales)(const BlockScales& scales, std::byte* block) = nullptr;
};

struct QuantType {
  DType dtype;
  OperandClass operand_class;
  // Decodes n_blocks blocks at `blocks` into n_blocks·block_len floats. The format's definition, bit for bit.
  void (*decode)(const std::byte* blocks, float* out, size_t n_blocks);
  // The textbook encoder (round to nearest on the block's own range); null when the type has none yet.
  void (*encode_plain)(const float* values, std::byte* blocks, size_t n_blocks);
  // The searching encoder of one row: codes and scales of little error weighted by importance. `importance`: one
  // finite number >= 0 for each of the n_blocks·block_len values, or null; any float as a value gives codes in range.
  // Null when the type has none: plain serves.
  void (*encode_fast)(const float* row, const float* importance, std::byte* blocks, size_t n_blocks) = nullptr;
  CodeGrid codes{};
};

// The row of a type. Every DType a file may hold has one.
const QuantType& quant_type(DType dtype);
std::span<const QuantType> all_quant_types();

// Decodes `out.size()` elements (a whole number of blocks).
void decode(DType dtype, const std::byte* blocks, std::span<float> out);

// The same for sizes that nobody has checked yet. Errors: shape when out.size() is not a whole number of blocks, or
// `blocks` holds fewer.
Status decode_checked(DType dtype, std::span<const std::byte> blocks, std::span<float> out);

enum class EncodeMethod : uint8_t {
  plain,    // the textbook encoder
  fast,     // the search of encode_fast; the textbook encoder of types without one
  hessian,  // error feedback under the full input Hessian where there is one (hessian_rows.h), else as fast
};

std::string_view encode_method_name(EncodeMethod method);  // "plain", "fast", "hessian"

// Encodes rows of `row_len` values, laid end to end. `importance`: row_len finite numbers >= 0, the weight of each
// column's squared error (mean squared input of an imatrix), or empty; the plain method does not look at it. Errors:
// unsupported when the type has no encoder; shape when row_len is not whole blocks, values not whole rows, `blocks` too
// small or importance of another length; invalid_argument for an importance that is negative or not finite, naming it.
Status encode_rows(DType dtype, EncodeMethod method, std::span<const float> values, uint64_t row_len,
                   std::span<const float> importance, std::span<std::byte> blocks);

// Encodes `values` (a whole number of blocks) by the textbook encoder. Errors: unsupported when the type has none;
// shape when `blocks` is too small or `values` is not whole blocks. Any floats, NaN and infinities too: codes stay in
// range.
Status encode_plain(DType dtype, std::span<const float> values, std::span<std::byte> blocks);

}  // namespace tamis
