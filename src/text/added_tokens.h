// Finds tokens that stand in the text as they are spelled: control and user-defined tokens, before any splitting or
// merging.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tokenizer.h"

namespace tamis {

// A trie over bytes. At each position the longest token wins; positions are tried from the left. Node 0 is the root.
class AddedTokens {
 public:
  // Longer tokens are not looked for in text: it bounds the work for one byte of text.
  static constexpr size_t kMaxBytes = 512;

  AddedTokens() = default;
  // Empty texts and those over kMaxBytes are left out.
  explicit AddedTokens(std::vector<std::pair<std::string_view, TokenId>> tokens);

  struct Match {
    size_t begin = 0, end = 0;
    TokenId id = kNoToken;
  };
  // The first match at or after `from`; id == kNoToken when there is none.
  Match find(std::string_view text, size_t from) const;
  // The longest token that starts at text[at]; end == at when there is none.
  Match longest_at(std::string_view text, size_t at) const;

  bool empty() const { return nodes_.empty(); }
  // The child of `node` by `byte`, 0 when it has none. Requires: !empty().
  uint32_t child(uint32_t node, uint8_t byte) const;
  TokenId id(uint32_t node) const { return nodes_[node].id; }  // the token that ends at this node, or kNoToken

 private:
  struct Node {
    uint32_t first_child = 0;  // children lie side by side, sorted by byte
    uint16_t n_children = 0;
    uint8_t byte = 0;
    TokenId id = kNoToken;
  };
  std::vector<Node> nodes_;  // nodes_[0] is the root
  std::array<bool, 256> can_begin_{};
};

}  // namespace tamis
