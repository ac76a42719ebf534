// What the grammar fuzzers share: a small vocabulary, a walk under the mask, and grammars put together from snippets.
#pragma once

#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/grammar/grammar.h"

namespace tamis::fuzzing {

inline Limits small_limits() {
  Limits limits;
  limits.grammar_symbols = 4000;
  limits.grammar_states = 1000;
  limits.grammar_steps = 50000;
  return limits;
}

// Raw bytes, or (first byte even) a snippet a byte; 0xe0–0xff repeats the last one.
inline std::string build_text(std::span<const uint8_t> data, std::span<const std::string_view> snippets) {
  if (data.empty()) return {};
  if ((data[0] & 1) != 0) return {reinterpret_cast<const char*>(data.data()) + 1, data.size() - 1};
  std::string out;
  std::string_view last = "(";
  for (const uint8_t byte : data.subspan(1)) {
    if (out.size() > 3000) break;
    if (byte >= 0xe0) {
      for (size_t k = size_t{1} << (byte & 7); k > 0; --k) out += last;
    } else {
      out += last = snippets[byte % snippets.size()];
    }
  }
  return out;
}

inline std::shared_ptr<const TokenTrie> small_vocabulary() {
  std::vector<std::string> tokens = {"</s>"};
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (const std::string_view word :
       {"ab", "abc", "\":", "\",", "\"}", "{\"", "true", " \"", "12", "]}", "\\u", "\n  ", "aaaaaaaa", "\xc3\xa9"})
    tokens.emplace_back(word);
  return std::make_shared<const TokenTrie>(tokens, std::vector<TokenId>{0});
}

// Some steps: a token the mask allows is accepted, one it forbids is not, and going back leads to the same mask.
inline void walk(const Grammar& grammar, std::span<const uint8_t> choices) {
  static const auto trie = small_vocabulary();
  GrammarMatcher matcher(std::make_shared<const TokenMasks>(grammar, trie, size_t{1} << 20));
  std::vector<uint32_t> bits(trie->n_words()), again(trie->n_words());
  for (const uint8_t choice : choices.first(std::min<size_t>(choices.size(), 8))) {
    if (!matcher.fill_mask(bits)) return;
    TokenId id = static_cast<TokenId>(choice % trie->n_vocab());
    const auto is_set = [&](TokenId t) { return (bits[static_cast<size_t>(t) / 32] >> (t % 32) & 1u) != 0; };
    if (!is_set(id) && matcher.accept(id)) std::abort();
    for (size_t n = 0; n < trie->n_vocab() && !is_set(id); ++n)
      id = static_cast<TokenId>((static_cast<size_t>(id) + 1) % trie->n_vocab());
    if (!is_set(id)) return;  // only a grammar followed in too many places at once
    if (const Status status = matcher.accept(id); !status) {
      if (status.error().code == ErrorCode::unsupported) return;
      std::abort();
    }
    matcher.rollback(1);
    if (!matcher.fill_mask(again)) return;
    if (again != bits) std::abort();
    if (!matcher.accept(id)) std::abort();
  }
}

// Input → how many bytes choose tokens, those, then a grammar's text, which `compile` makes a Grammar of.
template <class Compile>
int compile_and_walk(const uint8_t* data, size_t size, std::span<const std::string_view> snippets, Compile compile) {
  if (size < 4) return 0;
  const std::span<const uint8_t> all(data, size);
  const size_t n_walk = std::min<size_t>(data[0] >> 3, size / 2);
  const Result<Grammar> grammar = compile(build_text(all.subspan(n_walk), snippets), small_limits());
  if (grammar) walk(*grammar, all.first(n_walk));
  return 0;
}

}  // namespace tamis::fuzzing
