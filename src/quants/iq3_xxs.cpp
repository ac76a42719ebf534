// Encoders of IQ3_XXS; layout and source in iq3_xxs.h.
#include "quants/iq3_xxs.h"

#include "quants/grid_formats.h"

namespace tamis {
namespace {

void pack(const GridCodes& codes, BlockIQ3XXS& block) {
  block.d = codes.d;
  for (size_t k = 0; k < 64; ++k) block.qs[k] = static_cast<uint8_t>(codes.index[k]);
  for (size_t group = 0; group < 8; ++group) {
    const uint32_t packed = pack_signs_and_scale(codes.signs + 4 * group, codes.codes[group]);
    std::memcpy(block.scales_and_signs + 4 * group, &packed, 4);
  }
}

}  // namespace

void encode_block(const float* values, BlockIQ3XXS& block) {
  block = {};
  pack(plain_super_block(kFormatIQ3XXS, values), block);
}

void encode_iq3_xxs(const float* row, const float* importance, std::byte* blocks, size_t n_blocks) {
  encode_grid_row(kFormatIQ3XXS, pack, row, importance, blocks, n_blocks);
}

}  // namespace tamis
