// The merges of byte-pair encoding by pair of token ids, and the merging itself.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "text/tokenizer.h"

namespace tamis {

// (left id, right id) → (rank, merged id), open addressing.
class MergeTable {
 public:
  static constexpr uint32_t kNoRank = 0xffffffff;
  struct Merge {
    uint32_t rank = kNoRank;  // smaller is merged first
    TokenId merged = kNoToken;
  };

  MergeTable() = default;
  explicit MergeTable(size_t n_merges);
  // Requires: no more inserts than announced, ids ≥ 0. A pair already there keeps its rank.
  void insert(TokenId left, TokenId right, Merge merge);

  Merge find(TokenId left, TokenId right) const {
    const uint64_t key = key_of(left, right);
    for (size_t slot = slot_of(key);; slot = (slot + 1) & mask_) {
      const Entry& entry = entries_[slot];
      if (entry.key == key) return entry.merge;
      if (entry.key == kEmpty) return {};
    }
  }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};  // the pair (-1, -1), which is never merged
  struct Entry {
    uint64_t key = kEmpty;
    Merge merge;
  };
  static uint64_t key_of(TokenId left, TokenId right) {
    return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
  }
  size_t slot_of(uint64_t key) const { return (key * 0x9e3779b97f4a7c15u) >> shift_; }

  std::vector<Entry> entries_ = std::vector<Entry>(2);
  size_t mask_ = 1;
  unsigned shift_ = 63;
};

// Memory for merging one word, reused from word to word.
struct MergeScratch {
  std::vector<TokenId> ids;
  std::vector<uint32_t> ranks;
  std::vector<TokenId> merged;
  std::vector<uint32_t> previous, next;
  std::vector<uint64_t> heap;
  uint64_t n_steps = 0;  // pairs looked at, for tests of linearity
};

// Merges the symbols of one word, lowest rank first and leftmost among equals, in place: `ids` ends as the word's
// tokens. n log n in the number of symbols; symbols of kNoToken never merge.
void merge_symbols(const MergeTable& table, std::vector<TokenId>& ids, MergeScratch& scratch);

}  // namespace tamis
