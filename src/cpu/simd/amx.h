// AMX's tiles: matrices of up to 16 rows × 64 bytes in eight registers, one of them multiplied by another in one
// instruction. Six functions; tests replace them by a model of Intel's pseudo-code. They are written as assembly since
// the compilers' intrinsics take no tile number from a template.
// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2 (LDTILECFG, TILELOADD, TDPBSUD …).
#pragma once

#include "cpu/simd/tile_shapes.h"

namespace tamis::cpu::TAMIS_TARGET {

constexpr bool kHasTiles = true, kHasTileRegisters = true;
template <int kElements, bool kIsFirst, class Sum>
TAMIS_INLINE void add_by_vectors(const int8_t*, int, const uint8_t*, Sum*) {}  // never called

// All tiles of this thread become `shapes` and zero. Requires: request_tile_registers() was granted.
TAMIS_INLINE void tile_config(const TileShapes& shapes) { asm volatile("ldtilecfg %0" : : "m"(shapes) : "memory"); }
// Back to no tiles: the kernel need not save them any more.
TAMIS_INLINE void tile_release() { asm volatile("tilerelease" : : : "memory"); }

template <int kTile>
TAMIS_INLINE void tile_zero() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
}
// Row i of the tile is at from + i · stride bytes.
template <int kTile>
TAMIS_INLINE void tile_load(const void* from, size_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(kTile) : "memory");
}
template <int kTile>
TAMIS_INLINE void tile_store(void* to, size_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(kTile) : "memory");
}
// C [m][n] int32 += Σ over k of A [m][k] · B [k / 4][n][k mod 4]; A signed bytes, B signed or (kIsUnsigned) unsigned.
template <int kC, int kA, int kB, bool kIsUnsigned>
TAMIS_INLINE void tile_dot() {
  if constexpr (kIsUnsigned)
    asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB));
  else
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB));
}

}  // namespace tamis::cpu::TAMIS_TARGET
