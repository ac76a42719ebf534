// A split pattern as a table-driven automaton over classes of characters, and the search that cuts a piece of text into
// matches and the gaps between them (what Hugging Face calls Split, behaviour "isolated").
//
// Work is linear in the text: a match attempt that runs far past its last acceptance remembers the states it went
// through, and a later attempt that meets one of them there stops (Reps 1998, "Maximal munch" tokenization in linear
// time).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/split_regex.h"

namespace tamis {

// What a search needs besides the automaton; reused between searches, one per thread.
struct SplitScratch {
  std::vector<uint16_t> failing;  // per byte of the piece: a state known not to accept any more from there, + 1
  uint64_t n_steps = 0;           // characters looked at, for tests of linearity
};

class SplitAutomaton {
 public:
  // Errors: invalid_argument when the pattern is outside the dialect, matches the empty string or needs too many
  // states.
  static Result<SplitAutomaton> compile(std::string_view pattern);

  // Appends the end offset of each part of text[begin, end): matches, and the gaps between them. Nothing for an empty
  // piece.
  void split(std::string_view text, size_t begin, size_t end, std::vector<size_t>& part_ends,
             SplitScratch& scratch) const;

  size_t n_states() const { return n_states_; }
  size_t n_classes() const { return n_classes_; }

 private:
  friend class AutomatonBuilder;
  struct Search;
  uint32_t class_of(char32_t code_point) const;

  uint32_t n_states_ = 0;
  uint32_t n_classes_ = 0;                // the last class is the end of the piece
  std::array<uint8_t, 128> ascii_{};      // class of an ASCII character
  std::vector<char32_t> interval_begin_;  // sorted; interval k is [begin_k, begin_k+1)
  std::vector<uint8_t> interval_class_;   // [interval][unicode::char_class]
  std::vector<uint16_t> next_;  // [state][class]: next state (0 = dead), top bit = accepts before this character
};

}  // namespace tamis
