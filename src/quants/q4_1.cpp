// Textbook encoder of Q4_1; layout and source in q4_1.h. Byte for byte gguf-py quants.Q4_1.quantize.
#include "quants/q4_1.h"

namespace tamis {

void encode_block(const float* values, BlockQ4_1& block) {
  const MinMax range = min_max(values, 32);
  const float d = (range.max - range.min) / 15.0f;
  const float inverse = inverse_scale(d);
  block.d = f32_to_f16(d);
  block.m = f32_to_f16(range.min);
  for (int j = 0; j < 16; ++j) {
    const uint8_t low = clamp_code((values[j] - range.min) * inverse + 0.5f, 15);
    const uint8_t high = clamp_code((values[j + 16] - range.min) * inverse + 0.5f, 15);
    block.qs[j] = static_cast<uint8_t>(low | (high << 4));
  }
}

}  // namespace tamis
