// A matrix of plain numbers in panels (kernels/floats.h): f32, f16 and bf16 as the file has them, other types decoded
// to f32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/thread_pool.h"
#include "cpu/panel_bytes.h"
#include "cpu/weight.h"

namespace tamis::cpu {

// How numbers of a type lie in such panels.
FloatKind float_kind(DType dtype);

class FloatWeight final : public CpuWeight {
 public:
  // Interleaves, or decodes, all panels on the pool's threads. Errors: out_of_memory.
  static Result<std::unique_ptr<FloatWeight>> pack(DType dtype, const Shape& shape, const std::byte* rows,
                                                   const KernelTable& kernels, const Packing& packing);

  size_t resident_bytes() const override { return panels_.size(); }
  bool reads_file() const override { return false; }
  ColumnForm column_form() const override { return ColumnForm::f32; }
  void multiply(const PanelRange& range, const Columns& columns, PanelScratch& scratch, float* tiles) const override;
  std::span<const uint8_t> stream_from(size_t panel) const override {
    return {panels_.data() + panel * panel_bytes(), panels_.data() + panels_.size()};
  }

 private:
  using CpuWeight::CpuWeight;

  size_t panel_bytes() const { return n_in() * kPanelRows * float_bytes(kind_); }
  void pack_panel(size_t panel_idx);

  FloatKind kind_ = FloatKind::f32;
  AlignedBytes panels_;
};

}  // namespace tamis::cpu
