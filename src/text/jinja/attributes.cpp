// Which attributes a value has: its methods, and the ones the immutable sandbox refuses.
#include <algorithm>

#include "text/jinja/builtins.h"

namespace tamis::jinja {
namespace {

const MethodRow* find_row(std::span<const MethodRow> rows, std::string_view name) {
  const auto it = std::find_if(rows.begin(), rows.end(), [name](const MethodRow& row) { return row.name == name; });
  return it == rows.end() ? nullptr : &*it;
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

Attribute find_attribute(const Value& self, std::string_view name) {
  using What = Attribute::What;
  if (self.is_undefined()) return {};
  if (name.starts_with("__")) return {What::refused, nullptr};
  const MethodRow* row = nullptr;
  switch (self.kind()) {
    case Kind::string:
      row = find_row(string_methods(), name);
      if (row == nullptr) row = find_row(string_split_methods(), name);
      break;
    case Kind::dict:
      if (is_one_of(name, {"clear", "pop", "popitem", "setdefault", "update"})) return {What::refused, nullptr};
      row = find_row(dict_methods(), name);
      break;
    case Kind::list:
      if (is_one_of(name, {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"}))
        return {What::refused, nullptr};
      [[fallthrough]];
    case Kind::tuple:
    case Kind::range: row = find_row(sequence_methods(), name); break;
    default: row = find_row(other_methods(self.kind()), name); break;
  }
  return row == nullptr ? Attribute{} : Attribute{What::method, row};
}

}  // namespace tamis::jinja
