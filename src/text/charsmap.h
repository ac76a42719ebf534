// The normalisation table inside SentencePiece models ("precompiled_charsmap"): a double-array trie of byte sequences
// and the text each becomes. Comes from the file, so every index is checked. Format: u32 size of the trie in bytes; the
// trie, u32 units (darts-clone); then texts ended by NUL that the trie's values point into. Source: sentencepiece,
// normalizer.cc.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace tamis {

class Charsmap {
 public:
  Charsmap() = default;
  // Errors: format when the sizes contradict each other. `blob` must outlive the map; an empty one maps nothing.
  static Result<Charsmap> parse(std::string_view blob);

  struct Prefix {
    std::string_view replacement;
    size_t n_bytes = 0;  // of the text; 0: no rule applies
  };
  // The rule for the longest prefix of text[at …].
  Prefix longest(std::string_view text, size_t at) const;

 private:
  uint32_t unit(size_t i) const;

  std::string_view units_, texts_;
};

}  // namespace tamis
