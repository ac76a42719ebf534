// Repacking at load, the memory behind it, and the way of a product through panels and steps along K.
#include "cpu/plane_weight.h"

#include <sys/mman.h>

#include <cstdlib>

#include "base/checked.h"

namespace tamis::cpu {

constexpr size_t kHugePage = size_t{2} << 20;

void AlignedBytes::Free::operator()(uint8_t* p) const { std::free(p); }

Result<AlignedBytes> AlignedBytes::allocate(size_t n_bytes) {
  const size_t alignment = n_bytes >= kHugePage ? kHugePage : 64;
  const auto padded = checked_pad(n_bytes + 1, alignment);
  auto* const data = padded ? static_cast<uint8_t*>(std::aligned_alloc(alignment, *padded)) : nullptr;
  if (data == nullptr) return fail(ErrorCode::out_of_memory, "no memory for {} bytes of weights", n_bytes);
  if (alignment == kHugePage) ::madvise(data, *padded, MADV_HUGEPAGE);
  AlignedBytes out;
  out.data_.reset(data);
  out.n_bytes_ = n_bytes;
  return out;
}

Result<std::unique_ptr<PlaneWeight>> PlaneWeight::pack(DType dtype, const Shape& shape, const std::byte* rows,
                                                       const KernelTable& kernels, ThreadPool* pool) {
  std::unique_ptr<PlaneWeight> out(new PlaneWeight(dtype, shape, rows, kernels));
  out->type_ = plane_type(dtype);
  const auto n_bytes = checked_mul(out->n_panels(), out->panel_bytes());
  if (!n_bytes) return fail(ErrorCode::out_of_memory, "a matrix of shape {} does not fit", shape.to_string());
  TAMIS_TRY(out->planes_, AlignedBytes::allocate(*n_bytes));
  auto pack_range = [&](size_t begin, size_t end, uint32_t) {
    for (size_t i = begin; i < end; ++i) {
      const size_t first = i * kPanelRows;
      const size_t n_rows = std::min<size_t>(kPanelRows, out->n_out() - first);
      pack_panel(*out->type_, reinterpret_cast<const uint8_t*>(out->row(first)), out->row_bytes(), n_rows,
                 out->planes_.data() + i * out->panel_bytes());
    }
  };
  if (pool == nullptr)
    pack_range(0, out->n_panels(), 0);
  else
    TAMIS_TRY_STATUS(pool->parallel_for(out->n_panels(), 8, pack_range));
  return out;
}

void PlaneWeight::multiply(const PanelRange& range, const Columns& columns, PanelScratch& scratch, float* tiles) const {
  const size_t step = Columns::step_len(columns.n, n_in()) / type_->block_len;
  const size_t column_bytes = form_block_bytes(column_form());
  for (size_t block = 0; block < n_blocks(); block += step) {
    const size_t n_here = std::min(step, n_blocks() - block);
    const int8_t* const acts = columns.packed + (block * columns.n + range.first_column * n_here) * column_bytes;
    const size_t step_bytes = n_here * type_->plane_block_bytes;
    for (size_t p = 0; p < range.n_panels; ++p) {
      const uint8_t* const panel =
          planes_.data() + (range.first_panel + p) * panel_bytes() + block * type_->plane_block_bytes;
      // The same step of the next panel, or the next step of the first one, as long as this chunk goes on.
      const uint8_t* const next = p + 1 < range.n_panels        ? panel + panel_bytes()
                                  : block + n_here < n_blocks() ? panel - p * panel_bytes() + step_bytes
                                                                : nullptr;
      kernels().multiply_panel[type_->kind]({.planes = panel,
                                             .acts = acts,
                                             .n_columns = range.n_columns,
                                             .n_blocks = n_here,
                                             .panel = scratch.codes,
                                             .acc = tiles + p * range.n_columns * kPanelRows,
                                             .is_added = block != 0,
                                             .next = next,
                                             .next_bytes = next != nullptr && columns.n > 4 ? step_bytes : 0});
    }
  }
}

}  // namespace tamis::cpu
