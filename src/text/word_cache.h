// Words met earlier in one call, and where their tokens lie in the call's output: text repeats itself, merging need
// not.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/token_index.h"

namespace tamis {

// Direct-mapped and bounded: a collision just forgets. Not shared between calls or threads. Words must outlive the
// cache.
class WordCache {
 public:
  explicit WordCache(size_t text_bytes) : entries_(text_bytes < 512 ? 64 : 8192) {}

  // Appends the word's tokens to `out`: copied from an earlier place in `out`, or by calling encode_word(word, out).
  template <class EncodeWord>
  void append(std::string_view word, std::vector<TokenId>& out, const EncodeWord& encode_word) {
    Entry& entry = entries_[hash_bytes(word) & (entries_.size() - 1)];
    if (entry.word == word) {
      for (size_t k = 0; k < entry.n; ++k) out.push_back(out[entry.begin + k]);
      return;
    }
    const size_t begin = out.size();
    encode_word(word, out);
    entry = {word, begin, out.size() - begin};
  }

 private:
  struct Entry {
    std::string_view word;
    size_t begin = 0, n = 0;
  };
  std::vector<Entry> entries_;
};

}  // namespace tamis
