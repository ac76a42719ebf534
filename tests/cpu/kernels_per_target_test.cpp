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

std::vector<float> products(const KernelTable& kernels, size_t n_rows, size_t n_tokens, size_t k, bool is_added) {
  const std::vector<float> w = random_floats(n_rows * (k + 5), 1), x = random_floats(n_tokens * (k + 3), 2);
  std::vector<float> out = random_floats(n_tokens * (n_rows + 1), 3);
  kernels.multiply({w.data(), k + 5, n_rows, x.data(), k + 3, n_tokens, k, out.data(), n_rows + 1, is_added});
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
  const auto unknown = find_target("avx1024");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().code, ErrorCode::invalid_argument);
}

TEST(KernelsPerTarget, MultiplyIsWithinItsBoundAndTheSameEverywhere) {
  for (const KernelTable* target : tested_targets()) {
    for (const size_t k : {1u, 15u, 16u, 17u, 64u, 576u, 1024u}) {
      for (const size_t n_rows : {1u, 2u, 3u, 4u, 7u}) {
        for (const size_t n_tokens : {1u, 2u, 3u, 4u, 5u}) {
          for (const bool is_added : {false, true}) {
            const std::vector<float> out = products(*target, n_rows, n_tokens, k, is_added);
            ASSERT_EQ(bits(out), bits(products(baseline(), n_rows, n_tokens, k, is_added)))
                << target->name << ' ' << k << ' ' << n_rows << ' ' << n_tokens;
          }
        }
      }
    }
  }
}

TEST(KernelsPerTarget, MultiplyAgainstDouble) {
  constexpr size_t kRows = 5, kTokens = 3;
  for (const size_t k : {1u, 15u, 17u, 576u, 1024u}) {
    const std::vector<float> w = random_floats(kRows * (k + 5), 1), x = random_floats(kTokens * (k + 3), 2);
    const std::vector<float> out = products(baseline(), kRows, kTokens, k, false);
    for (size_t t = 0; t < kTokens; ++t) {
      for (size_t r = 0; r < kRows; ++r) {
        double sum = 0, magnitude = 0;
        for (size_t i = 0; i < k; ++i) {
          const double product = static_cast<double>(w[r * (k + 5) + i]) * x[t * (k + 3) + i];
          sum += product;
          magnitude += std::abs(product);
        }
        // Higham: n roundings on the way of each term: its product, at most ceil(k/16) lane additions, 4 of the tree.
        const double n_roundings = 1 + std::ceil(static_cast<double>(k) / 16) + 4;
        EXPECT_NEAR(out[t * (kRows + 1) + r], sum, 1.01 * n_roundings * kHalfUlp * magnitude) << k;
      }
    }
    const std::vector<float> untouched = random_floats(kTokens * (kRows + 1), 3);
    EXPECT_EQ(out[kRows], untouched[kRows]) << "nothing is written beside the result";
  }
}

// exp through softmax_step: with the maximum already 0 and nothing else, scores become exp(score).
std::vector<float> exps(const KernelTable& kernels, std::vector<float> scores) {
  float maximum = 0, sum = 0, acc = 0;
  kernels.softmax_step(scores.data(), scores.size(), &maximum, &sum, &acc, 1);
  return scores;
}

TEST(KernelsPerTarget, ExpIsWithinTwoUlp) {
  std::vector<float> scores;
  for (int i = 0; i <= 87 * 1024; ++i) scores.push_back(-static_cast<float>(i) / 1024);
  const std::vector<float> out = exps(baseline(), scores);
  double worst = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    const double truth = std::exp(static_cast<double>(scores[i]));
    const double ulp = std::ldexp(1.0, std::ilogb(truth) - 23);
    worst = std::max(worst, std::abs(out[i] - truth) / ulp);
  }
  EXPECT_LE(worst, 2.0);
  for (const KernelTable* target : tested_targets()) EXPECT_EQ(bits(exps(*target, scores)), bits(out)) << target->name;
  EXPECT_GT(exps(baseline(), {-1000.0f})[0], 0.0f) << "past -87 the border's value stands";
  EXPECT_TRUE(std::isnan(exps(baseline(), {std::numeric_limits<float>::quiet_NaN()})[0])) << "NaN is not hidden";
}

TEST(KernelsPerTarget, StreamingSoftmaxEqualsSoftmax) {
  constexpr size_t kKeys = 150, kTile = 64, kDim = 40;
  const std::vector<float> all = random_floats(kKeys, 5), values = random_floats(kKeys * kDim, 6);
  std::vector<std::vector<uint32_t>> results;
  for (const KernelTable* target : tested_targets()) {
    std::vector<float> acc(kDim, 0.0f);
    float maximum = -std::numeric_limits<float>::infinity(), sum = 0;
    for (size_t begin = 0; begin < kKeys; begin += kTile) {
      const size_t n = std::min(kTile, kKeys - begin);
      std::vector<float> scores(all.begin() + static_cast<ptrdiff_t>(begin),
                                all.begin() + static_cast<ptrdiff_t>(begin + n));
      target->softmax_step(scores.data(), n, &maximum, &sum, acc.data(), kDim);
      target->add_values(scores.data(), n, values.data() + begin * kDim, kDim, acc.data(), kDim);
    }
    double total = 0;
    for (const float score : all) total += std::exp(static_cast<double>(score));
    for (size_t d = 0; d < kDim; ++d) {
      double mean = 0, magnitude = 0;
      for (size_t j = 0; j < kKeys; ++j) {
        const double term = std::exp(static_cast<double>(all[j])) / total * values[j * kDim + d];
        mean += term;
        magnitude += std::abs(term);
      }
      // A term: its difference to the maximum (half an ulp of up to 8), exp (2 ulp), its product, at most kKeys
      // additions, and two rescalings of 3 ulp each; the sum it is divided by: the same without the product.
      const double bound = 2 * (8 + 4 + 1 + kKeys + 12) * kHalfUlp * magnitude;
      EXPECT_NEAR(acc[d] / sum, mean, bound) << target->name;
    }
    results.push_back(bits(acc));
    EXPECT_EQ(results.back(), results.front()) << target->name;
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
