// printf-style formatting.
#include <algorithm>
#include <cmath>

#include "base/utf8.h"
#include "text/jinja/format.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/print.h"

namespace tamis::jinja {

std::string real_digits(double value, char type, int precision, bool keeps_zeros) {
  const bool is_upper = type >= 'A' && type <= 'Z';
  std::string out;
  if (std::isnan(value) || std::isinf(value)) {
    out = std::isnan(value) ? "nan" : "inf";
  } else {
    switch (type | 0x20) {
      case 'e': out = fmt::format("{:.{}e}", value, precision); break;
      case 'f': out = fmt::format("{:.{}f}", value, precision); break;
      default:
        out = keeps_zeros ? fmt::format("{:#.{}g}", value, std::max(precision, 1))
                          : fmt::format("{:.{}g}", value, std::max(precision, 1));
        break;
    }
  }
  if (is_upper)
    std::transform(out.begin(), out.end(), out.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return out;
}

namespace {

struct Conversion {
  bool is_alternate = false, is_zero = false, is_left = false, has_space = false, has_plus = false;
  int64_t width = 0;
  int64_t precision = -1;
  char type = 's';
};

tl::unexpected<Error> value_error(std::string_view what) { return fail(ErrorCode::invalid_argument, "{}", what); }

std::string integer_digits(uint64_t magnitude, char type) {
  if (type == 'x') return fmt::format("{:x}", magnitude);
  if (type == 'X') return fmt::format("{:X}", magnitude);
  if (type == 'o') return fmt::format("{:o}", magnitude);
  return fmt::format("{}", magnitude);
}

class PercentFormatter {
 public:
  PercentFormatter(Interpreter& interpreter, const Text& format, const Value& args)
      : interpreter_(interpreter), format_(format), args_(args), is_tuple_(args.is(Kind::tuple)) {
    out_.is_markup = format.is_markup;
  }

  Result<Value> run() {
    const std::string& text = format_.bytes;
    size_t from = 0;
    while (true) {
      const size_t percent = text.find('%', from);
      out_.append(format_, from, std::min(percent, text.size()));
      if (percent == std::string::npos) break;
      at_ = percent + 1;
      TAMIS_TRY_STATUS(conversion());
      from = at_;
    }
    const bool takes_all = is_tuple_ ? n_used_ >= args_.items().size() : n_used_ > 0;
    const bool is_mapping =
        args_.is(Kind::dict) || args_.is(Kind::list) || args_.is(Kind::range) || args_.is_undefined();
    if (!takes_all && !is_mapping) return type_error("not all arguments converted during string formatting");
    return interpreter_.string(std::move(out_));
  }

 private:
  char peek() const { return at_ < format_.bytes.size() ? format_.bytes[at_] : '\0'; }

  Result<const Value*> next_argument() {
    if (is_tuple_) {
      if (n_used_ >= args_.items().size()) return type_error("not enough arguments for format string");
      return &args_.items()[n_used_++];
    }
    if (n_used_++ > 0) return type_error("not enough arguments for format string");
    return &args_;
  }

  Result<int64_t> number() {
    if (peek() == '*') {
      ++at_;
      TAMIS_TRY(const Value* value, next_argument());
      if (!value->is_integral()) return type_error("* wants int");
      return value->as_int();
    }
    int64_t n = 0;
    for (; peek() >= '0' && peek() <= '9'; ++at_)
      if ((n = n * 10 + (peek() - '0')) > INT32_MAX) return value_error("width too big");
    return n;
  }

  Status conversion() {
    const Value* value = nullptr;
    if (peek() == '(') {
      const size_t end = format_.bytes.find(')', at_);
      if (end == std::string::npos) return value_error("incomplete format key");
      if (!args_.is(Kind::dict)) return type_error("format requires a mapping");
      const std::string_view key = std::string_view(format_.bytes).substr(at_ + 1, end - at_ - 1);
      value = args_.dict().find(key);
      if (value == nullptr) return value_error(fmt::format("KeyError: '{}'", escape_for_display(key)));
      ++n_used_;
      at_ = end + 1;
    }
    Conversion c;
    for (bool more = true; more;) {
      switch (peek()) {
        case '#': c.is_alternate = true; break;
        case '0': c.is_zero = true; break;
        case '-': c.is_left = true; break;
        case ' ': c.has_space = true; break;
        case '+': c.has_plus = true; break;
        default: more = false; continue;
      }
      ++at_;
    }
    TAMIS_TRY(c.width, number());
    if (c.width < 0) {
      c.is_left = true;
      c.width = -std::max<int64_t>(c.width, -INT32_MAX);
    }
    if (peek() == '.') {
      ++at_;
      TAMIS_TRY(c.precision, number());
      c.precision = std::max<int64_t>(c.precision, 0);
    }
    while (peek() == 'h' || peek() == 'l' || peek() == 'L') ++at_;
    if (at_ >= format_.bytes.size()) return value_error("incomplete format");
    c.type = format_.bytes[at_++];
    TAMIS_TRY_STATUS(interpreter_.budget().prepare(static_cast<uint64_t>(c.width) * 2 + out_.bytes.size()));
    if (c.type == '%') {
      out_.append("%", format_.is_content_at(at_ - 1));
      return {};
    }
    if (value == nullptr) {
      TAMIS_TRY(value, next_argument());
    }
    return convert(c, *value);
  }

  Status convert(const Conversion& c, const Value& value) {
    switch (c.type) {
      case 's':
      case 'r':
      case 'a': return convert_text(c, value);
      case 'c': return convert_char(c, value);
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o': return convert_integer(c, value);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G': return convert_real(c, value);
      default: return value_error("unsupported format character");
    }
  }

  Status convert_text(const Conversion& c, const Value& value) {
    TAMIS_TRY(Text text, c.type == 's' ? to_text(interpreter_, value) : to_repr(interpreter_, value));
    if (format_.is_markup && !(c.type == 's' && text.is_markup)) text = escape_html(text);
    if (c.precision >= 0) {
      const std::vector<size_t> offsets = char_offsets(text.bytes);
      if (static_cast<uint64_t>(c.precision) + 1 < offsets.size())
        text = sub_text(text, 0, offsets[static_cast<size_t>(c.precision)]);
    }
    pad(c, text);
    return {};
  }

  Status convert_char(const Conversion& c, const Value& value) {
    Text text;
    if (value.is_string() && count_chars(value.bytes()) == 1) {
      text = value.text();
    } else if (value.is_integral() && value.as_int() >= 0 && value.as_int() <= 0x10ffff &&
               (value.as_int() < 0xd800 || value.as_int() > 0xdfff)) {
      utf8_append(text.bytes, static_cast<char32_t>(value.as_int()));
    } else {
      return type_error("%c requires int or char");
    }
    pad(c, text);
    return {};
  }

  Status convert_integer(const Conversion& c, const Value& value) {
    int64_t number = 0;
    if (value.is_integral()) {
      number = value.as_int();
    } else if (value.is(Kind::real) && (c.type == 'd' || c.type == 'i' || c.type == 'u')) {
      const double real = std::trunc(value.as_double());
      if (!(real >= -0x1p63 && real < 0x1p63)) return value_error("cannot convert float to a 64-bit integer");
      number = static_cast<int64_t>(real);
    } else {
      return type_error(fmt::format("%{} format: a real number is required, not {}", c.type, type_name(value)));
    }
    const uint64_t magnitude = number < 0 ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
    std::string digits = integer_digits(magnitude, c.type);
    if (c.precision > static_cast<int64_t>(digits.size())) {
      TAMIS_TRY_STATUS(interpreter_.budget().prepare(static_cast<uint64_t>(c.precision) * 2));
      digits.insert(0, static_cast<size_t>(c.precision) - digits.size(), '0');
    }
    std::string prefix;
    if (c.is_alternate && c.type != 'd' && c.type != 'i' && c.type != 'u') prefix = std::string("0") + c.type;
    pad_number(c, number < 0, prefix, digits);
    return {};
  }

  Status convert_real(const Conversion& c, const Value& value) {
    if (!value.is_number()) return type_error(fmt::format("must be real number, not {}", type_name(value)));
    if (c.precision > 400) return value_error("precision too big");
    const double real = value.as_double();
    const std::string digits =
        real_digits(std::fabs(real), c.type, c.precision < 0 ? 6 : static_cast<int>(c.precision), c.is_alternate);
    Conversion padding = c;
    if (!std::isfinite(real)) padding.is_zero = false;
    pad_number(padding, std::signbit(real) && !std::isnan(real), "", digits);
    return {};
  }

  void pad_number(const Conversion& c, bool is_negative, const std::string& prefix, std::string digits) {
    const std::string sign = is_negative ? "-" : c.has_plus ? "+" : c.has_space ? " " : "";
    const size_t used = sign.size() + prefix.size() + digits.size();
    if (c.is_zero && !c.is_left && used < static_cast<size_t>(c.width))
      digits.insert(0, static_cast<size_t>(c.width) - used, '0');
    pad(c, Text::plain(sign + prefix + digits));
  }

  void pad(const Conversion& c, const Text& text) {
    const size_t n = count_chars(text.bytes), width = static_cast<size_t>(c.width);
    const std::string fill(n < width ? width - n : 0, ' ');
    if (!c.is_left) out_.append(fill, false);
    out_.append(text);
    if (c.is_left) out_.append(fill, false);
  }

  Interpreter& interpreter_;
  const Text& format_;
  const Value& args_;
  const bool is_tuple_;
  size_t n_used_ = 0;
  size_t at_ = 0;
  Text out_;
};

}  // namespace

Result<Value> format_percent(Interpreter& interpreter, const Text& format, const Value& args) {
  TAMIS_TRY_STATUS(interpreter.budget().spend_bytes(format.bytes.size()));
  return PercentFormatter(interpreter, format, args).run();
}

}  // namespace tamis::jinja
