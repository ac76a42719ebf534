// Which tensor types have a group-affine form (kernels/affine.h), and the repacking into it: exact, every weight keeps
// the bits its decoder gives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/dtype.h"
#include "cpu/kernels/affine.h"
#include "quants/affine_rows.h"

namespace tamis::cpu {

// Null for types that are not affine in groups of 16 or more.
const AffineFormat* affine_format(DType dtype);

// The form of packed codes.
constexpr AffineFormat packed_format(const AffineShape& shape) {
  return {32, shape.group_len, shape.code_bits, shape.code_bits == 4 ? 8 : 0, shape.has_offset};
}

// Bytes of one panel. Requires: n_in a multiple of the format's group and block.
constexpr size_t affine_panel_bytes(const AffineFormat& format, size_t n_in) {
  return n_in / format.group_len * affine_group_bytes(format);
}

// One row's group taken apart.
struct AffineGroup {
  uint8_t codes[256];  // [group_len]; bytes of an 8-bit format: two's complement
  float scale = 0, offset = -0.0f;
};

// Packs one panel from any source: `read` gives group g of row r < n_rows. Rows from n_rows on are zero.
void pack_affine(const AffineFormat& format, size_t n_in, size_t n_rows,
                 const std::function<void(size_t r, size_t g, AffineGroup& group)>& read, uint8_t* panel);

// The same from a file's rows of `dtype`. Requires: affine_format(dtype) is not null.
void pack_affine_rows(DType dtype, const uint8_t* first_row, size_t row_bytes, size_t n_rows, uint8_t* panel);

// The weights of elements [first, first + n) along K as floats, out [n][16]. Requires: first, n multiples of the group.
void unpack_affine(const AffineFormat& format, const uint8_t* panel, size_t first, size_t n, float* out);

}  // namespace tamis::cpu
