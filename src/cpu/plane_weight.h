// A matrix in planes (kernels/planes.h), repacked at load, and the memory for columns packed for it. Between
// load_weight and the integer kernels; used by linear.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "cpu/cpu_backend.h"
#include "cpu/planes.h"

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
  // Repacks all panels on the pool's threads. Errors: out_of_memory.
  static Result<std::unique_ptr<PlaneWeight>> pack(DType dtype, const Shape& shape, const std::byte* bytes,
                                                   size_t row_bytes, const KernelTable& kernels, ThreadPool* pool);

  const PlaneType& type() const { return *type_; }
  size_t n_blocks() const { return n_blocks_; }  // along K
  size_t n_panels() const { return (n_out() + kPanelRows - 1) / kPanelRows; }
  size_t panel_bytes() const { return n_blocks_ * type_->plane_block_bytes; }
  const uint8_t* panel(size_t i) const { return planes_.data() + i * panel_bytes(); }

 private:
  using CpuWeight::CpuWeight;

  const PlaneType* type_ = nullptr;
  size_t n_blocks_ = 0;
  AlignedBytes planes_;
};

}  // namespace tamis::cpu
