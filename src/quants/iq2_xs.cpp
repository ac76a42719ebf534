// Encoders of IQ2_XS; layout and source in iq2_xs.h.
#include "quants/iq2_xs.h"

#include "quants/grid_formats.h"

namespace tamis {
namespace {

void pack(const GridCodes& codes, BlockIQ2XS& block) {
  block.d = codes.d;
  for (size_t i = 0; i < 32; ++i) block.qs[i] = static_cast<uint16_t>(codes.index[i] | (codes.signs[i] & 127) << 9);
  for (size_t g = 0; g < 8; ++g)
    block.scales[g] = static_cast<uint8_t>(codes.codes[2 * g] | codes.codes[2 * g + 1] << 4);
}

}  // namespace

void encode_block(const float* values, BlockIQ2XS& block) {
  block = {};
  pack(plain_super_block(kFormatIQ2XS, values), block);
}

void encode_iq2_xs(const float* row, const float* importance, std::byte* blocks, size_t n_blocks) {
  encode_grid_row(kFormatIQ2XS, pack, row, importance, blocks, n_blocks);
}

}  // namespace tamis
