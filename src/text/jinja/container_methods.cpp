// Methods of dict, list, tuple, range, numbers and the loop helpers. Nothing here changes a list or dict: the sandbox
// is immutable.
#include <algorithm>
#include <cmath>

#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"

namespace tamis::jinja {
namespace {

using Args = const Arguments&;
using Self = const Value&;

Result<Value> dict_get(Interpreter&, Self self, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match("get", args, {"key", "default"}, 1));
  if (!is_hashable(*bound[0])) return type_error(fmt::format("unhashable type: '{}'", type_name(*bound[0])));
  if (const Value* value = self.dict().find(*bound[0])) return *value;
  return bound.has(1) ? *bound[1] : Value::none();
}

template <ViewObject::What kWhat>
Result<Value> dict_view(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY_STATUS(Bound::match("dict method", args, {}, 0));
  return make_view(interpreter.budget(), self, kWhat);
}

Result<Value> dict_copy(Interpreter&, Self self, Args args) {
  TAMIS_TRY_STATUS(Bound::match("copy", args, {}, 0));
  return self;
}

Result<Value> sequence_count(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match("count", args, {"value"}, 1));
  TAMIS_TRY(const Sequence all, interpreter.sequence(self));
  TAMIS_TRY_STATUS(interpreter.budget().spend(static_cast<uint64_t>(all.n) >> 4));
  int64_t n = 0;
  for (int64_t i = 0; i < all.n; ++i) n += is_equal(all.item(interpreter.budget(), i), *bound[0]) ? 1 : 0;
  return Value::of(n);
}

Result<Value> sequence_index(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match("index", args, {"value", "start", "stop"}, 1));
  TAMIS_TRY(const Sequence all, interpreter.sequence(self));
  TAMIS_TRY(const SliceBounds in, slice_bounds(all.n, bound[1], bound[2], nullptr));
  TAMIS_TRY_STATUS(interpreter.budget().spend(static_cast<uint64_t>(in.n) >> 4));
  for (int64_t i = in.begin; i < in.begin + in.n; ++i)
    if (is_equal(all.item(interpreter.budget(), i), *bound[0])) return Value::of(i);
  return fail(ErrorCode::invalid_argument, "value is not in {}", type_name(self));
}

Result<Value> list_copy(Interpreter&, Self self, Args args) {
  TAMIS_TRY_STATUS(Bound::match("copy", args, {}, 0));
  if (!self.is(Kind::list)) return type_error(fmt::format("'{}' object has no attribute 'copy'", type_name(self)));
  return self;
}

Result<Value> loop_cycle(Interpreter&, Self self, Args args) {
  if (args.positional.empty()) return type_error("no items for cycling given");
  const auto i = static_cast<uint64_t>(std::max<int64_t>(self.thing<Loop>().index0, 0));
  return args.positional[i % args.positional.size()];
}

Result<Value> loop_changed(Interpreter&, Self self, Args args) {
  Loop& loop = self.thing<Loop>();
  const auto& last = loop.last_changed;
  const bool is_same =
      last && std::equal(last->begin(), last->end(), args.positional.begin(), args.positional.end(), is_equal);
  if (!is_same) loop.last_changed = args.positional;
  return Value::of(!is_same);
}

Result<Value> cycler_next(Interpreter&, Self self, Args) {
  Cycler& cycler = self.thing<Cycler>();
  const Value value = cycler.items[cycler.position];
  cycler.position = (cycler.position + 1) % cycler.items.size();
  return value;
}

Result<Value> cycler_reset(Interpreter&, Self self, Args) {
  self.thing<Cycler>().position = 0;
  return Value::none();
}

Result<Value> real_is_integer(Interpreter&, Self self, Args) {
  const double value = self.as_double();
  return Value::of(std::isfinite(value) && std::floor(value) == value);
}

Result<Value> bit_length(Interpreter&, Self self, Args) {
  const int64_t value = self.as_int();
  const uint64_t magnitude = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  return Value::of(magnitude == 0 ? int64_t{0} : int64_t{64 - __builtin_clzll(magnitude)});
}

constexpr MethodRow kDict[] = {
    {"copy", dict_copy},
    {"get", dict_get},
    {"items", dict_view<ViewObject::What::items>},
    {"keys", dict_view<ViewObject::What::keys>},
    {"values", dict_view<ViewObject::What::values>},
};
constexpr MethodRow kSequence[] = {{"count", sequence_count}, {"index", sequence_index}, {"copy", list_copy}};
constexpr MethodRow kLoop[] = {{"cycle", loop_cycle}, {"changed", loop_changed}};
constexpr MethodRow kCycler[] = {{"next", cycler_next}, {"reset", cycler_reset}};
constexpr MethodRow kReal[] = {{"is_integer", real_is_integer}};
constexpr MethodRow kInteger[] = {{"bit_length", bit_length}};

}  // namespace

std::span<const MethodRow> dict_methods() { return kDict; }
std::span<const MethodRow> sequence_methods() { return kSequence; }

std::span<const MethodRow> other_methods(Kind kind) {
  switch (kind) {
    case Kind::loop: return kLoop;
    case Kind::cycler: return kCycler;
    case Kind::real: return kReal;
    case Kind::integer:
    case Kind::boolean: return kInteger;
    default: return {};
  }
}

}  // namespace tamis::jinja
