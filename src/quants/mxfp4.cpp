// Textbook encoder of MXFP4; layout and source in mxfp4.h. Byte for byte gguf-py quants.MXFP4.quantize.
#include "quants/mxfp4.h"

#include <algorithm>

namespace tamis {
namespace {

// ⌊log2(magnitude)⌋ − 2 + 127 within 0 … 254; 0 for 0 and NaN. The logarithm is rounded to float before the floor, as
// gguf-py does: the few floats just below a power of two count as that power.
uint8_t shared_exponent(float magnitude) {
  if (!(magnitude > 0.0f)) return 0;
  const float log2 = static_cast<float>(std::log2(static_cast<double>(magnitude)));
  return static_cast<uint8_t>(std::clamp(std::floor(log2) - 2.0f + 127.0f, 0.0f, 254.0f));
}

uint8_t nearest_code(float value, float d) {
  int best = 0;
  float best_error = std::fabs(d * 0.0f - value);
  for (int code = 1; code < 16; ++code) {
    const float error = std::fabs(d * static_cast<float>(e2m1_doubled(code)) - value);
    if (error < best_error) best = code, best_error = error;
  }
  return static_cast<uint8_t>(best);
}

}  // namespace

void encode_block(const float* values, BlockMXFP4& block) {
  block.e = shared_exponent(std::fabs(signed_extreme(values, 32)));
  const float d = e8m0_half(block.e);
  for (int j = 0; j < 16; ++j)
    block.qs[j] = static_cast<uint8_t>(nearest_code(values[j], d) | nearest_code(values[j + 16], d) << 4);
}

}  // namespace tamis
