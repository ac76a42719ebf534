// Reading the small text files of /proc and /sys, where anything missing or odd counts as absent.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/ascii.h"
#include "base/file.h"

namespace tamis::kernel_text {

// The whole file; "" when it cannot be read.
inline std::string read(const std::string& path) {
  constexpr uint64_t kMaxBytes = uint64_t{16} << 20;
  auto text = read_text_file(path, kMaxBytes);
  return text ? *std::move(text) : std::string();
}

// The next piece of `text` up to `separator`, removed from it together with the separator.
inline std::string_view take_until(std::string_view& text, char separator) {
  const size_t at = text.find(separator);
  const std::string_view piece = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return piece;
}

// The text as one decimal number, spaces around it aside.
inline std::optional<int64_t> number(std::string_view text) {
  text = trimmed(text);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace tamis::kernel_text
