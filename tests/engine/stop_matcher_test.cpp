// Stop strings over token borders: the cases of fault B23, and that how the text is cut into pieces never matters.
#include "engine/stop_matcher.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "base/utf8.h"

namespace tamis {
namespace {

struct Outcome {
  std::string text;
  bool is_stopped;
  bool operator==(const Outcome&) const = default;
};

Outcome stream(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopMatcher matcher(stops);
  std::string text;
  for (const std::string& piece : pieces) text += matcher.push(piece);
  text += matcher.finish();
  return {text, matcher.matched()};
}

// The definition, without any automaton: the stop that ends first, of those the longest.
Outcome whole(const std::vector<std::string>& stops, const std::string& text) {
  for (size_t end = 0; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops)
      if (!stop.empty() && end >= stop.size() && text.compare(end - stop.size(), stop.size(), stop) == 0)
        longest = std::max(longest, stop.size());
    if (longest == 0) continue;
    std::string before = text.substr(0, end - longest);
    before.resize(before.size() - utf8_incomplete_tail(before));
    return {before, true};
  }
  return {text, false};
}

TEST(StopMatcherFaults, B23_StopSpansTokens) {
  EXPECT_EQ(stream({"O P Q"}, {" N", " O", " P", " Q", " R"}), (Outcome{" N ", true}));
}
TEST(StopMatcherFaults, B23_PartialMatchIsReleasedWhenItFails) {
  EXPECT_EQ(stream({"\n", "Alice:"}, {" Alice", "!"}), (Outcome{" Alice!", false}));
}
TEST(StopMatcherFaults, B23_PartialMatchIsReleasedAtTheEnd) { EXPECT_EQ(stream({"ab"}, {"a"}), (Outcome{"a", false})); }
TEST(StopMatcherFaults, B23_SelfOverlappingStop) {
  EXPECT_EQ(stream({"aab"}, {"a", "a", "a", "b"}), (Outcome{"a", true}));
}
TEST(StopMatcherFaults, B23_CutInsideACharacter) {
  EXPECT_EQ(stream({"é!"}, {"caf\xc3", "\xa9", "!", "?"}), (Outcome{"caf", true}));
  EXPECT_EQ(stream({"é!"}, {"caf\xc3", "\xa9", "s"}), (Outcome{"cafés", false}));
  StopMatcher matcher({"never"});
  EXPECT_EQ(matcher.push("a\xe2\x82"), "a");
  EXPECT_EQ(matcher.push("\xac"), "€");
}
TEST(StopMatcherFaults, B23_LengthLimitReachedWhilePartialMatchIsHeld) {
  StopMatcher matcher({"</end>"});
  EXPECT_EQ(matcher.push("done</en"), "done");
  EXPECT_EQ(matcher.finish(), "</en");
  EXPECT_FALSE(matcher.matched());
}

TEST(StopMatcher, NothingAfterTheMatchComesOut) {
  StopMatcher matcher({"STOP"});
  EXPECT_EQ(matcher.push("one STOP two"), "one ");
  EXPECT_TRUE(matcher.matched());
  EXPECT_EQ(matcher.matched_stop(), "STOP");
  EXPECT_EQ(matcher.push("three"), "");
  EXPECT_EQ(matcher.finish(), "");
  matcher.reset();
  EXPECT_FALSE(matcher.matched());
  EXPECT_EQ(matcher.push("three"), "three");
}

TEST(StopMatcher, FirstToEndWinsThenTheLongest) {
  EXPECT_EQ(stream({"abcd", "bc"}, {"xabcd"}), (Outcome{"xa", true}));
  EXPECT_EQ(stream({"c", "abc"}, {"xabc"}), (Outcome{"x", true}));
}

TEST(StopMatcher, WithoutStopsTextPassesThrough) {
  EXPECT_EQ(stream({}, {"a", "", "b"}), (Outcome{"ab", false}));
  EXPECT_EQ(stream({""}, {"a", "b"}), (Outcome{"ab", false}));
}

// Random texts over a small alphabet (with 2-, 3- and 4-byte characters), random stops cut from it, every way of
// cutting up to 9 bytes and random ways beyond.
TEST(StopMatcher, JoinedChunksEqualTheWholeTextForEveryCutting) {
  Rng rng(7);
  const std::string letters[] = {"a", "b", "é", "€", "😀"};
  for (int round = 0; round < 400; ++round) {
    std::string text;
    for (size_t i = 0, n = 1 + rng.below(6); i < n; ++i) text += letters[rng.below(5)];
    if (text.size() > 9 && round % 2 == 0) text.resize(9);  // an unfinished character at the end, too
    std::vector<std::string> stops;
    for (size_t i = 0, n = rng.below(4); i < n; ++i) {
      std::string stop;
      for (size_t k = 0, length = 1 + rng.below(3); k < length; ++k) stop += letters[rng.below(5)];
      stops.push_back(stop);
    }
    const Outcome expected = whole(stops, text);
    const size_t n_cuts = text.size() - 1;
    const uint64_t n_ways = n_cuts <= 8 ? uint64_t{1} << n_cuts : 64;
    for (uint64_t way = 0; way < n_ways; ++way) {
      const uint64_t cuts = n_cuts <= 8 ? way : rng.next();
      StopMatcher matcher(stops);
      std::string joined, piece;
      for (size_t i = 0; i < text.size(); ++i) {
        piece += text[i];
        if (i + 1 < text.size() && ((cuts >> i) & 1) == 0) continue;
        const std::string chunk = matcher.push(piece);
        ASSERT_EQ(utf8_first_invalid(chunk), chunk.size());
        joined += chunk;
        piece.clear();
      }
      joined += matcher.finish();
      ASSERT_EQ((Outcome{joined, matcher.matched()}), expected) << "text " << text << " cuts " << cuts;
    }
  }
}

// A text made of one long partial match after another: rescanning it at each piece would take 10^12 steps, and end by
// the runner's time limit.
TEST(StopMatcher, LinearOnRepeatedPartialMatches) {
  constexpr size_t kStop = 500000, kText = 2000000;
  StopMatcher matcher({std::string(kStop, 'a') + "b"});
  size_t n_out = 0;
  for (size_t i = 0; i < kText; ++i) n_out += matcher.push("a").size();
  EXPECT_EQ(n_out, kText - kStop);
  EXPECT_EQ(matcher.finish().size(), kStop);
}

}  // namespace
}  // namespace tamis
