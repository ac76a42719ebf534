// Textbook encoder of Q4_K: minima and maxima, 6-bit scales, round to nearest. No search: the solvers of convert/ do
// better. Layout and source in q4_k.h.
#include "quants/q4_k.h"

#include <algorithm>

namespace tamis {
namespace {

// The nearest of 0 … max (half away from zero); NaN gives 0.
uint8_t nearest_code(float value, float max) {
  if (!(value > 0.0f)) return 0;
  return static_cast<uint8_t>(std::min(value, max) + 0.5f);
}

void pack_scale_min(uint8_t* scales, int group, ScaleMin value) {
  if (group < 4) {
    scales[group] = static_cast<uint8_t>(scales[group] | value.scale);
    scales[group + 4] = static_cast<uint8_t>(scales[group + 4] | value.min);
    return;
  }
  scales[group + 4] = static_cast<uint8_t>((value.scale & 15) | (value.min & 15) << 4);
  scales[group - 4] = static_cast<uint8_t>(scales[group - 4] | (value.scale >> 4) << 6);
  scales[group] = static_cast<uint8_t>(scales[group] | (value.min >> 4) << 6);
}

}  // namespace

void encode_block(const float* values, BlockQ4K& block) {
  block = {};
  float steps[8], offsets[8];
  for (int group = 0; group < 8; ++group) {
    const MinMax range = min_max(values + 32 * group, 32);
    offsets[group] = std::max(0.0f, -range.min);
    steps[group] = std::max(0.0f, range.max + offsets[group]) / 15.0f;
  }
  const float d = *std::max_element(steps, steps + 8) / 63.0f;
  const float dmin = *std::max_element(offsets, offsets + 8) / 63.0f;
  block.d = f32_to_f16(d);
  block.dmin = f32_to_f16(dmin);
  const float stored_d = f16_to_f32(block.d);
  const float stored_dmin = f16_to_f32(block.dmin);
  for (int group = 0; group < 8; ++group) {
    const ScaleMin packed{nearest_code(steps[group] * inverse_scale(stored_d), 63.0f),
                          nearest_code(offsets[group] * inverse_scale(stored_dmin), 63.0f)};
    pack_scale_min(block.scales, group, packed);
    const float inverse = inverse_scale(stored_d * static_cast<float>(packed.scale));
    const float offset = stored_dmin * static_cast<float>(packed.min);
    for (int l = 0; l < 32; ++l) {
      const uint8_t code = nearest_code((values[32 * group + l] + offset) * inverse, 15.0f);
      uint8_t& byte = block.qs[32 * (group / 2) + l];
      byte = static_cast<uint8_t>(byte | code << (4 * (group % 2)));
    }
  }
}

}  // namespace tamis
