// The compiled form of a grammar: a pushdown automaton over bytes. Regular parts are deterministic automata
// ("terminals", all states in one table); what joins them is a tree of steps that a stack of return places walks
// through.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <vector>

#include "text/grammar/ir.h"

namespace tamis {

using ByteSet = std::bitset<256>;

// Transitions are state numbers with these marks. A counted terminal is unit{min,max} tail: the count goes up where a
// unit begins (refused at max), and a unit must not be left for the tail (refused below min).
constexpr uint32_t kBeginsUnit = 0x80000000, kBeginsTail = 0x40000000, kStateMask = 0x3fffffff;

struct Terminal {
  uint32_t start = 0;
  bool is_counted = false;
  uint32_t min = 0, max = kUnbounded;  // of units, when counted
  ByteSet first = {};                  // bytes it can begin with
  ByteSet follow = {};                 // bytes that can come after it, wherever it stands
};

struct GrammarAutomaton {
  struct Step {
    enum class Kind : uint8_t { terminal, sequence, choice, repeat, jump };
    Kind kind;
    bool is_nullable;
    uint32_t first_child = 0, n_children = 0;  // in `children`; jump: `children` holds the step gone to
    uint32_t min = 0, max = 0;                 // repeat
    uint32_t terminal = 0;
  };
  struct State {
    uint32_t row;  // of `next`; a byte's column is class_of[map * 256 + byte]
    uint32_t map;
    uint32_t terminal;
    bool accepts;
    bool has_next;
    bool needs_min;  // accepts only once the terminal's min is reached
  };

  std::vector<Step> steps;
  std::vector<uint32_t> children;
  std::vector<uint32_t> skippable_from;  // of a sequence: its children from this index on are all nullable; by step
  std::vector<Terminal> terminals;
  std::vector<State> states;  // [0] is dead
  std::vector<uint32_t> next;
  std::vector<uint8_t> class_of;  // [n_maps * 256]
  uint32_t root = 0;

  size_t size_bytes() const {
    return steps.size() * sizeof(Step) + (children.size() + skippable_from.size() + next.size()) * sizeof(uint32_t) +
           terminals.size() * sizeof(Terminal) + states.size() * sizeof(State) + class_of.size();
  }
  // The marked transition, 0 when there is none.
  uint32_t transition(uint32_t state, uint8_t byte) const {
    const State& from = states[state];
    return next[from.row + class_of[from.map * size_t{256} + byte]];
  }
};

// Checks a grammar whose rule `root` is given and makes its automaton. Errors: invalid_argument for undefined,
// left-recursive and endless rules and for what passes the limits.
Result<GrammarAutomaton> compile_grammar(GrammarSource& source, RuleId root);

// grammar_checks.cpp: facts about every part.
struct PartFacts {
  std::vector<uint8_t> is_nullable, is_productive;  // by part
};
// Errors: invalid_argument naming an undefined rule, a root that no finite text matches, or a left-recursive rule.
Result<PartFacts> check_grammar(const GrammarSource& source, RuleId root);

// follow.cpp: fills in `first` and `follow` of the terminals.
void find_follow_sets(GrammarAutomaton& automaton);

}  // namespace tamis
