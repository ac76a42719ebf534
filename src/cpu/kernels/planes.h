// How matrices lie in memory for the kernels ("planes") and how activations are packed for them. POD and constants
// only: included by target files.
//
// A panel is 16 rows of the matrix; inside it, blocks of K follow each other, so that a matrix-vector product reads one
// stream, front to back: the machine's own prefetcher keeps up with one rising address, not with several. The vector of
// a *quad* is 16 rows × 4 consecutive k = 64 bytes: byte 4·row + j is code k = 4·quad + j.
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
//   int16  sums32 [4][NC][2]    sums of 32 elements, two neighbouring groups, shifted
//   int16  sums16 [8][NC][2]    sums of 16 elements, two neighbouring groups, shifted
//   float  scale [NC]
//   int32  shifts [8][NC]       per 32: an element is scale · (code << shift)
//   int16  shift_pairs [4][NC][2]  the same, two neighbouring groups
// One large element would leave the others of its block few bits of their own; shifts from 0 to kMostShift give every
// 32 elements their own range within it, and sums of a block stay integers of 32 bits, sums of 32 elements of 16.
constexpr int kMostShift = 3;
// Codes of a block lie in ±127; in ±63 when the magnitudes of 32 of them would sum to more than kMostMagnitude, so that
// 32 products with codes of 4 bits fit 16 bits: 15 · kMostMagnitude < 2^15.
constexpr int kMostMagnitude = 2184;
constexpr int kActs256Bytes = 256 + 64 + 32 + 16 + 32 + 4 + 32 + 16;
// Scale per 32 (`A8/32`): int8 quads [8][NC][4]; int16 lanes [NC][2]; float scale [NC]; float scaled_sum [NC] = scale ·
// sum; int16 lanes of the first 16 [NC][2].
constexpr int kActs32Bytes = 32 + 4 + 4 + 4 + 4;

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

// Kernels for planes, in the order of the kernels' table. Types whose planes are alike share one.
enum PlaneKind {
  kPlaneQ40,
  kPlaneQ41,
  kPlaneQ50,
  kPlaneQ51,
  kPlaneQ80,
  kPlaneIQ4NL,
  kPlaneMXFP4,
  kPlaneNVFP4,
  kPlaneQ10,
  kPlaneQ20,
  kPlaneQ2K,
  kPlaneQ3K,
  kPlaneQ4K,
  kPlaneQ5K,
  kPlaneQ6K,
  kPlaneIQ4XS,
  kPlaneIQ3S,
  kPlaneIQ3XXS,
  kPlaneIQ2XXS,
  kPlaneIQ2S,  // IQ2_XS too
  kPlaneIQ1S,
  kPlaneIQ1M,
  kPlaneTernary,  // TQ1_0, TQ2_0
  kPlaneKinds
};

// A block of 256 × 16 rows: [scales: 16 rows × bytes of groups 2i, 2i + 1][mins alike][d 16 × f16][dmin 16 × f16]
// [padding to a cache line][four units of 64 elements]. Offsets in bytes.
struct SuperLayout {
  int mins, d, dmin, units, unit_bytes, bytes;
};
constexpr SuperLayout super_layout(int scale_bytes, int min_bytes, bool has_dmin, int unit_bytes) {
  const int d = scale_bytes + min_bytes, units = (d + (has_dmin ? 64 : 32) + 63) / 64 * 64;
  return {scale_bytes, d, d + 32, units, unit_bytes, units + 4 * unit_bytes};
}
// Units: n = vector of nibbles (low: quad 2i, high: quad 2i + 1), t = two-bit codes of four quads, b = one bit of eight
// quads, lowest first.
constexpr SuperLayout kLayoutQ2K = super_layout(256, 0, true, 4 * 64);       // tttt; min in a scale's high nibble
constexpr SuperLayout kLayoutQ3K = super_layout(256, 0, false, 6 * 64);      // btt btt
constexpr SuperLayout kLayoutQ4K = super_layout(128, 128, true, 8 * 64);     // nnnnnnnn
constexpr SuperLayout kLayoutQ5K = super_layout(128, 128, true, 10 * 64);    // bnnnn bnnnn
constexpr SuperLayout kLayoutQ6K = super_layout(256, 0, false, 12 * 64);     // tnn tnn tnn tnn
constexpr SuperLayout kLayoutNibbles = super_layout(128, 0, false, 8 * 64);  // IQ4_XS, IQ3_S, IQ3_XXS
constexpr SuperLayout kLayoutIQ2XXS = super_layout(128, 0, false, 6 * 64);   // as Q3_K
constexpr SuperLayout kLayoutIQ2S = super_layout(256, 0, false, 6 * 64);
constexpr SuperLayout kLayoutIQ1S = super_layout(128, 128, false, 4 * 64);
constexpr SuperLayout kLayoutIQ1M = super_layout(256, 0, false, 5 * 64);  // btttt; a bit counts for two quads
constexpr SuperLayout kLayoutTernary = super_layout(0, 0, false, 4 * 64);

// A block of 32 × 16 rows: [scales][mins 16 × f16][codes: n, t, b or bytes as above][bits], in bytes.
constexpr int kBytesQ40 = 288, kBytesQ41 = 320, kBytesQ50 = 352, kBytesQ51 = 384, kBytesQ80 = 544;
constexpr int kBytesIQ4NL = 288;
constexpr int kBytesMXFP4 = 288;  // scales: bf16
constexpr int kBytesNVFP4 = 288;  // scales: UE4M3, two a row
constexpr int kBytesQ10 = 96, kBytesQ20 = 160;

}  // namespace tamis::cpu
