// Subset construction with priorities, and the linear search.
#include "text/split_automaton.h"

#include <algorithm>
#include <map>

#include "text/unicode.h"

namespace tamis {
namespace {

constexpr uint16_t kAccept = 0x8000;
constexpr uint32_t kMaxStates = 4096;
constexpr uint32_t kMaxClasses = 200;
constexpr size_t kMemoDistance = 8;  // bytes past the last acceptance before states are remembered
constexpr size_t kNone = static_cast<size_t>(-1);

}  // namespace

// Builds the table: first classes of characters that no set of the pattern tells apart, then states, each an ordered
// list of program positions (most preferred first).
class AutomatonBuilder {
 public:
  AutomatonBuilder(const RegexProgram& program, SplitAutomaton& out) : program_(program), out_(out) {}

  Status build() {
    TAMIS_TRY_STATUS(build_classes());
    states_.push_back({});  // dead
    ids_[{}] = 0;
    id_of({0});
    for (uint32_t state = 0; state < states_.size(); ++state) {
      for (uint32_t c = 0; c < out_.n_classes_; ++c) {
        const uint16_t entry = transition(states_[state], c);
        if (state == 1 && (entry & kAccept))
          return fail(ErrorCode::invalid_argument, "split pattern matches nothing at all");
        out_.next_.push_back(entry);
      }
      if (states_.size() > kMaxStates) return fail(ErrorCode::invalid_argument, "split pattern needs too many states");
    }
    out_.n_states_ = static_cast<uint32_t>(states_.size());
    return {};
  }

 private:
  using Membership = std::vector<bool>;  // [set]

  uint32_t class_id(const Membership& membership) {
    const auto [it, is_new] = class_ids_.try_emplace(membership, static_cast<uint32_t>(classes_.size()));
    if (is_new) classes_.push_back(membership);
    return it->second;
  }

  Status build_classes() {
    auto& begins = out_.interval_begin_;
    begins.push_back(0);
    for (const CharSet& set : program_.sets)
      for (const CharSet::Term& term : set.terms)
        for (const auto& [low, high] : term.ranges) {
          begins.push_back(low);
          begins.push_back(high + 1);
        }
    std::sort(begins.begin(), begins.end());
    begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
    Membership membership(program_.sets.size());
    for (const char32_t begin : begins)
      for (uint32_t char_class = 0; char_class < unicode::kNClasses; ++char_class) {
        for (size_t s = 0; s < program_.sets.size(); ++s) membership[s] = program_.sets[s].contains(begin, char_class);
        const uint32_t id = class_id(membership);
        if (id >= kMaxClasses) return fail(ErrorCode::invalid_argument, "split pattern tells too many classes apart");
        out_.interval_class_.push_back(static_cast<uint8_t>(id));
      }
    out_.n_classes_ = static_cast<uint32_t>(classes_.size()) + 1;
    for (char32_t c = 0; c < 128; ++c) out_.ascii_[c] = static_cast<uint8_t>(out_.class_of(c));
    return {};
  }

  bool is_end(uint32_t c) const { return c + 1 == out_.n_classes_; }

  // Follows the steps that read nothing, knowing the next character's class, in order of preference; stops at a match.
  // Returns whether one was met. `ready` receives the positions that read a character.
  bool close(const std::vector<uint32_t>& positions, uint32_t c, std::vector<uint32_t>& ready) {
    std::vector<bool> seen(program_.steps.size());
    std::vector<uint32_t> stack;
    for (const uint32_t position : positions) {
      stack.push_back(position);
      while (!stack.empty()) {
        const uint32_t at = stack.back();
        stack.pop_back();
        if (seen[at]) continue;
        seen[at] = true;
        const RegexStep& step = program_.steps[at];
        switch (step.kind) {
          case RegexStep::Kind::match: return true;
          case RegexStep::Kind::set: ready.push_back(at); break;
          case RegexStep::Kind::jump: stack.push_back(step.first); break;
          case RegexStep::Kind::split:
            stack.push_back(step.second);
            stack.push_back(step.first);
            break;
          case RegexStep::Kind::next_in:
            if (!is_end(c) && classes_[c][step.set]) stack.push_back(step.first);
            break;
          case RegexStep::Kind::next_not_in:
            if (is_end(c) || !classes_[c][step.set]) stack.push_back(step.first);
            break;
          case RegexStep::Kind::at_end:
            if (is_end(c)) stack.push_back(step.first);
            break;
        }
      }
    }
    return false;
  }

  uint16_t transition(std::vector<uint32_t> positions, uint32_t c) {
    std::vector<uint32_t> ready, after;
    const bool accepts = close(positions, c, ready);
    std::vector<bool> seen(program_.steps.size());
    for (const uint32_t at : ready) {
      const RegexStep& step = program_.steps[at];
      if (is_end(c) || !classes_[c][step.set] || seen[step.first]) continue;
      seen[step.first] = true;
      after.push_back(step.first);
    }
    return static_cast<uint16_t>(id_of(after) | (accepts ? kAccept : 0));
  }

  uint32_t id_of(const std::vector<uint32_t>& positions) {
    const auto [it, is_new] = ids_.try_emplace(positions, static_cast<uint32_t>(states_.size()));
    if (is_new) states_.push_back(positions);
    return it->second;
  }

  const RegexProgram& program_;
  SplitAutomaton& out_;
  std::vector<Membership> classes_;
  std::map<Membership, uint32_t> class_ids_;
  std::vector<std::vector<uint32_t>> states_;
  std::map<std::vector<uint32_t>, uint32_t> ids_;
};

Result<SplitAutomaton> SplitAutomaton::compile(std::string_view pattern) {
  TAMIS_TRY(const RegexProgram program, parse_split_regex(pattern));
  SplitAutomaton out;
  TAMIS_TRY_STATUS(AutomatonBuilder(program, out).build());
  return out;
}

uint32_t SplitAutomaton::class_of(char32_t code_point) const {
  const auto after = std::upper_bound(interval_begin_.begin(), interval_begin_.end(), code_point);
  const auto interval = static_cast<size_t>(after - interval_begin_.begin() - 1);
  return interval_class_[interval * unicode::kNClasses + unicode::char_class(code_point)];
}

// The state of one search over one piece.
struct SplitAutomaton::Search {
  const SplitAutomaton& automaton;
  std::string_view text;
  size_t begin, end;
  SplitScratch& scratch;
  size_t memo_end = 0;  // failing states are known only below this offset (0: none)

  // End of the preferred match that starts at `start`, kNone when there is none.
  size_t match_end(size_t start) {
    const uint16_t* const next = automaton.next_.data();
    const uint32_t n_classes = automaton.n_classes_;
    uint32_t state = 1;
    size_t accepted = kNone, memo_from = kNone, i = start;
    while (true) {
      if (i < memo_end && scratch.failing[i - begin] == state + 1) break;
      size_t length = 0;
      uint32_t c = n_classes - 1;
      if (i < end) {
        const auto byte = static_cast<unsigned char>(text[i]);
        if (byte < 128) {
          c = automaton.ascii_[byte];
          length = 1;
        } else {
          const unicode::Char decoded = unicode::char_at(text.substr(0, end), i);
          c = automaton.class_of(decoded.code_point);
          length = decoded.length;
        }
      }
      ++scratch.n_steps;
      const uint16_t entry = next[state * n_classes + c];
      if (entry & kAccept) {
        accepted = i;
        if (memo_from != kNone) forget(memo_from, i);
        memo_from = kNone;
      }
      if (i - (accepted == kNone ? start : accepted) >= kMemoDistance) {
        if (memo_from == kNone) memo_from = i;
        remember(i, state);
      }
      state = entry & (kAccept - 1u);
      if (state == 0) break;
      i += length;
    }
    return accepted;
  }

  void remember(size_t i, uint32_t state) {
    if (scratch.failing.size() < end - begin + 1) scratch.failing.resize(end - begin + 1);
    if (i >= memo_end) {
      if (memo_end == 0) memo_end = begin;
      std::fill(scratch.failing.begin() + static_cast<ptrdiff_t>(memo_end - begin),
                scratch.failing.begin() + static_cast<ptrdiff_t>(i - begin + 1), uint16_t{0});
      memo_end = i + 1;
    }
    scratch.failing[i - begin] = static_cast<uint16_t>(state + 1);
  }

  void forget(size_t from, size_t to) {
    std::fill(scratch.failing.begin() + static_cast<ptrdiff_t>(from - begin),
              scratch.failing.begin() + static_cast<ptrdiff_t>(std::min(to + 1, memo_end) - begin), uint16_t{0});
  }
};

void SplitAutomaton::split(std::string_view text, size_t begin, size_t end, std::vector<size_t>& part_ends,
                           SplitScratch& scratch) const {
  Search search{*this, text, begin, end, scratch};
  size_t gap_begin = begin, i = begin;
  while (i < end) {
    const size_t match_end = search.match_end(i);
    if (match_end == kNone || match_end == i) {
      i += unicode::char_at(text.substr(0, end), i).length;
      continue;
    }
    if (gap_begin < i) part_ends.push_back(i);
    part_ends.push_back(match_end);
    gap_begin = i = match_end;
  }
  if (gap_begin < end) part_ends.push_back(end);
}

}  // namespace tamis
