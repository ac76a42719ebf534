// Making values, and Python's rules of truth, equality, order and hashing.
#include "text/jinja/value.h"

#include <algorithm>
#include <cmath>

namespace tamis::jinja {

tl::unexpected<Error> Budget::out_of_steps() {
  return fail(ErrorCode::invalid_argument, "the template did too much work (step budget)");
}

Status Budget::can_hold(uint64_t bytes) const {
  if (bytes > max_live_bytes || live_bytes > max_live_bytes - bytes)
    return fail(ErrorCode::invalid_argument, "the template builds too much data (memory budget)");
  return {};
}

Value Value::of(bool value) {
  Value out(Kind::boolean);
  out.payload_.integer = value ? 1 : 0;
  return out;
}

Value Value::of(int64_t value) {
  Value out(Kind::integer);
  out.payload_.integer = value;
  return out;
}

Value Value::of(double value) {
  Value out(Kind::real);
  out.payload_.real = value;
  return out;
}

Value Value::object(Kind kind, Object* object) {
  Value out(kind);
  out.payload_.object = object;
  ++object->n_refs;
  return out;
}

Value Value::borrowed(Kind kind, const void* thing) {
  Value out(kind);
  out.payload_.thing = thing;
  return out;
}

const Text& Value::text() const { return static_cast<StringObject*>(payload_.object)->text; }
const std::vector<Value>& Value::items() const { return static_cast<SequenceObject*>(payload_.object)->items; }
const DictObject& Value::dict() const { return *static_cast<DictObject*>(payload_.object); }

SequenceObject::SequenceObject(Budget& b, std::vector<Value> v)
    : Object(b, 96 + v.size() * sizeof(Value)), items(std::move(v)) {
  for (const Value& item : items) nesting = std::max(nesting, item.nesting() + 1);
}

GeneratorObject::GeneratorObject(Budget& b, Make m, Value s, Arguments a)
    : Object(b, 256), make(m), source(std::move(s)), args(std::move(a)) {
  nesting = source.nesting() + 1;
  for (const Value& arg : args.positional) nesting = std::max(nesting, arg.nesting() + 1);
  for (const auto& [name, arg] : args.keywords) nesting = std::max(nesting, arg.nesting() + 1);
}

const Value* Arguments::keyword(std::string_view name) const {
  for (const auto& [key, value] : keywords)
    if (key == name) return &value;
  return nullptr;
}

const Value* DictObject::find(const Value& key) const {
  if (members.size() < kIndexFrom) {
    for (const Member& member : members)
      if (is_equal(member.first, key)) return &member.second;
    return nullptr;
  }
  const auto [begin, end] = index.equal_range(hash_of(key));
  for (auto it = begin; it != end; ++it)
    if (is_equal(members[it->second].first, key)) return &members[it->second].second;
  return nullptr;
}

const Value* DictObject::find(std::string_view key) const {
  if (members.size() < kIndexFrom) {
    for (const Member& member : members)
      if (member.first.is_string() && member.first.bytes() == key) return &member.second;
    return nullptr;
  }
  const auto [begin, end] = index.equal_range(std::hash<std::string_view>{}(key));
  for (auto it = begin; it != end; ++it) {
    const Value& candidate = members[it->second].first;
    if (candidate.is_string() && candidate.bytes() == key) return &members[it->second].second;
  }
  return nullptr;
}

void DictObject::set(Value key, Value value) {
  nesting = std::max({nesting, key.nesting() + 1, value.nesting() + 1});
  if (const Value* old = find(key)) {
    *const_cast<Value*>(old) = std::move(value);
    return;
  }
  constexpr uint64_t kMemberBytes = sizeof(Member) + 48;
  budget->hold(kMemberBytes);
  charged += kMemberBytes;
  members.emplace_back(std::move(key), std::move(value));
  if (members.size() < kIndexFrom) return;
  if (members.size() == kIndexFrom)
    for (uint32_t i = 0; i + 1 < kIndexFrom; ++i) index.emplace(hash_of(members[i].first), i);
  index.emplace(hash_of(members.back().first), static_cast<uint32_t>(members.size() - 1));
}

Value make_undefined(Budget& budget, std::string message) {
  return Value::object(Kind::undefined, new UndefinedObject(budget, std::move(message)));
}

Value make_string(Budget& budget, Text text) {
  return Value::object(Kind::string, new StringObject(budget, std::move(text)));
}

Value make_string(Budget& budget, std::string_view text) { return make_string(budget, Text::plain(text)); }

namespace {

Result<Value> checked(Value value) {
  if (value.nesting() > kMaxNesting)
    return fail(ErrorCode::invalid_argument, "values are nested deeper than {}", kMaxNesting);
  return value;
}

tl::unexpected<Error> no_order(const Value& a, const Value& b) {
  return fail(ErrorCode::invalid_argument, "'<' not supported between instances of '{}' and '{}'", type_name(a),
              type_name(b));
}

Result<bool> is_sequence_less(const std::vector<Value>& a, const std::vector<Value>& b) {
  const size_t n = std::min(a.size(), b.size());
  for (size_t i = 0; i < n; ++i)
    if (!is_equal(a[i], b[i])) return is_less(a[i], b[i]);
  return a.size() < b.size();
}

bool is_dict_equal(const DictObject& a, const DictObject& b) {
  if (a.members.size() != b.members.size()) return false;
  for (const auto& [key, value] : a.members) {
    const Value* other = b.find(key);
    if (other == nullptr || !is_equal(value, *other)) return false;
  }
  return true;
}

}  // namespace

Result<Value> make_list(Budget& budget, std::vector<Value> items) {
  return checked(Value::object(Kind::list, new SequenceObject(budget, std::move(items))));
}

Result<Value> make_tuple(Budget& budget, std::vector<Value> items) {
  return checked(Value::object(Kind::tuple, new SequenceObject(budget, std::move(items))));
}

Result<Value> make_dict(Budget& budget, std::vector<DictObject::Member> members) {
  auto* dict = new DictObject(budget);
  Value out = Value::object(Kind::dict, dict);
  for (auto& [key, value] : members) {
    if (!is_hashable(key)) return fail(ErrorCode::invalid_argument, "unhashable type: '{}'", type_name(key));
    dict->set(std::move(key), std::move(value));
  }
  return checked(std::move(out));
}

Value make_view(Budget& budget, const Value& dict, ViewObject::What what) {
  return Value::object(Kind::view, new ViewObject(budget, dict, what));
}

Value make_range(Budget& budget, int64_t first, int64_t stop, int64_t step) {
  // In 128 bits: the distance of two 64-bit numbers, and its negation, fit.
  const __int128 distance = static_cast<__int128>(stop) - first;
  __int128 n = 0;
  if ((step > 0 && distance > 0) || (step < 0 && distance < 0)) n = (distance + step + (step > 0 ? -1 : 1)) / step;
  const auto capped = static_cast<int64_t>(std::min<__int128>(n, INT64_MAX));
  auto* range = new RangeObject(budget, first, step, capped);
  range->stop = stop;
  return Value::object(Kind::range, range);
}

Result<Value> make_generator(Budget& budget, GeneratorObject::Make make, Value source, Arguments args) {
  return checked(Value::object(Kind::generator, new GeneratorObject(budget, make, std::move(source), std::move(args))));
}

Result<Value> make_iterator(Budget& budget, std::vector<Value> items) {
  TAMIS_TRY(Value list, make_list(budget, std::move(items)));
  auto* generator = new GeneratorObject(budget, nullptr, list, {});
  generator->items = list.items();
  return checked(Value::object(Kind::generator, generator));
}

Value make_integer_text(Budget& budget, std::string_view digits) {
  const bool is_negative = digits.starts_with('-');
  __int128 value = 0;
  bool fits = true;
  for (char c : digits.substr(is_negative ? 1 : 0)) {
    value = value * 10 + (c - '0');
    if (value > static_cast<__int128>(INT64_MAX) + 1) {
      fits = false;
      break;
    }
  }
  if (is_negative) value = -value;
  if (fits && value >= INT64_MIN && value <= INT64_MAX) return Value::of(static_cast<int64_t>(value));
  return Value::object(Kind::wide_integer, new WideIntegerObject(budget, std::string(digits)));
}

bool length_of(const Value& value, int64_t& n) {
  switch (value.kind()) {
    case Kind::string: n = static_cast<int64_t>(count_chars(value.bytes())); return true;
    case Kind::list:
    case Kind::tuple: n = static_cast<int64_t>(value.items().size()); return true;
    case Kind::dict: n = static_cast<int64_t>(value.dict().members.size()); return true;
    case Kind::view: n = static_cast<int64_t>(value.object<ViewObject>().dict.dict().members.size()); return true;
    case Kind::range: n = value.object<RangeObject>().n; return true;
    case Kind::undefined:
    case Kind::undefined_plain: n = 0; return true;
    default: return false;
  }
}

bool is_true(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
    case Kind::undefined_plain:
    case Kind::none: return false;
    case Kind::boolean:
    case Kind::integer: return value.as_int() != 0;
    case Kind::real: return value.as_double() != 0.0;
    case Kind::string: return !value.bytes().empty();
    default: break;
  }
  int64_t n = 0;
  return length_of(value, n) ? n != 0 : true;
}

bool is_equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return a.as_int() == b.as_int();
    if (a.is(Kind::real) && b.is(Kind::real)) return a.as_double() == b.as_double();
    const double real = a.is(Kind::real) ? a.as_double() : b.as_double();
    const int64_t integer = a.is(Kind::real) ? b.as_int() : a.as_int();
    return std::floor(real) == real && real >= -0x1p63 && real < 0x1p63 && static_cast<int64_t>(real) == integer;
  }
  if (a.is_undefined() || b.is_undefined()) return a.is_undefined() && b.is_undefined();
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::none: return true;
    case Kind::string: return a.bytes() == b.bytes();
    case Kind::wide_integer: return a.object<WideIntegerObject>().digits == b.object<WideIntegerObject>().digits;
    case Kind::list:
    case Kind::tuple:
      return a.identity() == b.identity() ||
             std::equal(a.items().begin(), a.items().end(), b.items().begin(), b.items().end(), is_equal);
    case Kind::dict: return a.identity() == b.identity() || is_dict_equal(a.dict(), b.dict());
    case Kind::range: {
      const RangeObject &r = a.object<RangeObject>(), &s = b.object<RangeObject>();
      return r.n == s.n && (r.n == 0 || (r.first == s.first && (r.n == 1 || r.step == s.step)));
    }
    default: return a.identity() == b.identity();
  }
}

Result<bool> is_less(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return a.as_int() < b.as_int();
  if (a.is_number() && b.is_number()) return a.as_double() < b.as_double();
  if (a.is(Kind::undefined)) return fail(ErrorCode::invalid_argument, "{}", a.object<UndefinedObject>().message);
  if (b.is(Kind::undefined)) return fail(ErrorCode::invalid_argument, "{}", b.object<UndefinedObject>().message);
  if (a.kind() != b.kind()) return no_order(a, b);
  if (a.is_string()) return a.bytes() < b.bytes();
  if (a.is(Kind::list) || a.is(Kind::tuple)) return is_sequence_less(a.items(), b.items());
  return no_order(a, b);
}

bool is_hashable(const Value& value) {
  if (value.is(Kind::list) || value.is(Kind::dict) || value.is(Kind::view)) return false;
  if (!value.is(Kind::tuple)) return true;
  return std::all_of(value.items().begin(), value.items().end(), is_hashable);
}

uint64_t hash_of(const Value& value) {
  if (value.is_string()) return std::hash<std::string_view>{}(value.bytes());
  if (value.is_integral()) return static_cast<uint64_t>(value.as_int());
  if (value.is(Kind::real)) {
    const double real = value.as_double();
    const bool is_integer = std::floor(real) == real && real >= -0x1p63 && real < 0x1p63;
    return is_integer ? static_cast<uint64_t>(static_cast<int64_t>(real)) : std::hash<double>{}(real);
  }
  if (value.is(Kind::tuple)) {
    uint64_t hash = 0x9e3779b97f4a7c15u;
    for (const Value& item : value.items()) hash = (hash ^ hash_of(item)) * 0x100000001b3u;
    return hash;
  }
  if (value.is_undefined()) return 1;
  if (value.is(Kind::wide_integer)) return std::hash<std::string_view>{}(value.object<WideIntegerObject>().digits);
  return value.is_none() ? 2 : reinterpret_cast<uintptr_t>(value.identity());
}

std::string_view type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined_plain:
    case Kind::undefined: return "Undefined";
    case Kind::none: return "NoneType";
    case Kind::boolean: return "bool";
    case Kind::integer:
    case Kind::wide_integer: return "int";
    case Kind::real: return "float";
    case Kind::string: return value.text().is_markup ? "Markup" : "str";
    case Kind::list: return "list";
    case Kind::tuple: return "tuple";
    case Kind::dict: return "dict";
    case Kind::view: return "dict view";
    case Kind::range: return "range";
    case Kind::generator: return "generator";
    case Kind::name_space: return "Namespace";
    case Kind::macro: return "Macro";
    case Kind::loop: return "LoopContext";
    case Kind::cycler: return "Cycler";
    case Kind::joiner: return "Joiner";
    case Kind::method:
    case Kind::function: return "function";
  }
  return "object";
}

bool holds_content(const Value& value) {
  switch (value.kind()) {
    case Kind::string: return value.text().has_content();
    case Kind::list:
    case Kind::tuple: return std::any_of(value.items().begin(), value.items().end(), holds_content);
    case Kind::dict:
      return std::any_of(value.dict().members.begin(), value.dict().members.end(),
                         [](const DictObject::Member& m) { return holds_content(m.first) || holds_content(m.second); });
    case Kind::view: return holds_content(value.object<ViewObject>().dict);
    default: return false;
  }
}

}  // namespace tamis::jinja
