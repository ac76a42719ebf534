// For targets without tile registers: plane_tiles.inl then keeps to vectors. What is declared here is never called.
#pragma once

#include "cpu/simd/tile_shapes.h"

namespace tamis::cpu::TAMIS_TARGET {

constexpr bool kHasTiles = false;
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
