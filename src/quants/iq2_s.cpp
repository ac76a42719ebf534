// Encoders of IQ2_S; layout and source in iq2_s.h.
#include "quants/iq2_s.h"

#include "quants/grid_formats.h"

namespace tamis {
namespace {

void pack(const GridCodes& codes, BlockIQ2S& block) {
  block.d = codes.d;
  for (size_t i = 0; i < 32; ++i) {
    block.qs[i] = static_cast<uint8_t>(codes.index[i]);
    block.qh[i / 4] = static_cast<uint8_t>(block.qh[i / 4] | (codes.index[i] >> 8) << (2 * (i % 4)));
  }
  std::memcpy(block.signs, codes.signs, 32);
  for (size_t g = 0; g < 8; ++g)
    block.scales[g] = static_cast<uint8_t>(codes.codes[2 * g] | codes.codes[2 * g + 1] << 4);
}

}  // namespace

void encode_block(const float* values, BlockIQ2S& block) {
  block = {};
  pack(plain_super_block(kFormatIQ2S, values), block);
}

void encode_iq2_s(const float* row, const float* importance, std::byte* blocks, size_t n_blocks) {
  encode_grid_row(kFormatIQ2S, pack, row, importance, blocks, n_blocks);
}

}  // namespace tamis
