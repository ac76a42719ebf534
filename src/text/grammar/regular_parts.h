// How large the automaton of a part would be, and whether the part is free text: what decides which parts of a grammar
// become one terminal.
#pragma once

#include <vector>

#include "text/grammar/ir.h"

namespace tamis {

struct RegularParts {
  // About how many states a part's automaton needs; kUnbounded for one that recurs, or that must stay apart.
  std::vector<uint32_t> size;
  std::vector<uint8_t> is_wide;  // holds a character class that most tokens fit
};

RegularParts measure_parts(const GrammarSource& source);

}  // namespace tamis
