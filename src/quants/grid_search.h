// The search of the encoders of IQ1, IQ2 and IQ3: points of a fixed grid, signs, one small odd multiple for each group
// and the super-block's f16 scale, for little weighted squared error.
//
//   value = step · (2 code + 1) · (±point + shift)      code: one a group; step = the block's f16 d / unit
//
// Every group is searched exhaustively (grid_points.h) at several scales. A search fixes points, and with them the
// error as a parabola of the scale, so that the best step and codes of the super-block follow from the parabolas alone;
// then the groups are searched once more at the scales that they really get.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "quants/grid_points.h"
#include "quants/importance.h"

namespace tamis {

enum class GridSigns : uint8_t {
  none,  // the grid holds signed values
  even,  // an even number of minus signs in each eight values
  any,
};

enum class GridShift : uint8_t {
  none,
  group,  // one shift of −⅛ or ⅛ for each group
  point,  // … for each point
};

struct GridFormat {
  const PointTable& (*points)();
  size_t group_len;  // values that share a scale: 16 or 32
  int max_code;
  float unit;  // d / step
  GridSigns signs;
  GridShift shift;
  WeightRule rule;
  // Scales tried for a group: its weighted root mean square times lowest, lowest · ratio, … They span all but a few in
  // a thousand of the best scales of real matrices.
  float lowest, ratio;
  int n_trials;
  // How far the last step goes from the scale of least error, Σ w x y / Σ w y², to the unbiased one, Σ w x² / Σ w x y,
  // codes kept: the former shrinks the weights, which squared error likes and KL does not (quantization-measured.md).
  float unbias = 0.9f;
};

// What a block of any of the types holds.
struct GridCodes {
  uint16_t d;            // f16
  uint8_t codes[16];     // by group
  uint16_t index[64];    // by point
  uint8_t signs[32];     // of each eight values: bit j = value j is negative
  uint8_t is_minus[32];  // by point of a format with shifts: 1 where the shift is −⅛
  // Sum of weight · (value − decoded)², in the weights of the search.
  float error;
};

// `values`, `importance` (or null: the format's rule without): kSuperBlock floats, any values.
GridCodes search_super_block(const GridFormat& format, const float* values, const float* importance);

// The textbook way: equal weights, each group searched at one scale and then at its rounded one.
GridCodes plain_super_block(const GridFormat& format, const float* values);

// A group's scale above four times seven signs, as IQ2_XXS and IQ3_XXS store them.
inline uint32_t pack_signs_and_scale(const uint8_t* signs, uint8_t code) {
  uint32_t packed = static_cast<uint32_t>(code) << 28;
  for (uint32_t k = 0; k < 4; ++k) packed |= (signs[k] & 127u) << (7 * k);
  return packed;
}

// Rows of blocks from super-blocks: `pack` lays codes out.
template <class Block>
void encode_grid_row(const GridFormat& format, void (*pack)(const GridCodes&, Block&), const float* row,
                     const float* importance, std::byte* blocks, size_t n_blocks) {
  for (size_t i = 0; i < n_blocks; ++i) {
    const size_t first = i * kSuperBlock;
    Block block{};
    pack(search_super_block(format, row + first, importance == nullptr ? nullptr : importance + first), block);
    std::memcpy(blocks + i * sizeof(Block), &block, sizeof(Block));
  }
}

}  // namespace tamis
