// Guesses of the next tokens from the tokens so far: where the last few stood before, what followed them there may
// follow again. Answers that quote their prompt (code, summaries, tool results) repeat much of it. A guess decides
// nothing: the model computes it like any other token, and it counts only where the model would have chosen it.
//
// Like the search of LZ77: positions whose last kLeast tokens are equal form a chain, newest first; of its first links
// the one that agrees with the end for the longest is followed. Source: Saxena 2023, "Prompt Lookup Decoding"
// (github.com/apoorvumang/prompt-lookup-decoding).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "text/tokenizer.h"

namespace tamis {

class NgramDraft {
 public:
  static constexpr size_t kLeast = 3;  // tokens that must agree

  // Takes in tokens[n taken in so far …]. Requires: the sequence only grows between calls.
  void extend(std::span<const TokenId> tokens);

  static constexpr size_t kMostAgreeing = 32;
  static constexpr size_t kTrusted = 8;  // equal tokens after which a guess is better than most models'
  // Sets `out` to what may follow `tokens`: n_most of them, or none when nothing is known; what would be behind the end
  // goes on as a period. Returns how many tokens before them are equal, at most kMostAgreeing. Requires: extend(tokens)
  // was called.
  size_t guess(std::span<const TokenId> tokens, size_t n_most, std::vector<TokenId>& out) const;

 private:
  size_t place(std::span<const TokenId> tokens, size_t end) const;
  void link(std::span<const TokenId> tokens, size_t end);

  std::vector<uint32_t> newest_;  // by hash: the end of the newest such kLeast tokens; 0: none
  std::vector<uint32_t> before_;  // by end: the end of those before it with the same hash
};

}  // namespace tamis
