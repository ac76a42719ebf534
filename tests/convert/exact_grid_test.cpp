// Weights that lie on a grid are found again, whatever float type they were stored in; weights that do not are not.
#include "convert/exact_grid.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "base/float16.h"
#include "base/rng.h"
#include "quants/registry.h"

namespace tamis {
namespace {

constexpr DType kTypes[] = {DType::q4_0, DType::q4_1, DType::q5_0,  DType::q5_1,  DType::q8_0,  DType::iq4_nl,
                            DType::q2_0, DType::q1_0, DType::tq1_0, DType::tq2_0, DType::mxfp4, DType::nvfp4};

float round_as(DType source, float value) {
  if (source == DType::f16) return f16_to_f32(f32_to_f16(value));
  if (source == DType::bf16) return bf16_to_f32(f32_to_bf16(value));
  return value;
}

std::vector<float> noise(size_t n, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> out(n);
  for (float& x : out) x = static_cast<float>(rng.normal() * 0.05);
  return out;
}

// What the textbook encoder (or the other one) makes of noise lies on the type's grid.
std::vector<float> on_grid(DType type, DType source, uint64_t seed) {
  const size_t n = 512;
  const DTypeInfo& info = dtype_info(type);
  std::vector<std::byte> blocks(n / info.block_len * info.block_bytes);
  EXPECT_TRUE(encode_rows(type, EncodeMethod::plain, noise(n, seed), n, {}, blocks));
  std::vector<float> out(n);
  decode(type, blocks.data(), out);
  for (float& x : out) x = round_as(source, x);
  return out;
}

TEST(ExactGrid, FindsWhatWasQuantizedBefore) {
  for (const DType type : kTypes)
    for (const DType source : {DType::f32, DType::f16, DType::bf16})
      for (uint64_t seed = 1; seed <= 4; ++seed) {
        const auto values = on_grid(type, source, seed);
        const DTypeInfo& info = dtype_info(type);
        std::vector<std::byte> blocks(values.size() / info.block_len * info.block_bytes);
        // A minimum and a scale, both rounded twice, cannot always be told from 8 bits of mantissa.
        const bool may_fail = source != DType::f32 && (type == DType::q4_1 || type == DType::q5_1);
        const bool is_found = exact_blocks(type, source, values, blocks);
        EXPECT_TRUE(is_found || may_fail) << info.name << " from " << dtype_name(source);
        if (!is_found) continue;
        std::vector<float> decoded(values.size());
        decode(type, blocks.data(), decoded);
        for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(round_as(source, decoded[i]), values[i]) << info.name;
      }
}

TEST(ExactGrid, WiderTypesHoldNarrowerGrids) {
  for (const auto& [grid, target] : {std::pair{DType::q4_0, DType::q8_0},
                                     {DType::q4_0, DType::q5_0},
                                     {DType::q5_0, DType::q8_0},
                                     {DType::q4_1, DType::q5_1}}) {
    const auto values = on_grid(grid, DType::f32, 7);
    std::vector<std::byte> blocks(values.size());
    blocks.resize(values.size() * 2);
    EXPECT_TRUE(exact_blocks(target, DType::f32, values, blocks)) << dtype_name(grid) << " " << dtype_name(target);
  }
}

TEST(ExactGrid, NoiseLiesOnNone) {
  for (const DType type : kTypes)
    for (const DType source : {DType::f32, DType::f16, DType::bf16}) {
      auto values = noise(256, 3);
      for (float& x : values) x = round_as(source, x);
      std::vector<std::byte> blocks(1024);
      EXPECT_FALSE(exact_blocks(type, source, values, blocks)) << dtype_name(type) << " from " << dtype_name(source);
    }
}

TEST(ExactGrid, OddFloatsAreRefusedOrHeld) {
  for (const DType type : kTypes)
    for (const float odd :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 1e30f, 1e-30f}) {
      std::vector<float> values(256, 0.0f);
      values[17] = odd;
      std::vector<std::byte> blocks(1024);
      EXPECT_FALSE(exact_blocks(type, DType::f32, values, blocks) && !(odd == 1e-30f || odd == 1e30f))
          << dtype_name(type);
    }
  EXPECT_FALSE(has_exact_grid(DType::q4_k));
}

}  // namespace
}  // namespace tamis
