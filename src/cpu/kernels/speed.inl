// What the machine can do at most, for comparison: a plain read loop, and int8 products on data in the nearest cache by
// the instructions the plane kernels use, without their unpacking and scales.

namespace tamis::cpu::TAMIS_TARGET {

// Σ words, modulo 2^64.  Requires: n_words a multiple of 32.
static uint64_t read_loop(const uint64_t* words, size_t n_words) {
  uint64_t lanes[32] = {};
  for (size_t i = 0; i < n_words; i += 32)
    for (size_t k = 0; k < 32; ++k) lanes[k] += words[i + k];
  uint64_t sum = 0;
  for (size_t k = 0; k < 32; ++k) sum += lanes[k];
  return sum;
}

// kTileColumns columns (4 · kTileColumns bytes at `quads`) times 8 vectors of codes (512 bytes), n_rounds times.
// Returns the number of multiply-adds; keep() holds the compiler to doing them.
static uint64_t int8_loop(const uint8_t* codes, const int8_t* quads, uint64_t n_rounds) {
  GroupAcc acc[kTileColumns];
  TAMIS_UNROLL for (int c = 0; c < kTileColumns; ++c) acc[c] = group_start();
  for (uint64_t round = 0; round < n_rounds; ++round) {
    TAMIS_UNROLL for (int v = 0; v < 8; ++v) {
      const Codes w = codes_load(codes + v * 64);
      TAMIS_UNROLL for (int c = 0; c < kTileColumns; ++c) {
        acc[c] = group_dot(acc[c], w, quads + c * 4);
        keep(acc[c]);
      }
    }
  }
  return n_rounds * 8 * 64 * kTileColumns;
}

}  // namespace tamis::cpu::TAMIS_TARGET
