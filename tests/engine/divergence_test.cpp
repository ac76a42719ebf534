// Divergence: statistics against direct computation, models against themselves, and base files written and read back.
#include "engine/divergence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/rng.h"
#include "compute/reference.h"
#include "engine/distribution.h"
#include "engine/kl_base.h"
#include "tests/engine/tiny_model.h"

namespace tamis {
namespace {

using test::load_tiny;
using test::some_tokens;

std::vector<float> random_logits(size_t n, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> logits(n);
  for (float& logit : logits) logit = static_cast<float>(3 * rng.normal());
  return logits;
}

TEST(Divergence, RowsAgreeWithTheDefinition) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto base = random_logits(301, seed), other = random_logits(301, seed + 100);
    const TokenDivergence row = compare_rows(base, other, 17);
    const double expected = kl_divergence(base, other);
    EXPECT_NEAR(row.kl, expected, 1e-12 * expected);
    EXPECT_NEAR(row.nll, negative_log_likelihood(other, 17), 1e-12 * row.nll);
    EXPECT_NEAR(row.base_nll, negative_log_likelihood(base, 17), 1e-12 * row.base_nll);
    EXPECT_EQ(row.is_same_top, top_index(base) == top_index(other));
    // Rounding of sums of a few hundred doubles about 30 large.
    EXPECT_LT(compare_rows(base, base, 17).kl, 1e-13);
    EXPECT_TRUE(compare_rows(base, base, 17).is_same_top);
  }
}

// Three tokens by hand in two windows.
TEST(Divergence, StatisticsAreTheDocumentedOnes) {
  const std::vector<TokenDivergence> tokens = {{1, 2, 0.25, true}, {3, 1, 0.5, false}, {2, 2.5, 1, true}};
  DivergenceSums sums;
  sums.add(std::span(tokens).first(2));
  sums.add(std::span(tokens).last(1));
  const Divergence d = sums.finish();
  EXPECT_EQ(d.n_windows, 2u);
  EXPECT_EQ(d.n_scored, 3u);
  EXPECT_NEAR(d.perplexity.value, std::exp(2.0), 1e-12);
  EXPECT_NEAR(d.perplexity.error, std::exp(2.0) * std::sqrt(2.0 / 3 / 2), 1e-12);
  EXPECT_NEAR(d.base_perplexity.value, std::exp(5.5 / 3), 1e-12);
  EXPECT_NEAR(d.ln_ratio.value, 0.5 / 3, 1e-12);
  // The differences are −1, 2, −0.5: their own standard error.
  EXPECT_NEAR(d.ln_ratio.error, std::sqrt((5.25 / 3 - 0.25 / 9) / 2), 1e-12);
  EXPECT_NEAR(d.ratio.value, std::exp(0.5 / 3), 1e-12);
  EXPECT_NEAR(d.kl.value, 1.75 / 3, 1e-12);
  EXPECT_NEAR(d.kl.error, std::sqrt((1.3125 / 3 - 1.75 * 1.75 / 9) / 2), 1e-12);
  EXPECT_EQ(d.kl_spread.max, 1);
  EXPECT_EQ(d.kl_spread.min, 0.25);
  EXPECT_EQ(d.kl_spread.percentiles[kMedianIdx], 0.5);
  EXPECT_NEAR(d.kl_spread.percentiles[3], 0.9, 1e-12);  // 90 %: rank 1.8
  EXPECT_NEAR(d.same_top.value, 2.0 / 3, 1e-12);
  double change = 0, squares = 0;
  for (const TokenDivergence& token : tokens) {
    const double p = std::exp(-token.nll) - std::exp(-token.base_nll);
    change += p / 3;
    squares += p * p / 3;
  }
  EXPECT_NEAR(d.change.value, change, 1e-12);
  EXPECT_NEAR(d.change_rms.value, std::sqrt(squares), 1e-12);
  // Windows of 0.375 and 1: resampled means are 0.375, 0.6875 or 1, each tail a quarter.
  EXPECT_EQ(d.kl_interval.low, 0.375);
  EXPECT_EQ(d.kl_interval.high, 1);
}

TEST(DivergenceModel, AgainstItselfIsNothing) {
  const auto engine = load_tiny(test::write_tiny_model(), make_reference_backend(), {.n_batch = 5});
  std::vector<Session> sessions;
  for (int i = 0; i < 3; ++i) sessions.emplace_back(engine);
  const auto window = window_of(some_tokens(40), 20, 1, engine->tokenizer()->special());
  const auto scores = compare_window(sessions, window, nullptr);
  ASSERT_TRUE(scores) << scores.error().to_string();
  ASSERT_EQ(scores->size(), 2u);
  Session alone(engine);
  const auto nll = score_window(alone, window, nullptr);
  for (const auto& model : *scores) {
    ASSERT_EQ(model.size(), nll->size());
    for (size_t i = 0; i < model.size(); ++i) {
      EXPECT_LT(model[i].kl, 1e-13);
      EXPECT_TRUE(model[i].is_same_top);
      EXPECT_NEAR(model[i].nll, (*nll)[i], 1e-12 * model[i].nll);
      EXPECT_NEAR(model[i].base_nll, (*nll)[i], 1e-12 * model[i].nll);
    }
  }
}

// The window's logits written as a base file: the layout byte by byte, and KL within what 16 bits can hold.
class KlBaseTest : public testing::Test {
 protected:
  static constexpr uint32_t kCtx = 8, kVocab = 5;  // odd: records are padded

  std::string write(std::span<const TokenId> tokens, std::span<const float> rows, const std::string& name) {
    const std::string path = testing::TempDir() + "tamis_kl_base_" + name;
    auto writer = KlBaseWriter::create(path, kCtx, kVocab, tokens, true);
    EXPECT_TRUE(writer) << writer.error().to_string();
    EXPECT_TRUE(writer->write_rows(rows));
    EXPECT_TRUE(writer->commit());
    return read_text_file(path, 1 << 20).value();
  }
  static Result<KlBaseFile> open(std::string_view bytes) {
    return KlBaseFile::open(std::make_shared<MemorySource>(std::as_bytes(std::span(bytes))));
  }
  template <class T>
  static T at(const std::string& bytes, size_t offset) {
    T value;
    std::memcpy(&value, bytes.data() + offset, sizeof(T));
    return value;
  }
};

TEST_F(KlBaseTest, LayoutIsLlamaPerplexitys) {
  const std::vector<TokenId> tokens = {0, 1, 2, 3, 4, 0, 1, 2};
  const std::vector<float> rows = {0, -4, -8, -100, -2, 1, 1, 1, 1, 1, 2, 3, 4, 5, 6};  // 8 − 1 − 4 scored tokens
  const std::string bytes = write(tokens, rows, "layout");
  ASSERT_EQ(bytes.size(), 8u + 3 * 4 + 8 * 4 + 3 * 2 * (4 + 6));
  EXPECT_EQ(bytes.substr(0, 8), "_logits_");
  EXPECT_EQ(at<int32_t>(bytes, 8), 8);
  EXPECT_EQ(at<int32_t>(bytes, 12), 5);
  EXPECT_EQ(at<int32_t>(bytes, 16), 1);
  for (size_t i = 0; i < tokens.size(); ++i) EXPECT_EQ(at<int32_t>(bytes, 20 + 4 * i), tokens[i]);
  constexpr size_t kFirst = 20 + 32, kRecord = 20;
  // −100 is clipped to 16 below the largest; codes count from there.
  const float scale = 16.0f / 65535;
  EXPECT_EQ(at<float>(bytes, kFirst), scale);
  const double norm = log_sum_exp(std::span(rows).first(5));
  EXPECT_NEAR(at<float>(bytes, kFirst + 4), -16 - norm, 1e-5);
  const uint16_t expected[] = {65535, 49151, 32768, 0, 57343};
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(at<uint16_t>(bytes, kFirst + 8 + 2 * i), expected[i]) << i;
  EXPECT_EQ(at<uint16_t>(bytes, kFirst + 8 + 10), 0);
  // Equal logits: scale 0, every code 0, each −log 5.
  EXPECT_EQ(at<float>(bytes, kFirst + kRecord), 0);
  EXPECT_NEAR(at<float>(bytes, kFirst + kRecord + 4), -std::log(5.0), 1e-6);
}

TEST_F(KlBaseTest, EveryCutAndWrongNumberIsAnError) {
  const std::vector<TokenId> tokens = {0, 1, 2, 3, 4, 0, 1, 2};
  const std::string bytes = write(tokens, random_logits(15, 1), "cut");
  ASSERT_TRUE(open(bytes));
  for (size_t n = 0; n < bytes.size(); ++n) EXPECT_FALSE(open(bytes.substr(0, n))) << n;
  EXPECT_FALSE(open(bytes + "x"));
  for (const size_t offset : {0u, 8u, 12u, 16u}) {
    for (const int32_t value : {-1, 0, 3, 1 << 30, 0x7fffffff}) {
      std::string changed = bytes;
      std::memcpy(changed.data() + offset, &value, 4);
      EXPECT_FALSE(open(changed)) << offset << " " << value;
    }
  }
  for (const int32_t token : {-1, 5}) {
    std::string changed = bytes;
    std::memcpy(changed.data() + 20 + 4 * 7, &token, 4);
    EXPECT_FALSE(open(changed)) << token;
  }
  for (const float scale : {-1.0f, NAN, INFINITY, 1.0f}) {
    std::string changed = bytes;
    std::memcpy(changed.data() + 20 + 32, &scale, 4);
    const auto file = open(changed);
    ASSERT_TRUE(file);
    EXPECT_FALSE(file->read(0, 0)) << scale;
    EXPECT_TRUE(file->read(0, 1));
  }
}

TEST_F(KlBaseTest, ReadBackItIsTheBaseWithinItsRounding) {
  const auto engine = load_tiny(test::write_tiny_model(), make_reference_backend(), {.n_ctx = 16});
  const std::vector<TokenId> tokens = some_tokens(32);
  const SpecialTokens& special = engine->tokenizer()->special();
  const std::string path = testing::TempDir() + "tamis_kl_base_model";
  auto writer = KlBaseWriter::create(path, 16, test::kTinyVocab, tokens, true);
  ASSERT_TRUE(writer);
  const auto result = measure_perplexity(
      engine, tokens, {.n_ctx = 16, .on_rows = [&](std::span<const float> rows) { return writer->write_rows(rows); }},
      [](const Perplexity&) { return true; });
  ASSERT_TRUE(result);
  ASSERT_TRUE(writer->commit());
  const auto file = KlBaseFile::open(path);
  ASSERT_TRUE(file) << file.error().to_string();
  EXPECT_EQ(file->tokens(), tokens);  // BOS is put in when they are run, not in the file
  Session session(engine);
  DivergenceSums sums;
  for (uint32_t chunk = 0; chunk < file->n_chunks(); ++chunk) {
    const auto window = window_of(file->tokens(), 16, chunk, special);
    const auto scores = compare_window_with(*file, chunk, session, window, nullptr);
    ASSERT_TRUE(scores) << scores.error().to_string();
    sums.add(*scores);
  }
  const Divergence d = sums.finish();
  // A code is off by half a step of at most 16/65535 nats: so are each log-probability and the mean KL.
  const double step = 16.0 / 65535;
  EXPECT_LT(std::abs(d.kl.value), step);
  EXPECT_NEAR(std::log(d.base_perplexity.value), result->mean_nll, step);
  EXPECT_NEAR(std::log(d.perplexity.value), result->mean_nll, 1e-12);
  EXPECT_EQ(d.same_top.value, 1);
}

}  // namespace
}  // namespace tamis
