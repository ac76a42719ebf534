// Reading options from a file.
#include "cli/config_file.h"

#include <algorithm>

#include "base/ascii.h"
#include "base/file.h"

namespace tamis::cli {
namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{1} << 20;

bool is_name(std::string_view text) {
  return !text.empty() && !text.starts_with('-') && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
  });
}

}  // namespace

Result<std::vector<Setting>> read_config_file(const std::string& path) {
  TAMIS_TRY(const std::string text, read_text_file(path, kMaxFileBytes));
  auto settings = parse_config(text);
  if (!settings) return tl::unexpected<Error>(with_file(settings.error(), path));
  return settings;
}

Result<std::vector<Setting>> parse_config(std::string_view text) {
  std::vector<Setting> settings;
  for (size_t line_number = 1; !text.empty(); ++line_number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.starts_with('#') || line.starts_with(';')) continue;
    const size_t equals = line.find('=');
    const std::string_view name = trimmed(line.substr(0, equals));
    if (equals == std::string_view::npos || !is_name(name))
      return fail(ErrorCode::invalid_argument, "line {}: got \"{}\", expected NAME = VALUE", line_number,
                  escape_for_display(line));
    std::string_view value = trimmed(line.substr(equals + 1));
    if (value.size() >= 2 && value.starts_with('"') && value.ends_with('"')) value = value.substr(1, value.size() - 2);
    settings.push_back({std::string(name), std::string(value), line_number});
  }
  return settings;
}

}  // namespace tamis::cli
