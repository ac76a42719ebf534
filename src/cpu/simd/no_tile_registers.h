// The tile functions of amx.h for targets without tile registers: declared, so that templates can name them, and never
// called.
#pragma once

#include "cpu/simd/tile_shapes.h"

namespace tamis::cpu::TAMIS_TARGET {

TAMIS_INLINE void tile_config(const TileShapes&) {}
TAMIS_INLINE void tile_release() {}
template <int kTile>
TAMIS_INLINE void tile_zero() {}
template <int kTile>
TAMIS_INLINE void tile_load(const void*, size_t) {}
template <int kTile>
TAMIS_INLINE void tile_store(void*, size_t) {}
template <int kC, int kA, int kB, bool kIsUnsigned>
TAMIS_INLINE void tile_dot() {}

}  // namespace tamis::cpu::TAMIS_TARGET
