// str.format and its format specifications.
#include <algorithm>
#include <cmath>

#include "base/utf8.h"
#include "text/jinja/format.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/print.h"

namespace tamis::jinja {
namespace {

tl::unexpected<Error> value_error(std::string_view what) { return fail(ErrorCode::invalid_argument, "{}", what); }

struct Spec {
  std::string fill = " ";
  char align = '\0', sign = '-', grouping = '\0', type = '\0';
  bool is_alternate = false, is_zero = false;
  int64_t width = 0, precision = -1;
};

bool is_align(char c) { return c == '<' || c == '>' || c == '=' || c == '^'; }

Result<int64_t> spec_number(std::string_view text, size_t& i) {
  int64_t n = 0;
  for (; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i)
    if ((n = n * 10 + (text[i] - '0')) > INT32_MAX) return value_error("Too many decimal digits in format string");
  return n;
}

Result<Spec> parse_spec(std::string_view text) {
  Spec spec;
  size_t i = 0;
  const size_t first = text.empty() ? 0 : char_length(text, 0);
  if (first < text.size() && is_align(text[first])) {
    spec.fill = text.substr(0, first);
    spec.align = text[first];
    i = first + 1;
  } else if (!text.empty() && is_align(text[0])) {
    spec.align = text[0];
    i = 1;
  }
  const auto next = [&] { return i < text.size() ? text[i] : '\0'; };
  if (next() == '+' || next() == '-' || next() == ' ') spec.sign = text[i++];
  if (next() == '#') spec.is_alternate = true, ++i;
  if (next() == '0') {
    spec.is_zero = true;
    ++i;
    if (spec.align == '\0') spec.align = '=', spec.fill = "0";
  }
  TAMIS_TRY(spec.width, spec_number(text, i));
  if (next() == ',' || next() == '_') spec.grouping = text[i++];
  if (next() == '.') {
    const size_t digits = ++i;
    TAMIS_TRY(spec.precision, spec_number(text, i));
    if (i == digits) return value_error("Format specifier missing precision");
  }
  if (i < text.size()) spec.type = text[i++];
  if (i < text.size()) return value_error("Invalid format specifier");
  return spec;
}

std::string group_digits(const std::string& digits, char separator, size_t every) {
  const size_t n = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  std::string out;
  for (size_t i = 0; i < n; ++i) {
    if (i > 0 && (n - i) % every == 0) out += separator;
    out += digits[i];
  }
  return out + digits.substr(n);
}

std::string radix_digits(uint64_t magnitude, char type) {
  switch (type) {
    case 'x': return fmt::format("{:x}", magnitude);
    case 'X': return fmt::format("{:X}", magnitude);
    case 'o': return fmt::format("{:o}", magnitude);
    case 'b': return fmt::format("{:b}", magnitude);
    default: return fmt::format("{}", magnitude);
  }
}

class BraceFormatter {
 public:
  BraceFormatter(Interpreter& interpreter, const Arguments& args) : interpreter_(interpreter), args_(args) {}

  Result<Text> run(const Text& format, uint32_t depth) {
    if (depth > 2) return value_error("Max string recursion exceeded");
    Text out;
    out.is_markup = format.is_markup;
    const std::string& text = format.bytes;
    for (size_t i = 0; i < text.size();) {
      const size_t brace = text.find_first_of("{}", i);
      out.append(format, i, std::min(brace, text.size()));
      if (brace == std::string::npos) break;
      if (brace + 1 < text.size() && text[brace + 1] == text[brace]) {
        out.append(format, brace, brace + 1);
        i = brace + 2;
        continue;
      }
      if (text[brace] == '}') return value_error("Single '}' encountered in format string");
      TAMIS_TRY(const size_t end, field_end(text, brace + 1));
      TAMIS_TRY(const Text piece, field(sub_text(format, brace + 1, end), depth));
      TAMIS_TRY_STATUS(interpreter_.budget().can_hold(out.bytes.size() + piece.bytes.size()));
      out.append(piece);
      i = end + 1;
    }
    return out;
  }

 private:
  static Result<size_t> field_end(std::string_view text, size_t from) {
    int level = 1;
    for (size_t i = from; i < text.size(); ++i) {
      if (text[i] == '{') ++level;
      if (text[i] == '}' && --level == 0) return i;
    }
    return value_error("expected '}' before end of string");
  }

  // NAME!c:spec, without the braces.
  Result<Text> field(const Text& whole, uint32_t depth) {
    const std::string& text = whole.bytes;
    size_t end = 0;
    for (bool in_index = false; end < text.size() && (in_index || (text[end] != '!' && text[end] != ':')); ++end) {
      if (text[end] == '[') in_index = true;
      if (text[end] == ']') in_index = false;
    }
    TAMIS_TRY(Value value, lookup(std::string_view(text).substr(0, end)));
    char conversion = '\0';
    if (end < text.size() && text[end] == '!') {
      if (end + 1 >= text.size()) return value_error("end of string while looking for conversion specifier");
      conversion = text[end + 1];
      end += 2;
      if (end < text.size() && text[end] != ':') return value_error("expected ':' after conversion specifier");
    }
    Text spec_text;
    if (end < text.size()) {
      TAMIS_TRY(spec_text, run(sub_text(whole, end + 1, text.size()), depth + 1));
    }
    if (conversion == 's') {
      TAMIS_TRY(Text shown, to_text(interpreter_, value));
      value = interpreter_.string(std::move(shown));
    } else if (conversion == 'r' || conversion == 'a') {
      TAMIS_TRY(Text shown, to_repr(interpreter_, value));
      value = interpreter_.string(std::move(shown));
    } else if (conversion != '\0') {
      return value_error("Unknown conversion specifier");
    }
    Text out;
    if (whole.is_markup && value.is_string() && value.text().is_markup) {
      out = value.text();
    } else {
      TAMIS_TRY(out, format_value(value, spec_text.bytes));
    }
    return whole.is_markup && !out.is_markup ? escape_html(out) : out;
  }

  Result<Value> lookup(std::string_view name) {
    const size_t first_end = std::min(name.find_first_of(".["), name.size());
    const std::string_view first = name.substr(0, first_end);
    Value value;
    const bool is_number =
        !first.empty() && std::all_of(first.begin(), first.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (first.empty() || is_number) {
      if (first.empty() ? numbering_ == 'm' : numbering_ == 'a')
        return value_error("cannot switch between manual field specification and automatic field numbering");
      numbering_ = first.empty() ? 'a' : 'm';
      size_t index = next_;
      if (is_number) {
        index = 0;
        for (char c : first) index = std::min<size_t>(index * 10 + static_cast<size_t>(c - '0'), 1u << 20);
      } else {
        ++next_;
      }
      if (index >= args_.positional.size())
        return value_error("Replacement index out of range for positional args tuple");
      value = args_.positional[index];
    } else {
      const Value* given = args_.keyword(first);
      if (given == nullptr) return value_error(fmt::format("KeyError: '{}'", escape_for_display(first)));
      value = *given;
    }
    return members(std::move(value), name.substr(first_end));
  }

  Result<Value> members(Value value, std::string_view rest) {
    while (!rest.empty()) {
      if (rest[0] == '.') {
        const size_t end = std::min(rest.find_first_of(".[", 1), rest.size());
        if (end == 1) return value_error("Empty attribute in format string");
        TAMIS_TRY(value, interpreter_.attribute(value, rest.substr(1, end - 1)));
        rest = rest.substr(end);
        continue;
      }
      const size_t end = rest[0] == '[' ? rest.find(']') : std::string_view::npos;
      if (end == std::string_view::npos || end == 1) return value_error("Missing ']' in format string");
      const std::string_view key = rest.substr(1, end - 1);
      const bool is_number =
          key.size() < 18 && std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
      const Value index = is_number ? make_integer_text(interpreter_.budget(), key) : interpreter_.string(key);
      TAMIS_TRY(value, interpreter_.item(value, index));
      rest = rest.substr(end + 1);
    }
    return value;
  }

  Result<Text> format_value(const Value& value, std::string_view spec_text) {
    if (spec_text.empty()) return to_text(interpreter_, value);
    TAMIS_TRY(const Spec spec, parse_spec(spec_text));
    TAMIS_TRY_STATUS(interpreter_.budget().prepare(static_cast<uint64_t>(spec.width) * 4));
    if (value.is_string()) return format_string(value.text(), spec);
    if (value.is_integral() && std::string_view("bcdoxXn").find(spec.type) != std::string_view::npos)
      return format_integer(value.as_int(), spec);
    if (value.is_integral() && spec.type == '\0') return format_integer(value.as_int(), spec);
    if (value.is_number()) return format_real(value.as_double(), spec);
    return type_error(fmt::format("unsupported format string passed to {}.__format__", type_name(value)));
  }

  static Text pad(const Text& text, const Spec& spec, char align) {
    const size_t n = count_chars(text.bytes), width = static_cast<size_t>(spec.width);
    if (n >= width) return text;
    const size_t total = width - n, left = align == '<' ? 0 : align == '^' ? total / 2 : total;
    Text out;
    for (size_t i = 0; i < left; ++i) out.append(spec.fill, false);
    out.append(text);
    for (size_t i = left; i < total; ++i) out.append(spec.fill, false);
    return out;
  }

  static Result<Text> format_string(const Text& text, const Spec& spec) {
    if ((spec.type != '\0' && spec.type != 's') || spec.sign != '-' || spec.grouping != '\0' || spec.is_alternate)
      return value_error("Unknown format code for object of type 'str'");
    if (spec.align == '=' && !spec.is_zero) return value_error("'=' alignment not allowed in string format specifier");
    Text cut = text;
    if (spec.precision >= 0) {
      const std::vector<size_t> offsets = char_offsets(text.bytes);
      if (static_cast<uint64_t>(spec.precision) + 1 < offsets.size())
        cut = sub_text(text, 0, offsets[static_cast<size_t>(spec.precision)]);
    }
    return pad(cut, spec, spec.align == '\0' || spec.align == '=' ? '<' : spec.align);
  }

  static Text sign_and_pad(bool is_negative, const std::string& prefix, std::string digits, const Spec& spec) {
    const std::string sign = is_negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
    if (spec.align == '=') {
      const size_t used = sign.size() + prefix.size() + digits.size();
      std::string fill;
      for (size_t i = used; i < static_cast<size_t>(spec.width); ++i) fill += spec.fill;
      return Text::plain(sign + prefix + fill + digits);
    }
    return pad(Text::plain(sign + prefix + digits), spec, spec.align == '\0' ? '>' : spec.align);
  }

  static Result<Text> format_integer(int64_t value, const Spec& spec) {
    if (spec.precision >= 0) return value_error("Precision not allowed in integer format specifier");
    const char type = spec.type == '\0' || spec.type == 'n' ? 'd' : spec.type;
    if (type == 'c') {
      if (value < 0 || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff))
        return value_error("%c arg not in range(0x110000)");
      Text one;
      utf8_append(one.bytes, static_cast<char32_t>(value));
      return pad(one, spec, spec.align == '\0' ? '<' : spec.align);
    }
    const uint64_t magnitude = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
    std::string digits = radix_digits(magnitude, type);
    if (spec.grouping != '\0') {
      if (spec.grouping == ',' && type != 'd') return value_error("Cannot specify ',' with this type");
      digits = group_digits(digits, spec.grouping, type == 'd' ? 3 : 4);
    }
    const std::string prefix = spec.is_alternate && type != 'd' ? std::string("0") + type : "";
    return sign_and_pad(value < 0, prefix, std::move(digits), spec);
  }

  static Result<Text> format_real(double value, const Spec& spec) {
    if (spec.precision > 400) return value_error("precision too big");
    char type = spec.type == 'n' ? 'g' : spec.type;
    const bool is_percent = type == '%';
    if (type != '\0' && std::string_view("eEfFgG%").find(type) == std::string_view::npos)
      return value_error("Unknown format code for object of type 'float'");
    if (is_percent) type = 'f', value *= 100;
    std::string digits;
    if (type == '\0' && spec.precision < 0) {
      digits = real_repr(std::fabs(value));
    } else {
      digits = real_digits(std::fabs(value), type == '\0' ? 'g' : type,
                           spec.precision < 0 ? 6 : static_cast<int>(spec.precision), spec.is_alternate);
      if (type == '\0' && std::isfinite(value) && digits.find_first_of(".e") == std::string::npos) digits += ".0";
    }
    if (spec.grouping != '\0') digits = group_digits(digits, spec.grouping, 3);
    if (is_percent) digits += '%';
    return sign_and_pad(std::signbit(value) && !std::isnan(value), "", std::move(digits), spec);
  }

  Interpreter& interpreter_;
  const Arguments& args_;
  size_t next_ = 0;
  char numbering_ = '\0';
};

}  // namespace

Result<Value> format_braces(Interpreter& interpreter, const Text& format, const Arguments& args) {
  TAMIS_TRY_STATUS(interpreter.budget().spend_bytes(format.bytes.size()));
  TAMIS_TRY(Text out, BraceFormatter(interpreter, args).run(format, 0));
  return interpreter.string(std::move(out));
}

}  // namespace tamis::jinja
