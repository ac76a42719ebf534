// How matrices lie in memory for the kernels ("planes") and how activations are packed for them. POD and constants
// only: included by target files.
//
// A panel is 16 rows of the matrix; inside it, blocks of K follow each other, so that a matrix-vector product reads one
// stream. The vector of a *quad* is 16 rows × 4 consecutive k = 64 bytes: byte 4·row + j is code k = 4·quad + j.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace tamis::cpu {

constexpr int kPanelRows = 16;
constexpr int kVector = 64;

// Packed activations of NC columns (tokens), scale per 256 (`A8/256`): for each block of 256
//   int8   quads [64][NC][4]
//   int16  lanes16 [16][NC][2]  sums of elements {0,1} and {2,3} of the quads, per 16 elements
//   int16  lanes32 [8][NC][2]   the same per 32
//   int16  sums32 [4][NC][2]    sums of 32 elements, two neighbouring groups
//   int16  sums16 [8][NC][2]    sums of 16 elements, two neighbouring groups
//   float  scale [NC]
constexpr int kActs256Bytes = 256 + 64 + 32 + 16 + 32 + 4;
// Scale per 32 (`A8/32`): int8 quads [8][NC][4]; int16 lanes [NC][2]; float scale [NC]; float scaled_sum [NC] = scale ·
// sum.
constexpr int kActs32Bytes = 32 + 4 + 4 + 4;

constexpr int kPanelBytes = 24576;  // of unpacked codes: 16 rows × 1536, what stays in the nearest cache

// Quantizes columns (rows of x) and packs them tile by tile. `block_len` 256 or 32 chooses the layout.
struct PackTask {
  const float* x;
  size_t x_stride;
  size_t n_columns;
  size_t n_blocks;  // of K
  size_t block_len;
  int8_t* out;  // n_columns · n_blocks · kActs…Bytes
};

struct PlanesTask {
  const uint8_t* planes;  // of one panel
  const int8_t* acts;     // packed columns
  size_t n_columns;
  size_t n_blocks;
  uint8_t* panel;  // scratch, kPanelBytes, 64-byte aligned
  float* acc;      // [n_columns][16], out
  bool is_added;   // to what acc holds: a matrix may be multiplied in steps along K, each with its own packed columns
  const uint8_t* next;  // planes multiplied next, fetched into the second cache meanwhile; may be null
  size_t next_bytes;
};

// Types with planes, in the order of the kernels' table.
enum PlaneKind { kPlaneQ40, kPlaneQ41, kPlaneQ50, kPlaneQ51, kPlaneQ80, kPlaneQ4K, kPlaneQ5K, kPlaneQ6K, kPlaneKinds };

}  // namespace tamis::cpu
