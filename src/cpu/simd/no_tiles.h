// For targets without instructions that multiply matrices: plane_tiles.inl then takes one column after another.
#pragma once

#include "cpu/simd/no_tile_registers.h"

namespace tamis::cpu::TAMIS_TARGET {

constexpr bool kHasTiles = false, kHasTileRegisters = false;
template <int kElements, bool kIsFirst, class Sum>
TAMIS_INLINE void add_by_vectors(const int8_t*, int, const uint8_t*, Sum*) {}

}  // namespace tamis::cpu::TAMIS_TARGET
