// Textbook encoder of Q5_1; layout and source in q5_1.h. Byte for byte gguf-py quants.Q5_1.quantize.
#include "quants/q5_1.h"

namespace tamis {

void encode_block(const float* values, BlockQ5_1& block) {
  const MinMax range = min_max(values, 32);
  const float d = (range.max - range.min) / 31.0f;
  const float inverse = inverse_scale(d);
  block.d = f32_to_f16(d);
  block.m = f32_to_f16(range.min);
  uint32_t high_bits = 0;
  for (uint32_t j = 0; j < 16; ++j) {
    const uint8_t low = clamp_code((values[j] - range.min) * inverse + 0.5f, 31);
    const uint8_t high = clamp_code((values[j + 16] - range.min) * inverse + 0.5f, 31);
    block.qs[j] = static_cast<uint8_t>((low & 15) | ((high & 15) << 4));
    high_bits |= static_cast<uint32_t>(low >> 4) << j | static_cast<uint32_t>(high >> 4) << (j + 16);
  }
  std::memcpy(block.qh, &high_bits, 4);
}

}  // namespace tamis
