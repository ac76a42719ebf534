// Filters on numbers, and Python's int() and float() of text.
#include <algorithm>
#include <cmath>
#include <optional>

#include "text/jinja/builtins.h"
#include "text/jinja/format.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/number.h"
#include "text/jinja/operators.h"

namespace tamis::jinja {
namespace {

using Args = const Arguments&;
using Self = const Value&;

std::string_view stripped(std::string_view text) {
  text = text.substr(0, skip_trailing(text, nullptr));
  return text.substr(skip_leading(text, nullptr));
}

// Digits with single underscores between them removed; nothing when malformed.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
      continue;
    }
    const auto is_alnum = [](char c) { return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z'); };
    if (i == 0 || i + 1 >= text.size() || !is_alnum(text[i - 1]) || !is_alnum(text[i + 1])) return std::nullopt;
  }
  return out;
}

// int(text, base): nothing when Python would raise ValueError.
std::optional<Value> parse_integer(Budget& budget, std::string_view text, int64_t base) {
  text = stripped(text);
  bool is_negative = false;
  if (text.starts_with('-') || text.starts_with('+')) {
    is_negative = text[0] == '-';
    text = text.substr(1);
  }
  if (text.size() > 2 && text[0] == '0') {
    const char letter = static_cast<char>(text[1] | 0x20);
    const int64_t radix = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (radix != 0 && (base == radix || base == 0)) {
      base = radix;
      text = text.substr(text[2] == '_' ? 3 : 2);
    }
  }
  if (base == 0) base = 10;
  const auto digits = without_underscores(text);
  if (!digits || digits->empty()) return std::nullopt;
  __int128 value = 0;
  bool fits = true;
  for (char c : *digits) {
    const int digit = c >= '0' && c <= '9'                     ? c - '0'
                      : (c | 0x20) >= 'a' && (c | 0x20) <= 'z' ? (c | 0x20) - 'a' + 10
                                                               : 99;
    if (digit >= base) return std::nullopt;
    if (fits) value = value * base + digit;
    if (value > (static_cast<__int128>(1) << 64)) fits = false;
  }
  if (is_negative) value = -value;
  if (fits && value >= INT64_MIN && value <= INT64_MAX) return Value::of(static_cast<int64_t>(value));
  if (base != 10) return std::nullopt;
  const size_t zeros = std::min(digits->find_first_not_of('0'), digits->size() - 1);
  return make_integer_text(budget, (is_negative ? "-" : "") + digits->substr(zeros));
}

// float(text): nothing when Python would raise ValueError.
std::optional<double> parse_real(std::string_view text) {
  const auto plain = without_underscores(stripped(text));
  if (!plain || plain->empty()) return std::nullopt;
  std::string lower = *plain;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  const std::string_view bare = std::string_view(lower).substr(lower[0] == '-' || lower[0] == '+' ? 1 : 0);
  if (bare != "inf" && bare != "infinity" && bare != "nan" &&
      bare.find_first_not_of("0123456789.e+-") != std::string_view::npos)
    return std::nullopt;
  return parse_double(*plain);
}

Result<Value> truncated(double value) {
  const double whole = std::trunc(value);
  if (!(whole >= -0x1p63 && whole < 0x1p63))
    return fail(ErrorCode::invalid_argument, "float does not fit a 64-bit integer");
  return Value::of(static_cast<int64_t>(whole));
}

Result<Value> to_int(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match("int", args, {"default", "base"}, 0));
  TAMIS_TRY(const int64_t base, bound.integer(1, 10));
  const Value otherwise = bound.has(0) ? *bound[0] : Value::of(int64_t{0});
  if (self.is_undefined()) return undefined_error(self);
  if (self.is_integral()) return Value::of(self.as_int());
  if (self.is(Kind::wide_integer)) return self;
  if (self.is(Kind::real))
    return std::isfinite(self.as_double()) ? truncated(self.as_double()) : Result<Value>(otherwise);
  if (!self.is_string()) return otherwise;
  if (base == 1 || base < 0 || base > 36) return otherwise;
  if (auto value = parse_integer(interpreter.budget(), self.bytes(), base)) return *value;
  const auto real = parse_real(self.bytes());
  return real && std::isfinite(*real) ? truncated(*real) : Result<Value>(otherwise);
}

Result<Value> to_float(Interpreter&, Self self, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match("float", args, {"default"}, 0));
  const Value otherwise = bound.has(0) ? *bound[0] : Value::of(0.0);
  if (self.is_undefined()) return undefined_error(self);
  if (self.is_number()) return Value::of(self.as_double());
  const auto real = self.is_string()              ? parse_real(self.bytes())
                    : self.is(Kind::wide_integer) ? parse_real(self.object<WideIntegerObject>().digits)
                                                  : std::optional<double>();
  return real ? Value::of(*real) : otherwise;
}

Result<Value> absolute(Interpreter&, Self self, Args args) {
  TAMIS_TRY_STATUS(Bound::match("abs", args, {}, 0));
  if (self.is(Kind::real)) return Value::of(std::fabs(self.as_double()));
  if (self.is_integral() && self.as_int() >= 0) return Value::of(self.as_int());
  if (!self.is_integral() && !self.is_undefined())
    return type_error(fmt::format("bad operand type for abs(): '{}'", type_name(self)));
  return negated(self);
}

// Python's round(): to nearest, ties to even, correctly rounded in decimal.
double round_decimal(double value, int64_t digits) {
  if (!std::isfinite(value) || digits > 323) return value;
  if (digits < -308) return std::copysign(0.0, value);
  if (digits >= 0) return parse_double(fmt::format("{:.{}f}", value, digits)).value_or(value);
  const double scale = std::pow(10.0, static_cast<double>(-digits));
  return std::nearbyint(value / scale) * scale;
}

Result<Value> round_integer(int64_t value, int64_t digits) {
  if (digits >= 0) return Value::of(value);
  if (digits < -18) return Value::of(int64_t{0});
  int64_t scale = 1;
  for (int64_t i = 0; i < -digits; ++i) scale *= 10;
  TAMIS_TRY(const int64_t rest, floor_modulo(value, scale));
  const int64_t low = value - rest;
  const bool up = rest > scale / 2 || (rest == scale / 2 && (low / scale) % 2 != 0);
  int64_t out = 0;
  if (__builtin_add_overflow(low, up ? scale : 0, &out))
    return fail(ErrorCode::invalid_argument, "integer result does not fit 64 bits");
  return Value::of(out);
}

Result<Value> round(Interpreter&, Self self, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match("round", args, {"precision", "method"}, 0));
  TAMIS_TRY(const int64_t digits, bound.integer(0, 0));
  TAMIS_TRY(const Text* method, bound.string(1));
  const std::string_view how = method == nullptr ? std::string_view("common") : std::string_view(method->bytes);
  if (how != "common" && how != "ceil" && how != "floor")
    return fail(ErrorCode::invalid_argument, "method must be common, ceil or floor");
  if (self.is_undefined()) return undefined_error(self);
  if (!self.is_number()) return type_error(fmt::format("type {} doesn't define __round__ method", type_name(self)));
  if (how == "common")
    return self.is_integral() ? round_integer(self.as_int(), digits)
                              : Result<Value>(Value::of(round_decimal(self.as_double(), digits)));
  const double scale = std::pow(10.0, static_cast<double>(digits));
  const double scaled = self.as_double() * scale;
  if (!std::isfinite(scaled)) return fail(ErrorCode::invalid_argument, "cannot round an infinite value");
  return Value::of((how == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

Result<Value> filesizeformat(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match("filesizeformat", args, {"binary"}, 0));
  TAMIS_TRY(const Value number, to_float(interpreter, self, {}));
  if (self.is_string() && !parse_real(self.bytes())) return type_error("could not convert string to float");
  if (!self.is_string() && !self.is_number()) return type_error("float() argument must be a string or a real number");
  const double bytes = number.as_double(), base = bound.truth(0, false) ? 1024 : 1000;
  if (bytes == 1) return interpreter.string("1 Byte");
  if (bytes < base) {
    TAMIS_TRY(const Value whole, truncated(bytes));
    return interpreter.string(fmt::format("{} Bytes", whole.as_int()));
  }
  constexpr std::string_view kPrefixes = "kMGTPEZY";
  double unit = base;
  for (size_t i = 0; i < kPrefixes.size(); ++i) {
    unit *= base;
    if (bytes >= unit && i + 1 < kPrefixes.size()) continue;
    const bool is_binary = base == 1024;
    const char prefix = is_binary && i == 0 ? 'K' : kPrefixes[i];
    return interpreter.string(fmt::format("{:.1f} {}{}B", base * bytes / unit, prefix, is_binary ? "i" : ""));
  }
  return interpreter.string(std::string_view());
}

constexpr FilterRow kFilters[] = {
    {"abs", absolute}, {"filesizeformat", filesizeformat}, {"float", to_float}, {"int", to_int}, {"round", round},
};

}  // namespace

std::span<const FilterRow> number_filters() { return kFilters; }

}  // namespace tamis::jinja
