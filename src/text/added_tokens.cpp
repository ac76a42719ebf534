// Builds the trie level by level from the sorted tokens, so that children are contiguous and no recursion is needed.
#include "text/added_tokens.h"

#include <algorithm>

namespace tamis {

AddedTokens::AddedTokens(std::vector<std::pair<std::string_view, TokenId>> tokens) {
  std::erase_if(tokens, [](const auto& token) { return token.first.empty() || token.first.size() > kMaxBytes; });
  if (tokens.empty()) return;
  std::sort(tokens.begin(), tokens.end());
  struct Range {
    size_t begin, end, depth;  // tokens that share the first `depth` bytes
  };
  std::vector<Range> ranges = {{0, tokens.size(), 0}};
  nodes_.emplace_back();
  for (size_t node = 0; node < nodes_.size(); ++node) {
    auto [begin, end, depth] = ranges[node];
    while (begin < end && tokens[begin].first.size() == depth) nodes_[node].id = tokens[begin++].second;
    nodes_[node].first_child = static_cast<uint32_t>(nodes_.size());
    while (begin < end) {
      const char byte = tokens[begin].first[depth];
      size_t next = begin;
      while (next < end && tokens[next].first[depth] == byte) ++next;
      Node child;
      child.byte = static_cast<uint8_t>(byte);
      nodes_.push_back(child);
      ranges.push_back({begin, next, depth + 1});
      ++nodes_[node].n_children;
      begin = next;
    }
  }
  for (size_t k = 0; k < nodes_[0].n_children; ++k) can_begin_[nodes_[nodes_[0].first_child + k].byte] = true;
}

uint32_t AddedTokens::child(uint32_t node, uint8_t byte) const {
  const auto begin = nodes_.begin() + nodes_[node].first_child;
  const auto end = begin + nodes_[node].n_children;
  const auto at = std::lower_bound(begin, end, byte, [](const Node& a, uint8_t b) { return a.byte < b; });
  return at == end || at->byte != byte ? 0 : static_cast<uint32_t>(at - nodes_.begin());
}

AddedTokens::Match AddedTokens::longest_at(std::string_view text, size_t at) const {
  Match match{at, at, kNoToken};
  if (nodes_.empty()) return match;
  uint32_t node = 0;
  for (size_t i = at; i < text.size(); ++i) {
    node = child(node, static_cast<uint8_t>(text[i]));
    if (node == 0) break;
    if (id(node) != kNoToken) match = {at, i + 1, id(node)};
  }
  return match;
}

AddedTokens::Match AddedTokens::find(std::string_view text, size_t from) const {
  if (!nodes_.empty())
    for (size_t i = from; i < text.size(); ++i) {
      if (!can_begin_[static_cast<uint8_t>(text[i])]) continue;
      const Match match = longest_at(text, i);
      if (match.id != kNoToken) return match;
    }
  return {text.size(), text.size(), kNoToken};
}

}  // namespace tamis
