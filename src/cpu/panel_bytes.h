// Memory for repacked matrices: they lie side by side in large blocks that begin at a huge page, so that small ones are
// on huge pages, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/result.h"

namespace tamis::cpu {

// A block of memory that several AlignedBytes share; freed with the last of them.
struct Slab {
  explicit Slab(size_t size_bytes);  // data is null where there is no memory
  ~Slab();
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  uint8_t* data;
  size_t n_bytes;
};

// Where the matrices of one model get their memory, one thread at a time. Blocks grow with what was asked for before;
// of what is not used yet nothing is resident.
class PanelMemory {
 public:
  // n_bytes at a multiple of 64. Empty where there is no memory.
  std::shared_ptr<Slab> take(size_t n_bytes, uint8_t*& data);

 private:
  std::shared_ptr<Slab> slab_;
  size_t n_used_ = 0;        // of slab_
  size_t n_bytes_next_ = 0;  // of the next slab, at least
};

class AlignedBytes {
 public:
  AlignedBytes() = default;
  // Errors: out_of_memory.
  static Result<AlignedBytes> allocate(size_t n_bytes, PanelMemory& memory);
  uint8_t* data() const { return data_; }
  size_t size() const { return n_bytes_; }

 private:
  std::shared_ptr<Slab> slab_;
  uint8_t* data_ = nullptr;
  size_t n_bytes_ = 0;
};

}  // namespace tamis::cpu
