// The second line of defence against deep recursion: depth is counted first; this refuses to go on when the thread's
// stack, however small, is nearly used up.
#pragma once

#include <cstdint>

namespace tamis::jinja {

class StackGuard {
 public:
  StackGuard();  // reads the bounds of this thread's stack
  // True when less than the reserve is left. Always false where the bounds are unknown.
  bool is_nearly_full() const {
    const char here = 0;
    return reinterpret_cast<uintptr_t>(&here) < floor_;
  }

 private:
  uintptr_t floor_ = 0;
};

}  // namespace tamis::jinja
