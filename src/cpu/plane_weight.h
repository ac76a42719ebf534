// A matrix in planes (kernels/planes.h), repacked at load.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/thread_pool.h"
#include "cpu/panel_bytes.h"
#include "cpu/planes.h"
#include "cpu/weight.h"

namespace tamis::cpu {

// Rows in panels of 16. Panels lie in runs of kPanelsTogether; a run is cut along K into steps of kStepLen, and a step
// holds its panels one after another: [run][step][panel][blocks]. So few columns meet a run as one stream, and no more
// of their codes than a step's are in use at a time. The file's bytes stay known: rows of a tied embedding are decoded
// from them.
class PlaneWeight final : public CpuWeight {
 public:
  // Repacks all panels on the pool's threads. Requires: the type has planes. Errors: out_of_memory.
  static Result<std::unique_ptr<PlaneWeight>> pack(DType dtype, const Shape& shape, const std::byte* rows,
                                                   const KernelTable& kernels, const Packing& packing);

  size_t resident_bytes() const override { return planes_.size(); }
  bool reads_file() const override { return false; }
  ColumnForm column_form() const override { return type_->block_len == 256 ? ColumnForm::q8_256 : ColumnForm::q8_32; }
  void multiply(const PanelRange& range, const Columns& columns, PanelScratch& scratch, float* tiles) const override;
  std::span<const uint8_t> stream_from(size_t panel) const override {
    const uint8_t* const from = step_at(panel, 0);
    return {from, planes_.data() + planes_.size()};
  }

 private:
  using CpuWeight::CpuWeight;

  size_t n_blocks() const { return n_in() / type_->block_len; }
  size_t panel_bytes() const { return n_blocks() * type_->plane_block_bytes; }
  size_t step_blocks() const { return kStepLen / type_->block_len; }
  // Blocks of a panel's step that begins at `block`; where they lie.
  size_t blocks_at(size_t block) const { return std::min(step_blocks(), n_blocks() - block); }
  uint8_t* step_at(size_t panel, size_t block) const;
  void multiply_step(const PanelRange& range, size_t block, const Columns& columns, PanelScratch& scratch,
                     float* tiles) const;

  const PlaneType* type_ = nullptr;
  AlignedBytes planes_;
};

}  // namespace tamis::cpu
