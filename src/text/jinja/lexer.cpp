// The lexer: template data with white space control here, the inside of tags in Tags below.
#include "text/jinja/lexer.h"

#include <utf8proc.h>

#include <algorithm>

#include "base/utf8.h"
#include "text/jinja/text.h"

namespace tamis::jinja {

tl::unexpected<Error> syntax_error(uint32_t line, std::string_view what) {
  ErrorSite site;
  site.section = "template";
  site.index = line;
  site.tag = "E_TEMPLATE";
  Error error{ErrorCode::format, fmt::format("template line {}: {}", line, what),
              std::make_shared<const ErrorSite>(std::move(site))};
  return tl::unexpected<Error>(std::move(error));
}

namespace {

// Length of the operator that begins with `c`, then `next`; 0 when there is none.
size_t operator_length(char c, char next) {
  if (next == c && (c == '/' || c == '*' || c == '=')) return 2;
  if (next == '=' && (c == '!' || c == '<' || c == '>')) return 2;
  return c != '\0' && std::string_view("+-/*%~[](){}><=.:|,;").find(c) != std::string_view::npos ? 1 : 0;
}

bool is_word(std::string_view text, size_t i) {
  const auto c = static_cast<unsigned char>(text[i]);
  if (c < 0x80) return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  if (utf8_sequence_length(text, i) == 0) return false;
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(char_at(text, i)));
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL) || category == UTF8PROC_CATEGORY_PC;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// "\r\n" and "\r" become "\n"; one newline at the end is dropped.
std::string normalize_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  Result<std::vector<Token>> run() {
    while (at_ < source_.size()) TAMIS_TRY_STATUS(root());
    add(TokenKind::end, "");
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool looking_at(std::string_view text) const { return rest().starts_with(text); }
  size_t skip_space(size_t i) const { return i + skip_leading(std::string_view(source_).substr(i), nullptr); }

  void advance(size_t to) {
    line_ += static_cast<uint32_t>(
        std::count(source_.begin() + static_cast<ptrdiff_t>(at_), source_.begin() + static_cast<ptrdiff_t>(to), '\n'));
    is_line_start_ = to > at_ ? source_[to - 1] == '\n' : is_line_start_;
    at_ = to;
  }
  void add(TokenKind kind, std::string text) { tokens_.push_back({kind, line_, std::move(text)}); }

  // Where the next tag opens, or npos.
  size_t find_tag(size_t from) const {
    for (size_t i = source_.find('{', from); i != std::string::npos; i = source_.find('{', i + 1))
      if (i + 1 < source_.size() && (source_[i + 1] == '{' || source_[i + 1] == '%' || source_[i + 1] == '#')) return i;
    return std::string::npos;
  }

  // Emits the text before a tag at `tag` whose strip sign is `sign`.
  void add_data(size_t tag, char sign, bool is_variable) {
    std::string_view data = std::string_view(source_).substr(at_, tag - at_);
    if (sign == '-') {
      data = data.substr(0, skip_trailing(data, nullptr));
    } else if (sign != '+' && !is_variable) {
      const size_t newline = data.rfind('\n');
      const size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
      if ((begin > 0 || is_line_start_) && skip_leading(data.substr(begin), nullptr) == data.size() - begin)
        data = data.substr(0, begin);
    }
    if (!data.empty()) add(TokenKind::data, std::string(data));
    advance(tag);
  }

  // After the closing bracket at `end` (its first byte): past it and the white space that `sign` and trim_blocks take.
  size_t close(size_t end, char sign, bool trims) const {
    if (sign == '-') return skip_space(end + 2);
    return trims && sign != '+' && end + 2 < source_.size() && source_[end + 2] == '\n' ? end + 3 : end + 2;
  }

  Status root() {
    const size_t tag = find_tag(at_);
    if (tag == std::string::npos) {
      add(TokenKind::data, std::string(rest()));
      advance(source_.size());
      return {};
    }
    const char open = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    const bool has_sign = sign == '-' || sign == '+';
    add_data(tag, sign, open == '{');
    const size_t inside = tag + (has_sign ? 3 : 2);
    if (open == '#') return comment(inside);
    if (open == '%') {
      if (const size_t raw = raw_begin(inside); raw != 0) return raw_block(raw);
    }
    add(open == '%' ? TokenKind::block_begin : TokenKind::variable_begin, "");
    advance(inside);
    return tag_inside(open == '%');
  }

  Status comment(size_t inside) {
    const size_t end = source_.find("#}", inside);
    if (end == std::string::npos && inside < source_.size()) return syntax_error(line_, "Missing end of comment tag");
    if (end == std::string::npos) {  // as jinja2: nothing is missing after an opening at the very end
      advance(inside);
      return {};
    }
    const char sign = end > inside ? source_[end - 1] : '\0';
    advance(close(end, sign, true));
    return {};
  }

  // Past the `%}` of a raw tag whose inside begins at `i`, or 0 when it is another tag.
  size_t raw_begin(size_t i) const {
    i = skip_space(i);
    if (source_.compare(i, 3, "raw") != 0) return 0;
    i = skip_space(i + 3);
    if (source_.compare(i, 3, "-%}") == 0) return skip_space(i + 3);
    return source_.compare(i, 2, "%}") == 0 ? i + 2 : 0;
  }

  Status raw_block(size_t inside) {
    advance(inside);
    for (size_t tag = source_.find("{%", inside); tag != std::string::npos; tag = source_.find("{%", tag + 1)) {
      const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
      size_t i = skip_space(tag + (sign == '-' || sign == '+' ? 3 : 2));
      if (source_.compare(i, 6, "endraw") != 0) continue;
      i = skip_space(i + 6);
      const char last = i < source_.size() ? source_[i] : '\0';
      if (last == '-' || last == '+') ++i;
      if (source_.compare(i, 2, "%}") != 0) continue;
      add_data(tag, sign, false);
      advance(close(i, last, true));
      return {};
    }
    if (inside >= source_.size()) return {};
    return syntax_error(line_, "Missing end of raw directive");
  }

  // Tokens up to the end of the tag.
  Status tag_inside(bool is_block) {
    const std::string_view closing = is_block ? "%}" : "}}";
    while (true) {
      if (at_ >= source_.size()) return {};  // the parser reports what is missing
      if (brackets_.empty()) {
        const char sign = source_[at_];
        const bool has_sign = (sign == '-' || (sign == '+' && is_block)) && source_.compare(at_ + 1, 2, closing) == 0;
        if (has_sign || looking_at(closing)) {
          add(is_block ? TokenKind::block_end : TokenKind::variable_end, "");
          advance(close(at_ + (has_sign ? 1 : 0), has_sign ? sign : '\0', is_block));
          return {};
        }
      }
      if (const size_t after = skip_space(at_); after > at_) {
        advance(after);
        continue;
      }
      TAMIS_TRY_STATUS(one_token());
    }
  }

  Status one_token() {
    const char c = source_[at_];
    if (is_digit(c)) return number();
    if (is_word(source_, at_)) {
      size_t end = at_;
      while (end < source_.size() && is_word(source_, end)) end += char_length(source_, end);
      add(TokenKind::name, source_.substr(at_, end - at_));
      at_ = end;
      return {};
    }
    if (c == '\'' || c == '"') return string();
    const size_t length = operator_length(c, at_ + 1 < source_.size() ? source_[at_ + 1] : '\0');
    if (length > 0) {
      const std::string_view op = std::string_view(source_).substr(at_, length);
      TAMIS_TRY_STATUS(balance(op));
      add(TokenKind::op, std::string(op));
      at_ += length;
      return {};
    }
    return syntax_error(line_, fmt::format("unexpected char '{}'", escape_for_display(rest().substr(0, 4), 4)));
  }

  Status balance(std::string_view op) {
    const char c = op[0];
    if (c == '{') brackets_ += '}';
    if (c == '(') brackets_ += ')';
    if (c == '[') brackets_ += ']';
    if (c != '}' && c != ')' && c != ']') return {};
    if (brackets_.empty()) return syntax_error(line_, fmt::format("unexpected '{}'", op));
    if (brackets_.back() != op[0])
      return syntax_error(line_, fmt::format("unexpected '{}', expected '{}'", op, brackets_.back()));
    brackets_.pop_back();
    return {};
  }

  // Digits with single underscores between them from `i`; the end, or i when there are none.
  size_t digits(size_t i) const {
    size_t end = i;
    while (end < source_.size()) {
      if (is_digit(source_[end]))
        ++end;
      else if (source_[end] == '_' && end > i && end + 1 < source_.size() && is_digit(source_[end + 1]))
        ++end;
      else
        break;
    }
    return end;
  }

  Status number() {
    if (source_[at_] == '0' && at_ + 1 < source_.size()) {
      const char base = static_cast<char>(source_[at_ + 1] | 0x20);
      if (base == 'x' || base == 'o' || base == 'b')
        if (radix_number(base == 'x' ? 16 : base == 'o' ? 8 : 2)) return {};
    }
    size_t end = digits(at_);
    bool is_real = false;
    const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';
    if (!after_dot && end < source_.size()) {
      if (source_[end] == '.' && digits(end + 1) > end + 1) {
        end = digits(end + 1);
        is_real = true;
      }
      if (end < source_.size() && (source_[end] | 0x20) == 'e') {
        size_t exponent = end + 1;
        if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-')) ++exponent;
        if (digits(exponent) > exponent) {
          end = digits(exponent);
          is_real = true;
        }
      }
    }
    if (!is_real && source_[at_] == '0')  // a decimal integer does not begin with 0
      for (end = at_ + 1; end < source_.size() &&
                          (source_[end] == '0' || (source_[end] == '_' && source_.compare(end + 1, 1, "0") == 0));)
        ++end;
    std::string text = source_.substr(at_, end - at_);
    std::erase(text, '_');
    add(is_real ? TokenKind::real : TokenKind::integer, std::move(text));
    at_ = end;
    return {};
  }

  // 0x…, 0o…, 0b…: added in decimal. False when no digit follows.
  bool radix_number(int base) {
    size_t i = at_ + 2;
    unsigned __int128 value = 0;
    bool any = false;
    while (i < source_.size()) {
      size_t digit_at = i;
      if (source_[i] == '_') ++digit_at;
      const int digit = digit_at < source_.size() ? hex_value(source_[digit_at]) : -1;
      if (digit < 0 || digit >= base) break;
      if (value < (static_cast<unsigned __int128>(1) << 120))
        value = value * static_cast<unsigned>(base) + static_cast<unsigned>(digit);
      any = true;
      i = digit_at + 1;
    }
    if (!any) return false;
    std::string text;
    for (; value > 0; value /= 10) text.insert(text.begin(), static_cast<char>('0' + static_cast<int>(value % 10)));
    add(TokenKind::integer, text.empty() ? "0" : text);
    at_ = i;
    return true;
  }

  Status string() {
    const char quote = source_[at_];
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) return syntax_error(line_, fmt::format("unexpected char '{}'", quote));
    TAMIS_TRY(std::string text, unescape(std::string_view(source_).substr(at_ + 1, end - at_ - 1)));
    add(TokenKind::string, std::move(text));
    advance(end + 1);
    return {};
  }

  // Python's string escapes.
  Result<std::string> unescape(std::string_view raw) const {
    std::string out;
    for (size_t i = 0; i < raw.size(); ++i) {
      if (raw[i] != '\\') {
        out += raw[i];
        continue;
      }
      const char c = raw[++i];
      constexpr std::string_view kFrom = "\\'\"abfnrtv", kTo = "\\'\"\a\b\f\n\r\t\v";
      if (const size_t k = kFrom.find(c); k != std::string_view::npos) {
        out += kTo[k];
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const size_t n = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        uint32_t code = 0;
        for (size_t d = 1; d <= n; ++d) {
          const int digit = i + d < raw.size() ? hex_value(raw[i + d]) : -1;
          if (digit < 0) return syntax_error(line_, "truncated escape in string");
          code = code * 16 + static_cast<uint32_t>(digit);
        }
        if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
          return syntax_error(line_, "illegal character in string escape");
        utf8_append(out, code);
        i += n;
      } else if (c >= '0' && c <= '7') {
        uint32_t code = 0;
        size_t n = 0;
        for (; n < 3 && i + n < raw.size() && raw[i + n] >= '0' && raw[i + n] <= '7'; ++n)
          code = code * 8 + static_cast<uint32_t>(raw[i + n] - '0');
        utf8_append(out, code);
        i += n - 1;
      } else if (c == 'N') {
        return syntax_error(line_, "\\N escapes are not supported");
      } else if (c != '\n') {
        out += '\\';
        out += c;
      }
    }
    return out;
  }

  std::string source_;
  std::vector<Token> tokens_;
  std::string brackets_;  // closing brackets still owed
  size_t at_ = 0;
  uint32_t line_ = 1;
  bool is_line_start_ = true;
};

}  // namespace

Result<std::vector<Token>> tokenize(std::string_view source) { return Lexer(normalize_newlines(source)).run(); }

}  // namespace tamis::jinja
