// Every kernel of every target this machine can run: against double precision within derived bounds, and bit for bit
// against the baseline target.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>
#include <vector>

#include "cpu/dispatch.h"
#include "cpu/kernels.h"
#include "quants/registry.h"
#include "tests/cpu/targets.h"
#include "tests/cpu/weights.h"

namespace tamis::cpu {
namespace {

using test::random_floats;
using test::tested_targets;

constexpr double kHalfUlp = 0x1p-24;  // relative error of one float rounding

const KernelTable& baseline() { return **find_target("baseline"); }

std::vector<uint32_t> bits(std::span<const float> values) {
  std::vector<uint32_t> out;
  for (const float value : values) out.push_back(std::bit_cast<uint32_t>(value));
  return out;
}

TEST(KernelsPerTarget, NamesAreFoundAndUnknownOnesRefused) {
  const auto targets = available_targets();
  ASSERT_FALSE(targets.empty());
  std::string names = "targets:";
  for (const KernelTable* target : targets) names += std::string(" ") + target->name;
  puts(names.c_str());  // scripts/check_arm64 looks for the ones it expects
  EXPECT_STREQ(targets.back()->name, "baseline");
  EXPECT_EQ(*find_target(""), targets.front());
  for (const KernelTable* target : targets) EXPECT_EQ(*find_target(target->name), target);
  EXPECT_EQ(*find_target("scalar"), targets.back());
  const auto unknown = find_target("avx1024");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().code, ErrorCode::invalid_argument);
}

TEST(KernelsPerTarget, DotIsWithinItsBoundAndTheSameEverywhere) {
  for (const size_t n : {0u, 1u, 15u, 16u, 17u, 64u, 576u, 1023u, 1024u, 1025u, 2500u}) {
    const std::vector<float> a = random_floats(n, 1), b = random_floats(n, 2);
    double truth = 0, magnitude = 0;
    for (size_t i = 0; i < n; ++i) {
      const double product = static_cast<double>(a[i]) * b[i];
      truth += product;
      magnitude += std::abs(product);
    }
    // Higham: n roundings on the way of each term: its product, at most 64 lane additions in a chunk of 1024, 4 of the
    // tree, one a chunk.
    const double n_roundings = 1 + std::ceil(static_cast<double>(std::min<size_t>(n, kChunk)) / 16) + 4 +
                               std::ceil(static_cast<double>(n) / kChunk);
    const float expected = baseline().dot(a.data(), b.data(), n);
    EXPECT_NEAR(expected, truth, 1.01 * n_roundings * kHalfUlp * magnitude) << n;
    for (const KernelTable* target : tested_targets())
      EXPECT_EQ(std::bit_cast<uint32_t>(target->dot(a.data(), b.data(), n)), std::bit_cast<uint32_t>(expected))
          << target->name << ' ' << n;
  }
}

TEST(KernelsPerTarget, Activations) {
  std::vector<float> inputs = random_floats(1000, 7);
  for (float x = -20; x <= 20; x += 0.125f) inputs.push_back(x);
  const std::vector<float> factor = random_floats(inputs.size(), 8);
  std::vector<uint32_t> first_silu, first_gelu;
  for (const KernelTable* target : tested_targets()) {
    std::vector<float> silu = inputs, gelu = inputs, gated = inputs;
    target->silu(silu.data(), nullptr, silu.size());
    target->gelu_tanh(gelu.data(), nullptr, gelu.size());
    target->silu(gated.data(), factor.data(), gated.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      const double x = inputs[i];
      const double inner = 0.7978845608028654 * (x + 0.044715 * x * x * x);
      // exp 2 ulp, its argument's rounding times its size (≤ 4 roundings of |z|), 1 + e and the division: one each.
      const auto bound = [](double z, double value) {
        return (4 + 4 * std::abs(z) + 2 + 1) * 2 * kHalfUlp * std::abs(value) + 1e-37;
      };
      const double silu_truth = x / (1 + std::exp(-x)), gelu_truth = x / (1 + std::exp(-2 * inner));
      EXPECT_NEAR(silu[i], silu_truth, bound(x, silu_truth)) << x;
      if (std::abs(2 * inner) < 80) {
        EXPECT_NEAR(gelu[i], gelu_truth, bound(2 * inner, gelu_truth)) << x;
      }
      EXPECT_EQ(gated[i], silu[i] * factor[i]);
    }
    if (first_silu.empty()) {
      first_silu = bits(silu);
      first_gelu = bits(gelu);
    }
    EXPECT_EQ(bits(silu), first_silu) << target->name;
    EXPECT_EQ(bits(gelu), first_gelu) << target->name;
  }
}

TEST(KernelsPerTarget, DecodersEqualTheRegistry) {
  for (const KernelTable* target : tested_targets()) {
    for (size_t i = 0; i < target->n_decoders; ++i) {
      const auto dtype = static_cast<DType>(target->decoders[i].dtype);
      constexpr size_t kElements = 2048;
      const std::vector<std::byte> blocks = test::random_weights(dtype, 1, kElements, 9 + i);
      std::vector<float> expected(kElements), got(kElements);
      decode(dtype, blocks.data(), expected);
      target->decoders[i].decode(reinterpret_cast<const uint8_t*>(blocks.data()), got.data(),
                                 kElements / dtype_info(dtype).block_len);
      EXPECT_EQ(bits(got), bits(expected)) << target->name << ' ' << dtype_name(dtype);
    }
  }
}

}  // namespace
}  // namespace tamis::cpu
