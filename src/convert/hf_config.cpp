// Reading config.json.
#include "convert/hf_config.h"

#include <cmath>

#include "base/file.h"

namespace tamis {
namespace {

constexpr uint64_t kMaxConfigBytes = uint64_t{16} << 20;
constexpr uint32_t kConfigDepth = 32;

// One layer type's parameters where rope_parameters is an object of such; the object itself otherwise.
const Json* of_layer_type(const Json* rope, std::string_view layer_type) {
  const Json* inner = rope == nullptr ? nullptr : rope->find(layer_type);
  return inner != nullptr && inner->is_object() ? inner : rope;
}

}  // namespace

Result<HfConfig> HfConfig::read(const std::string& folder) {
  const std::string path = folder + "/config.json";
  TAMIS_TRY(const std::string text, read_text_file(path, kMaxConfigBytes));
  return parse(text, path);
}

Result<HfConfig> HfConfig::parse(std::string_view text, const std::string& path) {
  HfConfig config;
  config.path_ = path;
  Result<Json> json = Json::parse(text, kConfigDepth);
  if (!json) return tl::unexpected<Error>(with_file(json.error(), config.path_));
  config.root_ = std::move(*json);
  const Json* classes = config.root_.find("architectures");
  if (classes == nullptr || !classes->is_array() || classes->as_array().empty() || !classes->as_array()[0].is_string())
    return config.bad("architectures", "none", "a list of one class name");
  config.hf_class_ = classes->as_array()[0].as_string();
  Result<ArchSpec> arch = find_arch_of_class(config.hf_class_);
  if (!arch) return tl::unexpected<Error>(with_file(arch.error(), config.path_));
  config.arch_ = std::move(*arch);
  return config;
}

const Json* HfConfig::find(std::string_view key) const {
  const Json* text = root_.find("text_config");
  const Json* value = text != nullptr && text->is_object() ? text->find(key) : nullptr;
  if (value == nullptr) value = root_.find(key);
  return value != nullptr && value->is_null() ? nullptr : value;
}

Result<std::optional<uint64_t>> HfConfig::uint(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) {
    for (const HfDefault& entry : arch_.hf_defaults)
      if (entry.key == key) return std::optional<uint64_t>(static_cast<uint64_t>(entry.value));
    return std::optional<uint64_t>();
  }
  if (!value->is_int() || value->as_int() < 0 || value->as_int() > INT64_C(0xffffffff))
    return bad(key, escape_for_display(value->dump(), 40), "an integer of 0 to 4294967295");
  return std::optional<uint64_t>(static_cast<uint64_t>(value->as_int()));
}

Result<std::optional<double>> HfConfig::number(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) {
    for (const HfDefault& entry : arch_.hf_defaults)
      if (entry.key == key) return std::optional<double>(entry.value);
    return std::optional<double>();
  }
  if (!value->is_number()) return bad(key, escape_for_display(value->dump(), 40), "a number");
  return std::optional<double>(value->as_double());
}

Result<bool> HfConfig::flag(std::string_view key, bool fallback) const {
  const Json* value = find(key);
  if (value == nullptr) return fallback;
  if (!value->is_bool()) return bad(key, escape_for_display(value->dump(), 40), "true or false");
  return value->as_bool();
}

std::string HfConfig::text(std::string_view key) const {
  const Json* value = find(key);
  return value != nullptr && value->is_string() ? value->as_string() : "";
}

const Json* HfConfig::rope_scaling() const {
  const Json* rope = find("rope_parameters");
  if (rope == nullptr) rope = find("rope_scaling");
  return of_layer_type(rope, "full_attention");
}

std::string HfConfig::rope_type() const {
  const Json* rope = rope_scaling();
  for (const std::string_view key : {"rope_type", "type"}) {
    const Json* type = rope == nullptr ? nullptr : rope->find(key);
    if (type != nullptr && type->is_string()) return type->as_string();
  }
  return "default";
}

tl::unexpected<Error> HfConfig::bad(std::string_view key, std::string got, std::string expected, ErrorCode code) const {
  ErrorSite site;
  site.file = path_;
  site.section = "config";
  site.subject = std::string(key);
  site.got = std::move(got);
  site.expected = std::move(expected);
  site.tag = "E_HF_CONFIG";
  return fail_at(code, std::move(site));
}

}  // namespace tamis
