// From a grammar's tree to its automaton: regular parts become terminals, the rest steps.
#include <algorithm>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>

#include "text/grammar/automaton.h"
#include "text/grammar/regular_parts.h"

namespace tamis {
namespace {

using Step = GrammarAutomaton::Step;
constexpr uint32_t kMostFolded = 600;       // measured size of parts that become one terminal
constexpr size_t kMostFoldedStates = 1024;  // its states

class Compiler {
 public:
  Compiler(GrammarSource& source, const PartFacts& facts)
      : source_(source), facts_(facts), regular_(measure_parts(source)), body_of_(source.rules().size(), kNone) {
    out_.states.push_back({});
  }

  Result<GrammarAutomaton> compile(RuleId root) {
    TAMIS_TRY(out_.root, step_of_rule(root));
    // Bodies of rules as they are named; `jumps_` grows meanwhile.
    for (size_t i = 0; i < jumps_.size(); ++i) {
      const auto [step, rule] = jumps_[i];
      TAMIS_TRY(const uint32_t body, step_of_rule(rule));
      out_.children[out_.steps[step].first_child] = body;
    }
    shorten_jumps();
    find_skippable();
    find_follow_sets(out_);
    return std::move(out_);
  }

 private:
  static constexpr uint32_t kNone = 0xffffffff;

  const Part& part(PartId id) const { return source_.parts()[id]; }
  bool is_regular(PartId id) const { return regular_.size[id] <= kMostFolded; }

  tl::unexpected<Error> too_large() const {
    return source_.budget().steps == 0
               ? fail(ErrorCode::invalid_argument, "takes more than {} steps to compile, expected a simpler grammar",
                      source_.limits().grammar_steps)
               : fail(ErrorCode::invalid_argument, "needs more than {} states, expected a smaller grammar",
                      source_.limits().grammar_states);
  }

  Result<uint32_t> step_of_rule(RuleId rule) {
    if (body_of_[rule] == kNone) {
      TAMIS_TRY(body_of_[rule], step_of(source_.rules()[rule].body));
    }
    return body_of_[rule];
  }

  // ---- steps

  uint32_t add_step(Step::Kind kind, bool is_nullable, std::span<const uint32_t> children) {
    Step step{.kind = kind, .is_nullable = is_nullable};
    step.first_child = static_cast<uint32_t>(out_.children.size());
    step.n_children = static_cast<uint32_t>(children.size());
    out_.children.insert(out_.children.end(), children.begin(), children.end());
    out_.steps.push_back(step);
    return static_cast<uint32_t>(out_.steps.size() - 1);
  }
  bool is_nullable(uint32_t step) const { return out_.steps[step].is_nullable; }

  uint32_t sequence_step(std::span<const uint32_t> children) {
    if (children.size() == 1) return children[0];
    const bool nullable = std::all_of(children.begin(), children.end(), [this](uint32_t s) { return is_nullable(s); });
    return add_step(Step::Kind::sequence, nullable, children);
  }
  uint32_t choice_step(std::span<const uint32_t> children) {
    if (children.size() == 1) return children[0];
    const bool nullable = std::any_of(children.begin(), children.end(), [this](uint32_t s) { return is_nullable(s); });
    return add_step(Step::Kind::choice, nullable, children);
  }
  uint32_t repeat_step(uint32_t child, uint32_t min, uint32_t max) {
    const uint32_t least = is_nullable(child) ? 0 : min;
    const uint32_t step = add_step(Step::Kind::repeat, least == 0, std::span(&child, 1));
    out_.steps[step].min = least;
    out_.steps[step].max = max;
    return step;
  }
  uint32_t jump_step(RuleId rule) {
    const uint32_t nowhere = 0;
    const uint32_t step =
        add_step(Step::Kind::jump, facts_.is_nullable[source_.rules()[rule].body] != 0, std::span(&nowhere, 1));
    jumps_.emplace_back(step, rule);
    return step;
  }

  Result<uint32_t> step_of(PartId id) {
    const auto known = steps_.find(id);
    if (known != steps_.end()) return known->second;
    TAMIS_TRY(const uint32_t step, make_step(id));
    steps_.emplace(id, step);
    return step;
  }

  Result<uint32_t> make_step(PartId id) {
    if (is_regular(id)) {
      if (const auto dfa = fold(std::span(&id, 1), kMostFoldedStates)) return terminal_step(*dfa);
    }
    switch (part(id).kind) {
      case Part::Kind::literal:
      case Part::Kind::chars:
      case Part::Kind::automaton:
      case Part::Kind::assertion: {
        const auto dfa = fold(std::span(&id, 1), source_.limits().grammar_states);
        if (!dfa) return too_large();
        return terminal_step(*dfa);
      }
      case Part::Kind::sequence: return step_of_sequence(id);
      case Part::Kind::choice: return step_of_choice(id);
      case Part::Kind::repeat: return step_of_repeat(id);
      case Part::Kind::rule: return jump_step(part(id).rule);
    }
    return too_large();
  }

  Result<uint32_t> step_of_sequence(PartId id) {
    const std::vector<PartId> parts = part(id).children;
    std::vector<uint32_t> steps;
    for (size_t i = 0; i < parts.size();) {
      size_t end = i + 1;
      TAMIS_TRY(auto step, counted_step(parts, i, end));
      if (!step) {
        end = end_of_run(parts, i);
        const auto run = std::span(parts).subspan(i, end - i);
        const auto dfa = run.size() > 1 ? fold(run, kMostFoldedStates) : std::nullopt;
        if (dfa) {
          TAMIS_TRY(step, terminal_step(*dfa));
        } else {
          end = i + 1;
          TAMIS_TRY(step, step_of(parts[i]));
        }
      }
      steps.push_back(*step);
      i = end;
    }
    return sequence_step(steps);
  }

  // The end of the longest run of regular parts from i on that may be one terminal.
  size_t end_of_run(std::span<const PartId> parts, size_t i) const {
    uint64_t size = 0;
    size_t end = i;
    while (end < parts.size() && regular_.size[parts[end]] != kUnbounded &&
           (size += regular_.size[parts[end]]) <= kMostFolded)
      ++end;
    return std::max(end, i + 1);
  }

  Result<uint32_t> step_of_choice(PartId id) {
    const std::vector<PartId> parts = part(id).children;
    std::vector<PartId> regular;
    std::vector<uint32_t> steps;
    uint64_t size = 0;
    for (const PartId child : parts) {
      if (facts_.is_productive[child] == 0) continue;
      if (is_regular(child) && size + regular_.size[child] <= kMostFolded) {
        size += regular_.size[child];
        regular.push_back(child);
      } else {
        TAMIS_TRY(const uint32_t step, step_of(child));
        steps.push_back(step);
      }
    }
    const auto dfa = regular.size() > 1 ? fold_choice(regular) : std::nullopt;
    if (dfa) {
      TAMIS_TRY(const uint32_t step, terminal_step(*dfa));
      steps.push_back(step);
    } else {
      for (const PartId child : regular) {
        TAMIS_TRY(const uint32_t step, step_of(child));
        steps.push_back(step);
      }
    }
    return choice_step(steps);
  }

  Result<uint32_t> step_of_repeat(PartId id) {
    const Part repeated = part(id);
    if (facts_.is_productive[repeated.children[0]] == 0) return add_step(Step::Kind::sequence, true, {});
    size_t end = 1;
    TAMIS_TRY(const auto counted, counted_step(std::span(&id, 1), 0, end));
    if (counted) return *counted;
    TAMIS_TRY(const uint32_t child, step_of(repeated.children[0]));
    return repeat_step(child, repeated.min, repeated.max);
  }

  // A repeat of a regular part, with the regular parts after it where they begin with other bytes, as one counted
  // terminal; `end` is set after what was taken. Nothing when parts[i] is not like that.
  Result<std::optional<uint32_t>> counted_step(std::span<const PartId> parts, size_t i, size_t& end) {
    const Part repeated = part(parts[i]);
    if (repeated.kind != Part::Kind::repeat || is_regular(parts[i])) return std::nullopt;
    const PartId child = repeated.children[0];
    const bool is_one_terminal = is_regular(child) || part(child).kind == Part::Kind::automaton;
    if (facts_.is_productive[child] == 0 || !is_one_terminal) return std::nullopt;
    const auto unit = fold(std::span(&child, 1), kMostFoldedStates);
    if (!unit || unit->accepts_empty() || !unit->is_prefix_free()) return std::nullopt;
    std::optional<Dfa> tail;
    const size_t tail_end = i + 1 < parts.size() ? end_of_run(parts, i + 1) : i + 1;
    if (i + 1 < parts.size() && is_regular(parts[i + 1])) {
      tail = fold(parts.subspan(i + 1, tail_end - i - 1), kMostFoldedStates);
      if (tail && (tail->accepts_empty() || !begin_apart(*unit, *tail))) tail.reset();
    }
    end = tail ? tail_end : i + 1;
    TAMIS_TRY(const uint32_t terminal, add_counted(*unit, tail ? *tail : Dfa{}, repeated.min, repeated.max));
    return leaf_step(terminal, repeated.min == 0 && !tail);
  }

  static bool begin_apart(const Dfa& a, const Dfa& b) {
    for (int byte = 0; byte < 256; ++byte)
      if (a.step(Dfa::kStart, static_cast<uint8_t>(byte)) != 0 && b.step(Dfa::kStart, static_cast<uint8_t>(byte)) != 0)
        return false;
    return true;
  }

  // ---- terminals

  std::optional<Dfa> fold(std::span<const PartId> run, size_t max_states) {
    for (const PartId id : run)
      if (facts_.is_productive[id] == 0) return std::nullopt;
    if (run.size() == 1 && part(run[0]).kind == Part::Kind::automaton) return *part(run[0]).automaton;
    return make_dfa(run, max_states, false);
  }
  std::optional<Dfa> fold_choice(std::span<const PartId> alternatives) {
    return make_dfa(alternatives, kMostFoldedStates, true);
  }
  std::optional<Dfa> make_dfa(std::span<const PartId> parts, size_t max_states, bool is_choice) {
    Nfa nfa;
    nfa.start = nfa.add_state();
    nfa.accept = nfa.add_state();
    NfaWriter writer(source_, nfa, 8 * max_states + 4096);
    uint32_t from = nfa.start;
    for (const PartId id : parts) {
      uint32_t to = nfa.accept;
      if (is_choice) {
        from = nfa.add_state();
        nfa.add_epsilon(nfa.start, from);
      } else {
        to = nfa.add_state();
      }
      if (!writer.add(id, from, to)) return std::nullopt;
      from = to;
    }
    if (!is_choice) nfa.add_epsilon(from, nfa.accept);
    if (!source_.budget().spend(nfa.states.size())) return std::nullopt;
    return determinize(nfa, max_states, source_.budget());
  }

  uint32_t leaf_step(uint32_t terminal, bool is_nullable) {
    const uint32_t step = add_step(Step::Kind::terminal, is_nullable, {});
    out_.steps[step].terminal = terminal;
    return step;
  }

  Result<uint32_t> terminal_step(const Dfa& dfa) {
    if (!dfa.has_next(Dfa::kStart)) return add_step(Step::Kind::sequence, true, {});  // the empty text
    std::vector<uint32_t> key(dfa.next);
    key.insert(key.end(), dfa.class_of.begin(), dfa.class_of.end());
    key.insert(key.end(), dfa.accepts.begin(), dfa.accepts.end());
    const auto known = terminals_.find(key);
    if (known != terminals_.end()) return leaf_step(known->second, dfa.accepts_empty());
    const auto terminal = static_cast<uint32_t>(out_.terminals.size());
    TAMIS_TRY_STATUS(add_states(dfa, terminal));
    out_.terminals.push_back({.start = static_cast<uint32_t>(out_.states.size() - dfa.n_states() + 1)});
    terminals_.emplace(std::move(key), terminal);
    return leaf_step(terminal, dfa.accepts_empty());
  }

  Status add_states(const Dfa& dfa, uint32_t terminal) {
    const auto base = static_cast<uint32_t>(out_.states.size() - 1);  // state s of the automaton becomes base + s
    if (base + dfa.n_states() > source_.limits().grammar_states) return too_large();
    const auto map = static_cast<uint32_t>(out_.class_of.size() / 256);
    out_.class_of.insert(out_.class_of.end(), dfa.class_of.begin(), dfa.class_of.end());
    for (uint32_t state = 1; state < dfa.n_states(); ++state) {
      out_.states.push_back({.row = static_cast<uint32_t>(out_.next.size()),
                             .map = map,
                             .terminal = terminal,
                             .accepts = dfa.accepts[state] != 0,
                             .has_next = dfa.has_next(state),
                             .needs_min = false});
      for (uint32_t c = 0; c < dfa.n_classes; ++c) {
        const uint32_t to = dfa.next[state * dfa.n_classes + c];
        out_.next.push_back(to == 0 ? 0 : base + to);
      }
    }
    return {};
  }

  // A state where units begin, then the units' and the tail's own states.
  Result<uint32_t> add_counted(const Dfa& unit, const Dfa& tail, uint32_t min, uint32_t max) {
    const bool has_tail = !tail.is_empty();
    Dfa joined;  // marks are put on the transitions of its start below
    const auto n_unit = static_cast<uint32_t>(unit.n_states());
    const auto unit_state = [&](uint32_t s) { return s == 0 ? 0 : unit.accepts[s] != 0 ? Dfa::kStart : s + 1; };
    const auto tail_state = [&](uint32_t s) { return s == 0 ? 0 : s + n_unit; };
    joined.n_classes = 256;
    for (size_t byte = 0; byte < 256; ++byte) joined.class_of[byte] = static_cast<uint8_t>(byte);
    joined.accepts.assign(1 + n_unit + (has_tail ? tail.n_states() - 1 : 0), 0);
    joined.next.assign(joined.n_states() * 256, 0);
    joined.accepts[Dfa::kStart] = has_tail ? 0 : 1;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const auto b = static_cast<uint8_t>(byte);
      for (uint32_t s = 1; s < n_unit; ++s) joined.next[(s + 1) * 256 + byte] = unit_state(unit.step(s, b));
      for (uint32_t s = 1; has_tail && s < tail.n_states(); ++s)
        joined.next[(s + n_unit) * 256 + byte] = tail_state(tail.step(s, b));
      joined.next[256 + byte] = unit_state(unit.step(Dfa::kStart, b));
      if (joined.next[256 + byte] == 0 && has_tail) joined.next[256 + byte] = tail_state(tail.step(Dfa::kStart, b));
    }
    for (uint32_t s = 1; has_tail && s < tail.n_states(); ++s) joined.accepts[s + n_unit] = tail.accepts[s];
    const auto terminal = static_cast<uint32_t>(out_.terminals.size());
    const auto start = static_cast<uint32_t>(out_.states.size());
    TAMIS_TRY_STATUS(add_states(joined, terminal));
    out_.states[start].needs_min = !has_tail;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      uint32_t& to = out_.next[out_.states[start].row + byte];
      if (to != 0) to |= unit.step(Dfa::kStart, static_cast<uint8_t>(byte)) != 0 ? kBeginsUnit : kBeginsTail;
    }
    out_.terminals.push_back({.start = start, .is_counted = true, .min = min, .max = max});
    return terminal;
  }

  // A jump to a jump goes to the end at once: long chains of rules cost nothing later.
  void shorten_jumps() {
    const auto target = [this](uint32_t step) -> uint32_t& { return out_.children[out_.steps[step].first_child]; };
    for (const auto& [first, rule] : jumps_) {
      uint32_t end = first;
      while (out_.steps[end].kind == Step::Kind::jump) end = target(end);
      for (uint32_t step = first; out_.steps[step].kind == Step::Kind::jump;) step = std::exchange(target(step), end);
    }
  }

  void find_skippable() {
    out_.skippable_from.assign(out_.steps.size(), 0);
    for (uint32_t id = 0; id < out_.steps.size(); ++id) {
      const Step& step = out_.steps[id];
      uint32_t from = step.n_children;
      while (step.kind == Step::Kind::sequence && from > 0 && is_nullable(out_.children[step.first_child + from - 1]))
        --from;
      out_.skippable_from[id] = from;
    }
  }

  GrammarSource& source_;
  const PartFacts& facts_;
  RegularParts regular_;
  GrammarAutomaton out_;
  std::vector<uint32_t> body_of_;                   // step of a rule's body, or kNone
  std::vector<std::pair<uint32_t, RuleId>> jumps_;  // steps whose target is to be filled in
  std::unordered_map<PartId, uint32_t> steps_;
  std::map<std::vector<uint32_t>, uint32_t> terminals_;  // by the automaton's tables
};

}  // namespace

Result<GrammarAutomaton> compile_grammar(GrammarSource& source, RuleId root) {
  TAMIS_TRY(const PartFacts facts, check_grammar(source, root));
  return Compiler(source, facts).compile(root);
}

}  // namespace tamis
