// Typed, range-checked reads of one architecture's metadata keys: every failure names the key, its offset, what was
// found and what was expected.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf.h"

namespace tamis {

class HyperReader {
 public:
  HyperReader(const GgufFile& file, std::string_view arch_name) : file_(file), prefix_(arch_name) {}

  const GgufFile& file() const { return file_; }
  std::string key(std::string_view suffix) const { return prefix_ + "." + std::string(suffix); }
  bool has(std::string_view suffix) const { return file_.find(key(suffix)) != nullptr; }

  // An unsigned integer (any width) in [low, high]. Errors: not_found, format.
  Result<uint32_t> uint(std::string_view suffix, uint32_t low, uint32_t high) const;
  Result<uint32_t> uint_or(std::string_view suffix, uint32_t low, uint32_t high, uint32_t fallback) const;
  // A number in (low, high] (low itself too when `is_low_allowed`), finite. Errors: not_found, format.
  Result<double> number(std::string_view suffix, double low, double high, bool is_low_allowed = false) const;
  Result<double> number_or(std::string_view suffix, double low, double high, double fallback,
                           bool is_low_allowed = false) const;
  Result<bool> flag_or(std::string_view suffix, bool fallback) const;
  Result<std::string_view> text_or(std::string_view suffix, std::string_view fallback) const;
  // One unsigned integer for all layers, or an array with one for each.
  Result<std::vector<uint32_t>> per_layer(std::string_view suffix, uint32_t n_layers, uint32_t low,
                                          uint32_t high) const;

  tl::unexpected<Error> missing(std::string_view suffix, std::string expected) const;
  tl::unexpected<Error> out_of_range(std::string_view suffix, std::string got, std::string expected) const;
  tl::unexpected<Error> wrong_type(std::string_view suffix, const GgufValue& value, std::string expected) const;

 private:
  const GgufFile& file_;
  std::string prefix_;
};

}  // namespace tamis
