// Python's two ways to format: "%s" % value and "{}".format(value).
#pragma once

#include "text/jinja/value.h"

namespace tamis::jinja {

class Interpreter;

// format % args: a tuple gives many arguments, a dict named ones. Errors: as Python's, and budgets.
Result<Value> format_percent(Interpreter& interpreter, const Text& format, const Value& args);
// format.format(*args, **kwargs), through the sandbox's attribute access.
Result<Value> format_braces(Interpreter& interpreter, const Text& format, const Arguments& args);

// A float by C's conversion letter (e f g and capitals, %), `precision` digits. No sign handling. Requires: precision
// <= 400.
std::string real_digits(double value, char type, int precision, bool keeps_zeros);

}  // namespace tamis::jinja
