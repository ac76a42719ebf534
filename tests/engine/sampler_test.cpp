// The sampler chain: parameters, order, memory, errors, speed.
#include "engine/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tamis {
namespace {

using ::testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

SamplerChain chain_of(SamplingParams params, size_t n_vocab = 8) {
  auto chain = SamplerChain::create(std::move(params), n_vocab);
  EXPECT_TRUE(chain.has_value()) << chain.error().message;
  return std::move(chain).value();
}

std::vector<float> random_logits(size_t n, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> out(n);
  for (float& logit : out) logit = static_cast<float>(2.5 * rng.normal());
  return out;
}

// A tokenizer whose token i is the text given; only what DRY's breakers need.
class FixedTokenizer final : public Tokenizer {
 public:
  explicit FixedTokenizer(std::vector<std::string> texts) : texts_(std::move(texts)) {}
  std::string_view model_name() const override { return "fixed"; }
  std::string_view pre_name() const override { return ""; }
  size_t n_vocab() const override { return texts_.size(); }
  const SpecialTokens& special() const override { return special_; }
  std::string_view token_text(TokenId id) const override { return texts_[static_cast<size_t>(id)]; }
  TokenType token_type(TokenId) const override { return TokenType::normal; }
  bool is_end_of_generation(TokenId) const override { return false; }
  std::optional<TokenId> find_token(std::string_view) const override { return std::nullopt; }
  std::vector<TokenId> encode(std::string_view, const EncodeOptions&) const override { return {}; }
  std::vector<TokenId> encode_masked(std::string_view, std::span<const std::pair<size_t, size_t>>,
                                     const EncodeOptions&) const override {
    return {};
  }
  std::string token_bytes(TokenId id, bool) const override { return texts_[static_cast<size_t>(id)]; }
  std::string decode(std::span<const TokenId>, bool) const override { return ""; }

 private:
  std::vector<std::string> texts_;
  SpecialTokens special_;
};

TEST(Sampler, DefaultsAreThoseOfLlamaCli) {
  const SamplingParams params;
  EXPECT_FALSE(params.seed.has_value());
  EXPECT_EQ(params.temp, 0.8f);
  EXPECT_EQ(params.top_k, 40);
  EXPECT_EQ(params.top_p, 0.95f);
  EXPECT_EQ(params.min_p, 0.05f);
  EXPECT_EQ(params.repeat_penalty, 1.0f);
  EXPECT_TRUE(params.validate(100).has_value());
}

TEST(Sampler, OutOfRangeParametersAreNamed) {
  const auto message = [](auto change) {
    SamplingParams params;
    change(params);
    const Status status = params.validate(100);
    EXPECT_FALSE(status.has_value());
    if (status.has_value()) return std::string();
    EXPECT_EQ(status.error().code, ErrorCode::invalid_argument);
    return status.error().message;
  };
  EXPECT_EQ(message([](auto& p) { p.temp = -1; }), "temp: got -1, expected a number ≥ 0");
  EXPECT_EQ(message([](auto& p) { p.temp = kNan; }), "temp: got nan, expected a number ≥ 0");
  EXPECT_EQ(message([](auto& p) { p.temp = kInfinity; }), "temp: got inf, expected a number ≥ 0");
  EXPECT_EQ(message([](auto& p) { p.top_p = 1.5; }), "top_p: got 1.5, expected 0 … 1");
  EXPECT_THAT(message([](auto& p) { p.min_p = -0.5; }), HasSubstr("min_p: got -0.5"));
  EXPECT_THAT(message([](auto& p) { p.typical_p = kNan; }), HasSubstr("typical_p"));
  EXPECT_THAT(message([](auto& p) { p.xtc_probability = 2; }), HasSubstr("xtc_probability"));
  EXPECT_THAT(message([](auto& p) { p.xtc_threshold = -1; }), HasSubstr("xtc_threshold"));
  EXPECT_THAT(message([](auto& p) { p.min_keep = 0; }), HasSubstr("min_keep: got 0"));
  EXPECT_THAT(message([](auto& p) { p.repeat_last_n = -2; }), HasSubstr("repeat_last_n: got -2"));
  EXPECT_EQ(message([](auto& p) { p.repeat_penalty = 0; }), "repeat_penalty: got 0, expected a number > 0");
  EXPECT_THAT(message([](auto& p) { p.frequency_penalty = kNan; }), HasSubstr("frequency_penalty"));
  EXPECT_THAT(message([](auto& p) { p.presence_penalty = -kInfinity; }), HasSubstr("presence_penalty"));
  EXPECT_THAT(message([](auto& p) { p.dry_multiplier = -1; }), HasSubstr("dry_multiplier"));
  EXPECT_THAT(message([](auto& p) { p.dry_base = 0.5; }), HasSubstr("dry_base"));
  EXPECT_THAT(message([](auto& p) { p.dry_allowed_length = -1; }), HasSubstr("dry_allowed_length"));
  EXPECT_THAT(message([](auto& p) { p.dry_penalty_last_n = -2; }), HasSubstr("dry_penalty_last_n"));
  EXPECT_EQ(message([](auto& p) { p.mirostat = 3; }), "mirostat: got 3, expected 0 … 2");
  EXPECT_THAT(message([](auto& p) { p.mirostat_lr = 0; }), HasSubstr("mirostat_lr"));
  EXPECT_THAT(message([](auto& p) { p.mirostat_ent = 0; }), HasSubstr("mirostat_ent"));
  EXPECT_EQ(message([](auto& p) {
              p.logit_bias = {{100, 1.0f}};
            }),
            "logit_bias: token 100 is outside the vocabulary of 100");
  EXPECT_THAT(message([](auto& p) { p.logit_bias = {{5, kInfinity}}; }), HasSubstr("token 5: got inf"));
}

TEST(Sampler, TheSameSeedGivesTheSameTokens) {
  const auto logits = random_logits(1000, 1);
  for (const int32_t mirostat : {0, 1, 2}) {
    SamplingParams params;
    params.seed = 42;
    params.temp = 1.5f;
    params.mirostat = mirostat;
    params.repeat_penalty = 1.3f;
    params.xtc_probability = 0.5f;
    const auto run = [&](SamplerChain& chain) {
      std::vector<TokenId> out;
      for (int i = 0; i < 50; ++i) {
        out.push_back(chain.sample(logits).value());
        chain.accept(out.back());
      }
      return out;
    };
    SamplerChain a = chain_of(params, 1000), b = chain_of(params, 1000);
    const auto first = run(a);
    EXPECT_EQ(first, run(b));
    a.reset();
    EXPECT_EQ(first, run(a));
    params.seed = 43;
    SamplerChain other = chain_of(params, 1000);
    EXPECT_NE(first, run(other));
  }
}

TEST(Sampler, TemperatureZeroIsGreedyAfterPenaltiesWhateverTheRest) {
  SamplingParams params;
  params.temp = 0;
  params.mirostat = 2;
  params.presence_penalty = 10;
  SamplerChain chain = chain_of(params, 4);
  const float logits[] = {1, 3, 2, 0};
  EXPECT_EQ(chain.sample(logits).value(), 1);
  chain.accept(1);
  EXPECT_EQ(chain.sample(logits).value(), 2);
  chain.reset();
  EXPECT_EQ(chain.sample(logits).value(), 1);
}

TEST(Sampler, PenaltiesSeeTheLastTokensOnly) {
  SamplingParams params;
  params.temp = 0;
  params.presence_penalty = 10;
  params.repeat_last_n = 2;
  SamplerChain chain = chain_of(params, 4);
  const float logits[] = {4, 3, 2, 1};
  for (const TokenId id : {0, 1, 1}) chain.accept(id);
  EXPECT_EQ(chain.sample(logits).value(), 0);  // token 0 has left the window
  chain.accept(0);
  EXPECT_EQ(chain.sample(logits).value(), 2);
  for (int i = 0; i < 1000; ++i) chain.accept(2);  // the history is cut, the window is not
  EXPECT_EQ(chain.sample(logits).value(), 0);
  chain.accept(-1);
  chain.accept(4);  // no such tokens
  EXPECT_EQ(chain.sample(logits).value(), 0);
}

// A breaker that spans two tokens ("*" here is whole, "ab" is cut) ends every match.
TEST(Sampler, DryBreakersAreFoundAcrossTokens) {
  SamplingParams params;
  params.temp = 0;
  params.dry_multiplier = 100;
  params.dry_allowed_length = 2;
  params.dry_sequence_breakers = {"ab"};
  const auto tokenizer = std::make_shared<FixedTokenizer>(std::vector<std::string>{"x", "y", "z", "xa", "by"});
  const float logits[] = {0, 1, 5, 2, 3};
  const auto after = [&](std::vector<TokenId> history, std::shared_ptr<const Tokenizer> texts) {
    auto chain = SamplerChain::create(params, 5, std::move(texts));
    for (const TokenId id : history) chain->accept(id);
    return chain->sample(logits).value();
  };
  EXPECT_EQ(after({0, 1, 2, 0, 1}, tokenizer), 4);  // "x y" again: z is penalised
  EXPECT_EQ(after({3, 4, 1, 2, 3, 4, 1}, tokenizer),
            2);  // xa|by y: the breaker "ab" ends the match after "by"; one token left
  EXPECT_EQ(after({3, 4, 1, 2, 3, 4, 1}, nullptr), 4);          // without texts the match is 3 long
  EXPECT_EQ(after({3, 4, 0, 1, 2, 3, 4, 0, 1}, tokenizer), 4);  // two tokens after the breaker are enough
}

TEST(SamplerFaults, S086_NanLogitsAreAnErrorNotGarbage) {
  for (const int32_t mirostat : {0, 1, 2}) {
    for (const float temp : {0.0f, 0.8f}) {
      SamplingParams params;
      params.mirostat = mirostat;
      params.temp = temp;
      SamplerChain chain = chain_of(params, 4);
      const float all_nan[] = {kNan, kNan, kNan, kNan};
      const auto token = chain.sample(all_nan);
      ASSERT_FALSE(token.has_value());
      EXPECT_EQ(token.error().code, ErrorCode::internal);
      EXPECT_THAT(token.error().message, HasSubstr("4 of 4 logits are not numbers"));
      const float one_nan[] = {1, kNan, 3, 4};
      EXPECT_FALSE(chain.sample(one_nan).has_value());
      const float infinite[] = {1, kInfinity, 3, 4};
      EXPECT_FALSE(chain.sample(infinite).has_value());
      const float none_allowed[] = {-kInfinity, -kInfinity, -kInfinity, -kInfinity};
      const auto none = chain.sample(none_allowed);
      ASSERT_FALSE(none.has_value());
      EXPECT_EQ(none.error().message, "no token is allowed: every logit is -inf");
      const float good[] = {1, 2, -kInfinity, 4};
      EXPECT_TRUE(chain.sample(good).has_value());  // the next step goes on
    }
  }
}

TEST(Sampler, WrongLengthIsAnError) {
  SamplerChain chain = chain_of({}, 4);
  const auto token = chain.sample(std::vector<float>(3));
  ASSERT_FALSE(token.has_value());
  EXPECT_EQ(token.error().message, "3 logits for a vocabulary of 4");
  EXPECT_FALSE(chain_of({}, 0).sample({}).has_value());
}

// 20000 draws of the default chain against its formula: top-k 40, top-p 0.95, min-p 0.05, then temperature 0.8.
TEST(Sampler, DefaultChainDrawsWhatItsFormulaSays) {
  SamplingParams params;
  params.seed = 9;
  SamplerChain chain = chain_of(params, 5);
  const double p[] = {0.5, 0.3, 0.15, 0.03, 0.02};  // top-p keeps the first three (0.95), min-p 0.025 would keep four
  std::vector<float> logits;
  for (const double q : p) logits.push_back(static_cast<float>(std::log(q + 1e-9)));
  constexpr int kDraws = 20000;
  int counts[5] = {};
  for (int i = 0; i < kDraws; ++i) ++counts[chain.sample(logits).value()];
  double sum = 0;
  for (int i = 0; i < 3; ++i) sum += std::pow(p[i], 1 / 0.8);
  for (int i = 0; i < 3; ++i) {
    const double expected = std::pow(p[i], 1 / 0.8) / sum;
    EXPECT_NEAR(counts[i] / double{kDraws}, expected, 5 * std::sqrt(expected * (1 - expected) / kDraws)) << i;
  }
  EXPECT_EQ(counts[3] + counts[4], 0);
}

TEST(Sampler, TypicalTopPAndMinPOnALargeVocabularyAgreeWithASmallOne) {
  // The same distribution hidden among 150000 tokens that cannot be chosen.
  SamplingParams params;
  params.seed = 4;
  params.top_k = 0;
  params.typical_p = 0.9f;
  SamplerChain small = chain_of(params, 50), large = chain_of(params, 150000);
  const auto logits = random_logits(50, 8);
  std::vector<float> padded(150000, -kInfinity);
  std::copy(logits.begin(), logits.end(), padded.begin());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(small.sample(logits).value(), large.sample(padded).value());
}

}  // namespace
}  // namespace tamis
