// Perplexity's windows against a direct computation, and its edge cases.
#include "engine/perplexity.h"

#include <gtest/gtest.h>

#include <cmath>

#include "compute/reference.h"
#include "engine/distribution.h"
#include "engine/session.h"
#include "tests/engine/tiny_model.h"

namespace tamis {
namespace {

using test::load_tiny;
using test::some_tokens;

bool go_on(const Perplexity&) { return true; }

// llama-perplexity's rule spelled out: window of c tokens, first one BOS, tokens c/2+1 … c-1 scored given all before
// them.
std::vector<double> window_nlls(const std::shared_ptr<const Engine>& engine, std::vector<TokenId> window,
                                bool has_bos) {
  if (has_bos) window[0] = test::kTinyBos;
  std::vector<double> nlls;
  for (size_t i = window.size() / 2 + 1; i < window.size(); ++i) {
    Session session(engine);
    const auto logits = session.append(std::span(window).first(i));
    nlls.push_back(negative_log_likelihood(*logits, static_cast<size_t>(window[i])));
  }
  return nlls;
}

TEST(PerplexityTest, FollowsTheRule) {
  for (const bool has_bos : {true, false}) {
    const auto engine =
        load_tiny(test::write_tiny_model({.has_bos = has_bos}), make_reference_backend(), {.n_batch = 7});
    for (const uint32_t n_ctx : {8u, 15u}) {
      const std::vector<TokenId> tokens = some_tokens(3 * n_ctx + n_ctx - 1);  // the rest is no window
      std::vector<double> nlls;
      std::vector<Perplexity> states;
      const auto result = measure_perplexity(engine, tokens, {.n_ctx = n_ctx}, [&](const Perplexity& state) {
        states.push_back(state);
        return true;
      });
      ASSERT_TRUE(result.has_value());
      double sum = 0, squares = 0;
      for (size_t i = 0; i < 3; ++i) {
        const auto begin = tokens.begin() + static_cast<ptrdiff_t>(i * n_ctx);
        double window_sum = 0;
        for (const double nll : window_nlls(engine, {begin, begin + n_ctx}, has_bos)) {
          nlls.push_back(nll);
          window_sum += nll;
          sum += nll;
          squares += nll * nll;
        }
        EXPECT_NEAR(states[i].window_nll, window_sum / (n_ctx - n_ctx / 2 - 1), 1e-12 * window_sum);
      }
      ASSERT_EQ(states.size(), 3u);
      EXPECT_EQ(result->n_windows, 3u);
      EXPECT_EQ(result->n_scored, nlls.size());
      const auto n = static_cast<double>(nlls.size());
      EXPECT_NEAR(result->perplexity, std::exp(sum / n), 1e-10 * result->perplexity);
      const double expected_error = result->perplexity * std::sqrt((squares / n - sum / n * sum / n) / (n - 1));
      EXPECT_NEAR(result->standard_error, expected_error, 1e-6 * expected_error);
    }
  }
}

TEST(PerplexityTest, ChunksLimitTheWindows) {
  const auto engine = load_tiny(test::write_tiny_model(), make_reference_backend());
  const std::vector<TokenId> tokens = some_tokens(50);
  EXPECT_EQ(measure_perplexity(engine, tokens, {.n_ctx = 10, .n_chunks = 2}, go_on)->n_windows, 2u);
  EXPECT_EQ(measure_perplexity(engine, tokens, {.n_ctx = 10, .n_chunks = 9}, go_on)->n_windows, 5u);
}

TEST(PerplexityTest, RefusesAndStops) {
  const auto engine = load_tiny(test::write_tiny_model(), make_reference_backend());
  EXPECT_EQ(measure_perplexity(engine, some_tokens(9), {.n_ctx = 10}, go_on).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(measure_perplexity(engine, some_tokens(9), {.n_ctx = 3}, go_on).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(measure_perplexity(engine, some_tokens(9), {.n_ctx = 0}, go_on).error().code, ErrorCode::invalid_argument);
  std::vector<TokenId> broken = some_tokens(20);
  broken[15] = static_cast<TokenId>(test::kTinyVocab);
  EXPECT_EQ(measure_perplexity(engine, broken, {.n_ctx = 10}, go_on).error().code, ErrorCode::invalid_argument);
  const auto stopped = measure_perplexity(engine, some_tokens(50), {.n_ctx = 10},
                                          [](const Perplexity& state) { return state.n_windows < 2; });
  EXPECT_EQ(stopped.error().code, ErrorCode::cancelled);
}

}  // namespace
}  // namespace tamis
