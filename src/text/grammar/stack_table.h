// Where a parse can stand: sets of places in the automaton, each with its stack of return places. Stacks are shared (a
// tree of frames, equal ones stored once), and where a stack leads to when its top is done is worked out once.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/grammar/automaton.h"

namespace tamis {

using StackId = uint32_t;  // 0 = the bottom: after it the answer is complete

struct Config {
  uint32_t state;  // of the automaton's table, never dead
  uint32_t count;  // units begun, in a counted terminal
  StackId stack;   // goes on there when the terminal is done
  friend bool operator==(const Config&, const Config&) = default;
};

// All places a text can have led to.
struct Position {
  std::vector<Config> configs;
  bool is_complete = false;  // the text is a whole answer
  bool is_alive() const { return is_complete || !configs.empty(); }
  void clear() { configs.clear(), is_complete = false; }
};

class StackTable {
 public:
  // How many places are followed at once; a grammar more ambiguous than that loses texts.
  static constexpr size_t kMostConfigs = 256;

  explicit StackTable(const GrammarAutomaton& automaton) : automaton_(automaton) { clear(); }

  // From now on about `work` comparisons may be done; when they are, is_spent() and what comes out is not to be used.
  void allow(uint64_t work) { work_left_ = work; }
  bool is_spent() const { return work_left_ == 0; }

  void clear();
  void start(Position& out);  // before the first byte
  // out = where `byte` leads from `from`. Requires: out is not from.
  void step(const Position& from, uint8_t byte, Position& out);
  // Adds the places where a stack goes on.
  void resume(StackId stack, Position& out);

  // Frames, and places worked out for them: what memory grows with.
  size_t n_held() const { return frames_.size() + n_resumed_; }
  // Keeps only the stacks of `live` (their ids change); for tables that have grown.
  void compact(std::span<Config> live);

  const GrammarAutomaton& automaton() const { return automaton_; }

 private:
  struct Frame {
    StackId parent;
    uint32_t step;
    uint32_t value;        // of a sequence: the child to go on with; of a repeat: how often it has been done
    uint32_t resumed = 0;  // index into resumed_ + 1
  };
  struct Entry {  // something still to be entered
    uint32_t step, from;
    StackId stack;
  };
  StackId push(StackId parent, uint32_t step, uint32_t value);
  void enter(uint32_t step, uint32_t from, StackId stack, std::vector<Config>& out);
  void expand(const Entry& entry);
  // Enters what comes after the top frame; true when the frame can also be skipped.
  bool leave(const Frame& frame, std::vector<Config>& out);
  void add(Position& out, const Config& config);
  void charge(uint64_t work) { work_left_ -= work < work_left_ ? work : work_left_; }

  const GrammarAutomaton& automaton_;
  std::vector<Frame> frames_;
  std::unordered_map<uint64_t, std::vector<StackId>> index_;
  std::vector<Position> resumed_;
  size_t n_resumed_ = 0;  // places in them
  std::vector<Entry> open_;
  std::vector<Entry> seen_;
  uint64_t work_left_ = UINT64_MAX;
};

// Whether the whole text is an answer.
bool matches_text(const GrammarAutomaton& automaton, std::string_view text);

}  // namespace tamis
