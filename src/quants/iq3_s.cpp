// Encoders of IQ3_S; layout and source in iq3_s.h.
#include "quants/iq3_s.h"

#include "quants/grid_formats.h"

namespace tamis {
namespace {

void pack(const GridCodes& codes, BlockIQ3S& block) {
  block.d = codes.d;
  for (size_t k = 0; k < 64; ++k) {
    block.qs[k] = static_cast<uint8_t>(codes.index[k]);
    block.qh[k / 8] = static_cast<uint8_t>(block.qh[k / 8] | (codes.index[k] >> 8) << (k % 8));
  }
  std::memcpy(block.signs, codes.signs, 32);
  for (size_t g = 0; g < 4; ++g)
    block.scales[g] = static_cast<uint8_t>(codes.codes[2 * g] | codes.codes[2 * g + 1] << 4);
}

}  // namespace

void encode_block(const float* values, BlockIQ3S& block) {
  block = {};
  pack(plain_super_block(kFormatIQ3S, values), block);
}

void encode_iq3_s(const float* row, const float* importance, std::byte* blocks, size_t n_blocks) {
  encode_grid_row(kFormatIQ3S, pack, row, importance, blocks, n_blocks);
}

}  // namespace tamis
