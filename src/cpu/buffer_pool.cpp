// A block is a header, then the floats; the header knows the way back to the pool.
#include "cpu/buffer_pool.h"

#include <cstdlib>
#include <new>

#include "base/checked.h"

namespace tamis::cpu {

constexpr size_t kAlignment = 64;  // a cache line, and the widest vector

struct alignas(kAlignment) BufferPool::Block {
  size_t n_bytes;                    // of the floats
  std::shared_ptr<BufferPool> pool;  // while in use

  float* floats() { return reinterpret_cast<float*>(this + 1); }
  static Block* of(float* floats) { return reinterpret_cast<Block*>(floats) - 1; }
  static void destroy(Block* block) {
    block->~Block();
    std::free(block);
  }
};

BufferPool::~BufferPool() {
  for (const auto& [n_bytes, block] : free_) Block::destroy(block);
}

Result<Buffer> BufferPool::take(const std::shared_ptr<BufferPool>& pool, size_t n) {
  const auto n_bytes = checked_mul(n, sizeof(float));
  const auto padded = n_bytes ? checked_pad(*n_bytes + 1, kAlignment) : std::nullopt;
  const auto whole = padded ? checked_add(*padded, sizeof(Block)) : std::nullopt;
  if (!whole) return fail(ErrorCode::out_of_memory, "no memory for {} floats", n);
  {
    const std::lock_guard<std::mutex> lock(pool->mutex_);
    if (const auto found = pool->free_.lower_bound(*padded); found != pool->free_.end()) {
      Block* const block = found->second;
      pool->free_.erase(found);
      block->pool = pool;
      return Buffer(block->floats(), n, &give_back);
    }
  }
  void* const memory = std::aligned_alloc(kAlignment, *whole);
  if (memory == nullptr) return fail(ErrorCode::out_of_memory, "no memory for {} floats", n);
  auto* const block = new (memory) Block{static_cast<size_t>(*padded), pool};
  return Buffer(block->floats(), n, &give_back);
}

void BufferPool::give_back(float* floats) {
  Block* const block = Block::of(floats);
  const std::shared_ptr<BufferPool> pool = std::move(block->pool);  // may be the last owner
  try {
    const std::lock_guard<std::mutex> lock(pool->mutex_);
    pool->free_.emplace(block->n_bytes, block);
  } catch (const std::bad_alloc&) {
    Block::destroy(block);
  }
}

}  // namespace tamis::cpu
