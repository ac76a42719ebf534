// Frames, and the two ways through them: into a step, and on after it.
#include "text/grammar/stack_table.h"

#include <algorithm>

namespace tamis {

using Step = GrammarAutomaton::Step;

namespace {
constexpr uint64_t kWorkOfEntry = 8;  // an entry and its frames take as long as some comparisons of places
}

void StackTable::clear() {
  frames_.assign(1, {0, 0, 0});
  index_.clear();
  resumed_.clear();
  n_resumed_ = 0;
}

StackId StackTable::push(StackId parent, uint32_t step, uint32_t value) {
  const uint64_t key = (uint64_t{parent} << 32 | step) * 0x9e3779b97f4a7c15u ^ value * uint64_t{0xff51afd7ed558ccd};
  std::vector<StackId>& bucket = index_[key];
  for (const StackId id : bucket) {
    const Frame& frame = frames_[id];
    if (frame.parent == parent && frame.step == step && frame.value == value) return id;
  }
  const auto id = static_cast<StackId>(frames_.size());
  frames_.push_back({parent, step, value});
  bucket.push_back(id);
  return id;
}

void StackTable::add(Position& out, const Config& config) {
  charge(1 + out.configs.size());
  if (out.configs.size() >= kMostConfigs) return;
  if (std::find(out.configs.begin(), out.configs.end(), config) == out.configs.end()) out.configs.push_back(config);
}

void StackTable::start(Position& out) {
  out.clear();
  enter(automaton_.root, 0, 0, out.configs);
  out.is_complete = automaton_.steps[automaton_.root].is_nullable;
}

// Every way into a step that reads at least one byte. Without left recursion this ends.
void StackTable::enter(uint32_t step, uint32_t from, StackId stack, std::vector<Config>& out) {
  open_.clear();
  seen_.clear();
  open_.push_back({step, from, stack});
  while (!open_.empty() && out.size() < kMostConfigs && seen_.size() < 4 * kMostConfigs && !is_spent()) {
    charge(kWorkOfEntry + out.size() + seen_.size());
    const Entry entry = open_.back();
    open_.pop_back();
    const Step& at = automaton_.steps[entry.step];
    if (at.kind == Step::Kind::terminal) {
      const Config config{automaton_.terminals[at.terminal].start, 0, entry.stack};
      if (std::find(out.begin(), out.end(), config) == out.end()) out.push_back(config);
      continue;
    }
    // Alternatives that share a beginning meet in one rule: once is enough.
    if (at.kind == Step::Kind::jump) {
      const auto is_same = [&](const Entry& e) { return e.step == entry.step && e.stack == entry.stack; };
      if (std::any_of(seen_.begin(), seen_.end(), is_same)) continue;
      seen_.push_back(entry);
    }
    expand(entry);
  }
}

void StackTable::expand(const Entry& entry) {
  const Step& at = automaton_.steps[entry.step];
  const uint32_t* children = automaton_.children.data() + at.first_child;
  switch (at.kind) {
    case Step::Kind::terminal: return;
    case Step::Kind::jump: open_.push_back({children[0], 0, entry.stack}); return;
    case Step::Kind::choice:
      charge(at.n_children);
      for (uint32_t i = at.n_children; i-- > 0;) open_.push_back({children[i], 0, entry.stack});
      return;
    case Step::Kind::repeat: open_.push_back({children[0], 0, push(entry.stack, entry.step, 1)}); return;
    case Step::Kind::sequence:
      for (uint32_t i = entry.from; i < at.n_children; ++i) {
        const bool is_last = i + 1 == at.n_children;
        charge(kWorkOfEntry);
        open_.push_back({children[i], 0, is_last ? entry.stack : push(entry.stack, entry.step, i + 1)});
        if (!automaton_.steps[children[i]].is_nullable) return;
      }
  }
}

bool StackTable::leave(const Frame& frame, std::vector<Config>& out) {
  const Step& at = automaton_.steps[frame.step];
  if (at.kind == Step::Kind::sequence) {
    enter(frame.step, frame.value, frame.parent, out);
    return frame.value >= automaton_.skippable_from[frame.step];
  }
  if (frame.value < at.max) {
    // Past the minimum of an endless repeat, counts are all alike.
    const uint32_t value = at.max == kUnbounded ? std::min(frame.value + 1, std::max(at.min, 1u)) : frame.value + 1;
    enter(automaton_.children[at.first_child], 0, push(frame.parent, frame.step, value), out);
  }
  return frame.value >= at.min;
}

void StackTable::resume(StackId stack, Position& out) {
  const auto take = [&](const Position& from) {
    for (const Config& config : from.configs) add(out, config);
    out.is_complete |= from.is_complete;
  };
  if (frames_[stack].resumed != 0) return take(resumed_[frames_[stack].resumed - 1]);
  Position reached;
  for (StackId at = stack; !is_spent();) {
    charge(kWorkOfEntry);
    if (at == 0) {
      reached.is_complete = true;
      break;
    }
    if (frames_[at].resumed != 0) {
      const Position& known = resumed_[frames_[at].resumed - 1];
      for (const Config& config : known.configs) add(reached, config);
      reached.is_complete |= known.is_complete;
      break;
    }
    const Frame frame = frames_[at];
    if (!leave(frame, reached.configs)) break;
    at = frame.parent;
  }
  take(reached);
  if (is_spent()) return;
  n_resumed_ += reached.configs.size();
  resumed_.push_back(std::move(reached));
  frames_[stack].resumed = static_cast<uint32_t>(resumed_.size());
}

void StackTable::step(const Position& from, uint8_t byte, Position& out) {
  out.clear();
  for (const Config& config : from.configs) {
    if (is_spent()) return;
    charge(1);
    const uint32_t to = automaton_.transition(config.state, byte);
    if (to == 0) continue;
    const GrammarAutomaton::State& state = automaton_.states[to & kStateMask];
    const Terminal& terminal = automaton_.terminals[state.terminal];
    uint32_t count = config.count;
    if ((to & kBeginsUnit) != 0) {
      if (count >= terminal.max) continue;
      // Past the minimum of an endless repeat, counts are all alike.
      if (terminal.max != kUnbounded || count < terminal.min) ++count;
    }
    if ((to & kBeginsTail) != 0 && count < terminal.min) continue;
    const bool is_full = state.needs_min && count >= terminal.max;  // where units begin, and none may
    if (state.has_next && !is_full) add(out, {to & kStateMask, count, config.stack});
    if (state.accepts && (!state.needs_min || count >= terminal.min)) resume(config.stack, out);
  }
}

void StackTable::compact(std::span<Config> live) {
  std::vector<StackId> new_id(frames_.size(), 0);
  std::vector<uint8_t> is_needed(frames_.size(), 0);
  for (const Config& config : live)
    for (StackId id = config.stack; id != 0 && is_needed[id] == 0; id = frames_[id].parent) is_needed[id] = 1;
  const std::vector<Frame> old = std::move(frames_);
  clear();
  // A frame's parent is older than it.
  for (StackId id = 1; id < old.size(); ++id)
    if (is_needed[id] != 0) new_id[id] = push(new_id[old[id].parent], old[id].step, old[id].value);
  for (Config& config : live) config.stack = new_id[config.stack];
}

bool matches_text(const GrammarAutomaton& automaton, std::string_view text) {
  StackTable stacks(automaton);
  Position now, next;
  stacks.start(now);
  for (const char c : text) {
    stacks.step(now, static_cast<uint8_t>(c), next);
    if (!next.is_alive()) return false;
    std::swap(now, next);
  }
  return now.is_complete;
}

}  // namespace tamis
