// Repacking at load, and the way of a product through panels and steps along K.
#include "cpu/plane_weight.h"

#include "base/checked.h"

namespace tamis::cpu {

Result<std::unique_ptr<PlaneWeight>> PlaneWeight::pack(DType dtype, const Shape& shape, const std::byte* rows,
                                                       const KernelTable& kernels, const Packing& packing) {
  std::unique_ptr<PlaneWeight> out(new PlaneWeight(dtype, shape, rows, kernels));
  out->type_ = plane_type(dtype);
  const auto n_bytes = checked_mul(out->n_panels(), out->panel_bytes());
  if (!n_bytes) return fail(ErrorCode::out_of_memory, "a matrix of shape {} does not fit", shape.to_string());
  TAMIS_TRY(out->planes_, AlignedBytes::allocate(*n_bytes, packing.memory));
  const DTypeInfo& info = dtype_info(dtype);
  const PlaneType& type = *out->type_;
  TAMIS_TRY_STATUS(for_panels(packing, *out, [&](size_t i) {
    const auto* const from = reinterpret_cast<const uint8_t*>(out->row(i * kPanelRows));
    for (size_t block = 0; block < out->n_blocks(); block += out->step_blocks()) {
      const size_t first = block * type.block_len / info.block_len,
                   n = out->blocks_at(block) * type.block_len / info.block_len;
      pack_panel(type, {from + first * info.block_bytes, out->row_bytes(), out->rows_of_panel(i), n},
                 out->step_at(i, block));
    }
  }));
  return out;
}

uint8_t* PlaneWeight::step_at(size_t panel, size_t block) const {
  const size_t run = panel / kPanelsTogether * kPanelsTogether, n_run = std::min(kPanelsTogether, n_panels() - run);
  const size_t blocks_before = run * n_blocks() + block * n_run + (panel - run) * blocks_at(block);
  return planes_.data() + blocks_before * type_->plane_block_bytes;
}

// Up to here a step's reading takes so much longer than its products that the machine's own prefetcher does best alone.
constexpr size_t kFewColumns = 4;

void PlaneWeight::multiply_step(const PanelRange& range, size_t block, const Columns& columns, PanelScratch& scratch,
                                float* tiles) const {
  const size_t n_here = blocks_at(block), step_bytes = n_here * type_->plane_block_bytes;
  const int8_t* const acts =
      columns.packed + (block * columns.n + range.first_column * n_here) * form_block_bytes(column_form());
  for (size_t p = 0; p < range.n_panels; ++p) {
    const size_t panel = range.first_panel + p;
    // The same step of the next panel, or the next step of the first one; then what this thread will likely go on with.
    const uint8_t* const next = p + 1 < range.n_panels        ? step_at(panel + 1, block)
                                : block + n_here < n_blocks() ? step_at(range.first_panel, block + n_here)
                                : panel + 1 < n_panels()      ? step_at(panel + 1, 0)
                                                              : nullptr;
    kernels().multiply_panel[type_->kind]({.planes = step_at(panel, block),
                                           .acts = acts,
                                           .n_columns = range.n_columns,
                                           .n_blocks = n_here,
                                           .panel = scratch.codes,
                                           .acc = tiles + p * range.n_columns * kPanelRows,
                                           .is_added = block != 0,
                                           .next = next,
                                           .next_bytes = next != nullptr && columns.n > kFewColumns ? step_bytes : 0});
  }
}

void PlaneWeight::multiply(const PanelRange& range, const Columns& columns, PanelScratch& scratch, float* tiles) const {
  // Few columns: run by run, as they lie in memory. Many: each step for all panels, while its columns' codes are near.
  const size_t together = columns.n <= kFewColumns ? kPanelsTogether : range.n_panels;
  for (size_t p = 0; p < range.n_panels; p += together) {
    PanelRange part = range;
    part.first_panel += p;
    part.n_panels = std::min(together, range.n_panels - p);
    for (size_t block = 0; block < n_blocks(); block += step_blocks())
      multiply_step(part, block, columns, scratch, tiles + p * range.n_columns * kPanelRows);
  }
}

}  // namespace tamis::cpu
