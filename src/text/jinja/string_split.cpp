// Methods of str, part two: the ones that make several strings of one, or one of several.
#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/print.h"

namespace tamis::jinja {
namespace {

using Args = const Arguments&;
using Self = const Value&;

// Collects pieces of one string.
class Pieces {
 public:
  Pieces(Interpreter& interpreter, const Text& text) : interpreter_(interpreter), text_(text) {}
  Status add(size_t begin, size_t end) {
    TAMIS_TRY_STATUS(interpreter_.budget().can_hold(end - begin + sizeof(StringObject)));
    values_.push_back(interpreter_.string(sub_text(text_, begin, end)));
    return {};
  }
  void reverse() { std::reverse(values_.begin(), values_.end()); }
  Result<Value> list() {
    TAMIS_TRY_STATUS(interpreter_.budget().spend(values_.size() >> 4));
    return make_list(interpreter_.budget(), std::move(values_));
  }
  Result<Value> tuple() { return make_tuple(interpreter_.budget(), std::move(values_)); }

 private:
  Interpreter& interpreter_;
  const Text& text_;
  std::vector<Value> values_;
};

Result<Value> split_space(Interpreter& interpreter, const Text& text, int64_t most) {
  Pieces pieces(interpreter, text);
  const std::string_view bytes = text.bytes;
  size_t i = skip_leading(bytes, nullptr);
  for (int64_t n = 0; i < bytes.size(); ++n) {
    if (n == most) {
      TAMIS_TRY_STATUS(pieces.add(i, bytes.size()));
      break;
    }
    size_t end = i;
    while (end < bytes.size() && !is_space(char_at(bytes, end))) end += char_length(bytes, end);
    TAMIS_TRY_STATUS(pieces.add(i, end));
    i = end + skip_leading(bytes.substr(end), nullptr);
  }
  return pieces.list();
}

Result<Value> split_space_right(Interpreter& interpreter, const Text& text, int64_t most) {
  Pieces pieces(interpreter, text);
  const std::string_view bytes = text.bytes;
  size_t end = skip_trailing(bytes, nullptr);
  for (int64_t n = 0; end > 0; ++n) {
    if (n == most) {
      TAMIS_TRY_STATUS(pieces.add(0, end));
      break;
    }
    size_t begin = end;
    while (begin > 0 && skip_trailing(bytes.substr(0, begin), nullptr) == begin) {
      --begin;
      while (begin > 0 && (static_cast<unsigned char>(bytes[begin]) & 0xc0) == 0x80) --begin;
    }
    TAMIS_TRY_STATUS(pieces.add(begin, end));
    end = skip_trailing(bytes.substr(0, begin), nullptr);
  }
  pieces.reverse();
  return pieces.list();
}

template <bool kFromRight>
Result<Value> split(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match("split", args, {"sep", "maxsplit"}, 0));
  TAMIS_TRY(const Text* separator, bound.string(0));
  TAMIS_TRY(int64_t most, bound.integer(1, -1));
  TAMIS_TRY_STATUS(interpreter.budget().prepare(self.bytes().size()));
  TAMIS_TRY_STATUS(interpreter.budget().spend_chars(self.bytes().size()));
  const Text& text = self.text();
  if (separator == nullptr)
    return kFromRight ? split_space_right(interpreter, text, most) : split_space(interpreter, text, most);
  if (separator->bytes.empty()) return fail(ErrorCode::invalid_argument, "empty separator");
  Pieces pieces(interpreter, text);
  const size_t n = separator->bytes.size();
  if (kFromRight) {
    // Searched backwards in linear time: forwards in the reversed texts.
    const std::string reversed(text.bytes.rbegin(), text.bytes.rend());
    const std::string reversed_separator(separator->bytes.rbegin(), separator->bytes.rend());
    const size_t size = text.bytes.size();
    size_t done = 0;
    for (; most != 0; --most) {
      const size_t at = find_bytes(reversed, reversed_separator, done);
      if (at == std::string_view::npos) break;
      TAMIS_TRY_STATUS(pieces.add(size - at, size - done));
      done = at + n;
    }
    TAMIS_TRY_STATUS(pieces.add(0, size - done));
    pieces.reverse();
    return pieces.list();
  }
  size_t begin = 0;
  for (; most != 0; --most) {
    const size_t at = find_bytes(text.bytes, separator->bytes, begin);
    if (at == std::string::npos) break;
    TAMIS_TRY_STATUS(pieces.add(begin, at));
    begin = at + n;
  }
  TAMIS_TRY_STATUS(pieces.add(begin, text.bytes.size()));
  return pieces.list();
}

bool is_line_break(char32_t c) {
  return (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

Result<Value> splitlines(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match("splitlines", args, {"keepends"}, 0));
  TAMIS_TRY_STATUS(interpreter.budget().prepare(self.bytes().size()));
  TAMIS_TRY_STATUS(interpreter.budget().spend_chars(self.bytes().size()));
  Pieces pieces(interpreter, self.text());
  const auto lines = line_ranges(self.bytes(), bound.truth(0, false));
  for (const Span& line : lines) TAMIS_TRY_STATUS(pieces.add(line.begin, line.end));
  return pieces.list();
}

template <bool kFromRight>
Result<Value> partition(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match("partition", args, {"sep"}, 1));
  TAMIS_TRY(const Text* separator, bound.string(0));
  if (separator == nullptr || separator->bytes.empty()) return fail(ErrorCode::invalid_argument, "empty separator");
  TAMIS_TRY_STATUS(interpreter.budget().prepare(self.bytes().size()));
  TAMIS_TRY_STATUS(interpreter.budget().spend_chars(self.bytes().size()));
  const std::string_view text = self.bytes();
  size_t at = kFromRight ? rfind_bytes(text, separator->bytes) : find_bytes(text, separator->bytes), after = 0;
  if (at == std::string_view::npos)
    at = after = kFromRight ? 0 : text.size();
  else
    after = at + separator->bytes.size();
  Pieces pieces(interpreter, self.text());
  TAMIS_TRY_STATUS(pieces.add(0, at));
  TAMIS_TRY_STATUS(pieces.add(at, after));
  TAMIS_TRY_STATUS(pieces.add(after, text.size()));
  return pieces.tuple();
}

Result<Value> replace(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match("replace", args, {"old", "new", "count"}, 2));
  TAMIS_TRY(const Text* old, bound.string(0));
  TAMIS_TRY(const Text* with, bound.string(1));
  TAMIS_TRY(const int64_t count, bound.integer(2, -1));
  if (old == nullptr || with == nullptr) return type_error("replace() argument must be str, not None");
  if (self.text().is_markup && !with->is_markup)
    return replace_string(interpreter, self.text(), *old, escape_html(*with), count);
  return replace_string(interpreter, self.text(), *old, *with, count);
}

Result<Value> join(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match("join", args, {"iterable"}, 1));
  TAMIS_TRY(const Sequence all, interpreter.sequence(*bound[0]));
  Text out;
  out.is_markup = self.text().is_markup;
  for (int64_t i = 0; i < all.n; ++i) {
    const Value item = all.item(interpreter.budget(), i);
    if (!item.is_string() && !out.is_markup)
      return type_error(fmt::format("sequence item {}: expected str instance, {} found", i, type_name(item)));
    TAMIS_TRY(Text piece, to_text(interpreter, item));
    if (out.is_markup && !piece.is_markup) piece = escape_html(piece);
    TAMIS_TRY_STATUS(interpreter.budget().can_hold(out.bytes.size() + piece.bytes.size() + self.bytes().size()));
    TAMIS_TRY_STATUS(interpreter.budget().spend_bytes(piece.bytes.size() + self.bytes().size()));
    if (i > 0) out.append(self.text());
    out.append(piece);
  }
  TAMIS_TRY_STATUS(interpreter.budget().spend(static_cast<uint64_t>(all.n) >> 3));
  return interpreter.string(std::move(out));
}

Result<Value> expandtabs(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match("expandtabs", args, {"tabsize"}, 0));
  TAMIS_TRY(const int64_t size, bound.integer(0, 8));
  const std::string_view text = self.bytes();
  const auto n_tabs = static_cast<uint64_t>(std::count(text.begin(), text.end(), '\t'));
  const uint64_t width = size <= 0 ? 0 : std::min<uint64_t>(static_cast<uint64_t>(size), uint64_t{1} << 30);
  TAMIS_TRY_STATUS(interpreter.budget().prepare(text.size() + n_tabs * width));
  TAMIS_TRY_STATUS(interpreter.budget().spend_chars(text.size()));
  Text out;
  out.is_markup = self.text().is_markup;
  uint64_t column = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t length = char_length(text, i);
    if (text[i] == '\t') {
      const uint64_t spaces = width == 0 ? 0 : width - column % width;
      out.append(std::string(spaces, ' '), false);
      column += spaces;
    } else {
      out.append(self.text(), i, i + length);
      column = text[i] == '\n' || text[i] == '\r' ? 0 : column + 1;
    }
    i += length;
  }
  return interpreter.string(std::move(out));
}

constexpr MethodRow kMethods[] = {
    {"expandtabs", expandtabs},      {"join", join},
    {"partition", partition<false>}, {"replace", replace},
    {"rpartition", partition<true>}, {"rsplit", split<true>},
    {"split", split<false>},         {"splitlines", splitlines},
};

}  // namespace

std::span<const MethodRow> string_split_methods() { return kMethods; }

std::vector<Span> line_ranges(std::string_view text, bool keeps_ends) {
  std::vector<Span> lines;
  for (size_t i = 0, begin = 0; i < text.size();) {
    const char32_t c = char_at(text, i);
    size_t after = i + char_length(text, i);
    if (is_line_break(c)) {
      if (c == '\r' && after < text.size() && text[after] == '\n') ++after;
      lines.push_back({begin, keeps_ends ? after : i});
      begin = after;
    } else if (after >= text.size()) {
      lines.push_back({begin, after});
    }
    i = after;
  }
  return lines;
}

Result<Value> replace_string(Interpreter& interpreter, const Text& text, const Text& old, const Text& with,
                             int64_t count) {
  Budget& budget = interpreter.budget();
  TAMIS_TRY_STATUS(budget.prepare(text.bytes.size()));
  Text out;
  out.is_markup = text.is_markup;
  size_t from = 0;
  const auto substitute = [&](size_t begin, size_t end) -> Status {
    TAMIS_TRY_STATUS(budget.can_hold(out.bytes.size() + with.bytes.size()));
    TAMIS_TRY_STATUS(budget.spend_bytes(with.bytes.size()));
    out.append(text, from, begin);
    out.append(with);
    from = end;
    return {};
  };
  if (old.bytes.empty()) {  // between all characters
    for (size_t i = 0; count != 0; --count) {
      TAMIS_TRY_STATUS(substitute(i, i));
      if (i >= text.bytes.size()) break;
      i += char_length(text.bytes, i);
    }
  } else {
    for (; count != 0; --count) {
      const size_t at = find_bytes(text.bytes, old.bytes, from);
      if (at == std::string_view::npos) break;
      TAMIS_TRY_STATUS(substitute(at, at + old.bytes.size()));
    }
  }
  out.append(text, from, text.bytes.size());
  return interpreter.string(std::move(out));
}

}  // namespace tamis::jinja
