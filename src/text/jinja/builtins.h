// The tables of filters, tests, methods and global functions, and what their rows look like.
#pragma once

#include <array>
#include <initializer_list>
#include <span>
#include <string_view>

#include "text/jinja/value.h"

namespace tamis::jinja {

class Interpreter;

using FilterFunction = Result<Value> (*)(Interpreter&, const Value& subject, const Arguments&);
using TestFunction = Result<bool> (*)(Interpreter&, const Value& subject, const Arguments&);
using MethodFunction = Result<Value> (*)(Interpreter&, const Value& self, const Arguments&);
using GlobalFunction = Result<Value> (*)(Interpreter&, const Arguments&);

struct FilterRow {
  std::string_view name;
  FilterFunction run;
};
struct TestRow {
  std::string_view name;
  TestFunction run;
};
struct MethodRow {
  std::string_view name;
  MethodFunction run;
};
struct FunctionRow {
  std::string_view name;
  GlobalFunction run;
};

const FilterRow* find_filter(std::string_view name);
const TestRow* find_test(std::string_view name);
const FunctionRow* find_global(std::string_view name);

// Attributes of a value beside a dict's keys.
struct Attribute {
  enum class What : uint8_t { absent, method, refused } what = What::absent;
  const MethodRow* method = nullptr;
};
Attribute find_attribute(const Value& self, std::string_view name);

// Tables by file.
std::span<const FilterRow> text_filters();
std::span<const FilterRow> sequence_filters();
std::span<const FilterRow> selection_filters();
std::span<const FilterRow> number_filters();
std::span<const MethodRow> string_methods();
std::span<const MethodRow> string_split_methods();
std::span<const MethodRow> dict_methods();
std::span<const MethodRow> sequence_methods();
std::span<const MethodRow> other_methods(Kind kind);  // loop, cycler, int, float

// A call's arguments matched to parameter names, in order; null where not given.
class Bound {
 public:
  // Errors: too many arguments, unknown keywords, fewer than `n_required`.
  static Result<Bound> match(std::string_view callee, const Arguments& args,
                             std::initializer_list<std::string_view> names, size_t n_required);
  const Value* operator[](size_t i) const { return values_[i]; }
  bool has(size_t i) const { return values_[i] != nullptr; }
  // Errors: the argument is of another type. Absent arguments give `otherwise`.
  Result<int64_t> integer(size_t i, int64_t otherwise) const;
  bool truth(size_t i, bool otherwise) const { return has(i) ? is_true(*values_[i]) : otherwise; }
  Result<const Text*> string(size_t i) const;  // null when absent or None

 private:
  std::string_view callee_;
  std::array<const Value*, 6> values_{};
};

// What `attribute=` names: item of item by a dotted path (digits are indices). Undefined steps become *otherwise when
// not null.
Result<Value> path_item(Interpreter& interpreter, Value value, const Value& path, const Value* otherwise);

enum class Pad : uint8_t { left, right, both };  // where the filling goes
// ljust, rjust, center. `fill` is one character.
Result<Value> pad_string(Interpreter& interpreter, const Text& text, int64_t width, const Text& fill, Pad side);
// str.replace; count < 0 = all.
Result<Value> replace_string(Interpreter& interpreter, const Text& text, const Text& old, const Text& with,
                             int64_t count);

tl::unexpected<Error> type_error(std::string_view what);
// The error of using an undefined value.
tl::unexpected<Error> undefined_error(const Value& value);

}  // namespace tamis::jinja
