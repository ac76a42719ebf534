// Which tensor types have planes (kernels/planes.h), and the repacking into them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "cpu/kernels/planes.h"

namespace tamis::cpu {

struct PlaneType {
  DType dtype;
  uint32_t block_len;          // elements of a block of planes along K: 32 (activations A8/32) or 256 (A8/256)
  uint32_t plane_block_bytes;  // of 16 rows
  PlaneKind kind;              // its kernels
};

// Null for types without planes.
const PlaneType* plane_type(DType dtype);

// Up to 16 rows of the file's blocks, `stride` bytes apart.
struct PanelRows {
  const uint8_t* first;
  size_t stride;
  size_t n_rows;    // ≤ 16; the rest of the panel becomes zero
  size_t n_blocks;  // of the file's type, of each row
};
void pack_panel(const PlaneType& type, const PanelRows& rows, uint8_t* panel);

// Whole rows.
inline void pack_panel(const PlaneType& type, const uint8_t* first_row, size_t row_bytes, size_t n_rows,
                       uint8_t* panel) {
  pack_panel(type, {first_row, row_bytes, n_rows, row_bytes / dtype_info(type.dtype).block_bytes}, panel);
}

}  // namespace tamis::cpu
