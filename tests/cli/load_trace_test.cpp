// The figures of bench serve on traces made by hand.
#include "cli/load_trace.h"

#include <gmock/gmock.h>

#include <cmath>

namespace tamis::cli {
namespace {

using testing::DoubleEq;
using testing::DoubleNear;
using testing::ElementsAre;

constexpr double kTiny = 1e-12;

// Sent at 1 s; four pieces; five tokens, for one piece brought two.
LoadTrace answer() {
  return {.sent = 1,
          .pieces = {1.5, 1.6, 1.9, 2.0},
          .ended = 2.1,
          .status = 200,
          .n_prompt = 40,
          .n_cached = 32,
          .n_output = 5};
}

TEST(LoadTrace, TimesOfOneAnswer) {
  const LoadTrace trace = answer();
  EXPECT_DOUBLE_EQ(*ttft(trace), 0.5);
  EXPECT_DOUBLE_EQ(e2e(trace), 1.0);  // to the last text, not to the end of the connection
  EXPECT_DOUBLE_EQ(*tpot(trace), 0.5 / 4);
  EXPECT_THAT(gaps(trace), ElementsAre(DoubleNear(0.1, kTiny), DoubleNear(0.3, kTiny), DoubleNear(0.1, kTiny)));
}

TEST(LoadTrace, AnswersOfOneTokenAndOfNone) {
  const LoadTrace one{.sent = 1, .pieces = {1.5}, .ended = 1.6, .n_output = 1};
  EXPECT_DOUBLE_EQ(*ttft(one), 0.5);
  EXPECT_FALSE(tpot(one));
  EXPECT_TRUE(gaps(one).empty());
  const LoadTrace silent{.sent = 1, .ended = 1.75, .n_output = 1};
  EXPECT_DOUBLE_EQ(*ttft(silent), 0.75);
  const LoadTrace failed{.sent = 1, .ended = 1.75, .error = "HTTP 500"};
  EXPECT_FALSE(ttft(failed));
}

TEST(LoadTrace, AGoodAnswerKeepsBothBounds) {
  EXPECT_TRUE(meets(answer(), {.ttft_s = 0.5, .tpot_s = 0.125}));
  EXPECT_FALSE(meets(answer(), {.ttft_s = 0.49, .tpot_s = 0.125}));
  EXPECT_FALSE(meets(answer(), {.ttft_s = 0.5, .tpot_s = 0.124}));
  LoadTrace failed = answer();
  failed.error = "the stream ended without [DONE]";
  EXPECT_FALSE(meets(failed, {.ttft_s = 9, .tpot_s = 9}));
  LoadTrace cancelled = answer();
  cancelled.is_cancelled = true;
  EXPECT_FALSE(meets(cancelled, {.ttft_s = 9, .tpot_s = 9}));
  const LoadTrace one{.sent = 1, .pieces = {1.5}, .ended = 1.6, .n_output = 1};
  EXPECT_TRUE(meets(one, {.ttft_s = 0.5, .tpot_s = 0.001}));  // no further token, nothing to be late
}

TEST(LoadTrace, AMissIsKnownBeforeTheEnd) {
  const Slo slo{.ttft_s = 2, .tpot_s = 0.1};
  const LoadTrace waiting{.sent = 1};
  EXPECT_FALSE(has_missed(waiting, slo, 11, 3));
  EXPECT_TRUE(has_missed(waiting, slo, 11, 3.01));
  const LoadTrace running{.sent = 1, .pieces = {2}};
  EXPECT_FALSE(has_missed(running, slo, 11, 3));  // ten more tokens may take a second
  EXPECT_TRUE(has_missed(running, slo, 11, 3.01));
  EXPECT_FALSE(has_missed(running, slo, 1, 99));
  const LoadTrace late{.sent = 1, .pieces = {3.5}};
  EXPECT_TRUE(has_missed(late, slo, 11, 3.5));
}

TEST(LoadTrace, TheLargestGapOfAWindowCountsWhatBeganBefore) {
  const LoadTrace traces[] = {{.pieces = {0, 1, 4, 4.5}}, {.pieces = {0, 2, 2.5, 9}}, {.pieces = {3}}};
  EXPECT_DOUBLE_EQ(largest_gap(traces, 0, 10), 6.5);
  EXPECT_DOUBLE_EQ(largest_gap(traces, 1.5, 2), 3);  // 1 to 4, whole
  EXPECT_DOUBLE_EQ(largest_gap(traces, 2.6, 2.7), 6.5);
  EXPECT_DOUBLE_EQ(largest_gap(traces, 0.1, 0.9), 2);
  EXPECT_DOUBLE_EQ(largest_gap(traces, 10, 11), 0);
}

TEST(LoadTrace, PercentilesLieBetweenNeighbours) {
  EXPECT_DOUBLE_EQ(percentile({4, 1, 3, 2}, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(percentile({4, 1, 3, 2}, 0), 1);
  EXPECT_DOUBLE_EQ(percentile({4, 1, 3, 2}, 1), 4);
  EXPECT_DOUBLE_EQ(percentile({10, 20}, 0.9), 19);
  EXPECT_DOUBLE_EQ(percentile({7}, 0.99), 7);
  EXPECT_DOUBLE_EQ(percentile({}, 0.5), 0);
  const Spread spread = spread_of({5, 1, 3});
  EXPECT_EQ(spread.n, 3U);
  EXPECT_DOUBLE_EQ(spread.mean, 3);
  EXPECT_DOUBLE_EQ(spread.p50, 3);
  EXPECT_DOUBLE_EQ(spread.max, 5);
  EXPECT_DOUBLE_EQ(spread.p95, 4.8);
}

TEST(LoadTrace, FairnessIsOneWhereAllAreAlike) {
  EXPECT_DOUBLE_EQ(jain(std::vector<double>{3, 3, 3}), 1);
  EXPECT_DOUBLE_EQ(jain(std::vector<double>{6, 0, 0}), 1.0 / 3);
  EXPECT_DOUBLE_EQ(jain(std::vector<double>{10, 1}), 121.0 / 202);
  EXPECT_DOUBLE_EQ(jain({}), 1);
}

TEST(LoadTrace, ServedTokensAreCountedInTheWindow) {
  const LoadTrace traces[] = {{.client = 0, .pieces = {1, 2, 3, 4}, .n_output = 8},  // two tokens a piece
                              {.client = 0, .pieces = {2.5}, .is_cancelled = true, .n_output = 0},
                              {.client = 1, .pieces = {2, 2.2}, .n_output = 2},
                              {.client = 1}};
  EXPECT_DOUBLE_EQ(served_tokens(traces, 0, 2, 3), 5);
  EXPECT_DOUBLE_EQ(served_tokens(traces, 1, 2, 3), 2);
  EXPECT_DOUBLE_EQ(served_tokens(traces, 2, 0, 9), 0);
}

TEST(LoadTrace, ComputedOverUniqueCountsWhatWasNotCached) {
  LoadTrace first{.n_prompt = 100}, second{.n_prompt = 100, .n_cached = 90},
      failed{.error = "HTTP 503", .n_prompt = 100};
  EXPECT_DOUBLE_EQ(computed_over_unique(std::vector{first, second, failed}, 110), 1);
  second.n_cached = 0;
  EXPECT_DOUBLE_EQ(computed_over_unique(std::vector{first, second, failed}, 100), 2);
  EXPECT_DOUBLE_EQ(computed_over_unique(std::vector{first}, 0), 0);
}

TEST(LoadTrace, ASummaryCountsEachRequestOnce) {
  LoadTrace late = answer();
  late.client = 1;
  late.sent = 0;  // TTFT 1.5
  LoadTrace refused{.client = 2, .sent = 2, .ended = 2.5, .status = 503, .error = "HTTP 503"};
  LoadTrace cancelled = answer();
  cancelled.is_cancelled = true;
  cancelled.ended = 4;
  const LoadSummary summary = summarize(std::vector{answer(), late, refused, cancelled}, {.ttft_s = 1, .tpot_s = 0.2});
  EXPECT_EQ(summary.n_requests, 4U);
  EXPECT_EQ(summary.n_answered, 2U);
  EXPECT_EQ(summary.n_failed, 1U);
  EXPECT_EQ(summary.n_cancelled, 1U);
  EXPECT_EQ(summary.n_good, 1U);
  EXPECT_THAT(summary.errors, testing::ElementsAre(testing::Pair("HTTP 503", 1U)));
  EXPECT_DOUBLE_EQ(summary.seconds, 4);  // 0 to 4
  EXPECT_EQ(summary.n_output, 10U);
  EXPECT_EQ(summary.n_prompt - summary.n_cached, 16U);
  EXPECT_DOUBLE_EQ(summary.output_rate, 2.5);
  EXPECT_DOUBLE_EQ(summary.goodput, 0.25);
  EXPECT_EQ(summary.itl.n, 6U);
  EXPECT_DOUBLE_EQ(summary.ttft.p50, 1.0);
  EXPECT_THAT(summary.largest_gap, DoubleNear(0.3, kTiny));
  EXPECT_DOUBLE_EQ(summary.fairness, 100.0 / 150);  // 5, 5 and 0 tokens
}

TEST(LoadTrace, NothingIsNoFigure) {
  const LoadSummary summary = summarize({}, {});
  EXPECT_EQ(summary.n_requests, 0U);
  EXPECT_EQ(summary.seconds, 0);
  EXPECT_EQ(summary.goodput, 0);
}

}  // namespace
}  // namespace tamis::cli
