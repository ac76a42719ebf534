// The registry of tensor types: one row a type, one file a type. No other code switches on DType.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "base/result.h"

namespace tamis {

// How a type's codes enter an integer dot product (kernels.md §0.5).
enum class OperandClass : uint8_t {
  plain,   // floats or integers, one element a "block"
  affine,  // w = scale·code + offset for each group
  lookup,  // w = scale·table[code]
  grid,    // vectors from a fixed grid (IQ1–IQ3)
};

struct QuantType {
  DType dtype;
  OperandClass operand_class;
  // Decodes n_blocks blocks at `blocks` into n_blocks·block_len floats. The format's definition, bit for bit.
  void (*decode)(const std::byte* blocks, float* out, size_t n_blocks);
  // The textbook encoder (round to nearest on the block's own range); null when the type has none yet.
  void (*encode_plain)(const float* values, std::byte* blocks, size_t n_blocks);
};

// The row of a type. Every DType a file may hold has one.
const QuantType& quant_type(DType dtype);
std::span<const QuantType> all_quant_types();

// Decodes `out.size()` elements (a whole number of blocks).
void decode(DType dtype, const std::byte* blocks, std::span<float> out);

// The same for sizes that nobody has checked yet. Errors: shape when out.size() is not a whole number of blocks, or
// `blocks` holds fewer.
Status decode_checked(DType dtype, std::span<const std::byte> blocks, std::span<float> out);

// Encodes `values` (a whole number of blocks) by the textbook encoder. Errors: unsupported when the type has none;
// shape when `blocks` is too small or `values` is not whole blocks. Any floats, NaN and infinities too: codes stay in
// range.
Status encode_plain(DType dtype, std::span<const float> values, std::span<std::byte> blocks);

}  // namespace tamis
