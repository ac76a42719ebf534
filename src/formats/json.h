// JSON as a value type: objects keep their order, integers stay integers. Parsing is strict (RFC 8259), depth-capped
// and reports byte positions. The JSON library sits behind json.cpp alone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace tamis {

class Json {
 public:
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;  // in order of appearance

  Json() = default;  // null
  Json(std::nullptr_t) {}
  Json(bool value) : value_(value) {}
  Json(int value) : value_(int64_t{value}) {}
  Json(unsigned value) : value_(int64_t{value}) {}
  Json(int64_t value) : value_(value) {}
  Json(uint64_t value);  // values past 2^63-1 keep their exact decimal digits
  Json(double value) : value_(value) {}
  Json(const char* value) : value_(std::string(value)) {}
  Json(std::string_view value) : value_(std::string(value)) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(Array value) : value_(std::move(value)) {}
  Json(Object value) : value_(std::move(value)) {}
  static Json array() { return Json(Array{}); }
  static Json object() { return Json(Object{}); }

  // Errors: format, naming the byte, for anything but one JSON value; for depth past max_depth; for invalid UTF-8; for
  // duplicate keys (the last of which would silently win elsewhere).
  static Result<Json> parse(std::string_view text, uint32_t max_depth = 128);

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_int() const { return std::holds_alternative<int64_t>(value_); }
  bool is_uint() const { return std::holds_alternative<uint64_t>(value_); }  // only values past 2^63-1
  bool is_double() const { return std::holds_alternative<double>(value_); }
  bool is_number() const { return is_int() || is_uint() || is_double(); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }

  // Requires: the value is of that type.
  bool as_bool() const { return std::get<bool>(value_); }
  int64_t as_int() const { return std::get<int64_t>(value_); }
  uint64_t as_uint() const { return std::get<uint64_t>(value_); }
  double as_double() const;  // any number
  const std::string& as_string() const { return std::get<std::string>(value_); }
  const Array& as_array() const { return std::get<Array>(value_); }
  Array& as_array() { return std::get<Array>(value_); }
  const Object& as_object() const { return std::get<Object>(value_); }
  Object& as_object() { return std::get<Object>(value_); }

  const Json* find(std::string_view key) const;  // null when absent or not an object
  Json& set(std::string key, Json value);        // replaces or appends; Requires: object. Returns *this
  void push_back(Json value);                    // Requires: array

  // Compact (indent < 0: `{"a":1}`) or pretty text. Doubles in the shortest form that reads back the same; NaN and
  // infinities as null; bytes that are not UTF-8 as U+FFFD.
  std::string dump(int indent = -1) const;

  friend bool operator==(const Json&, const Json&) = default;

 private:
  std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string, Array, Object> value_;
};

}  // namespace tamis
