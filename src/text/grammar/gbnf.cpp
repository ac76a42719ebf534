// A recursive-descent parser of GBNF; depth is capped.
#include <algorithm>
#include <map>

#include "base/utf8.h"
#include "text/grammar/front_ends.h"

namespace tamis {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_char(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
}

class GbnfParser {
 public:
  GbnfParser(std::string_view text, GrammarSource& source) : text_(text), source_(source) {}

  Result<RuleId> parse() {
    skip_space(true);
    while (i_ < text_.size()) {
      TAMIS_TRY_STATUS(parse_rule());
      TAMIS_TRY_STATUS(source_.check_size());
    }
    const auto root = rules_.find("root");
    if (root == rules_.end() || !source_.rules()[root->second].is_defined)
      return fail(ErrorCode::invalid_argument, "grammar: has no rule \"root\"");
    for (const auto& [name, rule] : rules_) {
      if (source_.rules()[rule].is_defined) continue;
      i_ = first_use_[rule];
      return error("rule \"{}\" is not defined anywhere", name);
    }
    return root->second;
  }

 private:
  template <class... Args>
  tl::unexpected<Error> error(fmt::format_string<Args...> format, Args&&... args) const {
    const std::string_view before = text_.substr(0, std::min(i_, text_.size()));
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const size_t line_begin = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
    return fail(ErrorCode::invalid_argument, "grammar, line {}, column {}: {}", line, before.size() - line_begin + 1,
                fmt::vformat(format, fmt::make_format_args(args...)));
  }

  bool at(char c) const { return i_ < text_.size() && text_[i_] == c; }
  bool take(std::string_view what) {
    if (text_.substr(i_, what.size()) != what) return false;
    i_ += what.size();
    return true;
  }
  std::string here() const { return i_ < text_.size() ? escape_for_display(text_.substr(i_, 8)) : "the end"; }

  // Spaces and comments; with `newlines`, also line ends.
  void skip_space(bool newlines) {
    while (i_ < text_.size()) {
      const char c = text_[i_];
      if (c == '#') {
        i_ = std::min(text_.find_first_of("\r\n", i_), text_.size());
      } else if (c == ' ' || c == '\t' || (newlines && (c == '\r' || c == '\n'))) {
        ++i_;
      } else {
        return;
      }
    }
  }

  RuleId rule_named(std::string_view name) {
    const auto known = rules_.find(name);
    if (known != rules_.end()) return known->second;
    const RuleId rule = source_.add_rule(std::string(name));
    rules_.emplace(name, rule);
    first_use_.push_back(i_ - name.size());
    return rule;
  }

  std::string_view take_name() {
    const size_t begin = i_;
    while (i_ < text_.size() && is_name_char(text_[i_])) ++i_;
    return text_.substr(begin, i_ - begin);
  }

  Status parse_rule() {
    const std::string_view name = take_name();
    if (name.empty()) return error("got {}, expected a rule's name", here());
    const RuleId rule = rule_named(name);
    if (source_.rules()[rule].is_defined) return error("rule \"{}\" is defined twice", name);
    skip_space(false);
    if (!take("::=")) return error("got {}, expected ::= after the name of a rule", here());
    skip_space(true);
    TAMIS_TRY(const PartId body, parse_choice(0));
    source_.define(rule, body);
    if (i_ < text_.size() && !at('\r') && !at('\n')) return error("got {}, expected the end of the rule", here());
    skip_space(true);
    return {};
  }

  Result<PartId> parse_choice(uint32_t depth) {
    if (depth > source_.limits().grammar_depth)
      return error("groups nested more than {} deep", source_.limits().grammar_depth);
    std::vector<PartId> alternatives;
    for (;;) {
      TAMIS_TRY(const PartId sequence, parse_sequence(depth));
      alternatives.push_back(sequence);
      // A line may begin with the | of the rule before it.
      const size_t before = i_;
      skip_space(true);
      if (!take("|")) {
        if (depth == 0) i_ = before;
        return source_.choice(std::move(alternatives));
      }
      skip_space(true);
    }
  }

  Result<PartId> parse_sequence(uint32_t depth) {
    std::vector<PartId> parts;
    for (;;) {
      skip_space(depth > 0);
      if (i_ >= text_.size()) break;
      const char c = text_[i_];
      if (!is_name_char(c) && c != '"' && c != '[' && c != '(' && c != '.' && c != '<' && c != '!') break;
      TAMIS_TRY(PartId part, parse_atom(depth));
      TAMIS_TRY(part, parse_repeats(part));
      parts.push_back(part);
    }
    return source_.sequence(std::move(parts));
  }

  Result<PartId> parse_atom(uint32_t depth) {
    if (take("\"")) return parse_literal();
    if (take("[")) return parse_class();
    if (take(".")) return source_.chars({{0, 0x10ffff}});
    if (at('<') || at('!')) return error("token references (<…>) are not supported; write the text they stand for");
    if (take("(")) {
      TAMIS_TRY(const PartId inner, parse_choice(depth + 1));
      skip_space(true);
      if (!take(")")) return error("got {}, expected )", here());
      return inner;
    }
    return source_.reference(rule_named(take_name()));
  }

  Result<PartId> parse_repeats(PartId part) {
    for (uint32_t n = 0;; ++n) {
      const size_t before = i_;
      skip_space(false);
      uint32_t min = 0, max = kUnbounded;
      if (take("*")) {
      } else if (take("+")) {
        min = 1;
      } else if (take("?")) {
        max = 1;
      } else if (take("{")) {
        TAMIS_TRY_STATUS(parse_bounds(min, max));
      } else {
        i_ = before;
        return part;
      }
      if (n >= source_.limits().grammar_depth)
        return error("more than {} repeats of one thing", source_.limits().grammar_depth);
      part = source_.repeat(part, min, max);
    }
  }

  Status parse_bounds(uint32_t& min, uint32_t& max) {
    skip_space(false);
    TAMIS_TRY(min, parse_number());
    max = min;
    skip_space(false);
    if (take(",")) {
      skip_space(false);
      max = kUnbounded;
      if (i_ < text_.size() && is_digit(text_[i_])) {
        TAMIS_TRY(max, parse_number());
      }
      skip_space(false);
    }
    if (!take("}")) return error("got {}, expected }} after the numbers of a repeat", here());
    if (max < min) return error("got {{{},{}}}, expected the smaller number first", min, max);
    return {};
  }

  Result<uint32_t> parse_number() {
    constexpr uint32_t kLargest = 1000000000;
    const size_t begin = i_;
    uint64_t value = 0;
    while (i_ < text_.size() && is_digit(text_[i_]) && value <= kLargest)
      value = value * 10 + static_cast<uint64_t>(text_[i_++] - '0');
    if (i_ == begin) return error("got {}, expected a number", here());
    if (value > kLargest) return error("repeats of more than {}", kLargest);
    return static_cast<uint32_t>(value);
  }

  Result<PartId> parse_literal() {
    std::string bytes;
    while (!at('"')) {
      if (i_ >= text_.size() || at('\n')) return error("a literal without its closing quote");
      TAMIS_TRY(const char32_t c, parse_char());
      utf8_append(bytes, c);
    }
    ++i_;
    return source_.literal(bytes);
  }

  Result<PartId> parse_class() {
    const bool is_negated = take("^");
    CodePointRanges ranges;
    while (!at(']')) {
      if (i_ >= text_.size() || at('\n')) return error("a character class without its ]");
      TAMIS_TRY(const char32_t first, parse_char());
      char32_t last = first;
      if (at('-') && i_ + 1 < text_.size() && text_[i_ + 1] != ']') {
        ++i_;
        TAMIS_TRY(last, parse_char());
        if (last < first) return error("a range of characters that ends before it begins");
      }
      ranges.emplace_back(first, last);
    }
    ++i_;
    return source_.chars(is_negated ? complement(std::move(ranges)) : std::move(ranges));
  }

  Result<char32_t> parse_char() {
    if (!take("\\")) {
      const size_t length = i_ < text_.size() ? utf8_sequence_length(text_, i_) : 0;
      if (length == 0) return error("got {}, expected a character in UTF-8", here());
      const char32_t c = utf8_code_point(text_, i_, length);
      i_ += length;
      return c;
    }
    if (i_ >= text_.size()) return error("a backslash at the end");
    const char c = text_[i_++];
    switch (c) {
      case 'x': return parse_hex(2);
      case 'u': return parse_hex(4);
      case 'U': return parse_hex(8);
      case 't': return U'\t';
      case 'r': return U'\r';
      case 'n': return U'\n';
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^': return static_cast<char32_t>(c);
      default: --i_; return error("unknown escape \\{}", here());
    }
  }

  Result<char32_t> parse_hex(size_t n_digits) {
    char32_t value = 0;
    for (size_t k = 0; k < n_digits; ++k, ++i_) {
      const char c = i_ < text_.size() ? text_[i_] : ' ';
      const char lower = static_cast<char>(c | 32);
      if (!is_digit(c) && !(lower >= 'a' && lower <= 'f'))
        return error("got {}, expected {} hex digits", here(), n_digits);
      value = value * 16 + static_cast<char32_t>(is_digit(c) ? c - '0' : lower - 'a' + 10);
    }
    if (value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff))
      return error("U+{:04X} is no character", static_cast<uint32_t>(value));
    return value;
  }

  std::string_view text_;
  GrammarSource& source_;
  size_t i_ = 0;
  std::map<std::string, RuleId, std::less<>> rules_;
  std::vector<size_t> first_use_;  // by rule
};

}  // namespace

Result<RuleId> parse_gbnf(std::string_view text, GrammarSource& source) {
  if (text.size() > source.limits().grammar_bytes) {
    return fail(ErrorCode::invalid_argument, "grammar: got {} bytes, expected at most {}", text.size(),
                source.limits().grammar_bytes);
  }
  return GbnfParser(text, source).parse();
}

}  // namespace tamis
