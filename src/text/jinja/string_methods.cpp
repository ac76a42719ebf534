// Methods of str, part one: case, stripping, padding, predicates, searching.
#include <utf8proc.h>

#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/casing.h"
#include "text/jinja/format.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"

namespace tamis::jinja {
namespace {

using Args = const Arguments&;
using Self = const Value&;

template <Casing kCasing>
Result<Value> cased(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY_STATUS(Bound::match("str method", args, {}, 0));
  TAMIS_TRY_STATUS(interpreter.budget().prepare(self.bytes().size() * 3));
  TAMIS_TRY_STATUS(interpreter.budget().spend_chars(self.bytes().size()));
  return interpreter.string(with_case(self.text(), kCasing));
}

enum class Side : uint8_t { left, right, both };

template <Side kSide>
Result<Value> strip(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match("strip", args, {"chars"}, 0));
  TAMIS_TRY(const Text* chars, bound.string(0));
  TAMIS_TRY_STATUS(
      interpreter.budget().spend_bytes(self.bytes().size() * (chars == nullptr ? 1 : chars->bytes.size() / 8 + 1)));
  const std::string_view text = self.bytes();
  const std::string_view set = chars == nullptr ? std::string_view() : std::string_view(chars->bytes);
  const std::string_view* const given = chars == nullptr ? nullptr : &set;
  const size_t end = kSide == Side::left ? text.size() : skip_trailing(text, given);
  const size_t begin = kSide == Side::right ? 0 : skip_leading(text.substr(0, end), given);
  return interpreter.string(sub_text(self.text(), begin, end));
}

template <Side kSide>
Result<Value> justify(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match("ljust", args, {"width", "fillchar"}, 1));
  TAMIS_TRY(const int64_t width, bound.integer(0, 0));
  TAMIS_TRY(const Text* fill, bound.string(1));
  const Text space = Text::plain(" ");
  const Text& with = fill == nullptr ? space : *fill;
  if (count_chars(with.bytes) != 1) return type_error("The fill character must be exactly one character long");
  return pad_string(interpreter, self.text(), width, with,
                    kSide == Side::left    ? Pad::right
                    : kSide == Side::right ? Pad::left
                                           : Pad::both);
}

Result<Value> zfill(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match("zfill", args, {"width"}, 1));
  TAMIS_TRY(const int64_t width, bound.integer(0, 0));
  const Text& text = self.text();
  const auto n = static_cast<int64_t>(count_chars(text.bytes));
  if (n >= width) return self;
  TAMIS_TRY_STATUS(interpreter.budget().prepare(static_cast<uint64_t>(width) * 2));
  const size_t sign = text.bytes.starts_with('-') || text.bytes.starts_with('+') ? 1 : 0;
  Text out = sub_text(text, 0, sign);
  out.append(std::string(static_cast<size_t>(width - n), '0'), false);
  out.append(text, sign, text.bytes.size());
  return interpreter.string(std::move(out));
}

// Every character satisfies `test`, and there is one.
template <bool (*kTest)(char32_t)>
Result<Value> all_chars(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY_STATUS(Bound::match("str method", args, {}, 0));
  const std::string_view text = self.bytes();
  TAMIS_TRY_STATUS(interpreter.budget().spend_bytes(text.size()));
  for (size_t i = 0; i < text.size(); i += char_length(text, i))
    if (!kTest(char_at(text, i))) return Value::of(false);
  return Value::of(!text.empty());
}

utf8proc_category_t category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }
bool is_alpha(char32_t c) { return category(c) >= UTF8PROC_CATEGORY_LU && category(c) <= UTF8PROC_CATEGORY_LO; }
bool is_decimal(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }
bool is_superscript_digit(char32_t c) {
  return c == 0xb2 || c == 0xb3 || c == 0xb9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079) ||
         (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468) || (c >= 0x2776 && c <= 0x277e);
}
bool is_digit(char32_t c) { return is_decimal(c) || is_superscript_digit(c); }
bool is_numeric(char32_t c) {
  return is_digit(c) || category(c) == UTF8PROC_CATEGORY_NL || category(c) == UTF8PROC_CATEGORY_NO;
}
bool is_alnum(char32_t c) { return is_alpha(c) || is_numeric(c); }

template <bool (*kTest)(std::string_view)>
Result<Value> text_test(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY_STATUS(Bound::match("str method", args, {}, 0));
  TAMIS_TRY_STATUS(interpreter.budget().spend_bytes(self.bytes().size()));
  return Value::of(kTest(self.bytes()));
}

bool is_ascii_or_empty(std::string_view text) { return is_ascii(text); }
bool is_title(std::string_view text) {
  return with_case(Text::plain(text), Casing::title).bytes == text &&
         with_case(Text::plain(text), Casing::lower).bytes != text;
}
bool is_identifier(std::string_view text) {
  if (text.empty() || (text[0] >= '0' && text[0] <= '9')) return false;
  for (size_t i = 0; i < text.size(); i += char_length(text, i))
    if (const char32_t c = char_at(text, i); c != '_' && !is_alnum(c)) return false;
  return true;
}

// The part of self between optional start and stop, as byte offsets.
struct Window {
  size_t begin = 0, end = 0;
  bool is_valid = true;  // false when start lies past the end: nothing is found there, not even ""
};
Result<Window> window(Self self, const Bound& bound, size_t first) {
  const std::string_view text = self.bytes();
  if (!bound.has(first) && !bound.has(first + 1)) return Window{0, text.size(), true};
  const std::vector<size_t> offsets = char_offsets(text);
  const auto length = static_cast<int64_t>(offsets.size() - 1);
  if (bound.has(first) && bound[first]->is_integral() && bound[first]->as_int() > length) return Window{0, 0, false};
  TAMIS_TRY(const SliceBounds bounds, slice_bounds(length, bound[first], bound[first + 1], nullptr));
  return Window{offsets[static_cast<size_t>(bounds.begin)], offsets[static_cast<size_t>(bounds.begin + bounds.n)],
                true};
}

template <bool kFromRight, bool kRaises>
Result<Value> find(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match("find", args, {"sub", "start", "end"}, 1));
  TAMIS_TRY(const Text* sub, bound.string(0));
  if (sub == nullptr) return type_error("must be str, not None");
  TAMIS_TRY_STATUS(interpreter.budget().spend_bytes(self.bytes().size()));
  TAMIS_TRY(const Window in, window(self, bound, 1));
  const std::string_view text = self.bytes().substr(in.begin, in.end - in.begin);
  const size_t at = !in.is_valid ? std::string_view::npos
                    : kFromRight ? rfind_bytes(text, sub->bytes)
                                 : find_bytes(text, sub->bytes);
  if (at != std::string_view::npos)
    return Value::of(static_cast<int64_t>(count_chars(self.bytes().substr(0, in.begin + at))));
  if (kRaises) return fail(ErrorCode::invalid_argument, "substring not found");
  return Value::of(int64_t{-1});
}

Result<Value> count(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match("count", args, {"sub", "start", "end"}, 1));
  TAMIS_TRY(const Text* sub, bound.string(0));
  if (sub == nullptr) return type_error("must be str, not None");
  TAMIS_TRY_STATUS(interpreter.budget().spend_bytes(self.bytes().size()));
  TAMIS_TRY(const Window in, window(self, bound, 1));
  if (!in.is_valid) return Value::of(int64_t{0});
  const std::string_view text = self.bytes().substr(in.begin, in.end - in.begin);
  if (sub->bytes.empty()) return Value::of(static_cast<int64_t>(count_chars(text)) + 1);
  int64_t n = 0;
  for (size_t at = find_bytes(text, sub->bytes); at != std::string_view::npos;
       at = find_bytes(text, sub->bytes, at + sub->bytes.size()))
    ++n;
  return Value::of(n);
}

template <bool kAtEnd>
Result<Value> has_affix(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match(kAtEnd ? "endswith" : "startswith", args, {"prefix", "start", "end"}, 1));
  TAMIS_TRY(const Window in, window(self, bound, 1));
  const std::string_view text = self.bytes().substr(in.begin, in.end - in.begin);
  TAMIS_TRY_STATUS(interpreter.budget().spend(1));
  const auto matches = [&](const Value& affix) {
    return in.is_valid && (kAtEnd ? text.ends_with(affix.bytes()) : text.starts_with(affix.bytes()));
  };
  if (bound[0]->is_string()) return Value::of(matches(*bound[0]));
  if (!bound[0]->is(Kind::tuple))
    return type_error(fmt::format("first arg must be str or a tuple of str, not {}", type_name(*bound[0])));
  for (const Value& affix : bound[0]->items()) {
    if (!affix.is_string()) return type_error("tuple for startswith must only contain str");
    if (matches(affix)) return Value::of(true);
  }
  return Value::of(false);
}

template <bool kAtEnd>
Result<Value> remove_affix(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match("removeprefix", args, {"prefix"}, 1));
  TAMIS_TRY(const Text* affix, bound.string(0));
  if (affix == nullptr) return type_error("argument must be str, not None");
  const std::string_view text = self.bytes();
  const size_t n = affix->bytes.size();
  if (n == 0 || !(kAtEnd ? text.ends_with(affix->bytes) : text.starts_with(affix->bytes))) return self;
  return interpreter.string(kAtEnd ? sub_text(self.text(), 0, text.size() - n) : sub_text(self.text(), n, text.size()));
}

Result<Value> format(Interpreter& interpreter, Self self, Args args) {
  return format_braces(interpreter, self.text(), args);
}

Result<Value> format_map(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match("format_map", args, {"mapping"}, 1));
  if (!bound[0]->is(Kind::dict)) return type_error("format_map() argument must be a mapping");
  Arguments named;
  for (const auto& [key, value] : bound[0]->dict().members)
    if (key.is_string()) named.keywords.emplace_back(key.bytes(), value);
  return format_braces(interpreter, self.text(), named);
}

constexpr MethodRow kMethods[] = {
    {"capitalize", cased<Casing::capitalize>},
    {"casefold", cased<Casing::fold>},
    {"center", justify<Side::both>},
    {"count", count},
    {"endswith", has_affix<true>},
    {"find", find<false, false>},
    {"format", format},
    {"format_map", format_map},
    {"index", find<false, true>},
    {"isalnum", all_chars<is_alnum>},
    {"isalpha", all_chars<is_alpha>},
    {"isascii", text_test<is_ascii_or_empty>},
    {"isdecimal", all_chars<is_decimal>},
    {"isdigit", all_chars<is_digit>},
    {"isidentifier", text_test<is_identifier>},
    {"islower", text_test<is_lower_text>},
    {"isnumeric", all_chars<is_numeric>},
    {"isspace", all_chars<is_space>},
    {"istitle", text_test<is_title>},
    {"isupper", text_test<is_upper_text>},
    {"ljust", justify<Side::left>},
    {"lower", cased<Casing::lower>},
    {"lstrip", strip<Side::left>},
    {"removeprefix", remove_affix<false>},
    {"removesuffix", remove_affix<true>},
    {"rfind", find<true, false>},
    {"rindex", find<true, true>},
    {"rjust", justify<Side::right>},
    {"rstrip", strip<Side::right>},
    {"startswith", has_affix<false>},
    {"strip", strip<Side::both>},
    {"swapcase", cased<Casing::swap>},
    {"title", cased<Casing::title>},
    {"upper", cased<Casing::upper>},
    {"zfill", zfill},
};

}  // namespace

std::span<const MethodRow> string_methods() { return kMethods; }

Result<Value> pad_string(Interpreter& interpreter, const Text& text, int64_t width, const Text& fill, Pad side) {
  const auto n = static_cast<int64_t>(count_chars(text.bytes));
  if (width <= n) return interpreter.string(text);
  TAMIS_TRY_STATUS(interpreter.budget().prepare(static_cast<uint64_t>(width) * 4));
  const int64_t total = width - n;
  // Python's rounding: an odd space goes left when the width is odd.
  const int64_t left = side == Pad::left ? total : side == Pad::right ? 0 : total / 2 + (total & width & 1);
  Text out;
  out.is_markup = text.is_markup;
  for (int64_t i = 0; i < left; ++i) out.append(fill);
  out.append(text);
  for (int64_t i = left; i < total; ++i) out.append(fill);
  return interpreter.string(std::move(out));
}

}  // namespace tamis::jinja
