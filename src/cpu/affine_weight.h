// A matrix in the group-affine form (kernels/affine.h), repacked at load.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/thread_pool.h"
#include "cpu/affine.h"
#include "cpu/panel_bytes.h"
#include "cpu/weight.h"

namespace tamis::cpu {

class AffineWeight final : public CpuWeight {
 public:
  // Repacks all panels on the pool's threads. `is_exact`: columns stay floats, and weights are unpacked to floats as
  // they are multiplied. Requires: the type has an affine format. Errors: out_of_memory.
  static Result<std::unique_ptr<AffineWeight>> pack(DType dtype, const Shape& shape, const std::byte* rows,
                                                    const KernelTable& kernels, const Packing& packing, bool is_exact);
  // The same of packed codes, inputs in their stored order. Requires: rows.shape() is one that packed_format takes.
  static Result<std::unique_ptr<AffineWeight>> pack(const AffineRows& rows, uint64_t first_row, uint64_t n_rows,
                                                    const KernelTable& kernels, const Packing& packing, bool is_exact);

  size_t resident_bytes() const override { return panels_.size(); }
  bool reads_file() const override { return false; }
  ColumnForm column_form() const override {
    return is_exact_ ? ColumnForm::f32 : format_.block_len == 256 ? ColumnForm::q8_256 : ColumnForm::q8_32;
  }
  std::span<const uint32_t> input_order() const override { return order_; }
  void multiply(const PanelRange& range, const Columns& columns, PanelScratch& scratch, float* tiles) const override;
  std::span<const uint8_t> stream_from(size_t panel) const override {
    return {panels_.data() + panel * panel_bytes(), panels_.data() + panels_.size()};
  }

 protected:
  void decode_panel(size_t panel_idx, size_t first, size_t n, PanelScratch& scratch) const override;

 private:
  using CpuWeight::CpuWeight;

  size_t panel_bytes() const { return affine_panel_bytes(format_, n_in()); }

  Status allocate(PanelMemory& memory);

  AffineFormat format_{};
  std::vector<uint32_t> order_;
  bool is_exact_ = false;
  AlignedBytes panels_;
};

}  // namespace tamis::cpu
