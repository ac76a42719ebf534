// Textbook encoder of Q4_0; layout and source in q4_0.h. Byte for byte gguf-py quants.Q4_0.quantize.
#include "quants/q4_0.h"

namespace tamis {

void encode_block(const float* values, BlockQ4_0& block) {
  const float d = signed_extreme(values, 32) / -8.0f;
  const float inverse = inverse_scale(d);
  block.d = f32_to_f16(d);
  for (int j = 0; j < 16; ++j) {
    const uint8_t low = clamp_code(values[j] * inverse + 8.5f, 15);
    const uint8_t high = clamp_code(values[j + 16] * inverse + 8.5f, 15);
    block.qs[j] = static_cast<uint8_t>(low | (high << 4));
  }
}

}  // namespace tamis
