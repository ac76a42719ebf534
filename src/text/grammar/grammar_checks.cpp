// What must hold before a grammar becomes an automaton: rules exist, can end, and begin with something.
#include <algorithm>

#include "text/grammar/automaton.h"

namespace tamis {
namespace {

// The least solution of "a part has the property when enough of its children have it", in linear time.
class Propagation {
 public:
  explicit Propagation(const GrammarSource& source) : source_(source), parents_(source.parts().size()) {
    const auto& parts = source.parts();
    std::vector<std::vector<PartId>> references(source.rules().size());
    for (PartId id = 0; id < parts.size(); ++id) {
      for (const PartId child : parts[id].children) parents_[child].push_back(id);
      if (parts[id].kind == Part::Kind::rule) references[parts[id].rule].push_back(id);
    }
    for (RuleId rule = 0; rule < references.size(); ++rule) {
      auto& parents = parents_[source.rules()[rule].body];
      parents.insert(parents.end(), references[rule].begin(), references[rule].end());
    }
  }

  // needs(part): how many children it takes; 0 = it has the property by itself, kUnbounded = it never has.
  template <class Needs>
  std::vector<uint8_t> solve(Needs needs) const {
    const auto& parts = source_.parts();
    std::vector<uint32_t> missing(parts.size());
    std::vector<uint8_t> has(parts.size(), 0);
    std::vector<PartId> open;
    for (PartId id = 0; id < parts.size(); ++id) {
      missing[id] = needs(parts[id]);
      if (missing[id] == 0) has[id] = 1, open.push_back(id);
    }
    while (!open.empty()) {
      const PartId id = open.back();
      open.pop_back();
      for (const PartId parent : parents_[id])
        if (has[parent] == 0 && missing[parent] != kUnbounded && --missing[parent] == 0)
          has[parent] = 1, open.push_back(parent);
    }
    return has;
  }

 private:
  const GrammarSource& source_;
  std::vector<std::vector<PartId>> parents_;
};

uint32_t n_children(const Part& part) { return static_cast<uint32_t>(part.children.size()); }

uint32_t needs_to_be_nullable(const Part& part) {
  switch (part.kind) {
    case Part::Kind::literal:
    case Part::Kind::chars: return kUnbounded;
    case Part::Kind::assertion: return 0;
    case Part::Kind::automaton: return part.automaton->accepts_empty() ? 0 : kUnbounded;
    case Part::Kind::sequence: return n_children(part);
    case Part::Kind::choice: return part.children.empty() ? kUnbounded : 1;
    case Part::Kind::repeat: return part.min == 0 ? 0 : 1;
    case Part::Kind::rule: return 1;
  }
  return kUnbounded;
}

uint32_t needs_to_be_productive(const Part& part) {
  switch (part.kind) {
    case Part::Kind::literal:
    case Part::Kind::chars:
    case Part::Kind::assertion:
    case Part::Kind::automaton: return 0;
    case Part::Kind::sequence: return n_children(part);
    case Part::Kind::choice: return part.children.empty() ? kUnbounded : 1;
    case Part::Kind::repeat: return part.min == 0 ? 0 : 1;
    case Part::Kind::rule: return 1;
  }
  return kUnbounded;
}

// A depth-first search over what a part can begin with; a way back to a part still open is left recursion.
class LeftCorners {
 public:
  LeftCorners(const GrammarSource& source, const PartFacts& facts)
      : source_(source), facts_(facts), state_(source.parts().size(), 0) {}

  // The name of a rule that begins with itself, or null. Every rule is a place to start: one that the root does not
  // begin with is entered later.
  const std::string* find_cycle() {
    for (const GrammarRule& rule : source_.rules()) {
      if (state_[rule.body] != kNew || facts_.is_productive[rule.body] == 0) continue;
      if (const std::string* name = find_cycle_from(rule.body)) return name;
    }
    return nullptr;
  }

 private:
  const std::string* find_cycle_from(PartId body) {
    visit(body);
    while (!stack_.empty()) {
      Frame& top = stack_.back();
      const Part& part = source_.parts()[top.part];
      PartId child = 0;
      if (!next_child(part, top.next, child)) {
        state_[top.part] = kDone;
        stack_.pop_back();
        continue;
      }
      if (state_[child] == kOpen) return name_of_cycle(child);
      if (state_[child] == kNew) visit(child);
    }
    return nullptr;
  }

  enum : uint8_t { kNew, kOpen, kDone };
  struct Frame {
    PartId part;
    uint32_t next;  // child to look at
  };

  void visit(PartId part) {
    state_[part] = kOpen;
    stack_.push_back({part, 0});
  }

  bool next_child(const Part& part, uint32_t& next, PartId& child) const {
    if (part.kind == Part::Kind::rule) {
      child = source_.rules()[part.rule].body;
      return next++ == 0;
    }
    for (; next < part.children.size(); ++next) {
      if (part.kind == Part::Kind::sequence && next > 0 && facts_.is_nullable[part.children[next - 1]] == 0)
        return false;
      if (facts_.is_productive[part.children[next]] == 0) {
        if (part.kind == Part::Kind::sequence) return false;
        continue;
      }
      child = part.children[next++];
      return true;
    }
    return false;
  }

  const std::string* name_of_cycle(PartId begin) const {
    size_t i = stack_.size();
    while (i > 0 && stack_[i - 1].part != begin) --i;
    for (size_t k = i == 0 ? 0 : i - 1; k < stack_.size(); ++k)
      if (const Part& part = source_.parts()[stack_[k].part]; part.kind == Part::Kind::rule)
        return &source_.rules()[part.rule].name;
    return &source_.rules()[0].name;
  }

  const GrammarSource& source_;
  const PartFacts& facts_;
  std::vector<uint8_t> state_;
  std::vector<Frame> stack_;
};

}  // namespace

Result<PartFacts> check_grammar(const GrammarSource& source, RuleId root) {
  TAMIS_TRY_STATUS(source.check_size());
  for (const GrammarRule& rule : source.rules()) {
    if (!rule.is_defined) {
      return fail(ErrorCode::invalid_argument, "rule \"{}\": not defined anywhere", escape_for_display(rule.name));
    }
  }
  const Propagation propagation(source);
  PartFacts facts;
  facts.is_productive = propagation.solve(needs_to_be_productive);
  facts.is_nullable = propagation.solve(needs_to_be_nullable);
  if (facts.is_productive[source.rules()[root].body] == 0) {
    return fail(ErrorCode::invalid_argument, "rule \"{}\": no finite text matches it",
                escape_for_display(source.rules()[root].name));
  }
  if (const std::string* name = LeftCorners(source, facts).find_cycle()) {
    return fail(
        ErrorCode::invalid_argument,
        "rule \"{}\": is left-recursive (it can begin with itself), expected the repeat after what it begins with",
        escape_for_display(*name));
  }
  return facts;
}

}  // namespace tamis
