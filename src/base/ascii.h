// ASCII text of protocols and small files: no locale, bytes above 127 as they are.
#pragma once

#include <string>
#include <string_view>

namespace tamis {

inline constexpr std::string_view kBlanks = " \t\r\n";
inline constexpr std::string_view kHttpBlanks = " \t";  // RFC 9110 §5.6.3: CR and LF are no blanks there

// Without the blanks at either end.
inline std::string_view trimmed(std::string_view text, std::string_view blanks = kBlanks) {
  const size_t end = text.find_last_not_of(blanks);
  if (end == std::string_view::npos) return {};
  text = text.substr(0, end + 1);
  return text.substr(text.find_first_not_of(blanks));
}

// Letters to lower case.
inline std::string to_lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

}  // namespace tamis
