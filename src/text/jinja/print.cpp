// str and repr.  Source: CPython's documented repr rules (shortest float that reads back, quote choice, printable
// characters).
#include "text/jinja/print.h"

#include <utf8proc.h>

#include <cmath>

#include "base/utf8.h"
#include "text/jinja/interpreter.h"

namespace tamis::jinja {
namespace {

constexpr uint32_t kMaxPrintDepth = kMaxNesting + 8;  // namespaces can hold themselves

bool is_printable(char32_t c) {
  if (c < 0x7f) return c >= 0x20;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS: return false;
    default: return true;
  }
}

void append_escape(std::string& out, char32_t c) {
  const auto code = static_cast<uint32_t>(c);
  if (c < 0x100)
    out += fmt::format("\\x{:02x}", code);
  else if (c < 0x10000)
    out += fmt::format("\\u{:04x}", code);
  else
    out += fmt::format("\\U{:08x}", code);
}

class Printer {
 public:
  explicit Printer(Interpreter& interpreter) : interpreter_(interpreter) {}

  Status print(const Value& value, uint32_t depth) {
    if (depth > kMaxPrintDepth || interpreter_.is_stack_low())
      return fail(ErrorCode::invalid_argument, "value is nested too deep to print");
    TAMIS_TRY_STATUS(interpreter_.budget().can_hold(out.size()));
    TAMIS_TRY_STATUS(interpreter_.budget().spend(1));
    switch (value.kind()) {
      case Kind::undefined_plain:
      case Kind::undefined: out += "Undefined"; return {};
      case Kind::none: out += "None"; return {};
      case Kind::boolean: out += value.as_bool() ? "True" : "False"; return {};
      case Kind::integer: out += std::to_string(value.as_int()); return {};
      case Kind::real: out += real_repr(value.as_double()); return {};
      case Kind::wide_integer: out += value.object<WideIntegerObject>().digits; return {};
      case Kind::string: {
        TAMIS_TRY_STATUS(interpreter_.budget().spend_chars(value.bytes().size()));
        const std::string quoted = string_repr(value.bytes());
        out += value.text().is_markup ? "Markup(" + quoted + ")" : quoted;
        return {};
      }
      case Kind::list: return print_items(value.items(), "[", "]", depth);
      case Kind::tuple: return print_items(value.items(), "(", value.items().size() == 1 ? ",)" : ")", depth);
      case Kind::dict: return print_dict(value.dict(), depth);
      case Kind::view: return print_view(value.object<ViewObject>(), depth);
      case Kind::range: return print_range(value.object<RangeObject>());
      case Kind::name_space:
        out += "<Namespace ";
        TAMIS_TRY_STATUS(print(value.thing<Namespace>().dict, depth + 1));
        out += ">";
        return {};
      case Kind::macro: out += "<Macro " + string_repr(value.thing<Macro>().spec->name) + ">"; return {};
      case Kind::loop:
        out += fmt::format("<LoopContext {}/{}>", value.thing<Loop>().index0 + 1, value.thing<Loop>().items.n);
        return {};
      default: out += fmt::format("<{} object>", type_name(value)); return {};
    }
  }

  std::string out;

 private:
  Status print_items(const std::vector<Value>& items, std::string_view open, std::string_view close, uint32_t depth) {
    out += open;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out += ", ";
      TAMIS_TRY_STATUS(print(items[i], depth + 1));
    }
    out += close;
    return {};
  }

  Status print_dict(const DictObject& dict, uint32_t depth) {
    out += "{";
    for (size_t i = 0; i < dict.members.size(); ++i) {
      if (i > 0) out += ", ";
      TAMIS_TRY_STATUS(print(dict.members[i].first, depth + 1));
      out += ": ";
      TAMIS_TRY_STATUS(print(dict.members[i].second, depth + 1));
    }
    out += "}";
    return {};
  }

  Status print_view(const ViewObject& view, uint32_t depth) {
    const bool keys = view.what == ViewObject::What::keys, values = view.what == ViewObject::What::values;
    out += keys ? "dict_keys([" : values ? "dict_values([" : "dict_items([";
    bool is_first = true;
    for (const auto& [key, value] : view.dict.dict().members) {
      if (!is_first) out += ", ";
      is_first = false;
      if (!keys && !values) out += "(";
      if (!values) TAMIS_TRY_STATUS(print(key, depth + 1));
      if (!keys && !values) out += ", ";
      if (!keys) TAMIS_TRY_STATUS(print(value, depth + 1));
      if (!keys && !values) out += ")";
    }
    out += "])";
    return {};
  }

  Status print_range(const RangeObject& range) {
    out += fmt::format("range({}, {}", range.first, range.stop);
    if (range.step != 1) out += fmt::format(", {}", range.step);
    out += ")";
    return {};
  }

  Interpreter& interpreter_;
};

}  // namespace

std::string real_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string string_repr(std::string_view text) {
  const bool doubles = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = doubles ? '"' : '\'';
  std::string out(1, quote);
  for (size_t i = 0; i < text.size();) {
    const size_t length = char_length(text, i);
    const char32_t c = char_at(text, i);
    if (c == U'\n') {
      out += "\\n";
    } else if (c == U'\r') {
      out += "\\r";
    } else if (c == U'\t') {
      out += "\\t";
    } else if (c == U'\\' || c == static_cast<char32_t>(quote)) {
      out += '\\';
      out += static_cast<char>(c);
    } else if (is_printable(c)) {
      out.append(text, i, length);
    } else {
      append_escape(out, c);
    }
    i += length;
  }
  out += quote;
  return out;
}

Result<Text> to_repr(Interpreter& interpreter, const Value& value) {
  Printer printer(interpreter);
  TAMIS_TRY_STATUS(printer.print(value, 0));
  Text out = Text::plain(printer.out);
  if (holds_content(value)) out.mark_all();
  return out;
}

Result<Text> to_text(Interpreter& interpreter, const Value& value) {
  if (value.is_string()) return value.text();
  if (value.is_undefined()) return Text{};
  return to_repr(interpreter, value);
}

}  // namespace tamis::jinja
