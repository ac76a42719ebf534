// Encoders of IQ1_S; layout and source in iq1_s.h.
#include "quants/iq1_s.h"

#include "quants/grid_formats.h"

namespace tamis {
namespace {

void pack(const GridCodes& codes, BlockIQ1S& block) {
  block.d = codes.d;
  for (size_t group = 0; group < 8; ++group) {
    int packed = codes.codes[group] << 12 | (codes.is_minus[4 * group] != 0 ? 0x8000 : 0);
    for (size_t k = 0; k < 4; ++k) {
      const int index = codes.index[4 * group + k];
      block.qs[4 * group + k] = static_cast<uint8_t>(index);
      packed |= (index >> 8) << (3 * k);
    }
    block.qh[group] = static_cast<uint16_t>(packed);
  }
}

}  // namespace

void encode_block(const float* values, BlockIQ1S& block) {
  block = {};
  pack(plain_super_block(kFormatIQ1S, values), block);
}

void encode_iq1_s(const float* row, const float* importance, std::byte* blocks, size_t n_blocks) {
  encode_grid_row(kFormatIQ1S, pack, row, importance, blocks, n_blocks);
}

}  // namespace tamis
