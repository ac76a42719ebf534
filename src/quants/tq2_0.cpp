// Textbook encoder of TQ2_0; layout and source in tq2_0.h. Byte for byte gguf-py quants.TQ2_0.quantize.
#include "quants/tq2_0.h"

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

}  // namespace tamis
