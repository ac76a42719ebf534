// What needs no server of the scenarios: the search for a rate, arrival times, prompts of a wanted length, addresses.
#include "cli/load_scenarios.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

namespace tamis::cli {
namespace {

using testing::DoubleNear;
using testing::HasSubstr;

// Rates tried against a server that holds up to `capacity`, and the one found.
std::pair<std::vector<double>, double> search(double start, double capacity) {
  RateSearch rates(start, 2);
  std::vector<double> tried;
  while (const auto rate = rates.next()) {
    tried.push_back(*rate);
    rates.on_result(*rate, *rate <= capacity);
  }
  return {tried, rates.best()};
}

TEST(RateSearch, DoublesThenTriesTheMiddles) {
  const auto [tried, best] = search(1, 3);
  EXPECT_THAT(tried,
              testing::ElementsAre(1, 2, 4, DoubleNear(std::sqrt(8), 1e-9), DoubleNear(std::pow(2, 1.75), 1e-9)));
  EXPECT_NEAR(best, std::sqrt(8), 1e-9);
}

TEST(RateSearch, HalvesWhereTheStartIsTooMuch) {
  const auto [tried, best] = search(1, 0.3);
  EXPECT_THAT(tried, testing::ElementsAre(1, 0.5, 0.25, DoubleNear(std::sqrt(0.125), 1e-9),
                                          DoubleNear(std::pow(2, -1.75), 1e-9)));
  EXPECT_NEAR(best, std::pow(2, -1.75), 1e-9);
}

TEST(RateSearch, EndsWhereNothingOrEverythingHolds) {
  EXPECT_EQ(search(1, 0).second, 0);
  EXPECT_THAT(search(1, 0).first, testing::ElementsAre(1, 0.5, 0.25, 0.125, 0.0625));
  EXPECT_EQ(search(1, 1e9).second, 64);
}

TEST(PoissonTimes, OneShapeAtEveryRate) {
  const std::vector<double> slow = poisson_times(3, 0.5, 4000), fast = poisson_times(3, 2, 4000);
  EXPECT_TRUE(std::is_sorted(slow.begin(), slow.end()));
  for (size_t i = 0; i < slow.size(); ++i) EXPECT_THAT(slow[i], DoubleNear(4 * fast[i], 1e-6));
  EXPECT_NE(poisson_times(4, 0.5, 1), poisson_times(3, 0.5, 1));
  // Gaps of mean 2 and, as for an exponential law, a standard deviation of 2: both within 5 of their standard errors,
  // 2/√4000 and 2·√2/√4000.
  double sum = slow[0], squares = slow[0] * slow[0];
  for (size_t i = 1; i < slow.size(); ++i) {
    const double gap = slow[i] - slow[i - 1];
    sum += gap;
    squares += gap * gap;
  }
  const double mean = sum / 4000, deviation = std::sqrt(squares / 4000 - mean * mean);
  EXPECT_NEAR(mean, 2, 5 * 2 / std::sqrt(4000));
  EXPECT_NEAR(deviation, 2, 5 * 2 * std::sqrt(2 / 4000.0));
}

TEST(WordCost, IsLearnedFromTwoPrompts) {
  const WordCost cost = WordCost::from_usage(16, 30, 64, 78);
  EXPECT_DOUBLE_EQ(cost.tokens_per_word, 1);
  EXPECT_DOUBLE_EQ(cost.tokens_around, 14);
  EXPECT_EQ(cost.words_for(114), 100U);
  EXPECT_EQ(cost.words_for(3), 1U);
  EXPECT_EQ(WordCost::from_usage(16, 58, 64, 202).words_for(310), 100U);  // 3 a word, 10 around
  EXPECT_GT(WordCost::from_usage(16, 50, 64, 50).tokens_per_word, 0);     // a server that does not count
}

TEST(RandomWords, AreThoseOfTheSeed) {
  Rng a(5), b(5), c(6);
  const std::string words = random_words(a, 50);
  EXPECT_EQ(words, random_words(b, 50));
  EXPECT_NE(words, random_words(c, 50));
  EXPECT_EQ(std::count(words.begin(), words.end(), ' '), 49);
}

TEST(TokenRange, DrawsBothEnds) {
  Rng rng(1);
  const TokenRange range{3, 5};
  std::vector<uint64_t> seen;
  for (int i = 0; i < 200; ++i) seen.push_back(range.draw(rng));
  EXPECT_THAT(seen, testing::Contains(3U));
  EXPECT_THAT(seen, testing::Contains(5U));
  EXPECT_THAT(seen, testing::Each(testing::AllOf(testing::Ge(3U), testing::Le(5U))));
}

TEST(LoadUrl, AddressesOfServers) {
  const auto plain = parse_load_url("http://127.0.0.1:8080");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->host + "|" + plain->port + "|" + plain->base_path, "127.0.0.1|8080|");
  const auto prefixed = parse_load_url("http://[::1]:81/api//");
  ASSERT_TRUE(prefixed);
  EXPECT_EQ(prefixed->host + "|" + prefixed->port + "|" + prefixed->base_path, "::1|81|/api");
  EXPECT_EQ(parse_load_url("http://example")->port, "80");
  EXPECT_EQ(parse_load_url("https://example").error().code, ErrorCode::unsupported);
  for (const char* url : {"", "ftp://x", "http://", "http://x:y", "http://x:", "http://x y", "http://x/\r\nHost: y"})
    EXPECT_EQ(parse_load_url(url).error().code, ErrorCode::invalid_argument) << url;
}

TEST(Scenarios, TheOneWithAdaptersIsRefusedByName) {
  EXPECT_TRUE(check_scenario("S3"));
  const Status refused = check_scenario("S10");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("S10"));
  EXPECT_EQ(check_scenario("S12").error().code, ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace tamis::cli
