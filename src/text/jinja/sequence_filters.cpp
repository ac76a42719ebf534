// Filters on sequences and dicts, except those that select.
#include <algorithm>
#include <optional>

#include "text/jinja/builtins.h"
#include "text/jinja/casing.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"

namespace tamis::jinja {
namespace {

using Args = const Arguments&;
using Self = const Value&;

// jinja2's ignore_case: strings compare in lower case.
Value without_case(Interpreter& interpreter, const Value& value) {
  return value.is_string() ? interpreter.string(lower_bytes(value.bytes())) : value;
}

// Stable sort by keys of equal length to the items; `reverse` keeps equal items in order, as Python's does.
Result<std::vector<size_t>> sorted_order(Interpreter& interpreter, const std::vector<Value>& keys, bool reverse) {
  std::vector<size_t> order(keys.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  uint64_t n_steps = keys.size();
  for (size_t n = keys.size(); n > 1; n >>= 1) n_steps += keys.size() >> 4;
  TAMIS_TRY_STATUS(interpreter.budget().spend(n_steps >> 2));
  std::optional<Error> error;
  // A plain merge sort: a comparison may fail, which std::sort cannot be told.
  std::vector<size_t> other(order.size());
  for (size_t width = 1; width < order.size() && !error; width *= 2) {
    for (size_t begin = 0; begin < order.size() && !error; begin += 2 * width) {
      const size_t middle = std::min(begin + width, order.size()), end = std::min(begin + 2 * width, order.size());
      size_t left = begin, right = middle;
      for (size_t out = begin; out < end; ++out) {
        bool takes_right = left >= middle;
        if (left < middle && right < end) {
          const auto less =
              reverse ? is_less(keys[order[left]], keys[order[right]]) : is_less(keys[order[right]], keys[order[left]]);
          if (!less) {
            error = less.error();
            break;
          }
          takes_right = *less;
        }
        other[out] = takes_right ? order[right++] : order[left++];
      }
    }
    order.swap(other);
  }
  if (error) return tl::unexpected<Error>(std::move(*error));
  return order;
}

Result<Value> list(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY_STATUS(Bound::match("list", args, {}, 0));
  if (self.is(Kind::list)) return self;
  TAMIS_TRY(std::vector<Value> all, interpreter.items(self));
  return make_list(interpreter.budget(), std::move(all));
}

Result<Value> first(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY_STATUS(Bound::match("first", args, {}, 0));
  TAMIS_TRY(const Sequence all, interpreter.sequence(self));
  return all.n > 0 ? all.item(interpreter.budget(), 0) : interpreter.undefined("No first item, sequence was empty.");
}

Result<Value> last(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY_STATUS(Bound::match("last", args, {}, 0));
  if (self.is(Kind::generator)) return type_error("'generator' object is not reversible");
  TAMIS_TRY(const Sequence all, interpreter.sequence(self));
  return all.n > 0 ? all.item(interpreter.budget(), all.n - 1)
                   : interpreter.undefined("No last item, sequence was empty.");
}

Result<Value> length(Interpreter&, Self self, Args args) {
  TAMIS_TRY_STATUS(Bound::match("length", args, {}, 0));
  int64_t n = 0;
  if (self.is(Kind::loop)) return Value::of(self.thing<Loop>().items.n);
  if (!length_of(self, n)) return type_error(fmt::format("object of type '{}' has no len()", type_name(self)));
  return Value::of(n);
}

Result<Value> reverse(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY_STATUS(Bound::match("reverse", args, {}, 0));
  if (self.is_string()) {
    const Value step = Value::of(int64_t{-1});
    TAMIS_TRY(const Value reversed, slice(interpreter, self, nullptr, nullptr, &step));
    return reversed;
  }
  TAMIS_TRY(std::vector<Value> all, interpreter.items(self));
  std::reverse(all.begin(), all.end());
  return self.is(Kind::generator) ? make_list(interpreter.budget(), std::move(all))
                                  : make_iterator(interpreter.budget(), std::move(all));
}

Result<std::vector<Value>> item_pairs(Interpreter& interpreter, const Value& source, const Arguments&) {
  return interpreter.items(make_view(interpreter.budget(), source, ViewObject::What::items));
}

Result<Value> items(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY_STATUS(Bound::match("items", args, {}, 0));
  if (self.is_undefined()) return make_iterator(interpreter.budget(), {});
  if (!self.is(Kind::dict)) return type_error("Can only get item pairs from a mapping.");
  return make_generator(interpreter.budget(), item_pairs, self);
}

Result<Value> dictsort(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match("dictsort", args, {"case_sensitive", "by", "reverse"}, 0));
  if (!self.is(Kind::dict))
    return self.is_undefined() ? undefined_error(self) : type_error("dictsort: expected a mapping");
  TAMIS_TRY(const Text* by, bound.string(1));
  if (by != nullptr && by->bytes != "key" && by->bytes != "value")
    return fail(ErrorCode::invalid_argument, "You can only sort by either \"key\" or \"value\"");
  const bool by_value = by != nullptr && by->bytes == "value";
  std::vector<Value> keys;
  for (const auto& [key, value] : self.dict().members) {
    const Value& item = by_value ? value : key;
    keys.push_back(bound.truth(0, false) ? item : without_case(interpreter, item));
  }
  TAMIS_TRY(const std::vector<size_t> order, sorted_order(interpreter, keys, bound.truth(2, false)));
  std::vector<Value> out;
  for (size_t i : order) {
    const auto& [key, value] = self.dict().members[i];
    TAMIS_TRY(Value pair, make_tuple(interpreter.budget(), {key, value}));
    out.push_back(std::move(pair));
  }
  return make_list(interpreter.budget(), std::move(out));
}

// The sort keys of `attribute`: one value, or a list when the attribute names several.
Result<Value> sort_key(Interpreter& interpreter, const Value& item, const Value* attribute, bool case_sensitive) {
  const auto prepared = [&](Value value) { return case_sensitive ? value : without_case(interpreter, value); };
  if (attribute == nullptr || attribute->is_none()) return prepared(item);
  if (!attribute->is_string()) {
    TAMIS_TRY(Value value, path_item(interpreter, item, *attribute, nullptr));
    return prepared(std::move(value));
  }
  std::vector<Value> keys;
  std::string_view rest = attribute->bytes();
  while (true) {
    const size_t comma = std::min(rest.find(','), rest.size());
    TAMIS_TRY(Value value, path_item(interpreter, item, interpreter.string(rest.substr(0, comma)), nullptr));
    keys.push_back(prepared(std::move(value)));
    if (comma == rest.size()) break;
    rest = rest.substr(comma + 1);
  }
  return make_list(interpreter.budget(), std::move(keys));
}

Result<Value> sort(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match("sort", args, {"reverse", "case_sensitive", "attribute"}, 0));
  TAMIS_TRY(const std::vector<Value> all, interpreter.items(self));
  std::vector<Value> keys;
  for (const Value& item : all) {
    TAMIS_TRY(Value key, sort_key(interpreter, item, bound[2], bound.truth(1, false)));
    keys.push_back(std::move(key));
  }
  TAMIS_TRY(const std::vector<size_t> order, sorted_order(interpreter, keys, bound.truth(0, false)));
  std::vector<Value> out;
  for (size_t i : order) out.push_back(all[i]);
  return make_list(interpreter.budget(), std::move(out));
}

// One key by |unique, |min, |max, |groupby.
Result<Value> item_key(Interpreter& interpreter, const Value& item, const Value* attribute, bool case_sensitive,
                       const Value* otherwise = nullptr) {
  Value key = item;
  if (attribute != nullptr && !attribute->is_none()) {
    TAMIS_TRY(key, path_item(interpreter, item, *attribute, otherwise));
  }
  return case_sensitive ? key : without_case(interpreter, key);
}

Result<std::vector<Value>> unique_items(Interpreter& interpreter, const Value& source, const Arguments& args) {
  TAMIS_TRY(const Bound bound, Bound::match("unique", args, {"case_sensitive", "attribute"}, 0));
  TAMIS_TRY(const std::vector<Value> all, interpreter.items(source));
  DictObject seen(interpreter.budget());
  std::vector<Value> out;
  for (const Value& item : all) {
    TAMIS_TRY(Value key, item_key(interpreter, item, bound[1], bound.truth(0, false)));
    if (!is_hashable(key)) return type_error(fmt::format("unhashable type: '{}'", type_name(key)));
    if (seen.find(key) != nullptr) continue;
    seen.set(std::move(key), Value::none());
    out.push_back(item);
  }
  return out;
}

Result<Value> unique(Interpreter& interpreter, Self self, Args args) {
  return make_generator(interpreter.budget(), unique_items, self, args);
}

template <bool kMax>
Result<Value> extreme(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match(kMax ? "max" : "min", args, {"case_sensitive", "attribute"}, 0));
  TAMIS_TRY(const Sequence all, interpreter.sequence(self));
  if (all.n == 0) return interpreter.undefined("No aggregated item, sequence was empty.");
  TAMIS_TRY_STATUS(interpreter.budget().spend(static_cast<uint64_t>(all.n) >> 2));
  Value best = all.item(interpreter.budget(), 0);
  TAMIS_TRY(Value best_key, item_key(interpreter, best, bound[1], bound.truth(0, false)));
  for (int64_t i = 1; i < all.n; ++i) {
    Value item = all.item(interpreter.budget(), i);
    TAMIS_TRY(Value key, item_key(interpreter, item, bound[1], bound.truth(0, false)));
    TAMIS_TRY(const bool is_better, kMax ? is_less(best_key, key) : is_less(key, best_key));
    if (!is_better) continue;
    best = std::move(item);
    best_key = std::move(key);
  }
  return best;
}

Result<Value> sum(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match("sum", args, {"attribute", "start"}, 0));
  TAMIS_TRY(const Sequence all, interpreter.sequence(self));
  Value total = bound.has(1) ? *bound[1] : Value::of(int64_t{0});
  if (total.is_string()) return type_error("sum() can't sum strings [use ''.join(seq) instead]");
  for (int64_t i = 0; i < all.n; ++i) {
    TAMIS_TRY_STATUS(interpreter.budget().spend(1));
    Value item = all.item(interpreter.budget(), i);
    if (bound.has(0) && !bound[0]->is_none()) {
      TAMIS_TRY(item, path_item(interpreter, item, *bound[0], nullptr));
    }
    TAMIS_TRY(total, arithmetic(interpreter, NodeKind::add, total, item));
  }
  return total;
}

Result<std::vector<Value>> batches(Interpreter& interpreter, const Value& source, const Arguments& args) {
  TAMIS_TRY(const Bound bound, Bound::match("batch", args, {"linecount", "fill_with"}, 1));
  TAMIS_TRY(const std::vector<Value> all, interpreter.items(source));
  if (bound[0]->is_undefined() || !bound[0]->is_number()) return std::vector<Value>{};
  const int64_t size = bound[0]->is_integral() ? bound[0]->as_int() : 0;
  std::vector<Value> out, batch;
  for (const Value& item : all) {
    if (static_cast<int64_t>(batch.size()) == size) {
      TAMIS_TRY(Value done, make_list(interpreter.budget(), std::move(batch)));
      out.push_back(std::move(done));
      batch.clear();
    }
    batch.push_back(item);
  }
  if (batch.empty()) return out;
  if (bound.has(1) && !bound[1]->is_none() && static_cast<int64_t>(batch.size()) < size) {
    TAMIS_TRY_STATUS(interpreter.budget().can_hold(static_cast<uint64_t>(std::min<int64_t>(size, int64_t{1} << 40)) *
                                                   sizeof(Value)));
    TAMIS_TRY_STATUS(interpreter.budget().spend(static_cast<uint64_t>(size) >> 4));
    batch.resize(static_cast<size_t>(size), *bound[1]);
  }
  TAMIS_TRY(Value done, make_list(interpreter.budget(), std::move(batch)));
  out.push_back(std::move(done));
  return out;
}

Result<Value> batch(Interpreter& interpreter, Self self, Args args) {
  return make_generator(interpreter.budget(), batches, self, args);
}

Result<std::vector<Value>> slices(Interpreter& interpreter, const Value& source, const Arguments& args) {
  TAMIS_TRY(const Bound bound, Bound::match("slice", args, {"slices", "fill_with"}, 1));
  TAMIS_TRY(const int64_t n, bound.integer(0, 1));
  TAMIS_TRY(const std::vector<Value> all, interpreter.items(source));
  const auto length = static_cast<int64_t>(all.size());
  TAMIS_TRY(const int64_t each, floor_divide(length, n));
  TAMIS_TRY(const int64_t n_longer, floor_modulo(length, n));
  TAMIS_TRY_STATUS(interpreter.budget().spend(static_cast<uint64_t>(std::max<int64_t>(n, 0))));
  std::vector<Value> out;
  for (int64_t i = 0, begin = 0; i < n; ++i) {
    const int64_t end = begin + each + (i < n_longer ? 1 : 0);
    std::vector<Value> part(all.begin() + begin, all.begin() + end);
    if (bound.has(1) && !bound[1]->is_none() && i >= n_longer) part.push_back(*bound[1]);
    TAMIS_TRY(Value done, make_list(interpreter.budget(), std::move(part)));
    out.push_back(std::move(done));
    begin = end;
  }
  return out;
}

Result<Value> slice_filter(Interpreter& interpreter, Self self, Args args) {
  return make_generator(interpreter.budget(), slices, self, args);
}

Result<Value> groupby(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match("groupby", args, {"attribute", "default", "case_sensitive"}, 1));
  TAMIS_TRY(const std::vector<Value> all, interpreter.items(self));
  const Value* otherwise = bound.has(1) && !bound[1]->is_none() ? bound[1] : nullptr;
  const bool case_sensitive = bound.truth(2, false);
  std::vector<Value> keys;
  for (const Value& item : all) {
    TAMIS_TRY(Value key, item_key(interpreter, item, bound[0], case_sensitive, otherwise));
    keys.push_back(std::move(key));
  }
  TAMIS_TRY(const std::vector<size_t> order, sorted_order(interpreter, keys, false));
  std::vector<Value> out;
  for (size_t i = 0; i < order.size();) {
    std::vector<Value> members;
    const size_t begin = i;
    for (; i < order.size() && is_equal(keys[order[i]], keys[order[begin]]); ++i) members.push_back(all[order[i]]);
    TAMIS_TRY(Value grouper, item_key(interpreter, all[order[begin]], bound[0], true, otherwise));
    TAMIS_TRY(Value list_of, make_list(interpreter.budget(), std::move(members)));
    TAMIS_TRY(Value group, make_tuple(interpreter.budget(), {std::move(grouper), std::move(list_of)}));
    group.object<SequenceObject>().is_group = true;
    out.push_back(std::move(group));
    if (i == begin) ++i;  // a key that is not equal to itself (NaN) is a group of its own
  }
  return make_list(interpreter.budget(), std::move(out));
}

Result<Value> default_value(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match("default", args, {"default_value", "boolean"}, 0));
  if (!self.is_undefined() && !(bound.truth(1, false) && !is_true(self))) return self;
  return bound.has(0) ? *bound[0] : interpreter.string(std::string_view());
}

Result<Value> attr(Interpreter& interpreter, Self self, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match("attr", args, {"name"}, 1));
  TAMIS_TRY(const Text* name, bound.string(0));
  if (name == nullptr) return type_error("attribute name must be string");
  if (self.is(Kind::dict) && find_attribute(self, name->bytes).what == Attribute::What::absent)
    return interpreter.undefined_member(self, *bound[0]);
  return interpreter.attribute(self, name->bytes);
}

constexpr FilterRow kFilters[] = {
    {"attr", attr},
    {"batch", batch},
    {"count", length},
    {"d", default_value},
    {"default", default_value},
    {"dictsort", dictsort},
    {"first", first},
    {"groupby", groupby},
    {"items", items},
    {"last", last},
    {"length", length},
    {"list", list},
    {"max", extreme<true>},
    {"min", extreme<false>},
    {"reverse", reverse},
    {"slice", slice_filter},
    {"sort", sort},
    {"sum", sum},
    {"unique", unique},
};

}  // namespace

std::span<const FilterRow> sequence_filters() { return kFilters; }

Result<Value> path_item(Interpreter& interpreter, Value value, const Value& path, const Value* otherwise) {
  if (!path.is_string()) {
    TAMIS_TRY(value, interpreter.item(value, path));
    return value.is_undefined() && otherwise != nullptr ? *otherwise : value;
  }
  std::string_view rest = path.bytes();
  while (true) {
    const size_t dot = std::min(rest.find('.'), rest.size());
    const std::string_view part = rest.substr(0, dot);
    const bool is_index = !part.empty() && part.size() < 18 &&
                          std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    const Value key = is_index ? make_integer_text(interpreter.budget(), part) : interpreter.string(part);
    TAMIS_TRY(value, interpreter.item(value, key));
    if (value.is_undefined() && otherwise != nullptr) value = *otherwise;
    if (dot == rest.size()) return value;
    rest = rest.substr(dot + 1);
  }
}

}  // namespace tamis::jinja
