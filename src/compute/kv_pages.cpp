// Allocating pages, and the pool that hands them out and takes them back.
#include "compute/kv_pages.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace tamis {
namespace {

constexpr size_t kAlignment = 64;  // every part of a page begins on a cache line: 32 tokens of anything are 64 bytes

}  // namespace

Result<KvPage> allocate_kv_page(size_t n_bytes) {
  const auto no_memory = [=] {
    return fail(ErrorCode::out_of_memory, "no memory for a page of {} bytes of keys and values", n_bytes);
  };
  n_bytes = std::max(n_bytes, kAlignment);
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, n_bytes));
  if (memory == nullptr) return no_memory();
  std::memset(memory, 0, n_bytes);  // kernels read whole vectors, also of rows not written yet
  try {
    return KvPage(memory, [](std::byte* page) { std::free(page); });
  } catch (const std::bad_alloc&) {
    return no_memory();  // the page is freed by its deleter
  }
}

Result<KvPage> KvPagePool::take() {
  if (*n_used_ >= n_pages_)
    return fail(ErrorCode::out_of_memory, "all {} pages of keys and values are in use", n_pages_);
  KvPage page;
  if (!spare_->empty()) {
    page = std::move(spare_->back());
    spare_->pop_back();
  } else {
    TAMIS_TRY(page, allocate_kv_page(page_bytes_));
    // Room for every page to come back to: giving back must not need memory.
    try {
      spare_->reserve(n_pages_);
    } catch (const std::bad_alloc&) {
      return fail(ErrorCode::out_of_memory, "no memory for a list of {} pages", n_pages_);
    }
  }
  ++*n_used_;
  std::byte* const memory = page.get();
  return KvPage(memory, [owner = std::move(page), n_used = n_used_, spare = spare_](std::byte*) mutable {
    --*n_used;
    spare->push_back(std::move(owner));
  });
}

}  // namespace tamis
