// A grammar as its front ends (GBNF, regex, JSON Schema) write it down: a tree of parts for each rule. compile.cpp
// makes the automaton of it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/result.h"
#include "text/grammar/dfa.h"

namespace tamis {

using PartId = uint32_t;
using RuleId = uint32_t;
constexpr uint32_t kUnbounded = 0xffffffff;

// Code points, ascending ranges with both ends in.
using CodePointRanges = std::vector<std::pair<char32_t, char32_t>>;
CodePointRanges normalize(CodePointRanges ranges);   // sorted, joined, without surrogates
CodePointRanges complement(CodePointRanges ranges);  // all other scalar values

// How a character is written: as itself, or inside a JSON string.
enum class CharForm : uint8_t {
  utf8,
  json,      // ASCII as itself where JSON allows; other characters also as \uXXXX
  json_any,  // every way JSON has
};

struct Part {
  enum class Kind : uint8_t { literal, chars, sequence, choice, repeat, rule, automaton, assertion };
  Kind kind = Kind::sequence;
  CharForm form = CharForm::utf8;             // chars
  Assertion assertion = Assertion::none;      // assertion
  uint32_t min = 1, max = 1;                  // repeat; max kUnbounded = no end
  RuleId rule = 0;                            // rule
  uint32_t depth = 1;                         // of the tree below
  std::string bytes = {};                     // literal
  CodePointRanges ranges = {};                // chars
  std::vector<PartId> children = {};          // sequence (none: the empty text), choice (none: nothing at all), repeat
  std::shared_ptr<const Dfa> automaton = {};  // automaton
};

struct GrammarRule {
  std::string name;
  PartId body = 0;
  bool is_defined = false;
};

class GrammarSource {
 public:
  explicit GrammarSource(const Limits& limits);

  PartId empty() const { return kEmpty; }
  PartId never() const { return kNever; }
  PartId literal(std::string_view bytes);
  PartId chars(CodePointRanges ranges, CharForm form = CharForm::utf8);
  PartId sequence(std::vector<PartId> children);
  PartId choice(std::vector<PartId> children);
  PartId repeat(PartId child, uint32_t min, uint32_t max);
  PartId optional(PartId child) { return repeat(child, 0, 1); }
  PartId automaton(std::shared_ptr<const Dfa> dfa);
  PartId assertion(Assertion what);
  PartId reference(RuleId rule);
  RuleId add_rule(std::string name);
  void define(RuleId rule, PartId body);

  // Errors: invalid_argument once the grammar has more symbols, nested deeper, than its limits allow.
  Status check_size() const;

  // Goes on with the counts of symbols and work of another source: both belong to one grammar.
  void take_over(const GrammarSource& other) {
    n_symbols_ = std::max(n_symbols_, other.n_symbols_);
    budget_ = other.budget_;
  }

  // The automaton of one part without references to rules. Nothing as for determinize().
  std::optional<Dfa> to_dfa(PartId part, size_t max_states);

  const std::vector<Part>& parts() const { return parts_; }
  const std::vector<GrammarRule>& rules() const { return rules_; }
  const Limits& limits() const { return limits_; }
  WorkBudget& budget() { return budget_; }

 private:
  static constexpr PartId kEmpty = 0, kNever = 1;
  PartId add(Part part);

  Limits limits_;
  WorkBudget budget_;
  std::vector<Part> parts_;
  std::vector<GrammarRule> rules_;
  uint64_t n_symbols_ = 0;
  uint32_t depth_ = 0;
};

// Adds the automaton of a part between two states of `nfa`; `body_of(rule)` is the part a reference stands for.
// Requires: max_states of room was estimated; returns false once the nfa has more than max_states.
class NfaWriter {
 public:
  NfaWriter(const GrammarSource& source, Nfa& nfa, size_t max_states)
      : source_(source), nfa_(nfa), max_states_(max_states) {}
  bool add(PartId part, uint32_t from, uint32_t to);

 private:
  bool add_repeat(const Part& part, uint32_t from, uint32_t to);
  void add_literal(std::string_view bytes, uint32_t from, uint32_t to);
  const GrammarSource& source_;
  Nfa& nfa_;
  size_t max_states_;
};

// Adds a copy of an automaton between two states.
void add_automaton(Nfa& nfa, const Dfa& dfa, uint32_t from, uint32_t to);

// chars.cpp: adds one character of `ranges` between two states.
void add_chars(Nfa& nfa, uint32_t from, uint32_t to, const CodePointRanges& ranges, CharForm form);

}  // namespace tamis
