// Memory for activations that goes from step to step: fresh pages from the system cost more than a small model's ops.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

#include "base/result.h"
#include "compute/tensor.h"

namespace tamis::cpu {

// Blocks that are not in use, by size. Lives as long as the backend or any of its buffers.
class BufferPool {
 public:
  BufferPool() = default;
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // n floats at a cache line's border: the smallest block that holds them, or a new one. Errors: out_of_memory.
  static Result<Buffer> take(const std::shared_ptr<BufferPool>& pool, size_t n);

 private:
  struct Block;
  static void give_back(float* floats);

  std::mutex mutex_;
  std::multimap<size_t, Block*> free_;  // by capacity in bytes
};

}  // namespace tamis::cpu
