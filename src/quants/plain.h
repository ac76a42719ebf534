// Plain element types: F32, F16, BF16, F64, I8, I16, I32, I64. One element a block, little-endian; decoded to the
// nearest float (ties to even). Source: ggml's type table; IEEE 754 binary16/32/64, bfloat16 = the upper half of a
// binary32.
#pragma once

#include "quants/block.h"

namespace tamis {

inline void decode_f32(const std::byte* blocks, float* out, size_t n) {
  if (n != 0) std::memcpy(out, blocks, n * sizeof(float));
}

// The same value as f16_to_f32, without branches so that loops vectorise: half's bits moved into float's place are a
// float 2^-112 too small (exact, subnormals too); exponent 31 (infinity, NaN) becomes 255.
inline float f16_to_f32_branchless(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fffu) << 13;
  const uint32_t scaled = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  const uint32_t special = magnitude >= 0x0f800000u ? magnitude | 0x7f800000u : scaled;
  return std::bit_cast<float>(special | sign);
}

inline void decode_f16(const std::byte* blocks, float* out, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    uint16_t bits;
    std::memcpy(&bits, blocks + 2 * i, 2);
    out[i] = f16_to_f32_branchless(bits);
  }
}

inline void decode_bf16(const std::byte* blocks, float* out, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    uint16_t bits;
    std::memcpy(&bits, blocks + 2 * i, 2);
    out[i] = bf16_to_f32(bits);
  }
}

template <class T>
void decode_number(const std::byte* blocks, float* out, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    T value;
    std::memcpy(&value, blocks + sizeof(T) * i, sizeof(T));
    out[i] = static_cast<float>(value);
  }
}

inline void encode_f32(const float* values, std::byte* blocks, size_t n) {
  if (n != 0) std::memcpy(blocks, values, n * sizeof(float));
}

inline void encode_f16(const float* values, std::byte* blocks, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const uint16_t bits = f32_to_f16(values[i]);
    std::memcpy(blocks + 2 * i, &bits, 2);
  }
}

inline void encode_bf16(const float* values, std::byte* blocks, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const uint16_t bits = f32_to_bf16(values[i]);
    std::memcpy(blocks + 2 * i, &bits, 2);
  }
}

}  // namespace tamis
