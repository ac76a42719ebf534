// How often the tile model met what the processor answers with a fault: #GP for a bad configuration, #UD for an
// instruction on tiles that are not configured or do not fit. Counted per thread.
#pragma once

namespace tamis::test {

inline int& tile_faults() {
  static thread_local int n_faults = 0;
  return n_faults;
}

}  // namespace tamis::test
