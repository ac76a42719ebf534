// Pages of stored keys and values as things that several owners may hold: a page goes back when the last of them lets
// go. Below compute/kv_cache.h, which says what lies in a page; the scheduler's pool keeps their number within a
// budget.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/result.h"

namespace tamis {

// Memory of one page; use_count() is the number of its owners. A page with more than one is only read.
using KvPage = std::shared_ptr<std::byte>;

// `n_bytes` of zeros on cache lines of their own. Errors: out_of_memory.
Result<KvPage> allocate_kv_page(size_t n_bytes);

// Pages of one size, a fixed number at most. Memory is asked for when a page is first needed and kept from then on; a
// page that comes back is handed out again with whatever it holds. Its pages may outlive the pool. For one thread at a
// time, the release of its pages included.
class KvPagePool {
 public:
  KvPagePool(size_t page_bytes, size_t n_pages) : page_bytes_(page_bytes), n_pages_(n_pages) {}

  size_t page_bytes() const { return page_bytes_; }
  size_t n_pages() const { return n_pages_; }
  size_t n_used() const { return *n_used_; }  // held by somebody
  size_t n_free() const { return n_pages_ - *n_used_; }

  // Errors: out_of_memory when all pages are in use, or the system has no more.
  Result<KvPage> take();

 private:
  using Spare = std::vector<KvPage>;

  size_t page_bytes_, n_pages_;
  std::shared_ptr<size_t> n_used_ = std::make_shared<size_t>(0);
  std::shared_ptr<Spare> spare_ = std::make_shared<Spare>();  // pages that came back
};

}  // namespace tamis
