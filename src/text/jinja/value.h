// Values of the template language: Python's data model as far as templates can see it. Immutable data (strings, lists,
// dicts …) is shared by reference count; mutable things (namespaces, macros, loops, cyclers) belong to the Arena of one
// rendering, so that no cycle can leak and no chain of them can exhaust the stack when it is freed. One rendering is
// one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/jinja/text.h"

namespace tamis::jinja {

class Interpreter;

enum class Kind : uint8_t {
  // immediate
  undefined_plain,
  none,
  boolean,
  integer,
  real,
  // counted
  undefined,
  wide_integer,
  string,
  list,
  tuple,
  dict,
  view,
  range,
  generator,
  method,
  // owned by the arena or static
  name_space,
  macro,
  function,
  loop,
  cycler,
  joiner,
};

// Live bytes and steps of one rendering.
struct Budget {
  uint64_t steps_left = 0;
  uint64_t live_bytes = 0;
  uint64_t max_live_bytes = 0;
  bool is_spent = false;  // memory ran out; every evaluation stops at the next node

  void hold(uint64_t bytes) {
    live_bytes += bytes;
    if (live_bytes > max_live_bytes) is_spent = true;
  }
  void release(uint64_t bytes) { live_bytes -= bytes; }
  // Asked before building something large. Errors: invalid_argument.
  Status can_hold(uint64_t bytes) const;
  // Counts work in steps. Errors: invalid_argument when they are used up.
  Status spend(uint64_t steps) {
    if (steps > steps_left) return out_of_steps();
    steps_left -= steps;
    return {};
  }
  // Steps for touching `bytes`: one a KiB.
  Status spend_bytes(uint64_t bytes) { return spend(bytes >> 10); }
  // Steps for looking at each character of `bytes`, which costs more than copying them: one for 32.
  Status spend_chars(uint64_t bytes) { return spend(bytes >> 5); }
  // Both: asked before building `bytes` of text.
  Status prepare(uint64_t bytes) {
    TAMIS_TRY_STATUS(can_hold(bytes));
    return spend_bytes(bytes);
  }

 private:
  static tl::unexpected<Error> out_of_steps();
};

// Base of everything with a reference count. Charged to a budget while alive.
struct Object {
  explicit Object(Budget& b, uint64_t bytes) : budget(&b), charged(bytes) { b.hold(bytes); }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() { budget->release(charged); }

  uint32_t n_refs = 0;
  uint32_t nesting = 0;  // 1 + the deepest value inside
  Budget* budget;
  uint64_t charged;
};

struct StringObject;
struct SequenceObject;
struct DictObject;
struct Namespace;
struct Macro;
struct Loop;
struct Cycler;
struct Joiner;
struct FunctionRow;

class Value {
 public:
  Value() { payload_.integer = 0; }  // undefined without a story
  Value(const Value& other) : kind_(other.kind_), payload_(other.payload_) { retain(); }
  Value(Value&& other) noexcept : kind_(other.kind_), payload_(other.payload_) { other.kind_ = Kind::undefined_plain; }
  Value& operator=(const Value& other) {
    Value copy(other);
    swap(copy);
    return *this;
  }
  Value& operator=(Value&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Value() { release(); }

  static Value none() { return Value(Kind::none); }
  static Value of(bool value);
  static Value of(int64_t value);
  static Value of(double value);
  static Value object(Kind kind, Object* object);       // counted kinds
  static Value borrowed(Kind kind, const void* thing);  // arena and static kinds

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_undefined() const { return kind_ == Kind::undefined || kind_ == Kind::undefined_plain; }
  bool is_none() const { return kind_ == Kind::none; }
  bool is_string() const { return kind_ == Kind::string; }
  bool is_integral() const { return kind_ == Kind::integer || kind_ == Kind::boolean; }  // bool is an int, as in Python
  bool is_number() const { return is_integral() || kind_ == Kind::real; }

  // Requires: the kind.
  bool as_bool() const { return payload_.integer != 0; }
  int64_t as_int() const { return payload_.integer; }  // integer or boolean
  double as_double() const { return kind_ == Kind::real ? payload_.real : static_cast<double>(payload_.integer); }
  const Text& text() const;
  std::string_view bytes() const { return text().bytes; }
  const std::vector<Value>& items() const;  // list or tuple
  const DictObject& dict() const;
  template <class T>
  T& thing() const {
    return *static_cast<T*>(const_cast<void*>(payload_.thing));
  }  // arena kinds
  template <class T>
  T& object() const {
    return *static_cast<T*>(payload_.object);
  }  // counted kinds
  const void* identity() const { return payload_.thing; }

  uint32_t nesting() const { return is_counted() ? payload_.object->nesting : 0; }
  bool is_counted() const { return kind_ >= Kind::undefined && kind_ <= Kind::method; }

 private:
  explicit Value(Kind kind) : kind_(kind) { payload_.integer = 0; }
  void swap(Value& other) {
    std::swap(kind_, other.kind_);
    std::swap(payload_, other.payload_);
  }
  void retain() const {
    if (is_counted()) ++payload_.object->n_refs;
  }
  void release() {
    if (is_counted() && --payload_.object->n_refs == 0) delete payload_.object;
  }

  Kind kind_ = Kind::undefined_plain;
  union {
    int64_t integer;
    double real;
    Object* object;
    const void* thing;
  } payload_;
};

struct UndefinedObject : Object {  // why it is undefined: the message of the error that its use raises
  UndefinedObject(Budget& b, std::string why) : Object(b, 64 + why.size()), message(std::move(why)) {}
  std::string message;
};
struct WideIntegerObject : Object {  // an integer past 64 bits: can be printed and compared for equality only
  WideIntegerObject(Budget& b, std::string d) : Object(b, 64 + d.size()), digits(std::move(d)) {}
  std::string digits;
};
struct StringObject : Object {
  StringObject(Budget& b, Text t)
      : Object(b, 96 + t.bytes.size() + t.content.size() * sizeof(Span)), text(std::move(t)) {}
  Text text;
};
struct SequenceObject : Object {  // list or tuple
  SequenceObject(Budget& b, std::vector<Value> v);
  std::vector<Value> items;
  bool is_group = false;  // a pair of |groupby, with attributes grouper and list
};

// An insertion-ordered dict. Keys are hashable values.
struct DictObject : Object {
  using Member = std::pair<Value, Value>;
  explicit DictObject(Budget& b) : Object(b, 96) {}
  std::vector<Member> members;
  std::unordered_multimap<uint64_t, uint32_t> index;  // hash → member; kept from kIndexFrom members on

  static constexpr size_t kIndexFrom = 12;
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  void set(Value key, Value value);  // replaces or appends
};
struct ViewObject : Object {  // dict.keys(), .values(), .items()
  enum class What : uint8_t { keys, values, items };
  ViewObject(Budget& b, Value d, What w) : Object(b, 64), dict(std::move(d)), what(w) { nesting = dict.nesting() + 1; }
  Value dict;
  What what;
};
struct RangeObject : Object {
  RangeObject(Budget& b, int64_t f, int64_t s, int64_t n_items) : Object(b, 64), first(f), step(s), n(n_items) {}
  int64_t first, step, n;
  int64_t stop = 0;  // as given, for printing
  Value item(int64_t i) const { return Value::of(first + i * step); }
};
// What a call was given.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keywords;
  const Value* keyword(std::string_view name) const;
};

// A Python iterator: yields its items once. The items are computed when the first one is asked for.
struct GeneratorObject : Object {
  using Make = Result<std::vector<Value>> (*)(Interpreter&, const Value& source, const Arguments& args);
  GeneratorObject(Budget& b, Make m, Value s, Arguments a);
  Make make;  // null once the items are there
  Value source;
  Arguments args;
  std::vector<Value> items;
  size_t next = 0;
};
struct MethodRow;
struct MethodObject : Object {  // a method bound to its value
  MethodObject(Budget& b, Value s, const MethodRow* r) : Object(b, 64), self(std::move(s)), row(r) {
    nesting = self.nesting() + 1;
  }
  Value self;
  const MethodRow* row;
};

// What a list, dict or iterator may nest to; deeper is an error before the stack could suffer.
constexpr uint32_t kMaxNesting = 160;

// Makers. Memory is charged; when it runs out the budget says so and evaluation stops at the next node.
Value make_undefined(Budget& budget, std::string message);
Value make_string(Budget& budget, Text text);
Value make_string(Budget& budget, std::string_view text);
Result<Value> make_list(Budget& budget, std::vector<Value> items);
Result<Value> make_tuple(Budget& budget, std::vector<Value> items);
Result<Value> make_dict(Budget& budget, std::vector<DictObject::Member> members);  // Errors: unhashable keys
Value make_view(Budget& budget, const Value& dict, ViewObject::What what);
Value make_range(Budget& budget, int64_t first, int64_t stop, int64_t step);
Result<Value> make_generator(Budget& budget, GeneratorObject::Make make, Value source, Arguments args = {});
Result<Value> make_iterator(Budget& budget, std::vector<Value> items);  // a generator over items already there
Value make_integer_text(Budget& budget, std::string_view digits);       // integer, or wide_integer when it does not fit

// Python's semantics.
bool is_true(const Value& value);
bool is_equal(const Value& a, const Value& b);
Result<bool> is_less(const Value& a, const Value& b);  // Errors: types without an order between them
bool is_hashable(const Value& value);
uint64_t hash_of(const Value& value);            // Requires: hashable
std::string_view type_name(const Value& value);  // "str", "int", "NoneType"
// len(); nothing for values without one.
bool length_of(const Value& value, int64_t& n);
// Is any text inside the caller's? Looks into lists and dicts.
bool holds_content(const Value& value);

}  // namespace tamis::jinja
