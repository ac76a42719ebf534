// Encoders of TQ2_0; layout and source in tq2_0.h. The textbook one is byte for byte gguf-py quants.TQ2_0.quantize.
#include "quants/tq2_0.h"

#include "quants/ternary_levels.h"

namespace tamis {

void encode_block(const float* values, BlockTQ2_0& block) {
  const float d = std::fabs(signed_extreme(values, 256));
  const float inverse = inverse_scale(d);
  block = {};
  block.d = f32_to_f16(d);
  for (int plane = 0; plane < 8; ++plane) {
    for (int l = 0; l < 32; ++l) {
      const int code = round_to_i8(values[32 * plane + l] * inverse) + 1;
      uint8_t& byte = block.qs[32 * (plane / 4) + l];
      byte = static_cast<uint8_t>(byte | code << (2 * (plane % 4)));
    }
  }
}

TAMIS_WIDE void encode_tq2_0(const float* row, const float* importance, std::byte* blocks, size_t n_blocks) {
  const RowWeights<BlockTQ2_0::kLen> weights(row, importance, n_blocks, kTernaryRule);
  for (size_t i = 0; i < n_blocks; ++i) {
    float x[256], w[256], levels[256];
    weights.block(i, x, w);
    BlockTQ2_0 block;
    block.d = ternary_block(x, w, levels);
    for (size_t byte = 0; byte < 64; byte += kLanes) {
      // Byte 32h + l holds planes 4h … 4h + 3 of place l.
      const float* plane = levels + 128 * (byte / 32) + byte % 32;
      Lanes packed{};
      for (size_t n = 4; n-- != 0;) packed = packed * 4.0f + (load_lanes(plane + 32 * n) + 1.0f);
      store_bytes(whole_numbers(packed), block.qs + byte);
    }
    std::memcpy(blocks + i * sizeof(block), &block, sizeof(block));
  }
}

}  // namespace tamis
