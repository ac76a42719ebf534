// Distributions against values worked out by hand.
#include "engine/distribution.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tamis {
namespace {

constexpr double kUlps = 8 * 2.220446049250313e-16;  // a handful of double roundings

TEST(Distribution, LogSumExp) {
  const std::vector<float> logits{0.0f, 0.0f, 0.0f, 0.0f};
  EXPECT_NEAR(log_sum_exp(logits), std::log(4.0), kUlps);
  const std::vector<float> large{1000.0f, 1000.0f};  // exp(1000) alone would overflow
  EXPECT_NEAR(log_sum_exp(large), 1000.0 + std::log(2.0), 1000 * kUlps);
  const std::vector<float> small{-1000.0f, -1000.0f};
  EXPECT_NEAR(log_sum_exp(small), -1000.0 + std::log(2.0), 1000 * kUlps);
}

TEST(Distribution, NegativeLogLikelihood) {
  const float third = std::log(3.0f);
  const std::vector<float> logits{0.0f, third};  // probabilities 1/4, 3/4
  EXPECT_NEAR(negative_log_likelihood(logits, 0), std::log1p(std::exp(static_cast<double>(third))), kUlps);
  EXPECT_NEAR(negative_log_likelihood(logits, 0), std::log(4.0), 1e-7);
}

TEST(Distribution, KullbackLeibler) {
  const std::vector<float> even{0.0f, 0.0f};
  const float log3 = std::log(3.0f);
  const std::vector<float> skewed{0.0f, log3};
  // 1/2 log(1/2 / 1/4) + 1/2 log(1/2 / 3/4) = 1/2 log(4/3)
  EXPECT_NEAR(kl_divergence(even, skewed), 0.5 * std::log(4.0 / 3.0), 1e-7);
  // 1/4 log(1/4 / 1/2) + 3/4 log(3/4 / 1/2): the other direction is another number
  EXPECT_NEAR(kl_divergence(skewed, even), 0.25 * std::log(0.5) + 0.75 * std::log(1.5), 1e-7);
  EXPECT_EQ(kl_divergence(skewed, skewed), 0.0);
  const std::vector<float> shifted{7.0f, log3 + 7.0f};  // a constant added to all logits changes nothing
  EXPECT_NEAR(kl_divergence(skewed, shifted), 0.0, 1e-6);
}

TEST(Distribution, TopIsTheFirstAmongEquals) {
  EXPECT_EQ(top_index(std::vector<float>{1, 3, 2, 3}), 1u);
  EXPECT_EQ(top_index(std::vector<float>{-5}), 0u);
}

TEST(Distribution, CompareMatrices) {
  const std::vector<float> a{0, 1, 4, 2}, b{0.5f, 1, 4, 5};
  const LogitDifference difference = compare_logits(a, b, 2);
  EXPECT_EQ(difference.max_abs, 3.0);
  EXPECT_EQ(difference.max_rel, 1.5);
  EXPECT_EQ(difference.same_top, 0.5);
  const double kl[] = {kl_divergence(std::span(a).first(2), std::span(b).first(2)),
                       kl_divergence(std::span(a).last(2), std::span(b).last(2))};
  EXPECT_NEAR(difference.kl_mean, (kl[0] + kl[1]) / 2, kUlps);
  EXPECT_EQ(difference.kl_max, kl[1]);
  EXPECT_EQ(compare_logits(a, a, 2).max_abs, 0.0);
}

}  // namespace
}  // namespace tamis
