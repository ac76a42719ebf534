// Python's json.dumps over template values.
#include <algorithm>
#include <cmath>

#include "base/utf8.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/print.h"

namespace tamis::jinja {
namespace {

class JsonPrinter {
 public:
  JsonPrinter(Interpreter& interpreter, const JsonStyle& style) : interpreter_(interpreter), style_(style) {}

  Status print(const Value& value, uint32_t depth) {
    if (interpreter_.is_stack_low()) return fail(ErrorCode::invalid_argument, "value is nested too deep for JSON");
    TAMIS_TRY_STATUS(interpreter_.budget().can_hold(out.size()));
    TAMIS_TRY_STATUS(interpreter_.budget().spend(1));
    switch (value.kind()) {
      case Kind::string: return print_string(value.bytes());
      case Kind::list:
      case Kind::tuple: return print_items(value.items(), depth);
      case Kind::dict: return print_dict(value.dict(), depth);
      default: break;
    }
    TAMIS_TRY(const std::string text, scalar(value));
    out += text;
    return {};
  }

  std::string out;

 private:
  static Result<std::string> scalar(const Value& value) {
    switch (value.kind()) {
      case Kind::none: return std::string("null");
      case Kind::boolean: return std::string(value.as_bool() ? "true" : "false");
      case Kind::integer: return std::to_string(value.as_int());
      case Kind::wide_integer: return value.object<WideIntegerObject>().digits;
      case Kind::real: {
        const double real = value.as_double();
        if (std::isnan(real)) return std::string("NaN");
        if (std::isinf(real)) return std::string(real < 0 ? "-Infinity" : "Infinity");
        return real_repr(real);
      }
      default: return type_error(fmt::format("Object of type {} is not JSON serializable", type_name(value)));
    }
  }

  void newline(uint32_t depth) {
    if (!style_.has_indent) return;
    out += '\n';
    for (uint32_t i = 0; i < depth; ++i) out += style_.indent;
  }

  Status print_items(const std::vector<Value>& items, uint32_t depth) {
    if (items.empty()) {
      out += "[]";
      return {};
    }
    out += '[';
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out += style_.item_separator;
      newline(depth + 1);
      TAMIS_TRY_STATUS(print(items[i], depth + 1));
    }
    newline(depth);
    out += ']';
    return {};
  }

  Status print_dict(const DictObject& dict, uint32_t depth) {
    if (dict.members.empty()) {
      out += "{}";
      return {};
    }
    std::vector<const DictObject::Member*> members;
    for (const auto& member : dict.members) members.push_back(&member);
    if (style_.sorts_keys) TAMIS_TRY_STATUS(sort(members));
    out += '{';
    for (size_t i = 0; i < members.size(); ++i) {
      const auto& [key, value] = *members[i];
      if (i > 0) out += style_.item_separator;
      newline(depth + 1);
      if (key.is_string()) {
        TAMIS_TRY_STATUS(print_string(key.bytes()));
      } else {
        if (key.is(Kind::tuple) || key.is_undefined())
          return type_error(fmt::format("keys must be str, int, float, bool or None, not {}", type_name(key)));
        TAMIS_TRY(const std::string text, scalar(key));
        out += '"' + text + '"';
      }
      out += style_.key_separator;
      TAMIS_TRY_STATUS(print(value, depth + 1));
    }
    newline(depth);
    out += '}';
    return {};
  }

  static Status sort(std::vector<const DictObject::Member*>& members) {
    for (const auto* member : members) {
      const auto ordered = is_less(member->first, members[0]->first);
      if (!ordered) return tl::unexpected<Error>(ordered.error());
    }
    std::stable_sort(members.begin(), members.end(),
                     [](const auto* a, const auto* b) { return is_less(a->first, b->first).value_or(false); });
    return {};
  }

  Status print_string(std::string_view text) {
    TAMIS_TRY_STATUS(interpreter_.budget().spend_chars(text.size() / 4));
    out += '"';
    for (size_t i = 0; i < text.size();) {
      size_t end = i;
      while (end < text.size() && is_plain(text[end])) ++end;
      out.append(text, i, end - i);
      if ((i = end) >= text.size()) break;
      const size_t length = char_length(text, i);
      print_char(text.substr(i, length), char_at(text, i));
      i += length;
    }
    out += '"';
    return {};
  }

  // Stands for itself in JSON text.
  bool is_plain(char c) const {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x80 ? !style_.ascii_only : byte >= 0x20 && c != '"' && c != '\\';
  }

  void print_char(std::string_view bytes, char32_t c) {
    constexpr std::string_view kFrom = "\"\\\n\r\t\f\b", kTo = "\"\\nrtfb";
    if (const size_t k = c < 0x80 ? kFrom.find(static_cast<char>(c)) : std::string_view::npos;
        k != std::string_view::npos) {
      out += '\\';
      out += kTo[k];
    } else if (c < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    } else if (c <= 0x7f || !style_.ascii_only) {
      out += bytes;
    } else if (c < 0x10000) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    } else {
      const uint32_t rest = static_cast<uint32_t>(c) - 0x10000;
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (rest >> 10), 0xdc00 + (rest & 0x3ff));
    }
  }

  Interpreter& interpreter_;
  const JsonStyle& style_;
};

}  // namespace

Result<Text> to_json(Interpreter& interpreter, const Value& value, const JsonStyle& style) {
  JsonPrinter printer(interpreter, style);
  TAMIS_TRY_STATUS(printer.print(value, 0));
  Text out = Text::plain(printer.out);
  if (holds_content(value)) out.mark_all();
  return out;
}

}  // namespace tamis::jinja
