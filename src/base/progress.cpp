// Progress text, and when to write it. Ends nothing, fails nothing: a closed stderr is nobody's error.
#include "base/progress.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace tamis {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t kMillisecondNs = 1000000;
constexpr int64_t kFirstDrawNs = 300 * kMillisecondNs;
constexpr int64_t kRedrawNs = 100 * kMillisecondNs;
constexpr int64_t kPlainLineNs = 10000 * kMillisecondNs;
constexpr unsigned kBarColumns = 24;

std::atomic<bool> g_is_enabled{true};

unsigned terminal_columns() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

void write_stderr(const std::string& text) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
}

// n scaled to three significant digits with the first unit in which it is below 1000.
std::string scaled(double n, const std::array<std::string_view, 5>& units) {
  size_t unit = 0;
  while (n >= 999.5 && unit + 1 < units.size()) {
    n /= 1000;
    ++unit;
  }
  if (unit == 0) return fmt::format("{:.0f}{}", n, units[0]);
  const int digits = n < 9.995 ? 2 : n < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}{}", n, digits, units[unit]);
}

std::string amount(ProgressUnit unit, double n) {
  static constexpr std::array<std::string_view, 5> kBytes = {" B", " kB", " MB", " GB", " TB"};
  static constexpr std::array<std::string_view, 5> kCounts = {"", "k", "M", "B", "T"};
  return scaled(n, unit == ProgressUnit::bytes ? kBytes : kCounts);
}

std::string clock_text(double seconds) {
  const auto whole = static_cast<uint64_t>(std::min(seconds, 359999.0) + 0.5);
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string bar(uint64_t done, uint64_t total) {
  static constexpr std::string_view kEighths[] = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const double filled = std::min(1.0, static_cast<double>(done) / static_cast<double>(total)) * kBarColumns;
  const auto whole = static_cast<unsigned>(filled);
  std::string out;
  for (unsigned i = 0; i < whole; ++i) out += "█";
  if (whole < kBarColumns) out += kEighths[static_cast<size_t>((filled - whole) * 8)];
  for (unsigned i = whole + 1; i < kBarColumns; ++i) out += " ";
  return "▕" + out + "▏";
}

}  // namespace

void set_progress_enabled(bool is_enabled) { g_is_enabled = is_enabled; }

std::string human_bytes(uint64_t bytes) { return amount(ProgressUnit::bytes, static_cast<double>(bytes)); }
std::string human_count(uint64_t n) { return amount(ProgressUnit::items, static_cast<double>(n)); }

std::string progress_text(std::string_view label, ProgressUnit unit, uint64_t done, uint64_t total, double seconds,
                          unsigned width) {
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  const std::string_view noun = unit == ProgressUnit::tokens ? " tokens" : "";
  const std::string rate_text = fmt::format("{}{}/s", amount(unit, rate), unit == ProgressUnit::tokens ? " tok" : "");
  if (total == 0) return fmt::format("{}  {}{}  {}", label, amount(unit, static_cast<double>(done)), noun, rate_text);
  const auto percent =
      static_cast<unsigned>(100.0 * static_cast<double>(std::min(done, total)) / static_cast<double>(total));
  const std::string left = rate > 0 && done <= total ? clock_text(static_cast<double>(total - done) / rate) : "-:--";
  const std::string numbers =
      fmt::format("{:3}%  {} of {}{}  {}  {} left", percent, amount(unit, static_cast<double>(done)),
                  amount(unit, static_cast<double>(total)), noun, rate_text, left);
  const bool has_room = width >= label.size() + kBarColumns + numbers.size() + 6;
  return has_room ? fmt::format("{}  {}  {}", label, bar(done, total), numbers) : fmt::format("{}  {}", label, numbers);
}

Progress::Progress(std::string label, ProgressUnit unit, uint64_t total)
    : label_(std::move(label)),
      unit_(unit),
      total_(total),
      is_terminal_(::isatty(STDERR_FILENO) == 1),
      start_(Clock::now()) {
  next_draw_ns_ = is_terminal_ ? kFirstDrawNs : kPlainLineNs;
}

Progress::~Progress() {
  if (is_shown_ && is_terminal_) write_stderr("\r\x1b[K");
}

void Progress::relabel(std::string label) {
  const std::lock_guard<std::mutex> lock(drawing_);
  label_ = std::move(label);
}

void Progress::show(uint64_t done) {
  if (!g_is_enabled) return;
  const auto now = Clock::now();
  const int64_t elapsed_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now - start_).count();
  if (elapsed_ns < next_draw_ns_) return;
  const std::unique_lock<std::mutex> lock(drawing_, std::try_to_lock);
  if (!lock || elapsed_ns < next_draw_ns_) return;
  next_draw_ns_ = elapsed_ns + (is_terminal_ ? kRedrawNs : kPlainLineNs);
  draw(done, now);
}

void Progress::draw(uint64_t done, Clock::time_point now) {
  const double seconds = std::chrono::duration<double>(now - start_).count();
  is_shown_ = true;
  if (is_terminal_) {
    write_stderr("\r" + progress_text(label_, unit_, done, total_, seconds, terminal_columns()) + "\x1b[K");
  } else {
    write_stderr("tamis: " + progress_text(label_, unit_, done, total_, seconds, 0) + "\n");
  }
}

}  // namespace tamis
