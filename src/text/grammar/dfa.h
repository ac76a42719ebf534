// Finite automata over bytes: how the regular parts of a grammar are read. A non-deterministic one is put together by
// ir.cpp; determinize() makes the smallest deterministic one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tamis {

// What is left of the work one grammar may cause (Limits::grammar_steps).
struct WorkBudget {
  uint64_t steps = 0;
  bool spend(uint64_t n) {
    if (n > steps) return steps = 0, false;
    return steps -= n, true;
  }
};

// State 0 is dead; every other state can reach an accepting one. Without any other state the language is empty.
struct Dfa {
  static constexpr uint32_t kStart = 1;
  std::array<uint8_t, 256> class_of{};
  uint32_t n_classes = 1;
  std::vector<uint32_t> next;          // [n_states][n_classes]
  std::vector<uint8_t> accepts = {0};  // [n_states]

  size_t n_states() const { return accepts.size(); }
  bool is_empty() const { return n_states() < 2; }
  uint32_t step(uint32_t state, uint8_t byte) const { return next[state * n_classes + class_of[byte]]; }
  bool accepts_empty() const { return !is_empty() && accepts[kStart] != 0; }
  bool matches(std::string_view text) const;
  bool has_next(uint32_t state) const;
  size_t n_bytes_from(uint32_t state) const;  // how many bytes lead on
  // No word is the beginning of another.
  bool is_prefix_free() const;
  // A state takes so many bytes that most tokens of a vocabulary begin there: free text.
  bool is_wide() const;

  friend bool operator==(const Dfa&, const Dfa&) = default;
};

// ^ and $ are epsilons that hold only before the first byte and after the last one.
enum class Assertion : uint8_t { none, at_begin, at_end };

struct Nfa {
  struct Edge {
    uint8_t low, high;
    uint32_t to;
  };
  struct Epsilon {
    Assertion when;
    uint32_t to;
  };
  struct State {
    std::vector<Edge> edges;
    std::vector<Epsilon> epsilons;
  };
  std::vector<State> states;
  uint32_t start = 0, accept = 0;

  uint32_t add_state() { return states.emplace_back(), static_cast<uint32_t>(states.size() - 1); }
  void add_edge(uint32_t from, uint8_t low, uint8_t high, uint32_t to) {
    states[from].edges.push_back({low, high, to});
  }
  void add_epsilon(uint32_t from, uint32_t to, Assertion when = Assertion::none) {
    states[from].epsilons.push_back({when, to});
  }
};

// The minimal automaton of the same language. Nothing when it (or an intermediate one) has more than max_states states,
// or the budget is used up. Source: subset construction; Hopcroft 1971, an n log n algorithm.
std::optional<Dfa> determinize(const Nfa& nfa, size_t max_states, WorkBudget& budget);

// The words of a that are (or are not) words of b; minimal; nothing as above.
std::optional<Dfa> intersect(const Dfa& a, const Dfa& b, size_t max_states, WorkBudget& budget);
std::optional<Dfa> subtract(const Dfa& a, const Dfa& b, size_t max_states, WorkBudget& budget);

// Removes states that cannot accept, merges equal ones, numbers from the start. `next` and `accepts` may have any
// number of states; 0 is dead, `start` any. For dfa_minimize.cpp's callers here.
Dfa minimize(const Dfa& dfa, uint32_t start);

}  // namespace tamis
