// The words.
#include "cli/load_words.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace tamis::cli {
namespace {

// Common enough that tokenizers have one token for most of them.
constexpr std::string_view kWords[] = {
    "time",     "people",  "water",   "house",   "world",  "story",  "light",   "river", "night",    "morning",
    "street",   "paper",   "green",   "white",   "black",  "small",  "large",   "young", "early",    "often",
    "always",   "never",   "again",   "under",   "over",   "after",  "before",  "while", "because",  "where",
    "there",    "their",   "about",   "would",   "could",  "should", "make",    "take",  "give",     "find",
    "know",     "think",   "look",    "come",    "want",   "work",   "call",    "try",   "ask",      "need",
    "feel",     "leave",   "keep",    "hold",    "turn",   "start",  "show",    "hear",  "play",     "run",
    "move",     "live",    "believe", "bring",   "happen", "write",  "sit",     "stand", "pay",      "meet",
    "include",  "set",     "learn",   "change",  "lead",   "watch",  "follow",  "stop",  "create",   "speak",
    "read",     "spend",   "grow",    "open",    "walk",   "win",    "teach",   "offer", "remember", "love",
    "consider", "appear",  "buy",     "serve",   "send",   "build",  "stay",    "fall",  "cut",      "reach",
    "raise",    "pass",    "sell",    "decide",  "return", "hope",   "develop", "carry", "break",    "receive",
    "agree",    "support", "hit",     "produce", "eat",    "cover",  "catch",
};

}  // namespace

WordCost WordCost::from_usage(size_t n_a, uint64_t n_tokens_a, size_t n_b, uint64_t n_tokens_b) {
  WordCost cost;
  const double per_word =
      (static_cast<double>(n_tokens_b) - static_cast<double>(n_tokens_a)) / static_cast<double>(n_b - n_a);
  cost.tokens_per_word = std::max(0.25, per_word);
  cost.tokens_around = std::max(0.0, static_cast<double>(n_tokens_a) - cost.tokens_per_word * static_cast<double>(n_a));
  return cost;
}

size_t WordCost::words_for(uint64_t n_tokens) const {
  const double n = std::round((static_cast<double>(n_tokens) - tokens_around) / tokens_per_word);
  return n < 1 ? 1 : static_cast<size_t>(n);
}

std::string random_words(Rng& rng, size_t n) {
  std::string out;
  for (size_t i = 0; i < n; ++i) {
    if (i > 0) out += ' ';
    out += kWords[rng.below(std::size(kWords))];
  }
  return out;
}

}  // namespace tamis::cli
