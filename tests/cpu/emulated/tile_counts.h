// What the tile model met: faults, which the processor answers with #GP for a bad configuration and #UD for an
// instruction on tiles that are not configured or do not fit, and products of tiles. Counted per thread.
#pragma once

namespace tamis::test {

struct TileCounts {
  int n_faults = 0, n_products = 0;
};
inline TileCounts& tile_counts() {
  static thread_local TileCounts counts;
  return counts;
}

}  // namespace tamis::test
