// From bytes to token id: an open-addressing hash over byte strings that live elsewhere. No allocation per token.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace tamis {

// A fast mix of a short byte string; for hash tables only.
inline uint64_t hash_bytes(std::string_view bytes) {
  constexpr uint64_t kMultiplier = 0x9e3779b97f4a7c15u;
  uint64_t hash = bytes.size() * kMultiplier;
  const char* p = bytes.data();
  size_t n = bytes.size();
  for (; n >= 8; n -= 8, p += 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    hash = (hash ^ word) * kMultiplier;
    hash ^= hash >> 29;
  }
  uint64_t tail = 0;
  if (n > 0) std::memcpy(&tail, p, n);
  hash = (hash ^ tail) * kMultiplier;
  return hash ^ (hash >> 32);
}

class TokenIndex {
 public:
  TokenIndex() = default;
  // `texts` must outlive the index: only views of it are compared.
  explicit TokenIndex(size_t n_expected) {
    size_t n_slots = 16;
    while (n_slots < n_expected * 2) n_slots *= 2;
    slots_.assign(n_slots, kNoToken);
  }

  // The first of two equal texts stays. TextOf: TokenId → std::string_view.
  template <class TextOf>
  void insert(TokenId id, const TextOf& text_of) {
    const std::string_view text = text_of(id);
    for (size_t slot = hash_bytes(text) & (slots_.size() - 1);; slot = (slot + 1) & (slots_.size() - 1)) {
      if (slots_[slot] == kNoToken) {
        slots_[slot] = id;
        return;
      }
      if (text_of(slots_[slot]) == text) return;
    }
  }

  template <class TextOf>
  TokenId find(std::string_view text, const TextOf& text_of) const {
    if (slots_.empty()) return kNoToken;
    for (size_t slot = hash_bytes(text) & (slots_.size() - 1);; slot = (slot + 1) & (slots_.size() - 1)) {
      const TokenId id = slots_[slot];
      if (id == kNoToken || text_of(id) == text) return id;
    }
  }

 private:
  std::vector<TokenId> slots_;  // a power of two, at most half full
};

}  // namespace tamis
