// Textbook encoder of Q8_0; layout and source in q8_0.h. Byte for byte gguf-py quants.Q8_0.quantize.
#include "quants/q8_0.h"

namespace tamis {

void encode_block(const float* values, BlockQ8_0& block) {
  const float d = std::fabs(signed_extreme(values, 32)) / 127.0f;
  const float inverse = inverse_scale(d);
  block.d = f32_to_f16(d);
  for (int j = 0; j < 32; ++j) block.qs[j] = round_to_i8(values[j] * inverse);
}

}  // namespace tamis
