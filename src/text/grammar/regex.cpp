// A recursive-descent parser of regular expressions; depth is capped. Only what a finite automaton can do.
#include <algorithm>
#include <map>
#include <mutex>

#include "base/utf8.h"
#include "text/grammar/front_ends.h"
#include "text/unicode.h"

namespace tamis {
namespace {

const CodePointRanges kDigits = {{'0', '9'}};
const CodePointRanges kWordChars = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const CodePointRanges kSpaces = {{9, 13},          {32, 32},         {0xa0, 0xa0},     {0x1680, 0x1680},
                                 {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f},
                                 {0x3000, 0x3000}, {0xfeff, 0xfeff}};
const CodePointRanges kLineEnds = {{10, 10}, {13, 13}, {0x2028, 0x2029}};

CodePointRanges find_property_ranges(uint32_t mask) {
  CodePointRanges out;
  for (char32_t c = 0; c <= unicode::kLastCodePoint; ++c) {
    if ((mask >> unicode::char_class(c) & 1u) == 0) continue;
    if (!out.empty() && out.back().second + 1 == c) {
      out.back().second = c;
    } else {
      out.emplace_back(c, c);
    }
  }
  return out;
}

// All code points of a Unicode property; empty for an unknown one. Each is looked for once: that takes milliseconds.
CodePointRanges property_ranges(std::string_view name) {
  if (name == "Han" || name == "Script=Han" || name == "sc=Han") return unicode::han_ranges();
  const uint32_t mask = unicode::property_mask(name);
  if (mask == 0) return {};
  static std::mutex mutex;
  static std::map<uint32_t, CodePointRanges> known;
  const std::scoped_lock lock(mutex);
  const auto [it, is_new] = known.emplace(mask, CodePointRanges{});
  if (is_new) it->second = find_property_ranges(mask);
  return it->second;
}

// A set of characters, or one character.
struct CharItem {
  CodePointRanges ranges;
  bool is_single = false;
};

class RegexParser {
 public:
  RegexParser(std::string_view pattern, CharForm form, GrammarSource& source)
      : pattern_(pattern), form_(form), source_(source) {}

  Result<ParsedRegex> parse() {
    ParsedRegex out;
    // ^…$ around the whole pattern, without an alternative at the top level to share it with.
    const bool is_one = !has_top_level_choice();
    out.begins_at_begin = is_one && take("^");
    TAMIS_TRY(out.part, parse_choice(0));
    if (i_ < pattern_.size()) return error("unmatched )");
    if (is_one && ends_at_end_) out.ends_at_end = true;
    out.has_assertions = n_assertions_ > 0;
    TAMIS_TRY_STATUS(source_.check_size());
    return out;
  }

 private:
  template <class... Args>
  tl::unexpected<Error> error(fmt::format_string<Args...> format, Args&&... args) const {
    return fail(ErrorCode::invalid_argument, "regex, byte {}: {}", i_,
                fmt::vformat(format, fmt::make_format_args(args...)));
  }
  tl::unexpected<Error> unsupported(std::string_view what) const {
    return fail(ErrorCode::unsupported, "regex, byte {}: {} is not supported: a finite automaton has none", i_, what);
  }

  bool at(char c) const { return i_ < pattern_.size() && pattern_[i_] == c; }
  bool at(std::string_view what) const { return pattern_.substr(i_, what.size()) == what; }
  bool take(std::string_view what) {
    if (!at(what)) return false;
    i_ += what.size();
    return true;
  }

  bool has_top_level_choice() const {
    int depth = 0;
    for (size_t i = 0; i < pattern_.size(); ++i) {
      const char c = pattern_[i];
      if (c == '\\') {
        ++i;
      } else if (c == '[') {
        for (++i; i < pattern_.size() && pattern_[i] != ']'; ++i)
          if (pattern_[i] == '\\') ++i;
      } else {
        depth += c == '(' ? 1 : c == ')' ? -1 : 0;
        if (c == '|' && depth == 0) return true;
      }
    }
    return false;
  }

  Result<PartId> parse_choice(uint32_t depth) {
    if (depth > source_.limits().grammar_depth)
      return error("groups nested more than {} deep", source_.limits().grammar_depth);
    std::vector<PartId> alternatives;
    do {
      TAMIS_TRY(const PartId sequence, parse_sequence(depth));
      alternatives.push_back(sequence);
    } while (take("|"));
    return source_.choice(std::move(alternatives));
  }

  Result<PartId> parse_sequence(uint32_t depth) {
    std::vector<PartId> parts;
    while (i_ < pattern_.size() && !at('|') && !at(')')) {
      if (depth == 0 && at("$") && i_ + 1 == pattern_.size() && !has_top_level_choice()) {
        ++i_;
        ends_at_end_ = true;
        break;
      }
      TAMIS_TRY(PartId part, parse_atom(depth));
      TAMIS_TRY(part, parse_repeats(part));
      parts.push_back(part);
    }
    return source_.sequence(std::move(parts));
  }

  Result<PartId> parse_repeats(PartId part) {
    bool is_first = true;
    for (;; is_first = false) {
      uint32_t min = 0, max = kUnbounded;
      if (take("*")) {
      } else if (take("+")) {
        min = 1;
      } else if (take("?")) {
        max = 1;
      } else if (at('{') && is_bounds()) {
        TAMIS_TRY_STATUS(parse_bounds(min, max));
      } else {
        return part;
      }
      if (!is_first) return error("a quantifier after a quantifier");
      if (at('+')) return unsupported("a possessive quantifier");
      take("?");  // lazy: the same texts
      part = source_.repeat(part, min, max);
    }
  }

  // Whether the { at hand begins {m}, {m,}, {,n} or {m,n}; otherwise it is a literal.
  bool is_bounds() const {
    size_t i = i_ + 1;
    bool has_digit = false;
    for (; i < pattern_.size() && (pattern_[i] == ',' || (pattern_[i] >= '0' && pattern_[i] <= '9')); ++i)
      has_digit |= pattern_[i] != ',';
    return has_digit && i < pattern_.size() && pattern_[i] == '}';
  }

  Status parse_bounds(uint32_t& min, uint32_t& max) {
    ++i_;
    TAMIS_TRY(min, parse_number());
    max = min;
    if (take(",")) {
      max = kUnbounded;
      if (!at('}')) {
        TAMIS_TRY(max, parse_number());
      }
    }
    if (!take("}")) return error("a broken {{m,n}}");
    if (max < min) return error("got {{{},{}}}, expected the smaller number first", min, max);
    return {};
  }

  Result<uint32_t> parse_number() {
    constexpr uint64_t kLargest = 1000000000;
    uint64_t value = 0;
    while (i_ < pattern_.size() && pattern_[i_] >= '0' && pattern_[i_] <= '9' && value <= kLargest)
      value = value * 10 + static_cast<uint64_t>(pattern_[i_++] - '0');
    if (value > kLargest) return error("repeats of more than {}", kLargest);
    return static_cast<uint32_t>(value);
  }

  Result<PartId> parse_atom(uint32_t depth) {
    if (at('*') || at('+') || at('?') || (at('{') && is_bounds())) return error("a quantifier with nothing before it");
    if (at("(")) return parse_group(depth);
    if (take("[")) return parse_class();
    if (take(".")) return source_.chars(complement(kLineEnds), form_);
    if (take("^")) return ++n_assertions_, source_.assertion(Assertion::at_begin);
    if (take("$")) return ++n_assertions_, source_.assertion(Assertion::at_end);
    TAMIS_TRY(CharItem item, parse_item());
    return source_.chars(std::move(item.ranges), form_);
  }

  Result<PartId> parse_group(uint32_t depth) {
    if (at("(?=") || at("(?!")) return unsupported("lookahead");
    if (at("(?<=") || at("(?<!")) return unsupported("lookbehind");
    if (take("(?:")) {
    } else if (take("(?P<") || take("(?<")) {
      const size_t end = pattern_.find('>', i_);
      if (end == std::string_view::npos) return error("a group's name without its >");
      i_ = end + 1;
    } else if (at("(?>")) {
      return unsupported("an atomic group");
    } else if (at("(?")) {
      return unsupported("an inline flag");
    } else {
      ++i_;
    }
    TAMIS_TRY(const PartId inner, parse_choice(depth + 1));
    if (!take(")")) return error("a group without its )");
    return inner;
  }

  // A character or an escape, in or out of a class.
  Result<CharItem> parse_item() {
    if (take("\\")) return parse_escape();
    const size_t length = i_ < pattern_.size() ? utf8_sequence_length(pattern_, i_) : 0;
    if (length == 0) return error("got {}, expected a character in UTF-8", escape_for_display(pattern_.substr(i_, 8)));
    const char32_t c = utf8_code_point(pattern_, i_, length);
    i_ += length;
    return CharItem{{{c, c}}, true};
  }

  Result<CharItem> parse_escape() {
    if (i_ >= pattern_.size()) return error("a backslash at the end");
    const auto single = [](char32_t c) { return CharItem{{{c, c}}, true}; };
    const char c = pattern_[i_++];
    switch (c) {
      case 'd': return CharItem{kDigits};
      case 'D': return CharItem{complement(kDigits)};
      case 'w': return CharItem{kWordChars};
      case 'W': return CharItem{complement(kWordChars)};
      case 's': return CharItem{kSpaces};
      case 'S': return CharItem{complement(kSpaces)};
      case 'p':
      case 'P': return parse_property(c == 'P');
      case 't': return single('\t');
      case 'n': return single('\n');
      case 'r': return single('\r');
      case 'f': return single('\f');
      case 'v': return single('\v');
      case '0': return single(0);
      case 'x': return parse_hex(2);
      case 'u': return take("{") ? parse_braced_hex() : parse_hex(4);
      case 'b':
      case 'B': return unsupported("a word boundary (\\b)");
      case 'k': return unsupported("a back-reference");
      case 'A':
      case 'z':
      case 'Z':
      case 'G': return unsupported("an anchor other than ^ and $");
      default: break;
    }
    if (c >= '1' && c <= '9') return unsupported("a back-reference");
    --i_;
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return error("unknown escape \\{}", c);
    return parse_item();
  }

  Result<CharItem> parse_property(bool is_negated) {
    const size_t end = pattern_.find('}', i_);
    if (!at('{') || end == std::string_view::npos) return error("got \\p without {{…}}");
    const std::string_view name = pattern_.substr(i_ + 1, end - i_ - 1);
    CodePointRanges ranges = property_ranges(name);
    if (ranges.empty()) return error("unknown property \\p{{{}}}", escape_for_display(name));
    i_ = end + 1;
    return CharItem{is_negated ? complement(std::move(ranges)) : std::move(ranges)};
  }

  Result<CharItem> parse_braced_hex() {
    const size_t end = pattern_.find('}', i_);
    if (end == std::string_view::npos || end == i_ || end - i_ > 8) return error("a broken \\u{{…}}");
    TAMIS_TRY(CharItem item, parse_hex(end - i_));
    ++i_;
    return item;
  }

  Result<CharItem> parse_hex(size_t n_digits) {
    TAMIS_TRY(char32_t c, hex_digits(n_digits));
    // A pair of surrogates is one character.
    if (c >= 0xd800 && c < 0xdc00 && at("\\u")) {
      i_ += 2;
      TAMIS_TRY(const char32_t low, hex_digits(4));
      if (low < 0xdc00 || low > 0xdfff) return error("a surrogate without its second half");
      c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
      return error("U+{:04X} is no character", static_cast<uint32_t>(c));
    return CharItem{{{c, c}}, true};
  }

  Result<char32_t> hex_digits(size_t n) {
    char32_t value = 0;
    for (size_t k = 0; k < n; ++k, ++i_) {
      const char c = i_ < pattern_.size() ? pattern_[i_] : ' ';
      const char lower = static_cast<char>(c | 32);
      const bool is_digit = c >= '0' && c <= '9';
      if (!is_digit && !(lower >= 'a' && lower <= 'f')) return error("expected {} hex digits", n);
      value = value * 16 + static_cast<char32_t>(is_digit ? c - '0' : lower - 'a' + 10);
    }
    return value;
  }

  Result<PartId> parse_class() {
    const bool is_negated = take("^");
    CodePointRanges ranges;
    while (!take("]")) {
      if (i_ >= pattern_.size()) return error("a character class without its ]");
      if (at("[:")) return unsupported("a POSIX class");
      TAMIS_TRY(CharItem item, parse_class_item());
      if (item.is_single && at('-') && i_ + 1 < pattern_.size() && pattern_[i_ + 1] != ']') {
        ++i_;
        TAMIS_TRY(const CharItem last, parse_class_item());
        if (!last.is_single) return error("a range of characters that ends in a class");
        if (last.ranges[0].first < item.ranges[0].first)
          return error("a range of characters that ends before it begins");
        item.ranges[0].second = last.ranges[0].first;
      }
      ranges.insert(ranges.end(), item.ranges.begin(), item.ranges.end());
    }
    if (is_negated) ranges = complement(std::move(ranges));
    return source_.chars(std::move(ranges), form_);
  }

  Result<CharItem> parse_class_item() {
    if (take("\\b")) return CharItem{{{8, 8}}, true};
    return parse_item();
  }

  std::string_view pattern_;
  CharForm form_;
  GrammarSource& source_;
  size_t i_ = 0;
  size_t n_assertions_ = 0;
  bool ends_at_end_ = false;
};

}  // namespace

Result<ParsedRegex> parse_regex(std::string_view pattern, CharForm form, GrammarSource& source) {
  if (pattern.size() > source.limits().grammar_bytes) {
    return fail(ErrorCode::invalid_argument, "regex: got {} bytes, expected at most {}", pattern.size(),
                source.limits().grammar_bytes);
  }
  return RegexParser(pattern, form, source).parse();
}

}  // namespace tamis
