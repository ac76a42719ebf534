// Slabs that grow, and what is cut off them.
#include "cpu/panel_bytes.h"

#include <algorithm>
#include <cstdlib>

#include "base/checked.h"
#include "base/huge_pages.h"

namespace tamis::cpu {

namespace {
constexpr size_t kLine = 64;
constexpr size_t kLeastSlab = 4 * kHugePageBytes, kMostSlab = 128 * kHugePageBytes;
}  // namespace

Slab::Slab(size_t size_bytes)
    : data(static_cast<uint8_t*>(std::aligned_alloc(kHugePageBytes, size_bytes))), n_bytes(size_bytes) {
  if (data != nullptr) advise_huge_pages(data, n_bytes);
}
Slab::~Slab() { std::free(data); }

std::shared_ptr<Slab> PanelMemory::take(size_t n_bytes, uint8_t*& data) {
  const auto n_lines = checked_pad(n_bytes, kLine), n_least = checked_pad(n_bytes, kHugePageBytes);
  if (!n_lines || !n_least) return nullptr;
  if (slab_ == nullptr || slab_->n_bytes - n_used_ < *n_lines) {
    n_bytes_next_ = std::clamp(n_bytes_next_ * 2, kLeastSlab, kMostSlab);
    auto slab = std::make_shared<Slab>(std::max<size_t>(*n_least, n_bytes_next_));
    if (slab->data == nullptr) slab = std::make_shared<Slab>(std::max<size_t>(*n_least, kHugePageBytes));
    if (slab->data == nullptr) return nullptr;
    slab_ = std::move(slab);
    n_used_ = 0;
  }
  data = slab_->data + n_used_;
  n_used_ += *n_lines;
  return slab_;
}

Result<AlignedBytes> AlignedBytes::allocate(size_t n_bytes, PanelMemory& memory) {
  AlignedBytes out;
  out.slab_ = memory.take(n_bytes, out.data_);
  if (out.slab_ == nullptr) return fail(ErrorCode::out_of_memory, "no memory for {} bytes of weights", n_bytes);
  out.n_bytes_ = n_bytes;
  return out;
}

}  // namespace tamis::cpu
