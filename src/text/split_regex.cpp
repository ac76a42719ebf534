// Recursive-descent parser of the pattern dialect. Patterns are constants of the program (pretokenizer_table.cpp),
// never input.
#include "text/split_regex.h"

#include <algorithm>
#include <memory>
#include <string>

#include "text/unicode.h"

namespace tamis {

bool CharSet::contains(char32_t code_point, uint32_t char_class) const {
  for (const Term& term : terms) {
    bool is_in = (term.classes >> char_class) & 1u;
    for (size_t i = 0; !is_in && i < term.ranges.size(); ++i)
      is_in = term.ranges[i].first <= code_point && code_point <= term.ranges[i].second;
    if (is_in == term.negated) return false;
  }
  return true;
}

namespace {

constexpr uint32_t kUnbounded = 0xffffffff;
constexpr int kMaxDepth = 16;

struct Node {
  enum class Kind { set, alternatives, sequence, repeat, next_in, next_not_in, at_end };
  Kind kind;
  CharSet set;
  std::vector<std::unique_ptr<Node>> children;
  uint32_t min = 1, max = 1;
};
using NodePtr = std::unique_ptr<Node>;

NodePtr make_node(Node::Kind kind) {
  auto node = std::make_unique<Node>();
  node->kind = kind;
  return node;
}

CharSet class_set(uint32_t classes, bool negated) {
  CharSet set;
  set.terms.push_back({{}, classes, negated});
  return set;
}

CharSet literal_set(char32_t c, bool ignore_case) {
  CharSet::Term term;
  term.ranges.emplace_back(c, c);
  if (ignore_case && c < 128 && ((c | 32) >= 'a' && (c | 32) <= 'z')) {
    term.ranges.emplace_back(c ^ 32, c ^ 32);
    if ((c | 32) == 's') term.ranges.emplace_back(0x17f, 0x17f);    // ſ folds to s
    if ((c | 32) == 'k') term.ranges.emplace_back(0x212a, 0x212a);  // K (Kelvin) folds to k
  }
  CharSet set;
  set.terms.push_back(std::move(term));
  return set;
}

class Parser {
 public:
  explicit Parser(std::string_view pattern) : pattern_(pattern) {}

  Result<NodePtr> parse() {
    TAMIS_TRY(NodePtr root, parse_alternatives(0));
    if (i_ != pattern_.size()) return error("an unmatched ')'");
    return root;
  }

 private:
  tl::unexpected<Error> error(std::string_view what) const {
    return fail(ErrorCode::invalid_argument, "split pattern, byte {}: {}", i_, what);
  }
  bool at(std::string_view text) const { return pattern_.substr(i_, text.size()) == text; }
  bool take(std::string_view text) {
    if (!at(text)) return false;
    i_ += text.size();
    return true;
  }
  char32_t take_char() {
    const unicode::Char c = unicode::char_at(pattern_, i_);
    i_ += c.length;
    return c.code_point;
  }

  Result<NodePtr> parse_alternatives(int depth) {
    if (depth > kMaxDepth) return error("groups nested too deep");
    auto node = make_node(Node::Kind::alternatives);
    do {
      TAMIS_TRY(NodePtr sequence, parse_sequence(depth));
      node->children.push_back(std::move(sequence));
    } while (take("|"));
    return node;
  }

  Result<NodePtr> parse_sequence(int depth) {
    auto node = make_node(Node::Kind::sequence);
    while (i_ < pattern_.size() && !at("|") && !at(")")) {
      TAMIS_TRY(NodePtr atom, parse_atom(depth));
      TAMIS_TRY(NodePtr repeated, parse_repeat(std::move(atom)));
      node->children.push_back(std::move(repeated));
    }
    return node;
  }

  Result<NodePtr> parse_repeat(NodePtr atom) {
    uint32_t min = 1, max = 1;
    if (take("?")) {
      min = 0;
    } else if (take("*")) {
      min = 0, max = kUnbounded;
    } else if (take("+")) {
      max = kUnbounded;
    } else if (take("{")) {
      min = take_number();
      max = !take(",") ? min : at("}") ? kUnbounded : take_number();
      if (!take("}") || max < min) return error("a broken {m,n}");
    } else {
      return atom;
    }
    take("+");  // possessive
    auto node = make_node(Node::Kind::repeat);
    node->min = min;
    node->max = max;
    node->children.push_back(std::move(atom));
    return node;
  }

  uint32_t take_number() {
    uint32_t value = 0;
    while (i_ < pattern_.size() && pattern_[i_] >= '0' && pattern_[i_] <= '9' && value < 100000)
      value = value * 10 + static_cast<uint32_t>(pattern_[i_++] - '0');
    return value;
  }

  Result<NodePtr> parse_atom(int depth) {
    if (take("(?i:")) return parse_group(depth, true);
    if (take("(?:")) return parse_group(depth, ignore_case_);
    if (take("(?=")) return parse_look_ahead(Node::Kind::next_in, depth);
    if (take("(?!")) return parse_look_ahead(Node::Kind::next_not_in, depth);
    if (take("(")) return parse_group(depth, ignore_case_);
    if (take("$")) return make_node(Node::Kind::at_end);
    auto node = make_node(Node::Kind::set);
    if (take("[")) {
      TAMIS_TRY(node->set, parse_set(depth + 1));
    } else if (take("\\")) {
      TAMIS_TRY(node->set, parse_escape());
    } else {
      node->set = literal_set(take_char(), ignore_case_);
    }
    return node;
  }

  Result<NodePtr> parse_group(int depth, bool ignore_case) {
    const bool outer = ignore_case_;
    ignore_case_ = ignore_case;
    TAMIS_TRY(NodePtr group, parse_alternatives(depth + 1));
    ignore_case_ = outer;
    if (!take(")")) return error("a group without ')'");
    return group;
  }

  Result<NodePtr> parse_look_ahead(Node::Kind kind, int depth) {
    TAMIS_TRY(NodePtr atom, parse_atom(depth + 1));
    if (atom->kind != Node::Kind::set || !take(")")) return error("look-ahead at more than one character");
    atom->kind = kind;
    return atom;
  }

  // After a backslash.
  Result<CharSet> parse_escape() {
    if (i_ == pattern_.size()) return error("a backslash at the end");
    if (take("p{")) {
      const size_t close = pattern_.find('}', i_);
      if (close == std::string_view::npos) return error("\\p without '}'");
      const std::string_view name = pattern_.substr(i_, close - i_);
      i_ = close + 1;
      if (name == "Han") {
        CharSet set;
        set.terms.push_back({unicode::han_ranges(), 0, false});
        return set;
      }
      const uint32_t mask = unicode::property_mask(name);
      if (mask == 0) return error("an unknown \\p{…}");
      return class_set(mask, false);
    }
    if (take("x{")) return parse_hex();
    switch (const char32_t c = take_char()) {
      case 's': return class_set(unicode::property_mask("s"), false);
      case 'S': return class_set(unicode::property_mask("s"), true);
      case 'd': return class_set(unicode::property_mask("Nd"), false);
      case 'r': return literal_set('\r', false);
      case 'n': return literal_set('\n', false);
      case 't': return literal_set('\t', false);
      default:
        if (c < 128 && ((c | 32) >= 'a' && (c | 32) <= 'z')) return error("an unknown escape");
        return literal_set(c, false);
    }
  }

  // After \x{.
  Result<CharSet> parse_hex() {
    char32_t value = 0;
    while (i_ < pattern_.size() && pattern_[i_] != '}' && value <= unicode::kLastCodePoint) {
      const char c = pattern_[i_++];
      if (!((c >= '0' && c <= '9') || (c >= 'A' && c <= 'F'))) return error("a broken \\x{…}");
      value = value * 16 + static_cast<char32_t>(c <= '9' ? c - '0' : c - 'A' + 10);
    }
    if (!take("}") || value > unicode::kLastCodePoint) return error("a broken \\x{…}");
    return literal_set(value, false);
  }

  // After '['. `a&&b` makes several terms; a nested set joins the term it stands in.
  Result<CharSet> parse_set(int depth) {
    if (depth > kMaxDepth) return error("sets nested too deep");
    CharSet set;
    CharSet::Term term;
    const bool negated = take("^");
    while (!take("]")) {
      if (i_ >= pattern_.size()) return error("a set without ']'");
      if (take("&&")) {
        set.terms.push_back(std::move(term));
        term = {};
        continue;
      }
      TAMIS_TRY_STATUS(parse_set_item(term, set, depth));
    }
    if (!term.ranges.empty() || term.classes != 0) set.terms.push_back(std::move(term));
    if (negated) {
      if (set.terms.size() != 1) return error("a negated intersection");
      set.terms[0].negated = true;
    }
    return set;
  }

  Status parse_set_item(CharSet::Term& term, CharSet& set, int depth) {
    CharSet item;
    char32_t low = 0;
    bool is_char = true;
    if (take("[")) {
      TAMIS_TRY(item, parse_set(depth + 1));
      is_char = false;
    } else if (take("\\")) {
      TAMIS_TRY(item, parse_escape());
      is_char = item.terms[0].classes == 0 && item.terms[0].ranges.size() == 1;
      if (is_char) low = item.terms[0].ranges[0].first;
    } else {
      low = take_char();
    }
    if (is_char) {
      char32_t high = low;
      if (at("-") && !at("-]")) {
        take("-");
        if (take("\\")) {
          TAMIS_TRY(const CharSet end, parse_escape());
          if (end.terms[0].ranges.size() != 1) return error("a range without an end");
          high = end.terms[0].ranges[0].first;
        } else {
          high = take_char();
        }
      }
      const CharSet alone = literal_set(low, ignore_case_);
      if (low == high)
        term.ranges.insert(term.ranges.end(), alone.terms[0].ranges.begin(), alone.terms[0].ranges.end());
      else
        term.ranges.emplace_back(low, high);
      return {};
    }
    if (item.terms.size() != 1) return error("a nested intersection");
    CharSet::Term& inner = item.terms[0];
    if (inner.negated) {  // only as a term of its own: [a&&[^b]]
      if (!term.ranges.empty() || term.classes != 0) return error("a negated set inside a set");
      set.terms.push_back(std::move(inner));
      return {};
    }
    term.classes |= inner.classes;
    term.ranges.insert(term.ranges.end(), inner.ranges.begin(), inner.ranges.end());
    return {};
  }

  std::string_view pattern_;
  size_t i_ = 0;
  bool ignore_case_ = false;
};

// Thompson's construction; a repeat {m,n} is written out.
class Emitter {
 public:
  RegexProgram take_program(const Node& root) {
    emit(root);
    add({RegexStep::Kind::match});
    return std::move(program_);
  }

 private:
  uint32_t add(RegexStep step) {
    program_.steps.push_back(step);
    return static_cast<uint32_t>(program_.steps.size() - 1);
  }
  uint32_t here() const { return static_cast<uint32_t>(program_.steps.size()); }

  void emit_set(RegexStep::Kind kind, const CharSet& set) {
    program_.sets.push_back(set);
    const uint32_t at = add({kind, static_cast<uint32_t>(program_.sets.size() - 1)});
    program_.steps[at].first = at + 1;
  }

  void emit(const Node& node) {
    switch (node.kind) {
      case Node::Kind::set: return emit_set(RegexStep::Kind::set, node.set);
      case Node::Kind::next_in: return emit_set(RegexStep::Kind::next_in, node.set);
      case Node::Kind::next_not_in: return emit_set(RegexStep::Kind::next_not_in, node.set);
      case Node::Kind::at_end: {
        const uint32_t at = add({RegexStep::Kind::at_end});
        program_.steps[at].first = at + 1;
        return;
      }
      case Node::Kind::sequence:
        for (const auto& child : node.children) emit(*child);
        return;
      case Node::Kind::alternatives: return emit_alternatives(node);
      case Node::Kind::repeat: return emit_repeat(node);
    }
  }

  void emit_alternatives(const Node& node) {
    std::vector<uint32_t> exits;
    for (size_t k = 0; k < node.children.size(); ++k) {
      const bool is_last = k + 1 == node.children.size();
      const uint32_t split = is_last ? 0 : add({RegexStep::Kind::split});
      if (!is_last) program_.steps[split].first = here();
      emit(*node.children[k]);
      if (is_last) break;
      exits.push_back(add({RegexStep::Kind::jump}));
      program_.steps[split].second = here();
    }
    for (const uint32_t exit : exits) program_.steps[exit].first = here();
  }

  void emit_repeat(const Node& node) {
    const Node& child = *node.children[0];
    for (uint32_t k = 0; k < node.min; ++k) emit(child);
    std::vector<uint32_t> exits;
    if (node.max == kUnbounded) {
      const uint32_t split = add({RegexStep::Kind::split});
      program_.steps[split].first = here();
      emit(child);
      program_.steps[add({RegexStep::Kind::jump})].first = split;
      program_.steps[split].second = here();
      return;
    }
    for (uint32_t k = node.min; k < node.max; ++k) {
      exits.push_back(add({RegexStep::Kind::split}));
      program_.steps[exits.back()].first = here();
      emit(child);
    }
    for (const uint32_t exit : exits) program_.steps[exit].second = here();
  }

  RegexProgram program_;
};

}  // namespace

Result<RegexProgram> parse_split_regex(std::string_view pattern) {
  TAMIS_TRY(NodePtr root, Parser(pattern).parse());
  return Emitter().take_program(*root);
}

}  // namespace tamis
