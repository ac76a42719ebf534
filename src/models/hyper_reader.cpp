// Typed reads with ranges; what an error says is decided here once.
#include "models/hyper_reader.h"

#include <fmt/format.h>

#include <cmath>

namespace tamis {
namespace {

bool is_unsigned(GgufType type) {
  return type == GgufType::u8 || type == GgufType::u16 || type == GgufType::u32 || type == GgufType::u64;
}

std::string describe(const GgufValue& value) {
  const std::optional<GgufArray> array = value.as_array();
  if (!array) return std::string(gguf_type_name(value.type()));
  return fmt::format("an array of {} {}", array->size(), gguf_type_name(array->element_type()));
}

}  // namespace

tl::unexpected<Error> HyperReader::missing(std::string_view suffix, std::string expected) const {
  auto error = file_.error_at_key(key(suffix), "no such key", std::move(expected), "E_HPARAM_MISSING");
  error.value().code = ErrorCode::not_found;
  return error;
}

tl::unexpected<Error> HyperReader::out_of_range(std::string_view suffix, std::string got, std::string expected) const {
  return file_.error_at_key(key(suffix), std::move(got), std::move(expected), "E_HPARAM_RANGE");
}

tl::unexpected<Error> HyperReader::wrong_type(std::string_view suffix, const GgufValue& value,
                                              std::string expected) const {
  return file_.error_at_key(key(suffix), describe(value), std::move(expected), "E_HPARAM_TYPE");
}

Result<uint32_t> HyperReader::uint(std::string_view suffix, uint32_t low, uint32_t high) const {
  const GgufValue* value = file_.find(key(suffix));
  if (value == nullptr) return missing(suffix, "an unsigned integer");
  const std::optional<uint64_t> number = is_unsigned(value->type()) ? value->as_uint() : std::nullopt;
  if (!number) return wrong_type(suffix, *value, "an unsigned integer");
  if (*number < low || *number > high) {
    return out_of_range(suffix, fmt::format("{}", *number), fmt::format("{} to {}", low, high));
  }
  return static_cast<uint32_t>(*number);
}

Result<uint32_t> HyperReader::uint_or(std::string_view suffix, uint32_t low, uint32_t high, uint32_t fallback) const {
  if (!has(suffix)) return fallback;
  return uint(suffix, low, high);
}

Result<double> HyperReader::number(std::string_view suffix, double low, double high, bool is_low_allowed) const {
  const GgufValue* value = file_.find(key(suffix));
  if (value == nullptr) return missing(suffix, "a floating-point number");
  const std::optional<double> number = value->as_float();
  if (!number) return wrong_type(suffix, *value, "a floating-point number");
  const bool is_above = is_low_allowed ? *number >= low : *number > low;
  if (!std::isfinite(*number) || !is_above || *number > high) {
    return out_of_range(suffix, fmt::format("{}", *number),
                        fmt::format("{} {} and at most {}", is_low_allowed ? "at least" : "above", low, high));
  }
  return *number;
}

Result<double> HyperReader::number_or(std::string_view suffix, double low, double high, double fallback,
                                      bool is_low_allowed) const {
  if (!has(suffix)) return fallback;
  return number(suffix, low, high, is_low_allowed);
}

Result<bool> HyperReader::flag_or(std::string_view suffix, bool fallback) const {
  const GgufValue* value = file_.find(key(suffix));
  if (value == nullptr) return fallback;
  const std::optional<bool> flag = value->as_bool();
  if (!flag) return wrong_type(suffix, *value, "a bool");
  return *flag;
}

Result<std::string_view> HyperReader::text_or(std::string_view suffix, std::string_view fallback) const {
  const GgufValue* value = file_.find(key(suffix));
  if (value == nullptr) return fallback;
  const std::optional<std::string_view> text = value->as_string();
  if (!text) return wrong_type(suffix, *value, "a string");
  return *text;
}

Result<std::vector<uint32_t>> HyperReader::per_layer(std::string_view suffix, uint32_t n_layers, uint32_t low,
                                                     uint32_t high) const {
  const GgufValue* value = file_.find(key(suffix));
  const std::optional<GgufArray> array = value != nullptr ? value->as_array() : std::nullopt;
  if (!array) {
    TAMIS_TRY(const uint32_t number, uint(suffix, low, high));
    return std::vector<uint32_t>(n_layers, number);
  }
  if (array->size() != n_layers) {
    return out_of_range(suffix, fmt::format("{} elements", array->size()),
                        fmt::format("one number, or one for each of {} layers", n_layers));
  }
  // Converters write per-layer arrays as i32; a negative element is out of range.
  std::vector<uint32_t> numbers(n_layers);
  for (uint32_t i = 0; i < n_layers; ++i) {
    const std::optional<int64_t> number = array->int_at(i);
    if (!number) return wrong_type(suffix, *value, "integers");
    if (*number < int64_t{low} || *number > int64_t{high}) {
      return out_of_range(suffix, fmt::format("{} for layer {}", *number, i), fmt::format("{} to {}", low, high));
    }
    numbers[i] = static_cast<uint32_t>(*number);
  }
  return numbers;
}

}  // namespace tamis
