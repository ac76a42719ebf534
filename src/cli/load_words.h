// Prompts of a wanted number of tokens, without the server's tokenizer: a list of common words, and how many tokens a
// word costs there, learned from two answers' usage. The same seed gives the same words.
#pragma once

#include <cstdint>
#include <string>

#include "base/rng.h"

namespace tamis::cli {

// What usage said of two short prompts: a word costs `tokens_per_word`, the template around them `tokens_around`.
struct WordCost {
  double tokens_per_word = 1, tokens_around = 0;

  // From the prompt tokens of prompts of `n_a` and `n_b` > n_a words. At least a quarter of a token a word.
  static WordCost from_usage(size_t n_a, uint64_t n_tokens_a, size_t n_b, uint64_t n_tokens_b);
  // Words for a whole prompt of that many tokens, at least one.
  size_t words_for(uint64_t n_tokens) const;
};

// `n` words in an order that the generator chooses, single spaces between them.
std::string random_words(Rng& rng, size_t n);

// A number of tokens, or any of a range with equal chance.
struct TokenRange {
  uint64_t low = 1, high = 1;
  uint64_t draw(Rng& rng) const { return low + rng.below(high - low + 1); }
};

}  // namespace tamis::cli
