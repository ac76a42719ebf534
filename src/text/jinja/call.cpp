// Calls: macros, functions, bound methods, and how arguments meet parameters.
#include <algorithm>

#include "text/jinja/interpreter.h"

namespace tamis::jinja {

Result<Bound> Bound::match(std::string_view callee, const Arguments& args,
                           std::initializer_list<std::string_view> names, size_t n_required) {
  Bound bound;
  bound.callee_ = callee;
  if (args.positional.size() > names.size())
    return type_error(
        fmt::format("{}() takes at most {} arguments ({} given)", callee, names.size(), args.positional.size()));
  for (size_t i = 0; i < args.positional.size(); ++i) bound.values_[i] = &args.positional[i];
  for (const auto& [name, value] : args.keywords) {
    const auto it = std::find(names.begin(), names.end(), name);
    if (it == names.end())
      return type_error(fmt::format("{}() got an unexpected keyword argument '{}'", callee, escape_for_display(name)));
    const auto i = static_cast<size_t>(it - names.begin());
    if (bound.values_[i] != nullptr)
      return type_error(fmt::format("{}() got multiple values for argument '{}'", callee, name));
    bound.values_[i] = &value;
  }
  for (size_t i = 0; i < n_required; ++i)
    if (bound.values_[i] == nullptr)
      return type_error(fmt::format("{}() missing required argument: '{}'", callee, *(names.begin() + i)));
  return bound;
}

Result<int64_t> Bound::integer(size_t i, int64_t otherwise) const {
  if (!has(i)) return otherwise;
  const Value& value = *values_[i];
  if (value.is_undefined()) return undefined_error(value);
  if (!value.is_integral())
    return type_error(fmt::format("{}(): '{}' object cannot be interpreted as an integer", callee_, type_name(value)));
  return value.as_int();
}

Result<const Text*> Bound::string(size_t i) const {
  if (!has(i) || values_[i]->is_none()) return nullptr;
  const Value& value = *values_[i];
  if (value.is_undefined()) return type_error(fmt::format("{}(): expected str, not Undefined", callee_));
  if (!value.is_string()) return type_error(fmt::format("{}(): expected str, not {}", callee_, type_name(value)));
  return &value.text();
}

Result<Value> Interpreter::call(const Value& callee, const Arguments& args) {
  switch (callee.kind()) {
    case Kind::macro: return run_macro(callee.thing<Macro>(), args);
    case Kind::function: return callee.thing<const FunctionRow>().run(*this, args);
    case Kind::method: {
      const MethodObject& method = callee.object<MethodObject>();
      return method.row->run(*this, method.self, args);
    }
    case Kind::loop: {
      TAMIS_TRY(const Bound bound, Bound::match("loop", args, {"iterable"}, 1));
      return call_loop(callee.thing<Loop>(), *bound[0]);
    }
    case Kind::joiner: {
      Joiner& joiner = callee.thing<Joiner>();
      if (std::exchange(joiner.is_used, true)) return joiner.separator;
      return string(std::string_view());
    }
    case Kind::undefined:
    case Kind::undefined_plain: return undefined_error(callee);
    default: return type_error(fmt::format("'{}' object is not callable", type_name(callee)));
  }
}

Value Interpreter::new_macro(const MacroSpec& spec) {
  budget_.hold(sizeof(Macro));
  for (Scope* scope = scope_; scope != nullptr && !scope->is_captured; scope = scope->parent) scope->is_captured = true;
  return Value::borrowed(Kind::macro, &macros_.emplace_back(Macro{&spec, scope_}));
}

// Gives the current scope the macro's parameters, and varargs, kwargs and caller where the body uses them.
Status Interpreter::bind_parameters(const MacroSpec& spec, const Arguments& args) {
  const size_t n = spec.parameters.size(), n_positional = std::min(n, args.positional.size());
  const size_t first_default = n - spec.defaults.size();
  std::vector<bool> is_used(args.keywords.size(), false);
  const auto take_keyword = [&](std::string_view name) -> const Value* {
    for (size_t k = 0; k < args.keywords.size(); ++k) {
      if (is_used[k] || args.keywords[k].first != name) continue;
      is_used[k] = true;
      return &args.keywords[k].second;
    }
    return nullptr;
  };
  for (size_t i = 0; i < n; ++i) {
    const Value* given = i < n_positional ? &args.positional[i] : take_keyword(spec.parameter_names[i]);
    if (given != nullptr) {
      set_name(spec.parameters[i], *given);
    } else if (i >= first_default) {
      TAMIS_TRY(Value value, evaluate(*spec.defaults[i - first_default]));
      set_name(spec.parameters[i], std::move(value));
    } else {
      set_name(spec.parameters[i], undefined(fmt::format("parameter '{}' was not provided", spec.parameter_names[i])));
    }
  }
  const auto special = [&](std::string_view name, Value value) {
    set_name(program_.symbol_ids.find(std::string(name))->second, std::move(value));
  };
  if (spec.uses_caller &&
      std::find(spec.parameter_names.begin(), spec.parameter_names.end(), "caller") == spec.parameter_names.end()) {
    const Value* caller = take_keyword("caller");
    special("caller", caller != nullptr ? *caller : undefined("No caller defined"));
  }
  std::vector<DictObject::Member> rest;
  for (size_t k = 0; k < args.keywords.size(); ++k) {
    if (is_used[k]) continue;
    if (!spec.uses_kwargs)
      return type_error(fmt::format("macro '{}' takes no keyword argument '{}'", spec.name,
                                    escape_for_display(args.keywords[k].first)));
    rest.emplace_back(string(std::string_view(args.keywords[k].first)), args.keywords[k].second);
  }
  if (spec.uses_kwargs) {
    TAMIS_TRY(Value kwargs, make_dict(budget_, std::move(rest)));
    special("kwargs", std::move(kwargs));
  }
  if (!spec.uses_varargs && args.positional.size() > n)
    return type_error(fmt::format("macro '{}' takes not more than {} argument(s)", spec.name, n));
  if (spec.uses_varargs) {
    TAMIS_TRY(Value varargs, make_tuple(budget_, {args.positional.begin() + static_cast<ptrdiff_t>(n_positional),
                                                  args.positional.end()}));
    special("varargs", std::move(varargs));
  }
  return {};
}

}  // namespace tamis::jinja
