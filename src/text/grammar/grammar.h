// Structured output: what text an answer may be, and so which tokens may come next. Between the caller's grammar, regex
// or JSON Schema and the sampler's logits.
//
// A Grammar is compiled once (a pushdown automaton over bytes); TokenMasks joins it to a vocabulary and remembers which
// tokens each of its states allows; a GrammarMatcher is one generation's position in it.
//   Grammar (text) + TokenTrie (vocabulary) → TokenMasks (shared by threads) → GrammarMatcher (one a sequence)
// The ideas are XGrammar's (Dong et al. 2024, arXiv:2411.15100: tokens that stay inside one state are known beforehand,
// the others are tried against the stack) and llguidance's (lexer automata, a trie of the vocabulary).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.h"
#include "base/result.h"
#include "formats/json.h"
#include "text/tokenizer.h"

namespace tamis {

struct GrammarAutomaton;  // automaton.h
class GrammarSource;      // ir.h

// What stands around and between JSON values that follow each other.
struct JsonRow {
  std::string before, between, after;
  friend bool operator==(const JsonRow&, const JsonRow&) = default;
};

// A compiled grammar; immutable, cheap to copy. Every position it can reach can be completed: no dead ends.
class Grammar {
 public:
  // llama.cpp's GBNF; the answer is what the rule `root` describes. Errors: invalid_argument naming line and column, or
  // the rule: syntax, unknown or left-recursive rule, a rule that no finite text matches, a limit.
  static Result<Grammar> from_gbnf(std::string_view text, const Limits& limits = {});
  // A regular expression that the whole answer matches. Errors: invalid_argument naming the byte; unsupported for
  // lookaround, backreferences and the like, by name.
  static Result<Grammar> from_regex(std::string_view pattern, const Limits& limits = {});
  // JSON Schema (draft 2020-12; docs/structured-output.md lists the keywords). Nothing is ignored: a keyword or a
  // combination that cannot be kept is an error (unsupported, or invalid_argument for a schema that is not one or that
  // nothing satisfies), naming its JSON pointer.
  static Result<Grammar> from_parsed_schema(const Json& schema, const Limits& limits = {});
  static Result<Grammar> from_json_schema(std::string_view schema, const Limits& limits = {});
  // One or more values of a schema: `before` VALUE `between` VALUE … `after`. Errors: as from_json_schema().
  static Result<Grammar> from_json_row(std::string_view schema, const JsonRow& row, const Limits& limits = {});
  // Any JSON object.
  static Result<Grammar> json_object();

  const GrammarAutomaton& automaton() const { return *automaton_; }
  size_t size_bytes() const;
  // Whether the whole text is an answer.
  bool matches(std::string_view text) const;

 private:
  explicit Grammar(std::shared_ptr<const GrammarAutomaton> automaton) : automaton_(std::move(automaton)) {}
  static Result<Grammar> compile(const std::function<Result<uint32_t>(GrammarSource&)>& parse, const Limits& limits);
  std::shared_ptr<const GrammarAutomaton> automaton_;
};

// The tokens of a vocabulary by their bytes. Control, unknown and unused tokens are not in it; tokens that end an
// answer are kept apart.
class TokenTrie {
 public:
  // Errors: unsupported for WordPiece, whose tokens do not stand for fixed bytes.
  static Result<std::shared_ptr<const TokenTrie>> create(const Tokenizer& tokenizer);
  // The same from plain data: tokens[id] is the id's bytes, "" for one that is never text.
  TokenTrie(std::span<const std::string> tokens, std::vector<TokenId> end_of_generation);

  struct Node {
    uint32_t end;          // the node after this one's subtree (nodes are in depth-first order)
    uint32_t first_token;  // its tokens are ids()[first_token, first_token of the next node)
    uint16_t depth;        // bytes from the root
    uint8_t byte;          // the last of them
  };
  std::span<const Node> nodes() const { return nodes_; }  // [0] is the root; the last is a sentinel
  std::span<const TokenId> ids() const { return ids_; }
  std::string_view bytes(TokenId id) const;  // "" for ids that are not in the trie
  bool ends_answer(TokenId id) const;
  std::span<const TokenId> end_of_generation() const { return ends_; }
  size_t n_vocab() const { return offsets_.size() - 1; }
  size_t n_words() const { return (n_vocab() + 31) / 32; }  // of a mask
  size_t max_depth() const { return max_depth_; }

 private:
  std::string pool_;
  std::vector<uint32_t> offsets_;  // [n_vocab + 1] into pool_
  std::vector<Node> nodes_;
  std::vector<TokenId> ids_;
  std::vector<TokenId> ends_;
  size_t max_depth_ = 0;
};

class MaskStore;  // token_masks.h

// A grammar over a vocabulary: the masks of its states, made when first needed and kept up to a number of bytes. Safe
// to use from several threads.
class TokenMasks {
 public:
  TokenMasks(Grammar grammar, std::shared_ptr<const TokenTrie> trie, size_t max_bytes = size_t{64} << 20);
  ~TokenMasks();
  const Grammar& grammar() const { return grammar_; }
  const TokenTrie& trie() const { return *trie_; }
  MaskStore& store() const { return *store_; }
  size_t size_bytes() const;  // of the grammar and its masks now

 private:
  Grammar grammar_;
  std::shared_ptr<const TokenTrie> trie_;
  std::unique_ptr<MaskStore> store_;
};

// One generation under a grammar. Not for several threads at once, but each call may come from another thread: the mask
// of the next token can be made while the model computes its logits.
class GrammarMatcher {
 public:
  explicit GrammarMatcher(std::shared_ptr<const TokenMasks> masks);
  ~GrammarMatcher();
  GrammarMatcher(GrammarMatcher&&) noexcept;
  GrammarMatcher& operator=(GrammarMatcher&&) noexcept;

  // Sets bit id % 32 of bits[id / 32] for each token that may come next, clears all others. Tokens that end the answer
  // are allowed where it is complete; after one of them only they are. Errors: unsupported when the answer can be read
  // in too many ways at once, or nests too deep, to be followed in bounded time and memory: no token is offered (all
  // bits are clear) or accepted any more, until reset().
  //   bits [trie().n_words()]
  [[nodiscard]] Status fill_mask(std::span<uint32_t> bits);
  // Goes on by one token. Errors: invalid_argument when the grammar does not allow it, nothing changes then;
  // unsupported as fill_mask().
  [[nodiscard]] Status accept(TokenId id);
  // Takes back the last n accepted tokens. Requires: n <= n_accepted().
  void rollback(size_t n);
  void reset();

  bool is_complete() const;  // the text so far is a whole answer
  bool must_end() const;     // … and nothing can follow it
  size_t n_accepted() const;
  const TokenMasks& masks() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Sets the logits of tokens that a mask forbids, or does not reach, to −∞.
void apply_token_mask(std::span<float> logits, std::span<const uint32_t> bits);

// What a caller may ask for.
struct GrammarSpec {
  enum class Kind : uint8_t { gbnf, regex, json_schema, json_object };
  Kind kind = Kind::json_object;
  std::string text;                 // "" for json_object
  std::optional<JsonRow> row = {};  // json_schema: one or more such values, so written
  friend bool operator==(const GrammarSpec&, const GrammarSpec&) = default;
};

// Compiled grammars of one vocabulary by their text; past max_bytes (grammars and masks) the least recently used go,
// but live on with those who hold them. Safe to use from several threads.
class GrammarCache {
 public:
  explicit GrammarCache(std::shared_ptr<const TokenTrie> trie, size_t max_bytes = size_t{256} << 20,
                        const Limits& limits = {});
  ~GrammarCache();
  // Errors: those of Grammar's functions; an error is not kept.
  Result<std::shared_ptr<const TokenMasks>> get(const GrammarSpec& spec);
  size_t n_entries() const;
  size_t size_bytes() const;

 private:
  struct Entries;
  std::shared_ptr<const TokenTrie> trie_;
  Limits limits_;
  size_t max_bytes_;
  std::unique_ptr<Entries> entries_;
};

}  // namespace tamis
