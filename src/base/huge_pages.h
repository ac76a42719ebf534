// Whether large blocks of memory ask for transparent huge pages: fewer address translations for matrices that are
// streamed, at no cost but memory that the system may hold in larger pieces. Changes no result.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tamis {

enum class HugePages : uint8_t {
  automatic,  // ask, and take what the system gives
  on,         // ask, and say once in the log when the system refuses
  off,        // ask for small pages even where the system would give large ones
};

// For the whole process; blocks allocated later follow it.
void set_huge_pages(HugePages choice);

constexpr size_t kHugePageBytes = size_t{2} << 20;

// Tells the system about [data, data + n_bytes). Requires: data at a multiple of kHugePageBytes.
void advise_huge_pages(void* data, size_t n_bytes);

}  // namespace tamis
