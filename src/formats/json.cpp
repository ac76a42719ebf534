// Json over nlohmann's SAX parser and serialiser.
#include "formats/json.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_set>

namespace tamis {
namespace {

// Builds a Json without recursion on the input's depth; stops at the first fault.
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Builder(uint32_t max_depth) : max_depth_(max_depth) {}

  bool null() override { return put(Json()); }
  bool boolean(bool value) override { return put(Json(value)); }
  bool number_integer(number_integer_t value) override { return put(Json(int64_t{value})); }
  bool number_unsigned(number_unsigned_t value) override { return put(Json(uint64_t{value})); }
  bool number_float(number_float_t value, const string_t&) override {
    return std::isfinite(value) ? put(Json(value)) : stop("number out of range");
  }
  bool string(string_t& value) override { return put(Json(std::move(value))); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool key(string_t& value) override {
    if (!keys_.back().insert(value).second) return stop("duplicate key \"" + escape_for_display(value) + "\"");
    key_.back() = std::move(value);
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& e) override {
    position_ = position;
    std::string text = e.what();  // "[json.exception.parse_error.101] parse error at …"
    if (const size_t prefix_end = text.find("] "); text.starts_with("[") && prefix_end != std::string::npos)
      text.erase(0, prefix_end + 2);
    return stop(escape_for_display(text, 200));
  }

  Json take_root() { return std::move(root_); }
  const std::string& fault() const { return fault_; }
  size_t position() const { return position_; }

 private:
  bool stop(std::string why) {
    if (fault_.empty()) fault_ = std::move(why);
    return false;
  }

  bool put(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return true;
    }
    if (open_.back().is_array())
      open_.back().push_back(std::move(value));
    else
      open_.back().as_object().emplace_back(std::move(key_.back()), std::move(value));
    return true;
  }

  bool open(Json container) {
    if (open_.size() >= max_depth_) return stop(fmt::format("nested deeper than {}", max_depth_));
    open_.push_back(std::move(container));
    key_.emplace_back();
    keys_.emplace_back();
    return true;
  }

  bool close() {
    Json value = std::move(open_.back());
    open_.pop_back();
    key_.pop_back();
    keys_.pop_back();
    return put(std::move(value));
  }

  uint32_t max_depth_;
  Json root_;
  std::vector<Json> open_;
  std::vector<std::string> key_;
  std::vector<std::unordered_set<std::string>> keys_;
  std::string fault_;
  size_t position_ = 0;
};

void dump_string(const std::string& text, std::string& out) {
  out += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void newline(std::string& out, int indent, int level) {
  if (indent < 0) return;
  out += '\n';
  out.append(static_cast<size_t>(indent) * static_cast<size_t>(level), ' ');
}

void dump_to(const Json& value, std::string& out, int indent, int level) {
  if (value.is_array()) {
    out += '[';
    for (size_t i = 0; i < value.as_array().size(); ++i) {
      if (i > 0) out += ',';
      newline(out, indent, level + 1);
      dump_to(value.as_array()[i], out, indent, level + 1);
    }
    if (!value.as_array().empty()) newline(out, indent, level);
    out += ']';
  } else if (value.is_object()) {
    out += '{';
    bool is_first = true;
    for (const auto& [key, member] : value.as_object()) {
      if (!is_first) out += ',';
      is_first = false;
      newline(out, indent, level + 1);
      dump_string(key, out);
      out += indent < 0 ? ":" : ": ";
      dump_to(member, out, indent, level + 1);
    }
    if (!value.as_object().empty()) newline(out, indent, level);
    out += '}';
  } else if (value.is_string()) {
    dump_string(value.as_string(), out);
  } else if (value.is_bool()) {
    out += value.as_bool() ? "true" : "false";
  } else if (value.is_int()) {
    out += std::to_string(value.as_int());
  } else if (value.is_uint()) {
    out += std::to_string(value.as_uint());
  } else if (value.is_double()) {
    out += std::isfinite(value.as_double()) ? nlohmann::json(value.as_double()).dump() : "null";
  } else {
    out += "null";
  }
}

}  // namespace

Json::Json(uint64_t value) {
  if (value <= static_cast<uint64_t>(INT64_MAX))
    value_ = static_cast<int64_t>(value);
  else
    value_ = value;
}

Result<Json> Json::parse(std::string_view text, uint32_t max_depth) {
  Builder builder(max_depth);
  // The library takes a NUL for the end and does not look behind it; JSON has none, not even in a string.
  const std::string_view up_to_nul = text.substr(0, text.find('\0'));
  const bool is_value = nlohmann::json::sax_parse(up_to_nul.begin(), up_to_nul.end(), &builder);
  if (is_value && up_to_nul.size() == text.size()) return builder.take_root();
  ErrorSite site;
  site.byte_offset = is_value ? up_to_nul.size() : builder.position();
  site.has_offset = is_value || builder.position() > 0;
  site.section = "JSON";
  site.got = is_value ? "a NUL byte" : builder.fault().empty() ? "malformed text" : builder.fault();
  site.tag = "E_JSON";
  return fail_at(ErrorCode::format, std::move(site));
}

double Json::as_double() const {
  if (is_int()) return static_cast<double>(as_int());
  if (is_uint()) return static_cast<double>(as_uint());
  return std::get<double>(value_);
}

const Json* Json::find(std::string_view key) const {
  if (!is_object()) return nullptr;
  for (const auto& [name, value] : as_object())
    if (name == key) return &value;
  return nullptr;
}

Json& Json::set(std::string key, Json value) {
  for (auto& [name, old] : as_object()) {
    if (name != key) continue;
    old = std::move(value);
    return *this;
  }
  as_object().emplace_back(std::move(key), std::move(value));
  return *this;
}

void Json::push_back(Json value) { as_array().push_back(std::move(value)); }

std::string Json::dump(int indent) const {
  std::string out;
  dump_to(*this, out, indent, 0);
  return out;
}

}  // namespace tamis
