// The log sink: one write a line, so that lines of several threads do not mix.
#include "base/log.h"

#include <unistd.h>

#include <atomic>
#include <string>

namespace tamis {
namespace {
std::atomic<LogLevel> g_level{LogLevel::warning};
}

void set_log_level(LogLevel level) { g_level = level; }
LogLevel log_level() { return g_level; }

void log_line(LogLevel level, std::string_view text) {
  std::string line = level == LogLevel::warning ? "tamis: warning: " : "tamis: ";
  line += text;
  line += '\n';
  // One write call, so that lines of several threads do not mix; a closed stderr is nobody's error.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace tamis
