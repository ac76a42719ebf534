// Sizes of regular parts, from the leaves up; rules that recur never get one.
#include "text/grammar/regular_parts.h"

#include <algorithm>

namespace tamis {
namespace {

constexpr uint32_t kMostInlined = 64;  // states of a rule that is copied to where it is named
constexpr uint64_t kHuge = kUnbounded;

bool is_wide_set(const CodePointRanges& ranges) {
  uint32_t n_bytes = 0;
  for (const auto& [first, last] : ranges) {
    if (first < 0x80) n_bytes += std::min<uint32_t>(last, 0x7f) - first + 1;
    if (last > 0x7ff) n_bytes += 20;
  }
  return n_bytes > 70;
}

uint64_t size_of_chars(const Part& part) { return part.ranges.size() * (part.form == CharForm::utf8 ? 3 : 12); }

class Measure {
 public:
  explicit Measure(const GrammarSource& source) : source_(source) {
    const size_t n = source.parts().size();
    out_.size.assign(n, kUnbounded);
    out_.is_wide.assign(n, 0);
  }

  RegularParts run() {
    const auto& parts = source_.parts();
    std::vector<std::vector<PartId>> parents(parts.size());
    std::vector<std::vector<PartId>> references(source_.rules().size());
    std::vector<size_t> missing(parts.size());
    for (PartId id = 0; id < parts.size(); ++id) {
      missing[id] = parts[id].kind == Part::Kind::rule ? 1 : parts[id].children.size();
      for (const PartId child : parts[id].children) parents[child].push_back(id);
      if (parts[id].kind == Part::Kind::rule) references[parts[id].rule].push_back(id);
    }
    for (RuleId rule = 0; rule < references.size(); ++rule) {
      auto& of_body = parents[source_.rules()[rule].body];
      of_body.insert(of_body.end(), references[rule].begin(), references[rule].end());
    }
    std::vector<PartId> open;
    for (PartId id = 0; id < parts.size(); ++id)
      if (missing[id] == 0) open.push_back(id);
    while (!open.empty()) {
      const PartId id = open.back();
      open.pop_back();
      out_.is_wide[id] = is_wide(parts[id]) ? 1 : 0;
      out_.size[id] = static_cast<uint32_t>(std::min(size(parts[id]), kHuge));
      for (const PartId parent : parents[id])
        if (--missing[parent] == 0) open.push_back(parent);
    }
    return std::move(out_);
  }

 private:
  bool is_wide(const Part& part) const {
    if (part.kind == Part::Kind::chars) return is_wide_set(part.ranges);
    if (part.kind == Part::Kind::automaton) return part.automaton->is_wide();
    if (part.kind == Part::Kind::rule) return out_.is_wide[source_.rules()[part.rule].body] != 0;
    return std::any_of(part.children.begin(), part.children.end(), [this](PartId id) { return out_.is_wide[id] != 0; });
  }

  uint64_t size(const Part& part) const {
    switch (part.kind) {
      case Part::Kind::literal: return part.bytes.size();
      case Part::Kind::chars: return size_of_chars(part);
      case Part::Kind::assertion: return kHuge;
      case Part::Kind::automaton: return part.automaton->is_wide() ? kHuge : part.automaton->n_states() * 2;
      case Part::Kind::rule: {
        const PartId body = source_.rules()[part.rule].body;
        return out_.is_wide[body] != 0 || out_.size[body] > kMostInlined ? kHuge : uint64_t{out_.size[body]} + 1;
      }
      case Part::Kind::repeat: {
        const uint64_t child = out_.size[part.children[0]];
        const uint64_t times = part.max == kUnbounded ? uint64_t{part.min} + 1 : part.max;
        if (times > 2 && out_.is_wide[part.children[0]] != 0) return kHuge;  // counted instead
        return child == kHuge ? kHuge : std::min(child * times + 1, kHuge);
      }
      case Part::Kind::sequence:
      case Part::Kind::choice: break;
    }
    uint64_t sum = 1;
    for (const PartId child : part.children)
      sum = out_.size[child] == kUnbounded ? kHuge : std::min(sum + out_.size[child] + 1, kHuge);
    return sum;
  }

  const GrammarSource& source_;
  RegularParts out_;
};

}  // namespace

RegularParts measure_parts(const GrammarSource& source) { return Measure(source).run(); }

}  // namespace tamis
