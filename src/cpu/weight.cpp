// Matrices in the file's bytes.
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

FileWeight::FileWeight(DType dtype, const Shape& shape, const std::byte* rows, const KernelTable& kernels)
    : CpuWeight(dtype, shape, rows, kernels) {
  if (dtype == DType::f32 && reinterpret_cast<uintptr_t>(rows) % alignof(float) == 0)
    floats_ = reinterpret_cast<const float*>(rows);
}

void FileWeight::multiply(const PanelRange& range, const Columns& columns, PanelScratch& scratch, float* tiles) const {
  MultiplyTask task{};
  task.x_stride = columns.x_stride;
  task.n_tokens = range.n_columns;
  task.out_stride = kPanelRows;
  for (size_t p = 0; p < range.n_panels; ++p) {
    const size_t first = (range.first_panel + p) * kPanelRows;
    task.n_rows = std::min<size_t>(kPanelRows, n_out() - first);
    task.out = tiles + p * range.n_columns * kPanelRows;
    for (size_t k = 0; k < n_in(); k += kChunk) {
      task.k = std::min(kChunk, n_in() - k);
      task.x = columns.x + range.first_column * columns.x_stride + k;
      task.is_added = k != 0;
      task.w = floats_ != nullptr ? floats_ + first * n_in() + k : scratch.rows;
      task.w_stride = floats_ != nullptr ? n_in() : PanelScratch::kRowStride;
      for (size_t r = 0; floats_ == nullptr && r < task.n_rows; ++r)
        decode(first + r, k, task.k, scratch.rows + r * PanelScratch::kRowStride);
      kernels().multiply(task);
    }
  }
}

}  // namespace tamis::cpu
