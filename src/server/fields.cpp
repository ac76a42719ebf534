// Typed reading of request objects.
#include "server/fields.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tamis::server {
namespace {

thread_local FieldRecorder* recorder = nullptr;
constexpr std::string_view kMissing = "is missing";

}  // namespace

FieldRecorder::FieldRecorder() : outer_(std::exchange(recorder, this)) {}
FieldRecorder::~FieldRecorder() { recorder = outer_; }

FieldNote& FieldRecorder::note(std::string path) {
  const auto found = std::ranges::find(notes_, path, &FieldNote::path);
  if (found != notes_.end()) return *found;
  notes_.emplace_back().path = std::move(path);
  return notes_.back();
}

std::string_view kind_of(const Json& value) {
  if (value.is_null()) return "null";
  if (value.is_bool()) return "a boolean";
  if (value.is_int() || value.is_uint()) return "an integer";
  if (value.is_double()) return "a number";
  if (value.is_string()) return "a string";
  return value.is_array() ? "an array" : "an object";
}

size_t n_characters(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string text_member(const Json& object, std::string_view name) {
  const Json* const found = object.find(name);
  return found != nullptr && found->is_string() ? found->as_string() : std::string();
}

Fields::Fields(const Json& object, std::string place) : object_(object), place_(std::move(place)) {}

void Fields::record(std::string_view name, FieldNote::Kind kind, Json minimum, Json maximum, Json allowed) {
  if (recorder == nullptr) return;
  FieldNote& note = recorder->note(place_ + std::string(name));
  if (kind == FieldNote::Kind::any) return;
  note.kind = kind;
  note.minimum = std::move(minimum);
  note.maximum = std::move(maximum);
  note.allowed = std::move(allowed);
}

const Json* Fields::any(std::string_view name) {
  record(name, FieldNote::Kind::any);
  return look(name);
}

const Json* Fields::look(std::string_view name) {
  known_.push_back(name);
  const Json* const found = object_.find(name);
  return found == nullptr || found->is_null() ? nullptr : found;
}

void Fields::fail(std::string_view name, std::string_view why) {
  if (recorder != nullptr && why == kMissing) recorder->note(place_ + std::string(name)).is_required = true;
  if (!fault_) fault_ = refuse(place_ + std::string(name), why).value();
}

void Fields::finish_inner(const Fields& inner) {
  if (const auto read = inner.finish(); !read && !fault_) fault_ = read.error();
}

std::optional<int64_t> Fields::integer_value(std::string_view name, int64_t minimum, int64_t maximum) {
  record(name, FieldNote::Kind::integer, minimum, maximum);
  const Json* const value = look(name);
  if (value == nullptr) return std::nullopt;
  // 64.0 is an integer to JavaScript, and so to its clients.
  const bool is_whole_double = value->is_double() && std::fabs(value->as_double()) < 9e15 &&
                               std::floor(value->as_double()) == value->as_double();
  if (!value->is_int() && !value->is_uint() && !is_whole_double) {
    fail(name, fmt::format("got {}, expected an integer", kind_of(*value)));
    return std::nullopt;
  }
  const bool is_large = value->is_uint();
  const int64_t number = is_large ? 0 : value->is_int() ? value->as_int() : static_cast<int64_t>(value->as_double());
  if (is_large || number < minimum || number > maximum) {
    fail(name, fmt::format("got {}, expected {} … {}", value->dump(), minimum, maximum));
    return std::nullopt;
  }
  return number;
}

bool Fields::integer(std::string_view name, int64_t minimum, int64_t maximum, int64_t& out) {
  const auto value = integer_value(name, minimum, maximum);
  if (value) out = *value;
  return value.has_value();
}

bool Fields::integer(std::string_view name, int64_t minimum, int64_t maximum, int32_t& out) {
  const auto value = integer_value(name, minimum, maximum);
  if (value) out = static_cast<int32_t>(*value);
  return value.has_value();
}

bool Fields::integer(std::string_view name, int64_t minimum, int64_t maximum, uint32_t& out) {
  const auto value = integer_value(name, minimum, maximum);
  if (value) out = static_cast<uint32_t>(*value);
  return value.has_value();
}

bool Fields::real(std::string_view name, double minimum, double maximum, float& out) {
  record(name, FieldNote::Kind::real, minimum, maximum);
  const Json* const value = look(name);
  if (value == nullptr) return false;
  if (!value->is_number()) {
    fail(name, fmt::format("got {}, expected a number", kind_of(*value)));
    return false;
  }
  const double number = value->as_double();
  if (number < minimum || number > maximum) {
    fail(name, fmt::format("got {}, expected {} … {}", value->dump(), minimum, maximum));
    return false;
  }
  out = static_cast<float>(number);
  return true;
}

bool Fields::boolean(std::string_view name, bool& out) {
  record(name, FieldNote::Kind::boolean);
  const Json* const value = look(name);
  if (value == nullptr) return false;
  if (!value->is_bool()) {
    fail(name, fmt::format("got {}, expected true or false", kind_of(*value)));
    return false;
  }
  out = value->as_bool();
  return true;
}

bool Fields::text(std::string_view name, std::string& out) {
  record(name, FieldNote::Kind::text);
  const Json* const value = look(name);
  if (value == nullptr) return false;
  if (!value->is_string()) {
    fail(name, fmt::format("got {}, expected a string", kind_of(*value)));
    return false;
  }
  out = value->as_string();
  return true;
}

bool Fields::texts(std::string_view name, size_t n_max, std::vector<std::string>& out) {
  record(name, FieldNote::Kind::texts, {}, uint64_t{n_max});
  const Json* const value = look(name);
  if (value == nullptr) return false;
  std::vector<std::string> found;
  if (value->is_string()) {
    found.push_back(value->as_string());
  } else if (!value->is_array()) {
    fail(name, fmt::format("got {}, expected a string or an array of strings", kind_of(*value)));
    return false;
  } else if (value->as_array().size() > n_max) {
    fail(name, fmt::format("got {} strings, at most {} are allowed", value->as_array().size(), n_max));
    return false;
  } else {
    for (const Json& item : value->as_array()) {
      if (!item.is_string()) {
        fail(fmt::format("{}[{}]", name, found.size()), fmt::format("got {}, expected a string", kind_of(item)));
        return false;
      }
      found.push_back(item.as_string());
    }
  }
  out = std::move(found);
  return true;
}

const Json* Fields::object(std::string_view name) {
  record(name, FieldNote::Kind::object);
  const Json* const value = look(name);
  if (value == nullptr || value->is_object()) return value;
  fail(name, fmt::format("got {}, expected an object", kind_of(*value)));
  return nullptr;
}

const Json* Fields::array(std::string_view name) {
  record(name, FieldNote::Kind::array);
  const Json* const value = look(name);
  if (value == nullptr || value->is_array()) return value;
  fail(name, fmt::format("got {}, expected an array", kind_of(*value)));
  return nullptr;
}

void Fields::mark_inert(std::string_view name) {
  if (recorder != nullptr) recorder->note(place_ + std::string(name)).is_inert = true;
}

void Fields::inert_boolean(std::string_view name) {
  bool ignored = false;
  boolean(name, ignored);
  mark_inert(name);
}

void Fields::inert_text(std::string_view name, size_t n_most) {
  std::string value;
  if (text(name, value) && n_characters(value) > n_most)
    fail(name, fmt::format("got {} characters, at most {} are allowed", n_characters(value), n_most));
  if (n_most < std::numeric_limits<size_t>::max()) record(name, FieldNote::Kind::text, {}, uint64_t{n_most});
  mark_inert(name);
}

void Fields::inert_choice(std::string_view name, std::initializer_list<std::string_view> allowed) {
  Json list = Json::array();
  std::string names;
  for (const std::string_view each : allowed) {
    list.push_back(each);
    names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", each);
  }
  record(name, FieldNote::Kind::choice, {}, {}, list);
  mark_inert(name);
  const Json* const value = look(name);
  if (value != nullptr && std::ranges::find(list.as_array(), *value) == list.as_array().end())
    fail(name, fmt::format("expected one of {}", names));
}

void Fields::only(std::string_view name, const Json& allowed, std::string_view why) {
  record(name, FieldNote::Kind::only, {}, {}, allowed);
  const Json* const value = look(name);
  if (value != nullptr && *value != allowed) fail(name, why);
}

void Fields::unsupported(std::string_view name) {
  const Json* const value = look(name);  // not recorded: it is no part of the API yet
  if (value == nullptr) return;
  const bool is_nothing = *value == Json(false) || (value->is_string() && value->as_string().empty()) ||
                          (value->is_array() && value->as_array().empty()) ||
                          (value->is_object() && value->as_object().empty());
  if (!is_nothing) fail(name, "not supported yet");
}

ApiResult<void> Fields::finish() const {
  if (fault_) return tl::unexpected<ApiError>(*fault_);
  for (const auto& [name, value] : object_.as_object())
    if (std::find(known_.begin(), known_.end(), name) == known_.end())
      return refuse(place_ + escape_for_display(name), "unknown parameter");
  return {};
}

}  // namespace tamis::server
