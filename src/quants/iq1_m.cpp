// Encoders of IQ1_M; layout and source in iq1_m.h.
#include "quants/iq1_m.h"

#include "quants/grid_formats.h"

namespace tamis {
namespace {

void pack(const GridCodes& codes, BlockIQ1M& block) {
  for (size_t i = 0; i < 32; ++i) {
    const int high = codes.index[i] >> 8 | (codes.is_minus[i] != 0 ? 8 : 0);
    block.qs[i] = static_cast<uint8_t>(codes.index[i]);
    block.qh[i / 2] = static_cast<uint8_t>(block.qh[i / 2] | high << (4 * (i % 2)));
  }
  for (size_t word = 0; word < 4; ++word) {
    int packed = (codes.d >> (4 * word) & 15) << 12;
    for (size_t k = 0; k < 4; ++k) packed |= codes.codes[4 * word + k] << (3 * k);
    block.scales[word] = static_cast<uint16_t>(packed);
  }
}

}  // namespace

void encode_block(const float* values, BlockIQ1M& block) {
  block = {};
  pack(plain_super_block(kFormatIQ1M, values), block);
}

void encode_iq1_m(const float* row, const float* importance, std::byte* blocks, size_t n_blocks) {
  encode_grid_row(kFormatIQ1M, pack, row, importance, blocks, n_blocks);
}

}  // namespace tamis
