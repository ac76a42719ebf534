// Grammars as trees, and regular parts of them as automata.
#include "text/grammar/ir.h"

#include <algorithm>

namespace tamis {

CodePointRanges normalize(CodePointRanges ranges) {
  std::sort(ranges.begin(), ranges.end());
  CodePointRanges joined;
  for (const auto& [first, last] : ranges) {
    if (first > last) continue;
    if (!joined.empty() && first <= joined.back().second + 1) {
      joined.back().second = std::max(joined.back().second, last);
    } else {
      joined.emplace_back(first, last);
    }
  }
  CodePointRanges out;
  for (const auto& [first, last] : joined) {
    if (first < 0xd800) out.emplace_back(first, std::min<char32_t>(last, 0xd7ff));
    if (last > 0xdfff && first <= 0x10ffff)
      out.emplace_back(std::max<char32_t>(first, 0xe000), std::min<char32_t>(last, 0x10ffff));
  }
  return out;
}

CodePointRanges complement(CodePointRanges ranges) {
  CodePointRanges out;
  char32_t next = 0;
  for (const auto& [first, last] : normalize(std::move(ranges))) {
    if (first > next) out.emplace_back(next, first - 1);
    next = last + 1;
  }
  if (next <= 0x10ffff) out.emplace_back(next, 0x10ffff);
  return normalize(std::move(out));
}

GrammarSource::GrammarSource(const Limits& limits) : limits_(limits), budget_{limits.grammar_steps} {
  add({.kind = Part::Kind::sequence});
  add({.kind = Part::Kind::choice});
}

PartId GrammarSource::add(Part part) {
  for (const PartId child : part.children) part.depth = std::max(part.depth, parts_[child].depth + 1);
  depth_ = std::max(depth_, part.depth);
  n_symbols_ += 1 + part.children.size() + part.bytes.size() + part.ranges.size();
  parts_.push_back(std::move(part));
  return static_cast<PartId>(parts_.size() - 1);
}

PartId GrammarSource::literal(std::string_view bytes) {
  return bytes.empty() ? kEmpty : add({.kind = Part::Kind::literal, .bytes = std::string(bytes)});
}

PartId GrammarSource::chars(CodePointRanges ranges, CharForm form) {
  ranges = normalize(std::move(ranges));
  return ranges.empty() ? kNever : add({.kind = Part::Kind::chars, .form = form, .ranges = std::move(ranges)});
}

PartId GrammarSource::sequence(std::vector<PartId> children) {
  std::erase(children, kEmpty);
  if (std::find(children.begin(), children.end(), kNever) != children.end()) return kNever;
  if (children.empty()) return kEmpty;
  return children.size() == 1 ? children[0] : add({.kind = Part::Kind::sequence, .children = std::move(children)});
}

PartId GrammarSource::choice(std::vector<PartId> children) {
  std::erase(children, kNever);
  if (children.empty()) return kNever;
  return children.size() == 1 ? children[0] : add({.kind = Part::Kind::choice, .children = std::move(children)});
}

PartId GrammarSource::repeat(PartId child, uint32_t min, uint32_t max) {
  if (max == 0 || child == kEmpty) return kEmpty;
  if (child == kNever) return min == 0 ? kEmpty : kNever;
  if (min == 1 && max == 1) return child;
  return add({.kind = Part::Kind::repeat, .min = min, .max = max, .children = {child}});
}

PartId GrammarSource::automaton(std::shared_ptr<const Dfa> dfa) {
  if (dfa->is_empty()) return kNever;
  n_symbols_ += dfa->n_states();
  return add({.kind = Part::Kind::automaton, .automaton = std::move(dfa)});
}

PartId GrammarSource::assertion(Assertion what) { return add({.kind = Part::Kind::assertion, .assertion = what}); }

PartId GrammarSource::reference(RuleId rule) { return add({.kind = Part::Kind::rule, .rule = rule}); }

RuleId GrammarSource::add_rule(std::string name) {
  ++n_symbols_;
  rules_.push_back({.name = std::move(name)});
  return static_cast<RuleId>(rules_.size() - 1);
}

void GrammarSource::define(RuleId rule, PartId body) {
  rules_[rule].body = body;
  rules_[rule].is_defined = true;
}

Status GrammarSource::check_size() const {
  if (n_symbols_ > limits_.grammar_symbols) {
    return fail(ErrorCode::invalid_argument, "got more than {} symbols, expected a smaller grammar",
                limits_.grammar_symbols);
  }
  if (depth_ > 4 * limits_.grammar_depth)
    return fail(ErrorCode::invalid_argument, "nested more than {} deep", limits_.grammar_depth);
  return {};
}

std::optional<Dfa> GrammarSource::to_dfa(PartId part, size_t max_states) {
  Nfa nfa;
  nfa.start = nfa.add_state();
  nfa.accept = nfa.add_state();
  const size_t max_nfa_states = 8 * max_states + 4096;
  if (!NfaWriter(*this, nfa, max_nfa_states).add(part, nfa.start, nfa.accept)) return std::nullopt;
  if (!budget_.spend(nfa.states.size())) return std::nullopt;
  return determinize(nfa, max_states, budget_);
}

bool NfaWriter::add(PartId id, uint32_t from, uint32_t to) {
  if (nfa_.states.size() > max_states_) return false;
  const Part& part = source_.parts()[id];
  switch (part.kind) {
    case Part::Kind::literal: return add_literal(part.bytes, from, to), true;
    case Part::Kind::chars: return add_chars(nfa_, from, to, part.ranges, part.form), true;
    case Part::Kind::assertion: return nfa_.add_epsilon(from, to, part.assertion), true;
    case Part::Kind::automaton: return add_automaton(nfa_, *part.automaton, from, to), true;
    case Part::Kind::rule: return add(source_.rules()[part.rule].body, from, to);
    case Part::Kind::repeat: return add_repeat(part, from, to);
    case Part::Kind::choice:
      for (const PartId child : part.children) {
        // A state of its own for each alternative: a repeat inside one must not lead into another.
        const uint32_t begin = nfa_.add_state();
        nfa_.add_epsilon(from, begin);
        if (!add(child, begin, to)) return false;
      }
      return true;
    case Part::Kind::sequence:
      for (size_t i = 0; i < part.children.size(); ++i) {
        const uint32_t next = i + 1 == part.children.size() ? to : nfa_.add_state();
        if (!add(part.children[i], from, next)) return false;
        from = next;
      }
      if (part.children.empty()) nfa_.add_epsilon(from, to);
      return true;
  }
  return true;
}

bool NfaWriter::add_repeat(const Part& part, uint32_t from, uint32_t to) {
  for (uint32_t i = 0; i < part.min; ++i) {
    const uint32_t next = nfa_.add_state();
    if (!add(part.children[0], from, next)) return false;
    from = next;
  }
  if (part.max == kUnbounded) {
    const uint32_t begin = nfa_.add_state(), end = nfa_.add_state();
    nfa_.add_epsilon(from, begin);
    nfa_.add_epsilon(end, begin);
    nfa_.add_epsilon(begin, to);
    return add(part.children[0], begin, end);
  }
  for (uint32_t i = part.min; i < part.max; ++i) {
    const uint32_t next = nfa_.add_state();
    nfa_.add_epsilon(from, to);
    if (!add(part.children[0], from, next)) return false;
    from = next;
  }
  nfa_.add_epsilon(from, to);
  return true;
}

void NfaWriter::add_literal(std::string_view bytes, uint32_t from, uint32_t to) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    const uint32_t next = i + 1 == bytes.size() ? to : nfa_.add_state();
    nfa_.add_edge(from, static_cast<uint8_t>(bytes[i]), static_cast<uint8_t>(bytes[i]), next);
    from = next;
  }
}

void add_automaton(Nfa& nfa, const Dfa& dfa, uint32_t from, uint32_t to) {
  if (dfa.is_empty()) return;
  const auto first = static_cast<uint32_t>(nfa.states.size());
  for (uint32_t state = 1; state < dfa.n_states(); ++state) nfa.add_state();
  nfa.add_epsilon(from, first);
  for (uint32_t state = 1; state < dfa.n_states(); ++state) {
    const uint32_t here = first + state - 1;
    if (dfa.accepts[state] != 0) nfa.add_epsilon(here, to);
    for (uint32_t low = 0; low < 256;) {
      const uint32_t target = dfa.step(state, static_cast<uint8_t>(low));
      uint32_t high = low;
      while (high < 255 && dfa.step(state, static_cast<uint8_t>(high + 1)) == target) ++high;
      if (target != 0) nfa.add_edge(here, static_cast<uint8_t>(low), static_cast<uint8_t>(high), first + target - 1);
      low = high + 1;
    }
  }
}

}  // namespace tamis
