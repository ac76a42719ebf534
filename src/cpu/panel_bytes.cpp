// Large blocks begin at a huge page.
#include "cpu/panel_bytes.h"

#include <cstdlib>

#include "base/checked.h"
#include "base/huge_pages.h"

namespace tamis::cpu {

void AlignedBytes::Free::operator()(uint8_t* p) const { std::free(p); }

Result<AlignedBytes> AlignedBytes::allocate(size_t n_bytes) {
  const size_t alignment = n_bytes >= kHugePageBytes ? kHugePageBytes : 64;
  const auto padded = checked_pad(n_bytes + 1, alignment);
  auto* const data = padded ? static_cast<uint8_t*>(std::aligned_alloc(alignment, *padded)) : nullptr;
  if (data == nullptr) return fail(ErrorCode::out_of_memory, "no memory for {} bytes of weights", n_bytes);
  // The rest stays on small pages: a whole huge one would take up to 2 MiB more than the matrix has.
  if (alignment == kHugePageBytes) advise_huge_pages(data, n_bytes / kHugePageBytes * kHugePageBytes);
  AlignedBytes out;
  out.data_.reset(data);
  out.n_bytes_ = n_bytes;
  return out;
}

}  // namespace tamis::cpu
