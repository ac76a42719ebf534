// Repacking at load; products through the affine kernel, or through floats with exact columns.
#include "cpu/affine_weight.h"

#include "base/checked.h"

namespace tamis::cpu {

Result<std::unique_ptr<AffineWeight>> AffineWeight::pack(DType dtype, const Shape& shape, const std::byte* rows,
                                                         const KernelTable& kernels, const Packing& packing,
                                                         bool is_exact) {
  std::unique_ptr<AffineWeight> out(new AffineWeight(dtype, shape, rows, kernels));
  out->format_ = *affine_format(dtype);
  out->is_exact_ = is_exact;
  TAMIS_TRY_STATUS(out->allocate(packing.memory));
  TAMIS_TRY_STATUS(for_panels(packing, *out, [&](size_t i) {
    pack_affine_rows(dtype, reinterpret_cast<const uint8_t*>(out->row(i * kPanelRows)), out->row_bytes(),
                     out->rows_of_panel(i), out->panels_.data() + i * out->panel_bytes());
  }));
  return out;
}

Result<std::unique_ptr<AffineWeight>> AffineWeight::pack(const AffineRows& rows, uint64_t first_row, uint64_t n_rows,
                                                         const KernelTable& kernels, const Packing& packing,
                                                         bool is_exact) {
  std::unique_ptr<AffineWeight> out(new AffineWeight(DType::f32, Shape{n_rows, rows.shape().n_in}, nullptr, kernels));
  out->format_ = packed_format(rows.shape());
  out->is_exact_ = is_exact;
  out->order_.assign(rows.order().begin(), rows.order().end());
  TAMIS_TRY_STATUS(out->allocate(packing.memory));
  TAMIS_TRY_STATUS(for_panels(packing, *out, [&](size_t i) {
    const auto read = [&](size_t r, size_t g, AffineGroup& group) {
      AffineRows::Group packed;
      rows.read(first_row + i * kPanelRows + r, g, packed);
      for (size_t k = 0; k < out->format_.group_len; ++k)
        group.codes[k] = static_cast<uint8_t>(packed.codes[k] + out->format_.zero);
      group.scale = packed.scale;
      group.offset = packed.offset;
    };
    pack_affine(out->format_, out->n_in(), out->rows_of_panel(i), read, out->panels_.data() + i * out->panel_bytes());
  }));
  return out;
}

Status AffineWeight::allocate(PanelMemory& memory) {
  const auto n_bytes = checked_mul(n_panels(), panel_bytes());
  if (!n_bytes) return fail(ErrorCode::out_of_memory, "a matrix of shape [{}, {}] does not fit", n_out(), n_in());
  TAMIS_TRY(panels_, AlignedBytes::allocate(*n_bytes, memory));
  return {};
}

void AffineWeight::multiply(const PanelRange& range, const Columns& columns, PanelScratch& scratch,
                            float* tiles) const {
  if (is_exact_) return multiply_decoded(range, columns, scratch, tiles);
  const size_t step_len = Columns::step_len(columns.n, n_in());
  for (size_t first = 0; first < n_in(); first += step_len) {
    const size_t n_here = std::min(step_len, n_in() - first) / format_.block_len;
    const int8_t* const acts = columns.packed + (first / format_.block_len * columns.n + range.first_column * n_here) *
                                                    form_block_bytes(column_form());
    for (size_t p = 0; p < range.n_panels; ++p) {
      const uint8_t* const panel = panels_.data() + (range.first_panel + p) * panel_bytes();
      kernels().multiply_affine({.format = format_,
                                 .groups = panel + affine_panel_bytes(format_, first),
                                 .acts = acts,
                                 .n_columns = range.n_columns,
                                 .n_blocks = n_here,
                                 .panel = scratch.codes,
                                 .acc = tiles + p * range.n_columns * kPanelRows,
                                 .is_added = first != 0});
    }
  }
}

void AffineWeight::decode_panel(size_t panel_idx, size_t first, size_t n, PanelScratch& scratch) const {
  unpack_affine(format_, panels_.data() + panel_idx * panel_bytes(), first, n, scratch.floats());
}

}  // namespace tamis::cpu
