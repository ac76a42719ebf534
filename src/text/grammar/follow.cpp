// Which bytes a terminal can begin with, and which can come after it: a token that leaves a terminal is worth trying
// only if its next byte can follow.
#include "text/grammar/automaton.h"

namespace tamis {
namespace {

using Step = GrammarAutomaton::Step;

class FollowSets {
 public:
  explicit FollowSets(GrammarAutomaton& automaton)
      : automaton_(automaton), first_(automaton.steps.size()), follow_(automaton.steps.size()) {}

  void run() {
    for (Terminal& terminal : automaton_.terminals)
      for (int byte = 0; byte < 256; ++byte)
        terminal.first[static_cast<size_t>(byte)] =
            automaton_.transition(terminal.start, static_cast<uint8_t>(byte)) != 0;
    find_parents();
    solve_first();
    solve_follow();
    for (uint32_t id = 0; id < automaton_.steps.size(); ++id)
      if (automaton_.steps[id].kind == Step::Kind::terminal)
        automaton_.terminals[automaton_.steps[id].terminal].follow |= follow_[id];
  }

 private:
  uint32_t child(const Step& step, uint32_t i) const { return automaton_.children[step.first_child + i]; }

  void find_parents() {
    parents_.resize(automaton_.steps.size());
    for (uint32_t id = 0; id < automaton_.steps.size(); ++id) {
      const Step& step = automaton_.steps[id];
      for (uint32_t i = 0; i < step.n_children; ++i) parents_[child(step, i)].push_back(id);
    }
  }

  ByteSet first_of(const Step& step) const {
    if (step.kind == Step::Kind::terminal) return automaton_.terminals[step.terminal].first;
    ByteSet out;
    for (uint32_t i = 0; i < step.n_children; ++i) {
      out |= first_[child(step, i)];
      if (step.kind == Step::Kind::sequence && !automaton_.steps[child(step, i)].is_nullable) break;
    }
    return out;
  }

  // Until nothing changes; each set grows at most 256 times.
  void solve_first() {
    std::vector<uint32_t> open;
    for (uint32_t id = 0; id < automaton_.steps.size(); ++id) open.push_back(id);
    while (!open.empty()) {
      const uint32_t id = open.back();
      open.pop_back();
      const ByteSet now = first_of(automaton_.steps[id]);
      if (now == first_[id]) continue;
      first_[id] = now;
      open.insert(open.end(), parents_[id].begin(), parents_[id].end());
    }
  }

  void solve_follow() {
    std::vector<uint32_t> open;
    for (uint32_t id = 0; id < automaton_.steps.size(); ++id) open.push_back(id);
    const auto grow = [&](uint32_t id, const ByteSet& more) {
      const ByteSet now = follow_[id] | more;
      if (now == follow_[id]) return;
      follow_[id] = now;
      open.push_back(id);
    };
    while (!open.empty()) {
      const uint32_t id = open.back();
      open.pop_back();
      const Step& step = automaton_.steps[id];
      ByteSet after = follow_[id];
      for (uint32_t i = step.n_children; i-- > 0;) {
        const uint32_t c = child(step, i);
        if (step.kind == Step::Kind::repeat && step.max > 1) after |= first_[c];
        grow(c, after);
        if (step.kind == Step::Kind::sequence) after = automaton_.steps[c].is_nullable ? after | first_[c] : first_[c];
      }
    }
  }

  GrammarAutomaton& automaton_;
  std::vector<ByteSet> first_, follow_;
  std::vector<std::vector<uint32_t>> parents_;
};

}  // namespace

void find_follow_sets(GrammarAutomaton& automaton) { FollowSets(automaton).run(); }

}  // namespace tamis
