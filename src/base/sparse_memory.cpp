// Anonymous pages that the system reserves nothing for.
#include "base/sparse_memory.h"

#include <sys/mman.h>
#include <unistd.h>

namespace tamis {

Result<std::shared_ptr<SparseMemory>> SparseMemory::create(uint64_t n_bytes) {
  TAMIS_CHECK(n_bytes > 0);
  void* const data =
      ::mmap(nullptr, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return fail(ErrorCode::out_of_memory, "no room to address {} bytes", n_bytes);
  return std::shared_ptr<SparseMemory>(new SparseMemory(static_cast<std::byte*>(data), n_bytes));
}

SparseMemory::~SparseMemory() { ::munmap(data_, size_); }

void SparseMemory::forget(uint64_t offset, uint64_t n_bytes) {
  TAMIS_CHECK(offset <= size_ && n_bytes <= size_ - offset);
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t begin = (offset + page - 1) / page * page, end = (offset + n_bytes) / page * page;
  if (begin < end) ::madvise(data_ + begin, end - begin, MADV_DONTNEED);
}

Result<size_t> SparseMemory::read_at(uint64_t offset, std::span<std::byte> out) {
  return MemorySource(mapped()).read_at(offset, out);
}

}  // namespace tamis
