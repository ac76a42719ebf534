// Each sampling step against its published formula: what it does to the probability vector.
#include "engine/sampler_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace tamis {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
// Probabilities are computed from float logits: log and exp of values near 1 lose at most a few units of 2^-24 relative
// each.
constexpr double kTolerance = 4 * 0x1p-24;

// Candidates with ids 0 … n−1 whose softmax is `p`.
Candidates candidates_of(const std::vector<double>& p) {
  Candidates out;
  for (size_t i = 0; i < p.size(); ++i) out.push_back({static_cast<TokenId>(i), static_cast<float>(std::log(p[i]))});
  return out;
}

// id → probability.
std::map<TokenId, double> vector_of(const Candidates& candidates) {
  std::map<TokenId, double> out;
  const auto p = probabilities(candidates);
  for (size_t i = 0; i < candidates.size(); ++i) out[candidates[i].id] = p[i];
  return out;
}

void expect_vector(const Candidates& candidates, const std::map<TokenId, double>& expected) {
  const auto got = vector_of(candidates);
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [id, p] : expected) {
    ASSERT_TRUE(got.contains(id)) << "token " << id << " is missing";
    EXPECT_NEAR(got.at(id), p, p * kTolerance * 4) << "token " << id;
  }
}

TEST(SamplerSteps, SoftmaxSumsToOne) {
  const auto p = probabilities(candidates_of({0.5, 0.25, 0.125, 0.125}));
  EXPECT_NEAR(p[0], 0.5, kTolerance);
  EXPECT_NEAR(p[0] + p[1] + p[2] + p[3], 1.0, 1e-15);
}

// l_i ← l_i + b_i: probabilities are multiplied by e^b and renormalised; −∞ removes the token.
TEST(SamplerSteps, LogitBias) {
  std::vector<float> logits = {0.0f, 0.0f, 0.0f, 0.0f};
  const LogitBias biases[] = {{0, std::log(2.0f)}, {3, kMinusInfinity}, {-1, 5.0f}, {99, 5.0f}};
  apply_logit_bias(logits, biases);
  expect_vector(top_k_candidates(logits, 0), {{0, 0.5}, {1, 0.25}, {2, 0.25}});
}

// CTRL: positive logits are divided by the penalty, negative ones multiplied; −∞ stays.
TEST(SamplerSteps, RepeatPenalty) {
  std::vector<float> logits = {2.0f, -2.0f, 3.0f, kMinusInfinity};
  apply_penalties(logits, {{0, 1}, {1, 5}, {3, 1}, {77, 1}, {-4, 1}}, {.repeat = 2.0f});
  EXPECT_THAT(logits, ::testing::ElementsAre(1.0f, -4.0f, 3.0f, kMinusInfinity));
}

// OpenAI: l_i − n_i · frequency − [n_i > 0] · presence.
TEST(SamplerSteps, FrequencyAndPresencePenalties) {
  std::vector<float> logits = {1.0f, 1.0f, 1.0f};
  apply_penalties(logits, {{0, 1}, {1, 3}}, {.frequency = 0.25f, .presence = 0.5f});
  EXPECT_THAT(logits, ::testing::ElementsAre(0.25f, -0.25f, 1.0f));
}

TEST(SamplerSteps, PenaltiesNeverMakeInfinitiesOrNan) {
  std::vector<float> logits = {3e38f, -3e38f, kMinusInfinity, 1.0f};
  apply_penalties(logits, {{0, 2}, {1, 2}, {2, 2}, {3, 2}},
                  {.repeat = 1e-30f, .frequency = -3e38f, .presence = -3e38f});
  for (const float logit : logits) EXPECT_TRUE(logit <= std::numeric_limits<float>::max());
}

// DRY on  a b c … a b : c would extend a repeat of length 2.  multiplier · base^(2 − 2) = 1 at allowed_length 2.
TEST(SamplerSteps, DryPenalisesTheTokenThatExtendsARepeat) {
  const std::vector<TokenId> history = {0, 1, 2, 3, 0, 1};
  std::vector<float> logits(5, 0.0f);
  apply_dry(logits, history, 100, {.multiplier = 1.0f, .base = 2.0f, .allowed_length = 2});
  EXPECT_THAT(logits, ::testing::ElementsAre(0, 0, -1, 0, 0));
}

// The penalty grows as base^(n − allowed); the longest match counts when there are several.
TEST(SamplerSteps, DryGrowsExponentially) {
  const std::vector<TokenId> history = {9, 1, 2, 3, 4, 7, 2, 3, 4, 8, 1, 2, 3, 4};
  std::vector<float> logits(10, 0.0f);
  apply_dry(logits, history, 100, {.multiplier = 0.5f, .base = 3.0f, .allowed_length = 2});
  // "1 2 3 4" (4 long) was followed by 7; "2 3 4" (3 long) by 8.
  EXPECT_FLOAT_EQ(logits[7], -0.5f * 9.0f);
  EXPECT_FLOAT_EQ(logits[8], -0.5f * 3.0f);
  EXPECT_THAT(std::vector<float>(logits.begin(), logits.begin() + 7), ::testing::Each(0.0f));
}

TEST(SamplerSteps, DryStopsAtSequenceBreakers) {
  const std::vector<TokenId> history = {1, 2, 3, 4, 1, 2, 3};
  std::vector<float> logits(5, 0.0f);
  apply_dry(logits, history, 1, {.multiplier = 1.0f, .base = 2.0f, .allowed_length = 2});  // a breaker one token back
  EXPECT_THAT(logits, ::testing::Each(0.0f));
  apply_dry(logits, history, 2, {.multiplier = 1.0f, .base = 2.0f, .allowed_length = 2});
  EXPECT_THAT(logits, ::testing::ElementsAre(0, 0, 0, 0, -1));
}

// Against the definition, by trying every earlier position.
TEST(SamplerSteps, DryEqualsItsDefinitionOnRandomHistories) {
  Rng rng(3);
  for (int round = 0; round < 500; ++round) {
    std::vector<TokenId> history(rng.below(40));
    for (TokenId& id : history) id = static_cast<TokenId>(rng.below(3));
    const DryParams params{1.0f, 1.5f, static_cast<uint32_t>(rng.below(4))};
    const size_t max_match = rng.below(12);
    std::vector<float> logits(3, 0.0f), expected(3, 0.0f);
    apply_dry(logits, history, max_match, params);
    size_t longest[3] = {};
    for (size_t next = 1; next < history.size(); ++next) {
      size_t n = 0;
      while (n < next && n < max_match && history[next - 1 - n] == history[history.size() - 1 - n]) ++n;
      auto& best = longest[history[next]];
      best = std::max(best, n);
    }
    for (size_t id = 0; id < 3; ++id)
      if (longest[id] > 0 && longest[id] >= params.allowed_length)
        expected[id] = -static_cast<float>(std::pow(1.5, static_cast<double>(longest[id] - params.allowed_length)));
    ASSERT_EQ(logits, expected) << "round " << round;
  }
}

TEST(SamplerSteps, DryPowerIsCapped) {
  const std::vector<TokenId> history(5000, 1);
  std::vector<float> logits(2, 0.0f);
  apply_dry(logits, history, 5000, {.multiplier = 1.0f, .base = 1.75f, .allowed_length = 2});
  EXPECT_EQ(logits[1], -std::numeric_limits<float>::max());
}

// The k largest logits; ties go to the lower id; −∞ never.
TEST(SamplerSteps, TopK) {
  const std::vector<float> logits = {1.0f, 3.0f, kMinusInfinity, 2.0f, 3.0f, 2.0f};
  const auto ids = [&](size_t k) {
    std::vector<TokenId> out;
    for (const Candidate& candidate : top_k_candidates(logits, k)) out.push_back(candidate.id);
    return out;
  };
  EXPECT_THAT(ids(1), ::testing::ElementsAre(1));
  EXPECT_THAT(ids(3), ::testing::ElementsAre(1, 4, 3));
  EXPECT_THAT(ids(6), ::testing::ElementsAre(1, 4, 3, 5, 0));
  EXPECT_THAT(ids(0), ::testing::ElementsAre(0, 1, 3, 4, 5));
}

TEST(SamplerSteps, TopKEqualsASortOnRandomLogits) {
  Rng rng(5);
  for (int round = 0; round < 100; ++round) {
    std::vector<float> logits(1 + rng.below(300));
    for (float& logit : logits) logit = static_cast<float>(rng.below(50));  // many ties
    Candidates all = top_k_candidates(logits, 0);
    std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) { return a.logit > b.logit; });
    const size_t k = 1 + rng.below(logits.size());
    const Candidates top = top_k_candidates(logits, k);
    ASSERT_EQ(top.size(), k);
    for (size_t i = 0; i < k; ++i) ASSERT_EQ(top[i].id, all[i].id);
  }
}

// The smallest set of most probable tokens with Σ p ≥ 0.75, renormalised.
TEST(SamplerSteps, TopP) {
  Candidates candidates = candidates_of({0.125, 0.5, 0.0625, 0.25, 0.0625});
  keep_top_p(candidates, 0.74);
  expect_vector(candidates, {{1, 2.0 / 3}, {3, 1.0 / 3}});
  candidates = candidates_of({0.125, 0.5, 0.0625, 0.25, 0.0625});
  keep_top_p(candidates, 0.76);
  expect_vector(candidates, {{1, 4.0 / 7}, {3, 2.0 / 7}, {0, 1.0 / 7}});
  keep_top_p(candidates, 0.0);
  expect_vector(candidates, {{1, 1.0}});
  candidates = candidates_of({0.125, 0.5, 0.0625, 0.25, 0.0625});
  keep_top_p(candidates, 0.0, 2);
  expect_vector(candidates, {{1, 2.0 / 3}, {3, 1.0 / 3}});
}

// p_i ≥ 0.3 · max p.
TEST(SamplerSteps, MinP) {
  Candidates candidates = candidates_of({0.125, 0.5, 0.0625, 0.25, 0.0625});
  keep_min_p(candidates, 0.3);
  expect_vector(candidates, {{1, 2.0 / 3}, {3, 1.0 / 3}});
  candidates = candidates_of({0.125, 0.5, 0.0625, 0.25, 0.0625});
  keep_min_p(candidates, 1.0, 3);
  expect_vector(candidates, {{1, 4.0 / 7}, {3, 2.0 / 7}, {0, 1.0 / 7}});
}

// By |−ln p_i − H|: the most probable token is not always typical.
TEST(SamplerSteps, TypicalKeepsTheSurprisesNearestTheEntropy) {
  // One token of 0.4 and twelve of 0.05: H = 0.4 ln 2.5 + 0.6 ln 20 = 2.164; distances 1.248 for the 0.4, 0.832 for the
  // others.
  std::vector<double> p(13, 0.05);
  p[6] = 0.4;
  Candidates candidates = candidates_of(p);
  keep_typical(candidates, 0.49);
  std::map<TokenId, double> expected;
  for (TokenId id = 0; id < 11; ++id)
    if (id != 6) expected[id] = 0.1;
  expect_vector(candidates, expected);
  candidates = candidates_of(p);
  keep_typical(candidates, 0.61);
  EXPECT_EQ(candidates.size(), 13u);
}

// Threshold 0.1: 0.4, 0.3 and 0.15 qualify; the least of them and everything below stay.
TEST(SamplerSteps, XtcRemovesAllButTheLeastOfTheTopChoices) {
  Candidates candidates = candidates_of({0.3, 0.15, 0.05, 0.4, 0.1 - 1e-4, 1e-4});
  exclude_top_choices(candidates, 0.1);
  expect_vector(candidates, {{1, 0.15 / 0.3}, {2, 0.05 / 0.3}, {4, (0.1 - 1e-4) / 0.3}, {5, 1e-4 / 0.3}});
  candidates = candidates_of({0.9, 0.05, 0.05});
  exclude_top_choices(candidates, 0.1);  // only one top choice: nothing happens
  EXPECT_EQ(candidates.size(), 3u);
  candidates = candidates_of({0.5, 0.5});
  exclude_top_choices(candidates, 0.1, 2);
  EXPECT_EQ(candidates.size(), 2u);
}

// p_i ∝ p_i^(1/T): at T = ½ probabilities are squared.
TEST(SamplerSteps, Temperature) {
  Candidates candidates = candidates_of({0.6, 0.3, 0.1});
  apply_temperature(candidates, 0.5f);
  expect_vector(candidates, {{0, 0.36 / 0.46}, {1, 0.09 / 0.46}, {2, 0.01 / 0.46}});
  candidates = candidates_of({0.6, 0.3, 0.1});
  apply_temperature(candidates, 1e-40f);
  expect_vector(candidates, {{0, 1.0}, {1, 0.0}, {2, 0.0}});
}

TEST(SamplerSteps, GreedyTakesTheLowerIdOfEqualLogits) {
  EXPECT_EQ(greedy(Candidates{{7, 1.0f}, {3, 2.0f}, {2, 2.0f}, {9, 0.0f}}), 2);
}

TEST(SamplerSteps, DrawWalksTheCumulatedProbabilities) {
  const Candidates candidates = candidates_of({0.5, 0.25, 0.25});
  EXPECT_EQ(draw(candidates, 0.0), 0);
  EXPECT_EQ(draw(candidates, 0.499), 0);
  EXPECT_EQ(draw(candidates, 0.501), 1);
  EXPECT_EQ(draw(candidates, 0.749), 1);
  EXPECT_EQ(draw(candidates, 0.751), 2);
  EXPECT_EQ(draw(candidates, std::nextafter(1.0, 0.0)), 2);
}

// Drawn frequencies: 20000 draws lie within 5 standard deviations √(p(1 − p)/n) of p.
TEST(SamplerSteps, DrawnFrequenciesFollowTheProbabilities) {
  const std::vector<double> p = {0.6, 0.3, 0.1};
  const Candidates candidates = candidates_of(p);
  Rng rng(11);
  constexpr int kDraws = 20000;
  std::vector<int> counts(p.size());
  for (int i = 0; i < kDraws; ++i) ++counts[static_cast<size_t>(draw(candidates, rng.uniform()))];
  for (size_t i = 0; i < p.size(); ++i)
    EXPECT_NEAR(counts[i] / double{kDraws}, p[i], 5 * std::sqrt(p[i] * (1 - p[i]) / kDraws));
}

// Surprises 1, 2, 3, 3 bits; μ = 2 keeps the first two, renormalised to 2/3 and 1/3; drawing the second moves μ by
// −η (log2 3 − τ).
TEST(SamplerSteps, Mirostat2) {
  const Candidates candidates = candidates_of({0.5, 0.25, 0.125, 0.125});
  Mirostat state{.target = 1.0, .learning_rate = 0.5, .bound = 2.0 + 1e-6};
  EXPECT_EQ(draw_mirostat_2(candidates, state, 0.7), 1);
  EXPECT_NEAR(state.bound, 2.0 + 1e-6 - 0.5 * (std::log2(3.0) - 1.0), 1e-6);
  state.bound = 0.1;  // below every surprise: the most probable stays, surprise 0
  EXPECT_EQ(draw_mirostat_2(candidates, state, 0.99), 0);
  EXPECT_NEAR(state.bound, 0.1 + 0.5, 1e-6);
}

// A Zipf distribution p_i ∝ 1/i^s has ŝ = s exactly, so k follows from the formula alone.
TEST(SamplerSteps, Mirostat1OnZipf) {
  constexpr double kExponent = 1.5;
  constexpr size_t kVocab = 1000;
  Candidates candidates;
  for (size_t i = 0; i < kVocab; ++i)
    candidates.push_back(
        {static_cast<TokenId>(i), static_cast<float>(-kExponent * std::log(static_cast<double>(i + 1)))});
  const double bound = 4.0;
  const double epsilon = kExponent - 1;
  const auto k = static_cast<size_t>(
      std::pow(epsilon * std::exp2(bound) / (1 - std::pow(double{kVocab}, -epsilon)), 1 / kExponent));
  ASSERT_EQ(k, 4u);
  // The last of the k is drawn at u → 1; its renormalised probability gives the feedback.
  double mass = 0;
  for (size_t i = 0; i < k; ++i) mass += std::pow(static_cast<double>(i + 1), -kExponent);
  Mirostat state{.target = 3.0, .learning_rate = 0.1, .bound = bound};
  EXPECT_EQ(draw_mirostat_1(candidates, kVocab, state, 0.999999), static_cast<TokenId>(k - 1));
  const double surprise = -std::log2(std::pow(static_cast<double>(k), -kExponent) / mass);
  EXPECT_NEAR(state.bound, bound - 0.1 * (surprise - 3.0), 1e-5);
}

TEST(SamplerSteps, Mirostat1OnOneCandidateAndOnEqualOnes) {
  Mirostat state{.target = 5.0, .learning_rate = 0.1, .bound = 10.0};
  EXPECT_EQ(draw_mirostat_1({{4, 0.0f}}, 100, state, 0.5), 4);
  EXPECT_EQ(draw_mirostat_1({{4, 0.0f}, {5, 0.0f}}, 100, state, 0.9), 5);
  EXPECT_TRUE(std::isfinite(state.bound));
}

// Truncations equal their definitions (by a full sort) on random logits.
TEST(SamplerSteps, TruncationsEqualTheirDefinitionsOnRandomLogits) {
  Rng rng(17);
  for (int round = 0; round < 300; ++round) {
    Candidates candidates;
    const double spread = std::exp2(static_cast<double>(rng.below(9)) - 2.0);
    for (size_t i = 0, n = 1 + rng.below(500); i < n; ++i)
      candidates.push_back({static_cast<TokenId>(i), static_cast<float>(spread * rng.normal())});
    const double p = rng.uniform();
    const auto all = vector_of(candidates);
    double entropy = 0;
    for (const auto& [id, q] : all)
      if (q > 0) entropy -= q * std::log(q);
    for (const bool is_typical : {false, true}) {
      std::vector<std::pair<double, TokenId>> ranked;
      for (const auto& [id, q] : all)
        ranked.emplace_back(is_typical ? std::fabs(-std::log(q) - entropy) : -std::log(q), id);
      std::sort(ranked.begin(), ranked.end());
      Candidates kept = candidates;
      is_typical ? keep_typical(kept, p) : keep_top_p(kept, p);
      double mass = 0, mass_without_last = 0;
      for (size_t i = 0; i < kept.size(); ++i) {
        mass_without_last = mass;
        mass += all.at(ranked[i].second);
      }
      // Up to the rounding of sums of n floats the set is the smallest that reaches p, and holds the n best.
      const double slack = static_cast<double>(candidates.size()) * 0x1p-23;
      EXPECT_GE(mass, p - slack);
      EXPECT_LE(mass_without_last, p + slack);
      double worst = 0;
      for (const auto& [id, q] : vector_of(kept))
        worst = std::max(worst, is_typical ? std::fabs(-std::log(all.at(id)) - entropy) : -std::log(all.at(id)));
      EXPECT_LE(worst, ranked[kept.size() - 1].first + 1e-4 * (1 + std::fabs(ranked[kept.size() - 1].first)));
    }
  }
}

}  // namespace
}  // namespace tamis
