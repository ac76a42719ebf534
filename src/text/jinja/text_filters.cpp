// Filters on text.  Source of the behaviour: jinja2 3.1.6, with Hugging Face's `tojson`.
#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/casing.h"
#include "text/jinja/format.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/print.h"

namespace tamis::jinja {
namespace {

using Args = const Arguments&;
using Self = const Value&;

template <Casing kCasing>
Result<Value> cased(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY_STATUS(Bound::match("case filter", args, {}, 0));
  TAMIS_TRY(const Text text, to_text(interpreter, self));
  TAMIS_TRY_STATUS(interpreter.budget().prepare(text.bytes.size() * 3));
  TAMIS_TRY_STATUS(interpreter.budget().spend_chars(text.bytes.size()));
  return interpreter.string(with_case(text, kCasing));
}

Result<Value> title(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY_STATUS(Bound::match("title", args, {}, 0));
  TAMIS_TRY(Text text, to_text(interpreter, self));
  TAMIS_TRY_STATUS(interpreter.budget().prepare(text.bytes.size() * 3));
  TAMIS_TRY_STATUS(interpreter.budget().spend_chars(text.bytes.size()));
  Text out = with_word_case(text);
  out.is_markup = false;
  return interpreter.string(std::move(out));
}

Result<Value> trim(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match("trim", args, {"chars"}, 0));
  TAMIS_TRY(const Text* chars, bound.string(0));
  TAMIS_TRY(const Text text, to_text(interpreter, self));
  TAMIS_TRY_STATUS(
      interpreter.budget().spend_bytes(text.bytes.size() * (chars == nullptr ? 1 : chars->bytes.size() / 8 + 1)));
  const std::string_view set = chars == nullptr ? std::string_view() : std::string_view(chars->bytes);
  const size_t end = skip_trailing(text.bytes, chars == nullptr ? nullptr : &set);
  const size_t begin = skip_leading(std::string_view(text.bytes).substr(0, end), chars == nullptr ? nullptr : &set);
  return interpreter.string(sub_text(text, begin, end));
}

Result<Value> replace(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match("replace", args, {"old", "new", "count"}, 2));
  TAMIS_TRY(Text text, to_text(interpreter, self));
  TAMIS_TRY(const Text old, to_text(interpreter, *bound[0]));
  TAMIS_TRY(const Text with, to_text(interpreter, *bound[1]));
  TAMIS_TRY(const int64_t count, bound.has(2) && bound[2]->is_none() ? Result<int64_t>(-1) : bound.integer(2, -1));
  text.is_markup = false;
  return replace_string(interpreter, text, old, with, count);
}

Result<Value> string(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY_STATUS(Bound::match("string", args, {}, 0));
  if (self.is_string()) return self;
  TAMIS_TRY(Text text, to_text(interpreter, self));
  return interpreter.string(std::move(text));
}

Result<Value> safe(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY_STATUS(Bound::match("safe", args, {}, 0));
  TAMIS_TRY(Text text, to_text(interpreter, self));
  text.is_markup = true;
  return interpreter.string(std::move(text));
}

template <bool kForces>
Result<Value> escape(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY_STATUS(Bound::match("escape", args, {}, 0));
  TAMIS_TRY(const Text text, to_text(interpreter, self));
  if (text.is_markup && !kForces) return self;
  TAMIS_TRY_STATUS(interpreter.budget().prepare(text.bytes.size() * 5));
  TAMIS_TRY_STATUS(interpreter.budget().spend_chars(text.bytes.size()));
  return interpreter.string(escape_html(text));
}

Result<Value> indent(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match("indent", args, {"width", "first", "blank"}, 0));
  if (!self.is_string()) return self.is_undefined() ? undefined_error(self) : type_error("indent: expected a string");
  Text indention;
  if (bound.has(0) && bound[0]->is_string()) {
    indention = bound[0]->text();
  } else {
    TAMIS_TRY(const int64_t width, bound.integer(0, 4));
    TAMIS_TRY_STATUS(interpreter.budget().prepare(static_cast<uint64_t>(std::max<int64_t>(width, 0))));
    indention.bytes.assign(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
  }
  const bool blank = bound.truth(2, false);
  Text source = self.text();
  source.append("\n", false);
  TAMIS_TRY_STATUS(interpreter.budget().spend_chars(source.bytes.size()));
  const std::vector<Span> lines = line_ranges(source.bytes, false);
  TAMIS_TRY_STATUS(interpreter.budget().can_hold(source.bytes.size()));
  if (const uint64_t each = indention.bytes.size(); each > 0) {
    if (lines.size() > UINT32_MAX || each > UINT32_MAX) return type_error("indent: too large");
    TAMIS_TRY_STATUS(interpreter.budget().prepare(source.bytes.size() + lines.size() * each));
  }
  Text out;
  out.is_markup = source.is_markup;
  if (bound.truth(1, false)) out.append(indention);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.append("\n", false);
    if (i > 0 && (blank || lines[i].begin < lines[i].end)) out.append(indention);
    out.append(source, lines[i].begin, lines[i].end);
  }
  return interpreter.string(std::move(out));
}

Result<Value> truncate(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match("truncate", args, {"length", "killwords", "end", "leeway"}, 0));
  if (self.is_undefined()) return interpreter.string(std::string_view());
  if (!self.is_string()) return type_error(fmt::format("truncate: expected a string, not {}", type_name(self)));
  TAMIS_TRY(const int64_t length, bound.integer(0, 255));
  TAMIS_TRY(const Text* end_given, bound.string(2));
  const Text dots = Text::plain("..."), &end = end_given == nullptr ? dots : *end_given;
  TAMIS_TRY(const int64_t leeway, bound.has(3) && bound[3]->is_none() ? Result<int64_t>(5) : bound.integer(3, 5));
  const auto end_length = static_cast<int64_t>(count_chars(end.bytes));
  if (length < end_length) return type_error(fmt::format("expected length >= {}, got {}", end_length, length));
  if (leeway < 0) return type_error(fmt::format("expected leeway >= 0, got {}", leeway));
  const Text& text = self.text();
  TAMIS_TRY_STATUS(interpreter.budget().prepare(text.bytes.size()));
  const std::vector<size_t> offsets = char_offsets(text.bytes);
  const auto n = static_cast<int64_t>(offsets.size() - 1);
  if (n - leeway <= length) return self;
  size_t cut = offsets[static_cast<size_t>(length - end_length)];
  if (!bound.truth(1, false)) {
    const size_t space = cut == 0 ? std::string::npos : text.bytes.rfind(' ', cut - 1);
    if (space != std::string::npos) cut = space;
  }
  Text out = sub_text(text, 0, cut);
  out.append(end);
  return interpreter.string(std::move(out));
}

Result<Value> wordcount(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY_STATUS(Bound::match("wordcount", args, {}, 0));
  TAMIS_TRY(const Text text, to_text(interpreter, self));
  TAMIS_TRY_STATUS(interpreter.budget().spend_chars(text.bytes.size()));
  int64_t n = 0;
  bool in_word = false;
  for (size_t i = 0; i < text.bytes.size(); i += char_length(text.bytes, i)) {
    const bool is_word = is_word_char(char_at(text.bytes, i));
    n += is_word && !in_word ? 1 : 0;
    in_word = is_word;
  }
  return Value::of(n);
}

Result<Value> center(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match("center", args, {"width"}, 0));
  TAMIS_TRY(const int64_t width, bound.integer(0, 80));
  TAMIS_TRY(const Text text, to_text(interpreter, self));
  return pad_string(interpreter, text, width, Text::plain(" "), Pad::both);
}

Result<Value> format(Interpreter& interpreter, Self self, Args args) {
  if (!args.positional.empty() && !args.keywords.empty())
    return type_error("can't handle positional and keyword arguments at the same time");
  TAMIS_TRY(const Text text, to_text(interpreter, self));
  if (args.keywords.empty()) {
    TAMIS_TRY(const Value tuple, make_tuple(interpreter.budget(), args.positional));
    return format_percent(interpreter, text, tuple);
  }
  std::vector<DictObject::Member> members;
  for (const auto& [name, value] : args.keywords)
    members.emplace_back(interpreter.string(std::string_view(name)), value);
  TAMIS_TRY(const Value dict, make_dict(interpreter.budget(), std::move(members)));
  return format_percent(interpreter, text, dict);
}

Result<Text> url_quote(Interpreter& interpreter, const Value& value, bool is_query) {
  TAMIS_TRY(const Text text, to_text(interpreter, value));
  TAMIS_TRY_STATUS(interpreter.budget().prepare(text.bytes.size() * 3));
  TAMIS_TRY_STATUS(interpreter.budget().spend_chars(text.bytes.size()));
  Text out;
  for (size_t i = 0; i < text.bytes.size(); ++i) {
    const char c = text.bytes[i];
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("_.-~").find(c) != std::string_view::npos || (c == '/' && !is_query);
    const bool is_content = text.is_content_at(i);
    if (plain)
      out.append(std::string_view(&c, 1), is_content);
    else if (c == ' ' && is_query)
      out.append("+", is_content);
    else
      out.append(fmt::format("%{:02X}", static_cast<unsigned char>(c)), is_content);
  }
  return out;
}

Result<Value> urlencode(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY_STATUS(Bound::match("urlencode", args, {}, 0));
  const bool has_pairs = self.is(Kind::dict) || self.is(Kind::list) || self.is(Kind::tuple) || self.is(Kind::view) ||
                         self.is(Kind::generator);
  if (!has_pairs) {
    TAMIS_TRY(Text text, url_quote(interpreter, self, false));
    return interpreter.string(std::move(text));
  }
  const Value pairs = self.is(Kind::dict) ? make_view(interpreter.budget(), self, ViewObject::What::items) : self;
  TAMIS_TRY(const std::vector<Value> all, interpreter.items(pairs));
  Text out;
  for (const Value& pair : all) {
    TAMIS_TRY(const std::vector<Value> two, interpreter.items(pair));
    if (two.size() != 2) return type_error("urlencode: expected pairs");
    TAMIS_TRY(const Text key, url_quote(interpreter, two[0], true));
    TAMIS_TRY(const Text value, url_quote(interpreter, two[1], true));
    if (!out.bytes.empty()) out.append("&", false);
    out.append(key);
    out.append("=", false);
    out.append(value);
  }
  return interpreter.string(std::move(out));
}

Result<Value> xmlattr(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match("xmlattr", args, {"autospace"}, 0));
  if (!self.is(Kind::dict)) return type_error("xmlattr: expected a mapping");
  Text out;
  for (const auto& [key, value] : self.dict().members) {
    if (value.is_none() || value.is_undefined()) continue;
    if (!key.is_string()) return type_error("xmlattr: keys must be strings");
    if (key.bytes().find_first_of(" \t\n\r\f\v/>=") != std::string_view::npos)
      return fail(ErrorCode::invalid_argument, "Invalid character in attribute name: {}", string_repr(key.bytes()));
    TAMIS_TRY(const Text text, to_text(interpreter, value));
    TAMIS_TRY_STATUS(interpreter.budget().prepare(out.bytes.size() + (key.bytes().size() + text.bytes.size()) * 5));
    if (!out.bytes.empty()) out.append(" ", false);
    out.append(escape_html(key.text()));
    out.append("=\"", false);
    out.append(text.is_markup ? text : escape_html(text));
    out.append("\"", false);
  }
  Text spaced = Text::plain(bound.truth(0, true) && !out.bytes.empty() ? " " : "");
  spaced.append(out);
  return interpreter.string(std::move(spaced));
}

Result<Value> join(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match("join", args, {"d", "attribute"}, 0));
  Text separator;
  if (bound.has(0)) {
    TAMIS_TRY(separator, to_text(interpreter, *bound[0]));
  }
  TAMIS_TRY(const Sequence all, interpreter.sequence(self));
  Text out;
  for (int64_t i = 0; i < all.n; ++i) {
    TAMIS_TRY_STATUS(interpreter.budget().spend(1));
    Value item = all.item(interpreter.budget(), i);
    if (bound.has(1) && !bound[1]->is_none()) {
      TAMIS_TRY(item, path_item(interpreter, item, *bound[1], nullptr));
    }
    TAMIS_TRY(const Text piece, to_text(interpreter, item));
    TAMIS_TRY_STATUS(interpreter.budget().can_hold(out.bytes.size() + piece.bytes.size() + separator.bytes.size()));
    TAMIS_TRY_STATUS(interpreter.budget().spend_bytes(piece.bytes.size() + separator.bytes.size()));
    if (i > 0) out.append(separator);
    out.append(piece);
  }
  return interpreter.string(std::move(out));
}

Result<Value> tojson(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match("tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"}, 0));
  JsonStyle style;
  style.ascii_only = bound.truth(0, false);
  style.sorts_keys = bound.truth(3, false);
  if (bound.has(1) && !bound[1]->is_none()) {
    style.has_indent = true;
    style.item_separator = ",";
    if (bound[1]->is_string()) {
      style.indent = bound[1]->bytes();
    } else {
      TAMIS_TRY(const int64_t width, bound.integer(1, 0));
      style.indent.assign(static_cast<size_t>(std::clamp<int64_t>(width, 0, 1024)), ' ');
    }
  }
  if (bound.has(2) && !bound[2]->is_none()) {
    TAMIS_TRY(const std::vector<Value> separators, interpreter.items(*bound[2]));
    if (separators.size() != 2 || !separators[0].is_string() || !separators[1].is_string())
      return type_error("tojson: separators must be two strings");
    style.item_separator = separators[0].bytes();
    style.key_separator = separators[1].bytes();
  }
  TAMIS_TRY(Text out, to_json(interpreter, self, style));
  return interpreter.string(std::move(out));
}

Result<Value> pprint(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY_STATUS(Bound::match("pprint", args, {}, 0));
  TAMIS_TRY(Text out, to_repr(interpreter, self));
  return interpreter.string(std::move(out));
}

Result<Value> striptags(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY_STATUS(Bound::match("striptags", args, {}, 0));
  TAMIS_TRY(const Text text, to_text(interpreter, self));
  TAMIS_TRY_STATUS(interpreter.budget().prepare(text.bytes.size() * 2));
  TAMIS_TRY_STATUS(interpreter.budget().spend_chars(text.bytes.size()));
  return interpreter.string(strip_tags(text));
}

template <int kWhich>
Result<Value> unsupported(Interpreter&, Self, Args) {
  constexpr std::string_view kNames[] = {"random", "urlize", "wordwrap"};
  return fail(ErrorCode::invalid_argument, "filter '{}' is not supported", kNames[kWhich]);
}

constexpr FilterRow kFilters[] = {
    {"capitalize", cased<Casing::capitalize>},
    {"center", center},
    {"e", escape<false>},
    {"escape", escape<false>},
    {"forceescape", escape<true>},
    {"format", format},
    {"indent", indent},
    {"join", join},
    {"lower", cased<Casing::lower>},
    {"pprint", pprint},
    {"random", unsupported<0>},
    {"replace", replace},
    {"safe", safe},
    {"string", string},
    {"striptags", striptags},
    {"title", title},
    {"tojson", tojson},
    {"trim", trim},
    {"truncate", truncate},
    {"upper", cased<Casing::upper>},
    {"urlencode", urlencode},
    {"urlize", unsupported<1>},
    {"wordcount", wordcount},
    {"wordwrap", unsupported<2>},
    {"xmlattr", xmlattr},
};

}  // namespace

std::span<const FilterRow> text_filters() { return kFilters; }

}  // namespace tamis::jinja
