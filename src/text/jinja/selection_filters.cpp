// map, select, reject, selectattr, rejectattr: lazy iterators over what passes.
#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"

namespace tamis::jinja {
namespace {

using Args = const Arguments&;
using Self = const Value&;

Arguments rest_of(const Arguments& args, size_t from) {
  return {{args.positional.begin() + static_cast<ptrdiff_t>(from), args.positional.end()}, args.keywords};
}

Result<std::vector<Value>> mapped(Interpreter& interpreter, const Value& source, const Arguments& args) {
  if (!is_true(source)) return std::vector<Value>{};
  TAMIS_TRY(std::vector<Value> all, interpreter.items(source));
  if (args.positional.empty()) {
    const Value* attribute = args.keyword("attribute");
    if (attribute == nullptr) return type_error("map requires a filter argument");
    for (const auto& [name, value] : args.keywords)
      if (name != "attribute" && name != "default")
        return type_error(fmt::format("Unexpected keyword argument '{}'", escape_for_display(name)));
    const Value* otherwise = args.keyword("default");
    if (otherwise != nullptr && otherwise->is_none()) otherwise = nullptr;
    for (Value& item : all) {
      TAMIS_TRY_STATUS(interpreter.budget().spend(1));
      if (attribute->is_none()) continue;
      TAMIS_TRY(item, path_item(interpreter, item, *attribute, otherwise));
    }
    return all;
  }
  const FilterRow* filter = args.positional[0].is_string() ? find_filter(args.positional[0].bytes()) : nullptr;
  if (filter == nullptr) return type_error("No filter of the name given to map");
  const Arguments rest = rest_of(args, 1);
  for (Value& item : all) {
    TAMIS_TRY_STATUS(interpreter.budget().spend(1));
    TAMIS_TRY(item, filter->run(interpreter, item, rest));
  }
  return all;
}

template <bool kKeeps, bool kByAttribute>
Result<std::vector<Value>> selected(Interpreter& interpreter, const Value& source, const Arguments& args) {
  if (!is_true(source)) return std::vector<Value>{};
  constexpr size_t kName = kByAttribute ? 1 : 0;
  if (kByAttribute && args.positional.empty()) return type_error("Missing parameter for attribute name");
  const TestRow* test = nullptr;
  if (args.positional.size() > kName) {
    const Value& name = args.positional[kName];
    test = name.is_string() ? find_test(name.bytes()) : nullptr;
    if (test == nullptr)
      return type_error(fmt::format("No test named '{}'.", name.is_string() ? escape_for_display(name.bytes()) : "?"));
  }
  const Arguments rest = rest_of(args, std::min(kName + 1, args.positional.size()));
  TAMIS_TRY(const std::vector<Value> all, interpreter.items(source));
  std::vector<Value> out;
  for (const Value& item : all) {
    TAMIS_TRY_STATUS(interpreter.budget().spend(1));
    Value subject = item;
    if (kByAttribute && !args.positional[0].is_none()) {
      TAMIS_TRY(subject, path_item(interpreter, item, args.positional[0], nullptr));
    }
    bool passes = is_true(subject);
    if (test != nullptr) {
      TAMIS_TRY(passes, test->run(interpreter, subject, rest));
    }
    if (passes == kKeeps) out.push_back(item);
  }
  return out;
}

template <GeneratorObject::Make kMake>
Result<Value> lazy(Interpreter& interpreter, Self self, Args args) {
  return make_generator(interpreter.budget(), kMake, self, args);
}

constexpr FilterRow kFilters[] = {
    {"map", lazy<mapped>},
    {"reject", lazy<selected<false, false>>},
    {"rejectattr", lazy<selected<false, true>>},
    {"select", lazy<selected<true, false>>},
    {"selectattr", lazy<selected<true, true>>},
};

}  // namespace

std::span<const FilterRow> selection_filters() { return kFilters; }

}  // namespace tamis::jinja
