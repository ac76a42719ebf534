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

// The codes of a block written under its scales, which stay: the other half of decode_block()'s layout. Block says
// kCodes and kGroupLen (neighbours whose codes mean the same values) and has put_codes(codes, block).
template <class Block>
void recode_block(const uint8_t* codes, std::byte* bytes) {
  Block block;
  std::memcpy(&block, bytes, sizeof(Block));
  put_codes(codes, block);
  std::memcpy(bytes, &block, sizeof(Block));
}

// The scales of a block as numbers: a code of level L in group g means d · scale[g] · L − dmin · minimum[g].
struct BlockScales {
  float d = 0, dmin = 0;  // as f16 holds them
  int scale[16] = {}, minimum[16] = {};
};

// What scale[g] and minimum[g] may be; one value alone where the type has no such number.
struct ScaleRange {
  int lowest = 1, highest = 1;
  int lowest_minimum = 0, highest_minimum = 0;
};

// Blocks with one scale, an f16 d, and perhaps a minimum m to be added. Those of several have functions of their own.
template <class Block>
void get_scales(const Block& block, BlockScales& scales) {
  scales.d = f16_to_f32(block.d);
  scales.scale[0] = 1;
  if constexpr (requires { block.m; }) {
    scales.dmin = f16_to_f32(block.m);
    scales.minimum[0] = -1;
  }
}
template <class Block>
void put_scales(const BlockScales& scales, Block& block) {
  block.d = f32_to_f16(scales.d);
  if constexpr (requires { block.m; }) block.m = f32_to_f16(scales.dmin);
}

template <class Block>
void read_block_scales(const std::byte* bytes, BlockScales& scales) {
  Block block;
  std::memcpy(&block, bytes, sizeof(Block));
  get_scales(block, scales);
}
template <class Block>
void write_block_scales(const BlockScales& scales, std::byte* bytes) {
  Block block;
  std::memcpy(&block, bytes, sizeof(Block));
  put_scales(scales, block);
  std::memcpy(bytes, &block, sizeof(Block));
}

// 2·half codes below 16: code j and code half + j in byte j.
inline void put_nibbles(const uint8_t* codes, int half, uint8_t* qs) {
  for (int j = 0; j < half; ++j) qs[j] = static_cast<uint8_t>(codes[j] | codes[half + j] << 4);
}

// 32 codes below 32: nibbles, and the fifth bits in order.
inline void put_five_bits(const uint8_t* codes, uint8_t* qh, uint8_t* qs) {
  uint32_t high_bits = 0;
  for (uint32_t j = 0; j < 16; ++j) {
    qs[j] = static_cast<uint8_t>((codes[j] & 15) | (codes[16 + j] & 15) << 4);
    high_bits |= static_cast<uint32_t>(codes[j] >> 4) << j | static_cast<uint32_t>(codes[16 + j] >> 4) << (j + 16);
  }
  std::memcpy(qh, &high_bits, 4);
}

// 128·n codes of two bits: code 128h + 32p + l in bits 2p of byte 32h + l.
inline void put_crumbs(const uint8_t* codes, int n, uint8_t* qs) {
  for (int h = 0; h < n; ++h) {
    for (int l = 0; l < 32; ++l) {
      const uint8_t* c = codes + 128 * h + l;
      qs[32 * h + l] = static_cast<uint8_t>((c[0] & 3) | (c[32] & 3) << 2 | (c[64] & 3) << 4 | (c[96] & 3) << 6);
    }
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
