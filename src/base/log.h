// Log lines on stderr, one a call, never torn between threads. stdout belongs to results.
#pragma once

#include <fmt/core.h>

#include <string_view>

namespace tamis {

enum class LogLevel { quiet, warning, info, debug };

void set_log_level(LogLevel level);
LogLevel log_level();
void log_line(LogLevel level, std::string_view text);

template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  if (log_level() >= LogLevel::warning)
    log_line(LogLevel::warning, fmt::vformat(format, fmt::make_format_args(args...)));
}
template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  if (log_level() >= LogLevel::info) log_line(LogLevel::info, fmt::vformat(format, fmt::make_format_args(args...)));
}
template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  if (log_level() >= LogLevel::debug) log_line(LogLevel::debug, fmt::vformat(format, fmt::make_format_args(args...)));
}

}  // namespace tamis
