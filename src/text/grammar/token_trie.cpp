// A vocabulary as a tree of bytes, laid out depth first: a walk that dies somewhere jumps over the subtree.
#include <algorithm>
#include <numeric>

#include "text/grammar/grammar.h"

namespace tamis {

Result<std::shared_ptr<const TokenTrie>> TokenTrie::create(const Tokenizer& tokenizer) {
  if (tokenizer.model_name() == "bert") {
    return fail(ErrorCode::unsupported,
                "tokenizer.ggml.model: got \"bert\", whose tokens do not stand for fixed bytes, expected another for "
                "structured output");
  }
  std::vector<std::string> tokens(tokenizer.n_vocab());
  std::vector<TokenId> ends;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (tokenizer.is_end_of_generation(id)) {
      ends.push_back(id);
    } else {
      tokens[i] = tokenizer.token_bytes(id);
    }
  }
  return std::make_shared<const TokenTrie>(tokens, std::move(ends));
}

TokenTrie::TokenTrie(std::span<const std::string> tokens, std::vector<TokenId> end_of_generation)
    : ends_(std::move(end_of_generation)) {
  std::sort(ends_.begin(), ends_.end());
  offsets_.reserve(tokens.size() + 1);
  offsets_.push_back(0);
  for (size_t i = 0; i < tokens.size(); ++i) {
    constexpr size_t kLongest = 0xffff;  // longer ones are never allowed
    if (tokens[i].size() <= kLongest && !ends_answer(static_cast<TokenId>(i))) pool_ += tokens[i];
    offsets_.push_back(static_cast<uint32_t>(pool_.size()));
  }
  for (size_t i = 0; i < tokens.size(); ++i)
    if (!bytes(static_cast<TokenId>(i)).empty()) ids_.push_back(static_cast<TokenId>(i));
  std::stable_sort(ids_.begin(), ids_.end(), [this](TokenId a, TokenId b) { return bytes(a) < bytes(b); });

  nodes_.push_back({0, 0, 0, 0});
  std::vector<uint32_t> path = {0};  // nodes from the root to the last one made
  std::string_view last;
  for (uint32_t i = 0; i < ids_.size(); ++i) {
    const std::string_view text = bytes(ids_[i]);
    size_t shared = 0;
    while (shared < last.size() && shared < text.size() && last[shared] == text[shared]) ++shared;
    for (; path.size() > shared + 1; path.pop_back()) nodes_[path.back()].end = static_cast<uint32_t>(nodes_.size());
    for (size_t depth = shared; depth < text.size(); ++depth) {
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({0, i, static_cast<uint16_t>(depth + 1), static_cast<uint8_t>(text[depth])});
    }
    max_depth_ = std::max(max_depth_, text.size());
    last = text;
  }
  for (; !path.empty(); path.pop_back()) nodes_[path.back()].end = static_cast<uint32_t>(nodes_.size());
  nodes_.push_back({static_cast<uint32_t>(nodes_.size() + 1), static_cast<uint32_t>(ids_.size()), 0, 0});
}

std::string_view TokenTrie::bytes(TokenId id) const {
  if (id < 0 || static_cast<size_t>(id) >= n_vocab()) return {};
  const auto i = static_cast<size_t>(id);
  return std::string_view(pool_).substr(offsets_[i], offsets_[i + 1] - offsets_[i]);
}

bool TokenTrie::ends_answer(TokenId id) const { return std::binary_search(ends_.begin(), ends_.end(), id); }

}  // namespace tamis
