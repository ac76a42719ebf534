// Zeroed memory that takes room only where it is written: what a model has as a file before there is one.
#pragma once

#include <memory>
#include <span>

#include "base/file.h"

namespace tamis {

class SparseMemory final : public ByteSource {
 public:
  // Errors: out_of_memory when so many bytes cannot be addressed. Requires: n_bytes > 0.
  static Result<std::shared_ptr<SparseMemory>> create(uint64_t n_bytes);
  ~SparseMemory() override;
  SparseMemory(const SparseMemory&) = delete;
  SparseMemory& operator=(const SparseMemory&) = delete;

  std::span<std::byte> bytes() { return {data_, size_}; }
  // The pages wholly inside [offset, offset + n_bytes) take no room any more; read again, they are zero.
  void forget(uint64_t offset, uint64_t n_bytes);
  uint64_t size_bytes() const override { return size_; }
  Result<size_t> read_at(uint64_t offset, std::span<std::byte> out) override;
  std::span<const std::byte> mapped() const override { return {data_, size_}; }

 private:
  SparseMemory(std::byte* data, uint64_t size) : data_(data), size_(size) {}
  std::byte* data_;
  uint64_t size_;
};

}  // namespace tamis
