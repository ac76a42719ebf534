// The values of JSON Schema's "format" that can be kept, as regular expressions.
#pragma once

#include <optional>
#include <string_view>

namespace tamis {

// The pattern of a whole string of a format; nothing for a format that is not known.
std::optional<std::string_view> format_pattern(std::string_view name);
std::string_view known_formats();  // "date, time, …" for messages

}  // namespace tamis
