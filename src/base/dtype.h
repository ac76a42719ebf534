// Tensor element types as GGUF numbers them, with their block geometry: the facts a file reader needs. How a type's
// blocks decode and encode is quants/'s business (one file per type, one row in quants/registry.cpp). Source: ggml's
// enum ggml_type; ids 4, 5, 31–33 and 36–38 were removed and are refused.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tamis {

enum class DType : uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q8_1 = 9,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  q8_k = 15,
  iq2_xxs = 16,
  iq2_xs = 17,
  iq3_xxs = 18,
  iq1_s = 19,
  iq4_nl = 20,
  iq3_s = 21,
  iq2_s = 22,
  iq4_xs = 23,
  i8 = 24,
  i16 = 25,
  i32 = 26,
  i64 = 27,
  f64 = 28,
  iq1_m = 29,
  bf16 = 30,
  tq1_0 = 34,
  tq2_0 = 35,
  mxfp4 = 39,
  nvfp4 = 40,
  q1_0 = 41,
  q2_0 = 42,
};

struct DTypeInfo {
  DType dtype;
  std::string_view name;  // as GGUF tools print it: "F32", "Q4_K", "IQ2_XXS"
  uint32_t block_len;     // elements a block
  uint32_t block_bytes;   // bytes a block
};

// The row of a type number from a file, or null for unknown and removed numbers.
const DTypeInfo* dtype_info(uint32_t id);

// The row of a known type. Every DType enumerator has one.
const DTypeInfo& dtype_info(DType dtype);

// By name, letter case ignored ("q4_k", "Q4_K"); nothing when unknown.
std::optional<DType> dtype_from_name(std::string_view name);

// Bytes of `n_elements` (a whole number of blocks), or nothing when n_elements is not a multiple of the block or the
// size does not fit 64 bits. Divides by the block first, so the product cannot wrap unseen.
std::optional<uint64_t> dtype_bytes(DType dtype, uint64_t n_elements);

inline std::string_view dtype_name(DType dtype) { return dtype_info(dtype).name; }

}  // namespace tamis
