// Subset construction and products of automata.
#include "text/grammar/dfa.h"

#include <algorithm>
#include <unordered_map>

namespace tamis {

bool Dfa::matches(std::string_view text) const {
  if (is_empty()) return false;
  uint32_t state = kStart;
  for (const char c : text) state = step(state, static_cast<uint8_t>(c));
  return accepts[state] != 0;
}

bool Dfa::has_next(uint32_t state) const {
  const auto row = next.begin() + ptrdiff_t{state} * n_classes;
  return std::any_of(row, row + n_classes, [](uint32_t to) { return to != 0; });
}

size_t Dfa::n_bytes_from(uint32_t state) const {
  size_t n = 0;
  for (int byte = 0; byte < 256; ++byte) n += step(state, static_cast<uint8_t>(byte)) != 0 ? 1 : 0;
  return n;
}

bool Dfa::is_prefix_free() const {
  for (uint32_t state = 1; state < n_states(); ++state)
    if (accepts[state] != 0 && has_next(state)) return false;
  return true;
}

bool Dfa::is_wide() const {
  constexpr size_t kWideBytes = 70;  // more than letters, digits and some signs
  for (uint32_t state = 1; state < n_states(); ++state)
    if (n_bytes_from(state) > kWideBytes) return true;
  return false;
}

namespace {

struct VectorHash {
  size_t operator()(const std::vector<uint32_t>& v) const {
    uint64_t h = 0x9e3779b97f4a7c15u;
    for (const uint32_t x : v) h = (h ^ x) * 0xff51afd7ed558ccdu, h ^= h >> 29;
    return static_cast<size_t>(h);
  }
};

class SubsetConstruction {
 public:
  SubsetConstruction(const Nfa& nfa, size_t max_states, WorkBudget& budget)
      : nfa_(nfa), max_states_(max_states), budget_(budget), mark_(nfa.states.size(), 0) {}

  std::optional<Dfa> run() {
    make_classes();
    out_.next.assign(out_.n_classes, 0);
    std::vector<uint32_t> first = {nfa_.start};
    close(first, true);
    if (!add_subset(std::move(first), true)) return std::nullopt;
    std::vector<std::vector<uint32_t>> targets(out_.n_classes);
    for (uint32_t state = 1; state < out_.n_states(); ++state) {
      for (const uint32_t from : *subsets_[state - 1])
        for (const Nfa::Edge& edge : nfa_.states[from].edges)
          for (uint32_t c = out_.class_of[edge.low]; c <= out_.class_of[edge.high]; ++c) targets[c].push_back(edge.to);
      for (uint32_t c = 0; c < out_.n_classes; ++c) {
        if (targets[c].empty()) continue;
        close(targets[c], false);
        const auto to = add_subset(std::move(targets[c]), false);
        if (!to) return std::nullopt;
        out_.next[state * out_.n_classes + c] = *to;
        targets[c].clear();
      }
    }
    return minimize(out_, Dfa::kStart);
  }

 private:
  // Bytes that no edge tells apart share a class; classes ascend with bytes, so an edge covers a range of them.
  void make_classes() {
    std::array<bool, 257> begins{};
    for (const Nfa::State& state : nfa_.states)
      for (const Nfa::Edge& edge : state.edges) begins[edge.low] = begins[edge.high + 1] = true;
    uint8_t c = 0;
    for (size_t byte = 1; byte < 256; ++byte) {
      if (begins[byte]) ++c;
      out_.class_of[byte] = c;
    }
    out_.n_classes = c + 1u;
  }

  void close(std::vector<uint32_t>& states, bool at_begin) {
    ++stamp_;
    std::vector<uint32_t> out;
    for (size_t i = 0; i < states.size(); ++i) {
      const uint32_t state = states[i];
      if (mark_[state] == stamp_) continue;
      mark_[state] = stamp_;
      out.push_back(state);
      for (const Nfa::Epsilon& epsilon : nfa_.states[state].epsilons)
        if (epsilon.when == Assertion::none || (epsilon.when == Assertion::at_begin && at_begin))
          states.push_back(epsilon.to);
    }
    std::sort(out.begin(), out.end());
    states = std::move(out);
  }

  // Whether epsilons alone lead to acceptance, $ among them.
  bool accepts(std::vector<uint32_t> states, bool at_begin) {
    ++stamp_;
    while (!states.empty()) {
      const uint32_t state = states.back();
      states.pop_back();
      if (state == nfa_.accept) return true;
      if (mark_[state] == stamp_) continue;
      mark_[state] = stamp_;
      for (const Nfa::Epsilon& epsilon : nfa_.states[state].epsilons)
        if (epsilon.when != Assertion::at_begin || at_begin) states.push_back(epsilon.to);
    }
    return false;
  }

  std::optional<uint32_t> add_subset(std::vector<uint32_t> subset, bool at_begin) {
    if (!budget_.spend(subset.size() + 1)) return std::nullopt;
    // The first subset alone may use ^, so it is never one that is come back to.
    if (!at_begin) {
      const auto known = index_.find(subset);
      if (known != index_.end()) return known->second;
    }
    if (out_.n_states() > max_states_) return std::nullopt;
    const auto state = static_cast<uint32_t>(out_.n_states());
    out_.accepts.push_back(accepts(subset, at_begin) ? 1 : 0);
    out_.next.resize(out_.next.size() + out_.n_classes, 0);
    if (at_begin) {
      first_ = std::move(subset);
      subsets_.push_back(&first_);
    } else {
      subsets_.push_back(&index_.emplace(std::move(subset), state).first->first);
    }
    return state;
  }

  const Nfa& nfa_;
  size_t max_states_;
  WorkBudget& budget_;
  std::vector<uint32_t> mark_;
  uint32_t stamp_ = 0;
  Dfa out_;
  std::vector<uint32_t> first_;
  std::unordered_map<std::vector<uint32_t>, uint32_t, VectorHash> index_;
  std::vector<const std::vector<uint32_t>*> subsets_;
};

// Pairs of states reachable together; `keep(in_a, in_b)` says which pairs accept. With `needs_b`, b's dead state ends
// the pair.
template <class Keep>
std::optional<Dfa> product(const Dfa& a, const Dfa& b, bool needs_b, Keep keep, size_t max_states, WorkBudget& budget) {
  Dfa out;
  std::unordered_map<uint32_t, uint8_t> class_ids;
  std::vector<std::pair<uint8_t, uint8_t>> classes;
  for (size_t byte = 0; byte < 256; ++byte) {
    const uint32_t key = a.class_of[byte] * 256u + b.class_of[byte];
    const auto [it, is_new] = class_ids.emplace(key, static_cast<uint8_t>(classes.size()));
    if (is_new) classes.emplace_back(a.class_of[byte], b.class_of[byte]);
    out.class_of[byte] = it->second;
  }
  out.n_classes = static_cast<uint32_t>(classes.size());
  out.next.assign(out.n_classes, 0);
  if (a.is_empty() || (needs_b && b.is_empty())) return Dfa{};
  std::unordered_map<uint64_t, uint32_t> ids;
  std::vector<std::pair<uint32_t, uint32_t>> pairs = {{0, 0}};
  const auto id_of = [&](uint32_t in_a, uint32_t in_b) -> uint32_t {
    if (in_a == 0 || (needs_b && in_b == 0)) return 0;
    const auto [it, is_new] = ids.emplace(uint64_t{in_a} << 32 | in_b, static_cast<uint32_t>(pairs.size()));
    if (is_new) {
      pairs.emplace_back(in_a, in_b);
      out.accepts.push_back(keep(a.accepts[in_a] != 0, b.accepts[in_b] != 0) ? 1 : 0);
      out.next.resize(out.next.size() + out.n_classes, 0);
    }
    return it->second;
  };
  id_of(Dfa::kStart, b.is_empty() ? 0 : Dfa::kStart);
  for (uint32_t state = 1; state < pairs.size(); ++state) {
    if (pairs.size() > max_states + 1 || !budget.spend(out.n_classes)) return std::nullopt;
    const auto [in_a, in_b] = pairs[state];
    for (uint32_t c = 0; c < out.n_classes; ++c) {
      const uint32_t to_b = in_b == 0 ? 0 : b.next[in_b * b.n_classes + classes[c].second];
      const uint32_t to = id_of(a.next[in_a * a.n_classes + classes[c].first], to_b);
      out.next[state * out.n_classes + c] = to;
    }
  }
  return minimize(out, Dfa::kStart);
}

}  // namespace

std::optional<Dfa> determinize(const Nfa& nfa, size_t max_states, WorkBudget& budget) {
  return SubsetConstruction(nfa, max_states, budget).run();
}

std::optional<Dfa> intersect(const Dfa& a, const Dfa& b, size_t max_states, WorkBudget& budget) {
  return product(
      a, b, true, [](bool in_a, bool in_b) { return in_a && in_b; }, max_states, budget);
}

std::optional<Dfa> subtract(const Dfa& a, const Dfa& b, size_t max_states, WorkBudget& budget) {
  return product(
      a, b, false, [](bool in_a, bool in_b) { return in_a && !in_b; }, max_states, budget);
}

}  // namespace tamis
