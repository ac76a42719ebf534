// Encoders of MXFP4; layout and source in mxfp4.h. The textbook one is byte for byte gguf-py quants.MXFP4.quantize.
#include "quants/mxfp4.h"

#include <algorithm>
#include <cfloat>

#include "quants/fp4_search.h"

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

constexpr int32_t kLargestExponent = 252;  // 6 steps of 2^125 are the largest finite weight

constexpr WeightRule kRule{WeightExponent::half, NoImportance::even};

// The values times 2^-exponent, the largest magnitude then in [½, 1): the exponent. Any float is in this type's range,
// so the search works on scaled values. NaN counts as 0, infinity as the largest float.
TAMIS_INLINE int scaled_values(const float* values, float* x) {
  Lanes top{};
  for (size_t j = 0; j < 32; j += kLanes) {
    const Lanes value = load_lanes(values + j);
    const Lanes number = clamped(choose(value == value, value, 0.0f), -FLT_MAX, FLT_MAX);
    store_lanes(number, x + j);
    top = larger(magnitude(number), top);
  }
  int exponent = 0;
  (void)std::frexp(largest_of_lanes(top), &exponent);
  const float half = std::ldexp(1.0f, -exponent / 2);  // in two steps: 2^149 is no float
  const float rest = std::ldexp(1.0f, -exponent - -exponent / 2);
  for (size_t j = 0; j < 32; j += kLanes) store_lanes(load_lanes(x + j) * half * rest, x + j);
  return exponent;
}

}  // namespace

void encode_block(const float* values, BlockMXFP4& block) {
  block.e = shared_exponent(std::fabs(signed_extreme(values, 32)));
  const float d = e8m0_half(block.e);
  for (int j = 0; j < 16; ++j)
    block.qs[j] = static_cast<uint8_t>(nearest_code(values[j], d) | nearest_code(values[j + 16], d) << 4);
}

TAMIS_WIDE void encode_mxfp4(const float* row, const float* importance, std::byte* blocks, size_t n_blocks) {
  for (size_t i = 0; i < n_blocks; ++i) {
    float x[32], w[32];
    const int exponent = scaled_values(row + 32 * i, x);
    value_weights(x, importance == nullptr ? nullptr : importance + 32 * i, 32, mean_square(x, 32), kRule, w);
    // A largest magnitude below 2^exponent: scale byte exponent − 3 + 127 puts it in [4, 8) steps, lane 12.
    const LaneBits e = smaller(larger(lane_numbers() + (exponent - 3 + 127 - 12), 0), kLargestExponent);
    // Half the scale on the scaled values, 2^(e − 128 − exponent), and its inverse.
    const LaneBits power = e - 128 - exponent;
    const Lanes half_scale = lanes_of((power + 127) << 23);
    const Lanes inverse = lanes_of((127 - power) << 23);
    const size_t lane = largest_lane(-e2m1_error(x, w, 32, half_scale, inverse));
    BlockMXFP4 block;
    block.e = static_cast<uint8_t>(e[lane]);
    pack_nibbles(e2m1_code(nearest_e2m1_doubled(load_lanes(x) * inverse[lane])),
                 e2m1_code(nearest_e2m1_doubled(load_lanes(x + 16) * inverse[lane])), block.qs);
    std::memcpy(blocks + i * sizeof(block), &block, sizeof(block));
  }
}

}  // namespace tamis
