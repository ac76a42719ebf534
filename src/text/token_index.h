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

// Slots hold a part of the hash beside the id, so that texts are read only when they very likely match.
class TokenIndex {
 public:
  TokenIndex() = default;
  explicit TokenIndex(size_t n_expected) {
    size_t n_slots = 16;
    while (n_slots < n_expected + n_expected / 2) n_slots *= 2;
    slots_.resize(n_slots);
  }

  // False (and nothing changed) when an equal text is there already. TextOf: TokenId → std::string_view of a text that
  // outlives the index. Requires: no more inserts than announced.
  template <class TextOf>
  bool insert(TokenId id, const TextOf& text_of) {
    const std::string_view text = text_of(id);
    Slot& slot = slots_[slot_of(text, text_of)];
    if (slot.id != kNoToken) return false;
    slot = {static_cast<uint32_t>(hash_bytes(text) >> 32), id};
    return true;
  }

  template <class TextOf>
  TokenId find(std::string_view text, const TextOf& text_of) const {
    return slots_.empty() ? kNoToken : slots_[slot_of(text, text_of)].id;
  }

 private:
  struct Slot {
    uint32_t tag = 0;
    TokenId id = kNoToken;
  };

  // The slot of `text`, or the free one where it belongs.
  template <class TextOf>
  size_t slot_of(std::string_view text, const TextOf& text_of) const {
    const uint64_t hash = hash_bytes(text);
    const auto tag = static_cast<uint32_t>(hash >> 32);
    size_t i = hash & (slots_.size() - 1);
    while (slots_[i].id != kNoToken && (slots_[i].tag != tag || text_of(slots_[i].id) != text))
      i = (i + 1) & (slots_.size() - 1);
    return i;
  }

  std::vector<Slot> slots_;  // a power of two, at most two thirds full
};

}  // namespace tamis
