// A small regular-expression dialect and its compilation to a deterministic automaton: how every pre-tokenizer cuts
// text into words. Leftmost-first semantics (those of Perl, Oniguruma, PCRE: earlier alternatives and longer repeats
// are preferred), found without backtracking and without recursion on the text.
//
// Dialect: literals, [sets] with ranges, nested sets and &&, \p{L} and other properties of text/unicode.h, \s \S \d \r
// \n \t, ( ), (?: ), (?i: ) for ASCII letters, | ? * + {m} {m,} {m,n}, (?=set) (?!set) and $ (end of the piece).
// Possessive marks are accepted where they change nothing (the next thing cannot match what was repeated); all patterns
// of the table obey this.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace tamis {

// A set of code points: an intersection of terms, each given by ranges and a mask of unicode::char_class.
struct CharSet {
  struct Term {
    std::vector<std::pair<char32_t, char32_t>> ranges;  // both ends in
    uint32_t classes = 0;
    bool negated = false;
  };
  std::vector<Term> terms;
  bool contains(char32_t code_point, uint32_t char_class) const;
};

// One instruction of the non-deterministic program.
struct RegexStep {
  enum class Kind : uint8_t { set, split, jump, next_in, next_not_in, at_end, match };
  Kind kind;
  uint32_t set = 0;    // index of a CharSet
  uint32_t first = 0;  // where to go; for split, the preferred branch
  uint32_t second = 0;
};

struct RegexProgram {
  std::vector<CharSet> sets;
  std::vector<RegexStep> steps;  // begins at 0
};

// Errors: invalid_argument for what the dialect does not have.
Result<RegexProgram> parse_split_regex(std::string_view pattern);

}  // namespace tamis
