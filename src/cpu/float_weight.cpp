// Interleaving at load, and products through the float kernel.
#include "cpu/float_weight.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"

namespace tamis::cpu {
namespace {

// panel [k][16] from rows of elements that are kept as they are.
template <class T>
void interleave(const std::byte* rows, size_t row_bytes, size_t n_rows, size_t k, uint8_t* panel) {
  T line[kPanelRows] = {};
  for (size_t i = 0; i < k; ++i) {
    for (size_t r = 0; r < n_rows; ++r) std::memcpy(line + r, rows + r * row_bytes + i * sizeof(T), sizeof(T));
    std::memcpy(panel + i * sizeof(line), line, sizeof(line));
  }
}

}  // namespace

FloatKind float_kind(DType dtype) {
  return dtype == DType::f16 ? FloatKind::f16 : dtype == DType::bf16 ? FloatKind::bf16 : FloatKind::f32;
}

Result<std::unique_ptr<FloatWeight>> FloatWeight::pack(DType dtype, const Shape& shape, const std::byte* rows,
                                                       const KernelTable& kernels, const Packing& packing) {
  std::unique_ptr<FloatWeight> out(new FloatWeight(dtype, shape, rows, kernels));
  out->kind_ = float_kind(dtype);
  const auto n_bytes = checked_mul(out->n_panels(), out->panel_bytes());
  if (!n_bytes) return fail(ErrorCode::out_of_memory, "a matrix of shape {} does not fit", shape.to_string());
  TAMIS_TRY(out->panels_, AlignedBytes::allocate(*n_bytes, packing.memory));
  TAMIS_TRY_STATUS(for_panels(packing, *out, [&](size_t i) { out->pack_panel(i); }));
  return out;
}

void FloatWeight::pack_panel(size_t panel_idx) {
  const size_t first = panel_idx * kPanelRows, n_rows = rows_of_panel(panel_idx);
  uint8_t* const panel = panels_.data() + panel_idx * panel_bytes();
  if (kind_ != FloatKind::f32) return interleave<uint16_t>(row(first), row_bytes(), n_rows, n_in(), panel);
  if (dtype() == DType::f32) return interleave<float>(row(first), row_bytes(), n_rows, n_in(), panel);
  PanelScratch scratch;
  for (size_t k = 0; k < n_in(); k += kFloatRun) {
    const size_t n_here = std::min(kFloatRun, n_in() - k);
    decode_panel(panel_idx, k, n_here, scratch);
    std::memcpy(panel + k * kPanelRows * sizeof(float), scratch.floats(), n_here * kPanelRows * sizeof(float));
  }
}

void FloatWeight::multiply(const PanelRange& range, const Columns& columns, PanelScratch&, float* tiles) const {
  for (size_t p = 0; p < range.n_panels; ++p)
    kernels().multiply_floats({.panel = panels_.data() + (range.first_panel + p) * panel_bytes(),
                               .kind = kind_,
                               .x = columns.x + range.first_column * columns.x_stride,
                               .x_stride = columns.x_stride,
                               .n_columns = range.n_columns,
                               .k = n_in(),
                               .acc = tiles + p * range.n_columns * kPanelRows,
                               .is_added = false});
}

}  // namespace tamis::cpu
