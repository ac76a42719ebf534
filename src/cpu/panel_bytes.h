// Memory of a matrix that was repacked into panels of 16 rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/result.h"

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

}  // namespace tamis::cpu
