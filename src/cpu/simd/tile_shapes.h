// The operand of LDTILECFG, as AMX's palette 1 defines it.
#pragma once

#include <stdint.h>

namespace tamis::cpu {

struct alignas(64) TileShapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};  // of tiles 0 … 7, at most 64; the rest stays 0
  uint8_t rows[16] = {};        // at most 16
};
static_assert(sizeof(TileShapes) == 64);

}  // namespace tamis::cpu
