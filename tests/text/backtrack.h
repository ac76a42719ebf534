// The slow reference of the split automaton: backtracking over the same program, preferred branches first. Recursive:
// short texts.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "text/split_regex.h"
#include "text/unicode.h"

namespace tamis::testing {

// Tries the ways the program can go on from (step, i), most preferred first, until `accept` takes an end.
inline bool backtrack(const RegexProgram& program, uint32_t step, const std::u32string& text, size_t i,
                      const std::function<bool(size_t)>& accept, int depth) {
  if (depth > 2000) return false;
  const RegexStep& s = program.steps[step];
  const auto in_set = [&] {
    return i < text.size() && program.sets[s.set].contains(text[i], unicode::char_class(text[i]));
  };
  const auto go = [&](uint32_t to, size_t at) { return backtrack(program, to, text, at, accept, depth + 1); };
  switch (s.kind) {
    case RegexStep::Kind::match: return accept(i);
    case RegexStep::Kind::set: return in_set() && go(s.first, i + 1);
    case RegexStep::Kind::jump: return go(s.first, i);
    case RegexStep::Kind::split: return go(s.first, i) || go(s.second, i);
    case RegexStep::Kind::next_in: return in_set() && go(s.first, i);
    case RegexStep::Kind::next_not_in: return !in_set() && go(s.first, i);
    case RegexStep::Kind::at_end: return i == text.size() && go(s.first, i);
  }
  return false;
}

// Ends of matches and gaps, as offsets[k] for the border before character k (offsets has one entry more than text).
inline std::vector<size_t> backtracking_split(const RegexProgram& program, const std::u32string& text,
                                              const std::vector<size_t>& offsets) {
  std::vector<size_t> ends;
  size_t gap = 0;
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    backtrack(
        program, 0, text, i, [&](size_t at) { return (end = at, true); }, 0);
    if (end == i) {
      ++i;
      continue;
    }
    if (gap < i) ends.push_back(offsets[i]);
    ends.push_back(offsets[end]);
    gap = i = end;
  }
  if (gap < text.size()) ends.push_back(offsets[text.size()]);
  return ends;
}

}  // namespace tamis::testing
