// Rows of the file decoded, and products through them.
#include "cpu/weight.h"

#include <algorithm>

#include "quants/registry.h"

namespace tamis::cpu {

CpuWeight::CpuWeight(DType dtype, const Shape& shape, const std::byte* rows, const KernelTable& kernels)
    : WeightStorage(dtype, shape.n_rows(), shape.row_len()),
      kernels_(kernels),
      rows_(rows),
      row_bytes_(static_cast<size_t>(*dtype_bytes(dtype, shape.row_len()))),
      block_len_(dtype_info(dtype).block_len),
      block_bytes_(dtype_info(dtype).block_bytes) {
  // The targets' decoders read blocks in place. Files align tensors to 8 bytes or more; bytes from elsewhere may lie
  // anywhere.
  if (reinterpret_cast<uintptr_t>(rows) % alignof(float) != 0) return;
  for (size_t i = 0; i < kernels.n_decoders; ++i)
    if (kernels.decoders[i].dtype == static_cast<uint32_t>(dtype)) decode_ = kernels.decoders[i].decode;
}

void CpuWeight::decode(size_t i, size_t first, size_t n, float* out) const {
  const std::byte* const blocks = row(i) + first / block_len_ * block_bytes_;
  if (decode_ != nullptr) {
    decode_(reinterpret_cast<const uint8_t*>(blocks), out, n / block_len_);
  } else {
    tamis::decode(dtype(), blocks, {out, n});
  }
}

void CpuWeight::rows_were_looked_up(size_t n) const {
  if (!on_looked_up_ || (n_looked_up_ += n) < kLookupsTogether) return;
  on_looked_up_({rows_, n_out() * row_bytes_});
  n_looked_up_ = 0;
}

void CpuWeight::decode_panel(size_t panel_idx, size_t first, size_t n, PanelScratch& scratch) const {
  const size_t n_rows = rows_of_panel(panel_idx);
  for (size_t r = 0; r < n_rows; ++r)
    decode(panel_idx * kPanelRows + r, first, n, scratch.rows + r * PanelScratch::kRowStride);
  float* out = scratch.floats();
  for (size_t k = 0; k < n; ++k, out += kPanelRows)
    for (size_t r = 0; r < kPanelRows; ++r) out[r] = r < n_rows ? scratch.rows[r * PanelScratch::kRowStride + k] : 0.0f;
}

void CpuWeight::multiply_decoded(const PanelRange& range, const Columns& columns, PanelScratch& scratch,
                                 float* tiles) const {
  for (size_t p = 0; p < range.n_panels; ++p) {
    for (size_t k = 0; k < n_in(); k += kFloatRun) {
      const size_t n_here = std::min(kFloatRun, n_in() - k);
      decode_panel(range.first_panel + p, k, n_here, scratch);
      kernels().multiply_floats({.panel = scratch.floats(),
                                 .kind = FloatKind::f32,
                                 .x = columns.x + range.first_column * columns.x_stride + k,
                                 .x_stride = columns.x_stride,
                                 .n_columns = range.n_columns,
                                 .k = n_here,
                                 .acc = tiles + p * range.n_columns * kPanelRows,
                                 .is_added = k != 0});
    }
  }
}

}  // namespace tamis::cpu
