// A matrix in planes (kernels/planes.h), repacked at load.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/thread_pool.h"
#include "cpu/planes.h"
#include "cpu/weight.h"

namespace tamis::cpu {

// Bytes aligned for vectors and, when large, on huge pages where the system grants them.
class AlignedBytes {
 public:
  AlignedBytes() = default;
  // Errors: out_of_memory.
  static Result<AlignedBytes> allocate(size_t n_bytes);
  uint8_t* data() const { return data_.get(); }
  size_t size() const { return n_bytes_; }

 private:
  struct Free {
    void operator()(uint8_t* p) const;
  };
  std::unique_ptr<uint8_t, Free> data_;
  size_t n_bytes_ = 0;
};

// Rows in panels of 16, each panel one stream. The file's bytes stay known: rows of a tied embedding are decoded from
// them.
class PlaneWeight final : public CpuWeight {
 public:
  // Repacks all panels on the pool's threads. Requires: the type has planes. Errors: out_of_memory.
  static Result<std::unique_ptr<PlaneWeight>> pack(DType dtype, const Shape& shape, const std::byte* rows,
                                                   const KernelTable& kernels, ThreadPool* pool);

  size_t resident_bytes() const override { return planes_.size(); }
  bool reads_file() const override { return false; }
  ColumnForm column_form() const override { return type_->block_len == 256 ? ColumnForm::q8_256 : ColumnForm::q8_32; }
  void multiply(const PanelRange& range, const Columns& columns, PanelScratch& scratch, float* tiles) const override;

 private:
  using CpuWeight::CpuWeight;

  size_t n_blocks() const { return n_in() / type_->block_len; }
  size_t panel_bytes() const { return n_blocks() * type_->plane_block_bytes; }

  const PlaneType* type_ = nullptr;
  AlignedBytes planes_;
};

}  // namespace tamis::cpu
