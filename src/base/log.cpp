// The log sink: one write a line, so that lines of several threads do not mix.
#include "base/log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/line_writer.h"
#include "base/log_thread.h"

namespace tamis {
namespace {

std::atomic<LogLevel> g_level{LogLevel::warning};
std::mutex g_mutex;
std::shared_ptr<LineWriter> g_writer;  // guarded; null: whoever logs writes

std::shared_ptr<LineWriter> log_writer() {
  const std::lock_guard lock(g_mutex);
  return g_writer;
}

std::string marked(LogLevel level, std::string_view text) {
  std::string line = level == LogLevel::warning ? "tamis: warning: " : "tamis: ";
  return line += text;
}

std::string dropped_line(uint64_t n_dropped) {
  return marked(LogLevel::warning, fmt::format("{} lines of the log were dropped", n_dropped));
}

}  // namespace

void set_log_level(LogLevel level) { g_level = level; }
LogLevel log_level() { return g_level; }

void log_line(LogLevel level, std::string_view text) {
  std::string line = marked(level, text);
  if (const auto writer = log_writer()) return writer->write(std::move(line));
  line += '\n';
  // One write call, so that lines of several threads do not mix; a closed stderr is nobody's error.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

LogThread::LogThread(int fd) {
  auto writer = std::make_shared<LineWriter>(fd, dropped_line);
  const std::lock_guard lock(g_mutex);
  g_writer = std::move(writer);
}

LogThread::~LogThread() {
  std::shared_ptr<LineWriter> writer;  // ends without the lock
  const std::lock_guard lock(g_mutex);
  writer.swap(g_writer);
}

uint64_t n_log_lines_dropped() {
  const auto writer = log_writer();
  return writer == nullptr ? 0 : writer->n_dropped();
}

}  // namespace tamis
