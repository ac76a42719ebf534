// Attributes, items and iteration of values, after jinja2's sandboxed environment.
#include <algorithm>

#include "base/fault.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"

namespace tamis::jinja {
namespace {

// What jinja2 calls an object in "… has no attribute …".
std::string object_name(const Value& object) {
  if (object.is_none()) return "None";
  if (object.is_undefined()) return "Undefined";
  return fmt::format("'{} object'", type_name(object));
}

Value loop_attribute(Interpreter& interpreter, const Loop& loop, std::string_view name, bool& found) {
  const int64_t i = loop.index0, n = loop.items.n;
  if (name == "index") return Value::of(i + 1);
  if (name == "index0") return Value::of(i);
  if (name == "revindex") return Value::of(n - i);
  if (name == "revindex0") return Value::of(n - i - 1);
  if (name == "first") return Value::of(i == 0);
  if (name == "last") return Value::of(i + 1 >= n);
  if (name == "length") return Value::of(n);
  if (name == "depth") return Value::of(loop.depth0 + 1);
  if (name == "depth0") return Value::of(loop.depth0);
  if (name == "previtem")
    return i > 0 && i <= n ? loop.items.item(interpreter.budget(), i - 1)
                           : interpreter.undefined("there is no previous item");
  if (name == "nextitem")
    return i + 1 < n ? loop.items.item(interpreter.budget(), i + 1) : interpreter.undefined("there is no next item");
  found = false;
  return {};
}

Result<Value> macro_attribute(Interpreter& interpreter, const MacroSpec& spec, std::string_view name, bool& found) {
  if (name == "name") return interpreter.string(std::string_view(spec.name));
  if (name == "catch_kwargs") return Value::of(spec.uses_kwargs);
  if (name == "catch_varargs") return Value::of(spec.uses_varargs);
  if (name == "caller") return Value::of(spec.uses_caller);
  if (name == "arguments") {
    std::vector<Value> names;
    for (const std::string& parameter : spec.parameter_names)
      names.push_back(interpreter.string(std::string_view(parameter)));
    return make_tuple(interpreter.budget(), std::move(names));
  }
  found = false;
  return Value();
}

}  // namespace

tl::unexpected<Error> type_error(std::string_view what) { return fail(ErrorCode::invalid_argument, "{}", what); }

tl::unexpected<Error> undefined_error(const Value& value) {
  return value.is(Kind::undefined) ? type_error(value.object<UndefinedObject>().message)
                                   : type_error("value is undefined");
}

Value Sequence::item(Budget& budget, int64_t i) const {
  const auto index = static_cast<size_t>(i);
  switch (holder.kind()) {
    case Kind::range: return holder.object<RangeObject>().item(i);
    case Kind::dict: return holder.dict().members[index].first;
    case Kind::view: {
      const ViewObject& view = holder.object<ViewObject>();
      const auto& [key, value] = view.dict.dict().members[index];
      if (view.what == ViewObject::What::keys) return key;
      if (view.what == ViewObject::What::values) return value;
      return make_tuple(budget, {key, value}).value_or(Value());
    }
    default: return holder.items()[index];
  }
}

Value Interpreter::undefined_member(const Value& object, const Value& key) {
  if (key.is_string())
    return undefined(fmt::format("{} has no attribute '{}'", object_name(object), escape_for_display(key.bytes())));
  return undefined(fmt::format("{} has no such element", object_name(object)));
}

Result<Value> Interpreter::special_attribute(const Value& object, std::string_view name, bool& found) {
  found = true;
  switch (object.kind()) {
    case Kind::loop: return loop_attribute(*this, object.thing<Loop>(), name, found);
    case Kind::macro: return macro_attribute(*this, *object.thing<Macro>().spec, name, found);
    case Kind::name_space:
      if (const Value* value = object.thing<Namespace>().dict.dict().find(name)) return *value;
      break;
    case Kind::cycler:
      if (name == "current") return object.thing<Cycler>().items[object.thing<Cycler>().position];
      break;
    case Kind::tuple:
      if (!object.object<SequenceObject>().is_group) break;
      if (name == "grouper") return object.items()[0];
      if (name == "list") return object.items()[1];
      break;
    case Kind::range: {
      const RangeObject& range = object.object<RangeObject>();
      if (name == "start") return Value::of(range.first);
      if (name == "stop") return Value::of(range.stop);
      if (name == "step") return Value::of(range.step);
      break;
    }
    default: break;
  }
  found = false;
  return Value();
}

Result<Value> Interpreter::attribute(const Value& object, std::string_view name) {
  if (object.is_undefined()) return undefined_error(object);
  bool found = false;
  TAMIS_TRY(Value special, special_attribute(object, name, found));
  if (found) return special;
  const Attribute attribute = find_attribute(object, name);
  if (attribute.what == Attribute::What::refused)
    return undefined(
        fmt::format("access to attribute '{}' of '{}' object is unsafe.", escape_for_display(name), type_name(object)));
  if (attribute.what == Attribute::What::method) {
    if (object.is(Kind::loop)) object.thing<Loop>().is_escaped = true;
    return Value::object(Kind::method, new MethodObject(budget_, object, attribute.method));
  }
  if (object.is(Kind::dict))
    if (const Value* value = object.dict().find(name)) return *value;
  return undefined(fmt::format("{} has no attribute '{}'", object_name(object), escape_for_display(name)));
}

Result<Value> Interpreter::item(const Value& object, const Value& key) {
  if (object.is_undefined()) return undefined_error(object);
  if (object.is(Kind::dict)) {
    if (is_hashable(key))
      if (const Value* value = object.dict().find(key)) return *value;
  } else if (key.is_integral()) {
    int64_t n = 0, i = key.as_int();
    const bool has_items =
        object.is_string() || object.is(Kind::list) || object.is(Kind::tuple) || object.is(Kind::range);
    if (has_items && length_of(object, n)) {
      if (i < 0) i += n;
      if (!TAMIS_CHECKED(13, i < 0 || i >= n)) {
        if (!object.is_string()) return Sequence{object, n}.item(budget_, i);
        const Value at = Value::of(i), end = Value::of(i + 1);
        return slice(*this, object, &at, &end, nullptr);
      }
    }
  }
  if (key.is_string() && !object.is(Kind::name_space)) {
    TAMIS_TRY(Value value, attribute(object, key.bytes()));
    if (!value.is_undefined()) return value;
  } else if (key.is_string()) {
    if (const Value* value = object.thing<Namespace>().dict.dict().find(key.bytes())) return *value;
  }
  return undefined_member(object, key);
}

Result<Sequence> Interpreter::sequence(const Value& iterable) {
  switch (iterable.kind()) {
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
    case Kind::view:
    case Kind::range: {
      Sequence out{iterable, 0};
      length_of(iterable, out.n);
      return out;
    }
    default: break;
  }
  std::vector<Value> all;
  if (iterable.is_string()) {
    const Text& text = iterable.text();
    TAMIS_TRY_STATUS(budget_.can_hold(text.bytes.size() * (sizeof(StringObject) + sizeof(Value))));
    TAMIS_TRY_STATUS(budget_.spend(text.bytes.size() >> 4));
    for (size_t i = 0; i < text.bytes.size();) {
      const size_t end = i + char_length(text.bytes, i);
      all.push_back(string(sub_text(text, i, end)));
      i = end;
    }
  } else if (iterable.is(Kind::generator)) {
    GeneratorObject& generator = iterable.object<GeneratorObject>();
    if (generator.make != nullptr) {
      if (depth_ > 1200 || guard_.is_nearly_full()) return fail(ErrorCode::invalid_argument, "recursion is too deep");
      const auto make = std::exchange(generator.make, nullptr);
      ++depth_;
      auto made = make(*this, generator.source, generator.args);
      --depth_;
      if (!made) return tl::unexpected<Error>(made.error());
      generator.items = std::move(*made);
    }
    all.assign(generator.items.begin() + static_cast<ptrdiff_t>(generator.next), generator.items.end());
    generator.next = generator.items.size();
  } else if (!iterable.is_undefined()) {
    return type_error(fmt::format("'{}' object is not iterable", type_name(iterable)));
  }
  Sequence out;
  out.n = static_cast<int64_t>(all.size());
  TAMIS_TRY(out.holder, make_list(budget_, std::move(all)));
  return out;
}

Result<std::vector<Value>> Interpreter::items(const Value& iterable) {
  TAMIS_TRY(const Sequence all, sequence(iterable));
  TAMIS_TRY_STATUS(budget_.can_hold(static_cast<uint64_t>(all.n) * sizeof(Value)));
  TAMIS_TRY_STATUS(budget_.spend(static_cast<uint64_t>(all.n) >> 4));
  std::vector<Value> out;
  for (int64_t i = 0; i < all.n; ++i) out.push_back(all.item(budget_, i));
  return out;
}

Value Interpreter::new_namespace(Value dict) {
  budget_.hold(sizeof(Namespace));
  return Value::borrowed(Kind::name_space, &namespaces_.emplace_back(Namespace{std::move(dict)}));
}

Value Interpreter::new_cycler(std::vector<Value> values) {
  budget_.hold(sizeof(Cycler) + values.size() * sizeof(Value));
  return Value::borrowed(Kind::cycler, &cyclers_.emplace_back(Cycler{std::move(values), 0}));
}

Value Interpreter::new_joiner(Value separator) {
  budget_.hold(sizeof(Joiner));
  return Value::borrowed(Kind::joiner, &joiners_.emplace_back(Joiner{std::move(separator), false}));
}

}  // namespace tamis::jinja
