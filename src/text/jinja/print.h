// Values as text, byte for byte as Python prints them.
#pragma once

#include <string>

#include "text/jinja/value.h"

namespace tamis::jinja {

class Interpreter;

// str(value): strings keep their provenance; anything else is content as a whole when it holds any. Errors: depth,
// budgets.
Result<Text> to_text(Interpreter& interpreter, const Value& value);
// repr(value).
Result<Text> to_repr(Interpreter& interpreter, const Value& value);
std::string real_repr(double value);
// repr of a string: quotes and escapes.
std::string string_repr(std::string_view text);

struct JsonStyle {
  bool ascii_only = false;
  bool sorts_keys = false;
  bool has_indent = false;
  std::string indent;  // one level
  std::string item_separator = ", ", key_separator = ": ";
};
// json.dumps(value). Errors: types JSON does not have.
Result<Text> to_json(Interpreter& interpreter, const Value& value, const JsonStyle& style);

}  // namespace tamis::jinja
