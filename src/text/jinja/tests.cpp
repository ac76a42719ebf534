// The tests of `is`, and the look-up of filters, tests and global functions by name.
#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/casing.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"

namespace tamis::jinja {
namespace {

using Args = const Arguments&;
using Self = const Value&;

template <bool (*kTest)(const Value&)>
Result<bool> plain(Interpreter&, Self self, Args args) {
  TAMIS_TRY_STATUS(Bound::match("test", args, {}, 0));
  return kTest(self);
}

bool is_defined(const Value& v) { return !v.is_undefined(); }
bool is_undefined(const Value& v) { return v.is_undefined(); }
bool is_none(const Value& v) { return v.is_none(); }
bool is_boolean(const Value& v) { return v.is(Kind::boolean); }
bool is_false(const Value& v) { return v.is(Kind::boolean) && !v.as_bool(); }
bool is_true_constant(const Value& v) { return v.is(Kind::boolean) && v.as_bool(); }
bool is_integer(const Value& v) { return v.is(Kind::integer) || v.is(Kind::wide_integer); }
bool is_float(const Value& v) { return v.is(Kind::real); }
bool is_string(const Value& v) { return v.is_string(); }
bool is_mapping(const Value& v) { return v.is(Kind::dict); }
bool is_number(const Value& v) { return v.is_number() || v.is(Kind::wide_integer); }
bool is_escaped(const Value& v) { return v.is_string() && v.text().is_markup; }
bool is_sequence(const Value& v) {
  int64_t n = 0;
  return !v.is(Kind::view) && length_of(v, n);
}
bool is_iterable(const Value& v) {
  int64_t n = 0;
  return v.is(Kind::generator) || v.is(Kind::loop) || length_of(v, n);
}
bool is_callable(const Value& v) {
  switch (v.kind()) {
    case Kind::undefined:
    case Kind::undefined_plain:
    case Kind::macro:
    case Kind::function:
    case Kind::method:
    case Kind::joiner:
    case Kind::loop: return true;
    default: return false;
  }
}

template <bool (*kTest)(std::string_view)>
Result<bool> text_test(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY_STATUS(Bound::match("test", args, {}, 0));
  TAMIS_TRY(const Text text, to_text(interpreter, self));
  return kTest(text.bytes);
}

// value % divisor == rest
Result<bool> leaves(Interpreter& interpreter, Self self, const Value& divisor, int64_t rest) {
  TAMIS_TRY(const Value left, arithmetic(interpreter, NodeKind::modulo, self, divisor));
  return is_equal(left, Value::of(rest));
}
template <int64_t kRest>
Result<bool> parity(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY_STATUS(Bound::match("test", args, {}, 0));
  return leaves(interpreter, self, Value::of(int64_t{2}), kRest);
}
Result<bool> divisibleby(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match("divisibleby", args, {"num"}, 1));
  return leaves(interpreter, self, *bound[0], 0);
}

template <CompareOp kOp>
Result<bool> compares(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match("test", args, {"other"}, 1));
  return compare(interpreter, kOp, self, *bound[0]);
}

Result<bool> sameas(Interpreter&, Self self, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match("sameas", args, {"other"}, 1));
  const Value& other = *bound[0];
  if (self.kind() != other.kind()) return false;
  if (self.is_none()) return true;
  if (self.is(Kind::real)) return self.as_double() == other.as_double();
  if (self.is_integral()) return self.as_int() == other.as_int();
  return self.identity() == other.identity() || (self.is_string() && self.bytes() == other.bytes());
}

Result<bool> is_filter(Interpreter&, Self self, Args) {
  return self.is_string() && find_filter(self.bytes()) != nullptr;
}
Result<bool> is_test(Interpreter&, Self self, Args) { return self.is_string() && find_test(self.bytes()) != nullptr; }

constexpr TestRow kTests[] = {
    {"!=", compares<CompareOp::ne>},
    {"<", compares<CompareOp::lt>},
    {"<=", compares<CompareOp::le>},
    {"==", compares<CompareOp::eq>},
    {">", compares<CompareOp::gt>},
    {">=", compares<CompareOp::ge>},
    {"boolean", plain<is_boolean>},
    {"callable", plain<is_callable>},
    {"defined", plain<is_defined>},
    {"divisibleby", divisibleby},
    {"eq", compares<CompareOp::eq>},
    {"equalto", compares<CompareOp::eq>},
    {"escaped", plain<is_escaped>},
    {"even", parity<0>},
    {"false", plain<is_false>},
    {"filter", is_filter},
    {"float", plain<is_float>},
    {"ge", compares<CompareOp::ge>},
    {"greaterthan", compares<CompareOp::gt>},
    {"gt", compares<CompareOp::gt>},
    {"in", compares<CompareOp::in>},
    {"integer", plain<is_integer>},
    {"iterable", plain<is_iterable>},
    {"le", compares<CompareOp::le>},
    {"lessthan", compares<CompareOp::lt>},
    {"lower", text_test<is_lower_text>},
    {"lt", compares<CompareOp::lt>},
    {"mapping", plain<is_mapping>},
    {"ne", compares<CompareOp::ne>},
    {"none", plain<is_none>},
    {"number", plain<is_number>},
    {"odd", parity<1>},
    {"sameas", sameas},
    {"sequence", plain<is_sequence>},
    {"string", plain<is_string>},
    {"test", is_test},
    {"true", plain<is_true_constant>},
    {"undefined", plain<is_undefined>},
    {"upper", text_test<is_upper_text>},
};

template <class Row>
const Row* find_row(std::span<const Row> rows, std::string_view name) {
  const auto it = std::find_if(rows.begin(), rows.end(), [name](const Row& row) { return row.name == name; });
  return it == rows.end() ? nullptr : &*it;
}

}  // namespace

const FilterRow* find_filter(std::string_view name) {
  for (const auto rows : {text_filters(), sequence_filters(), selection_filters(), number_filters()})
    if (const FilterRow* row = find_row(rows, name)) return row;
  return nullptr;
}

const TestRow* find_test(std::string_view name) { return find_row(std::span<const TestRow>(kTests), name); }

}  // namespace tamis::jinja
