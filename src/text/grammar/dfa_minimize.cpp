// The smallest automaton of a language: states that cannot accept go, equal ones become one, classes of bytes that are
// never told apart become one. Source: Hopcroft 1971, "An n log n algorithm for minimizing states in a finite
// automaton".
#include <algorithm>
#include <deque>
#include <map>

#include "text/grammar/dfa.h"

namespace tamis {
namespace {

// [n_states] whether an accepting state can be reached.
std::vector<uint8_t> live_states(const Dfa& dfa) {
  const size_t n = dfa.n_states();
  std::vector<std::vector<uint32_t>> sources(n);
  for (uint32_t state = 0; state < n; ++state)
    for (uint32_t c = 0; c < dfa.n_classes; ++c) sources[dfa.next[state * dfa.n_classes + c]].push_back(state);
  std::vector<uint8_t> is_live(n, 0);
  std::vector<uint32_t> open;
  for (uint32_t state = 1; state < n; ++state)
    if (dfa.accepts[state] != 0) is_live[state] = 1, open.push_back(state);
  while (!open.empty()) {
    const uint32_t state = open.back();
    open.pop_back();
    for (const uint32_t source : sources[state])
      if (is_live[source] == 0 && source != 0) is_live[source] = 1, open.push_back(source);
  }
  return is_live;
}

// Hopcroft's partition: block_of[state] after refinement.
class Partition {
 public:
  explicit Partition(const Dfa& dfa) : dfa_(dfa), block_of_(dfa.n_states(), 0), place_(dfa.n_states()) {
    const auto n = static_cast<uint32_t>(dfa.n_states());
    sources_begin_.assign(size_t{dfa.n_classes} * n + 1, 0);
    for (uint32_t state = 0; state < n; ++state)
      for (uint32_t c = 0; c < dfa.n_classes; ++c) ++sources_begin_[slot(c, to(state, c)) + 1];
    for (size_t i = 1; i < sources_begin_.size(); ++i) sources_begin_[i] += sources_begin_[i - 1];
    sources_.resize(size_t{dfa.n_classes} * n);
    std::vector<uint32_t> fill(sources_begin_.begin(), sources_begin_.end() - 1);
    for (uint32_t state = 0; state < n; ++state)
      for (uint32_t c = 0; c < dfa.n_classes; ++c) sources_[fill[slot(c, to(state, c))]++] = state;
    make_first_blocks();
  }

  std::vector<uint32_t> refine() {
    while (!open_.empty()) {
      const auto [block, c] = open_.front();
      open_.pop_front();
      is_open_[block * dfa_.n_classes + c] = 0;
      std::vector<uint32_t> touched;
      const std::vector<uint32_t> members(order_.begin() + begin_[block], order_.begin() + end_[block]);
      for (const uint32_t target : members)
        for (uint32_t i = sources_begin_[slot(c, target)]; i < sources_begin_[slot(c, target) + 1]; ++i)
          move_to_front(sources_[i], touched);
      for (const uint32_t split : touched) split_block(split);
    }
    return block_of_;
  }

 private:
  uint32_t to(uint32_t state, uint32_t c) const { return dfa_.next[state * dfa_.n_classes + c]; }
  size_t slot(uint32_t c, uint32_t target) const { return size_t{c} * dfa_.n_states() + target; }

  void make_first_blocks() {
    const auto n = static_cast<uint32_t>(dfa_.n_states());
    for (uint32_t wanted = 0; wanted < 2; ++wanted) {
      const auto first = static_cast<uint32_t>(order_.size());
      for (uint32_t state = 0; state < n; ++state)
        if (dfa_.accepts[state] == wanted) place(state);
      if (order_.size() > first) add_block(first, static_cast<uint32_t>(order_.size()));
    }
    for (uint32_t block = 0; block < begin_.size(); ++block)
      for (uint32_t c = 0; c < dfa_.n_classes; ++c) open(block, c);
  }
  void place(uint32_t state) {
    place_[state] = static_cast<uint32_t>(order_.size());
    order_.push_back(state);
  }
  void add_block(uint32_t first, uint32_t last) {
    const auto block = static_cast<uint32_t>(begin_.size());
    begin_.push_back(first);
    end_.push_back(last);
    n_marked_.push_back(0);
    is_open_.resize(is_open_.size() + dfa_.n_classes, 0);
    for (uint32_t i = first; i < last; ++i) block_of_[order_[i]] = block;
  }
  void open(uint32_t block, uint32_t c) {
    uint8_t& is_open = is_open_[block * dfa_.n_classes + c];
    if (is_open == 0) open_.emplace_back(block, c);
    is_open = 1;
  }
  void move_to_front(uint32_t state, std::vector<uint32_t>& touched) {
    const uint32_t block = block_of_[state];
    const uint32_t front = begin_[block] + n_marked_[block];
    if (place_[state] < front) return;  // marked already
    if (n_marked_[block]++ == 0) touched.push_back(block);
    const uint32_t other = order_[front];
    std::swap(order_[front], order_[place_[state]]);
    std::swap(place_[other], place_[state]);
  }
  void split_block(uint32_t block) {
    const uint32_t middle = begin_[block] + n_marked_[block];
    n_marked_[block] = 0;
    if (middle == end_[block]) return;
    const uint32_t first = begin_[block];
    begin_[block] = middle;
    add_block(first, middle);
    const auto fresh = static_cast<uint32_t>(begin_.size() - 1);
    const bool is_fresh_smaller = middle - first <= end_[block] - middle;
    for (uint32_t c = 0; c < dfa_.n_classes; ++c)
      open(is_open_[block * dfa_.n_classes + c] != 0 || is_fresh_smaller ? fresh : block, c);
  }

  const Dfa& dfa_;
  std::vector<uint32_t> block_of_, order_, place_;  // order_: states by block
  std::vector<uint32_t> begin_, end_, n_marked_;    // of blocks, in order_
  std::vector<uint32_t> sources_begin_, sources_;
  std::deque<std::pair<uint32_t, uint32_t>> open_;
  std::vector<uint8_t> is_open_;
};

// Classes with equal columns become one.
void merge_classes(Dfa& dfa) {
  std::map<std::vector<uint32_t>, uint8_t> columns;
  std::vector<uint8_t> new_class(dfa.n_classes);
  for (uint32_t c = 0; c < dfa.n_classes; ++c) {
    std::vector<uint32_t> column(dfa.n_states());
    for (uint32_t state = 0; state < dfa.n_states(); ++state) column[state] = dfa.next[state * dfa.n_classes + c];
    new_class[c] = columns.emplace(std::move(column), static_cast<uint8_t>(columns.size())).first->second;
  }
  const auto n_classes = static_cast<uint32_t>(columns.size());
  std::vector<uint32_t> next(dfa.n_states() * n_classes);
  for (const auto& [column, c] : columns)
    for (uint32_t state = 0; state < dfa.n_states(); ++state) next[state * n_classes + c] = column[state];
  for (uint8_t& c : dfa.class_of) c = new_class[c];
  dfa.next = std::move(next);
  dfa.n_classes = n_classes;
}

}  // namespace

Dfa minimize(const Dfa& dfa, uint32_t start) {
  const std::vector<uint8_t> is_live = live_states(dfa);
  if (is_live[start] == 0) {
    Dfa nothing;
    nothing.next.assign(1, 0);
    return nothing;
  }
  Dfa live = dfa;
  for (uint32_t& to : live.next)
    if (is_live[to] == 0) to = 0;
  const std::vector<uint32_t> block_of = Partition(live).refine();

  Dfa out;
  out.class_of = live.class_of;
  out.n_classes = live.n_classes;
  out.next.assign(out.n_classes, 0);
  std::vector<uint32_t> number(dfa.n_states(), 0);  // of a block, in the order they are met
  std::vector<uint32_t> some_state = {0, start};    // a state of each numbered block
  number[block_of[start]] = Dfa::kStart;
  out.accepts.push_back(live.accepts[start]);
  for (uint32_t state = 1; state < some_state.size(); ++state) {
    for (uint32_t c = 0; c < out.n_classes; ++c) {
      const uint32_t to = live.next[some_state[state] * out.n_classes + c];
      if (to != 0 && number[block_of[to]] == 0) {
        number[block_of[to]] = static_cast<uint32_t>(some_state.size());
        some_state.push_back(to);
        out.accepts.push_back(live.accepts[to]);
      }
      out.next.push_back(to == 0 ? 0 : number[block_of[to]]);
    }
  }
  merge_classes(out);
  return out;
}

}  // namespace tamis
