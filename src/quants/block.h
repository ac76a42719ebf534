// What every block type shares: reading scales, walking blocks. One header a type (q4_k.h …) holds its block struct and
// decode_block(); registry.cpp names them all.
//
// All decoders here are the format's definition in float32, one rounding an operation, in the order gguf-py's numpy
// code uses; the build never contracts (-ffp-contract=off), so every target and compiler gives the same bits.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/float16.h"

#ifdef __CUDACC__
#define TAMIS_HOST_DEVICE __host__ __device__
#else
#define TAMIS_HOST_DEVICE
#endif

namespace tamis {

// Decodes n blocks laid end to end, at any alignment.
template <class Block>
void decode_blocks(const std::byte* blocks, float* out, size_t n_blocks) {
  for (size_t i = 0; i < n_blocks; ++i) {
    Block block;
    std::memcpy(&block, blocks + i * sizeof(Block), sizeof(Block));
    decode_block(block, out + i * Block::kLen);
  }
}

// Encodes n blocks laid end to end, at any alignment, by the type's textbook encoder.
template <class Block>
void encode_blocks(const float* values, std::byte* blocks, size_t n_blocks) {
  for (size_t i = 0; i < n_blocks; ++i) {
    Block block{};
    encode_block(values + i * Block::kLen, block);
    std::memcpy(blocks + i * sizeof(Block), &block, sizeof(Block));
  }
}

// 1/d, or 0 for a block whose scale is 0 (all its codes are then the code of 0).
inline float inverse_scale(float d) { return d == 0.0f ? 0.0f : 1.0f / d; }

// A rounded value as a code in 0 … max: cut toward zero, then clamped. NaN and what no byte holds (the infinities) give
// code 0, as numpy's conversion does on x86.
inline uint8_t clamp_code(float value, uint8_t max) {
  if (!(value > -1.0f && value < 256.0f)) return 0;
  const int code = static_cast<int>(value);
  return static_cast<uint8_t>(code > max ? max : code);
}

// Rounded half away from zero into int8; NaN and what int8 cannot hold give 0.
inline int8_t round_to_i8(float value) {
  const float magnitude = std::fabs(value);
  const float whole = std::floor(magnitude);
  const float rounded = std::copysign(whole + std::floor(2.0f * (magnitude - whole)), value);
  return rounded >= -128.0f && rounded <= 127.0f ? static_cast<int8_t>(rounded) : int8_t{0};
}

// The value of largest magnitude, sign kept; the first such when several share it. A NaN counts as larger than any
// number.
inline float signed_extreme(const float* values, size_t n) {
  float extreme = values[0];
  for (size_t i = 0; i < n; ++i) {
    if (std::isnan(values[i])) return values[i];
    if (std::fabs(values[i]) > std::fabs(extreme)) extreme = values[i];
  }
  return extreme;
}

struct MinMax {
  float min, max;
};
// Both are NaN when any value is.
inline MinMax min_max(const float* values, size_t n) {
  MinMax out{values[0], values[0]};
  for (size_t i = 0; i < n; ++i) {
    if (std::isnan(values[i])) return {values[i], values[i]};
    if (values[i] < out.min) out.min = values[i];
    if (values[i] > out.max) out.max = values[i];
  }
  return out;
}

}  // namespace tamis
