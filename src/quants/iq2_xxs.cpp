// Encoders of IQ2_XXS; layout and source in iq2_xxs.h.
#include "quants/iq2_xxs.h"

#include "quants/grid_formats.h"

namespace tamis {
namespace {

void pack(const GridCodes& codes, BlockIQ2XXS& block) {
  block.d = codes.d;
  for (size_t group = 0; group < 8; ++group) {
    for (size_t k = 0; k < 4; ++k) block.qs[8 * group + k] = static_cast<uint8_t>(codes.index[4 * group + k]);
    const uint32_t packed = pack_signs_and_scale(codes.signs + 4 * group, codes.codes[group]);
    std::memcpy(block.qs + 8 * group + 4, &packed, 4);
  }
}

}  // namespace

void encode_block(const float* values, BlockIQ2XXS& block) {
  block = {};
  pack(plain_super_block(kFormatIQ2XXS, values), block);
}

void encode_iq2_xxs(const float* row, const float* importance, std::byte* blocks, size_t n_blocks) {
  encode_grid_row(kFormatIQ2XXS, pack, row, importance, blocks, n_blocks);
}

}  // namespace tamis
