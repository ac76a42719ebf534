// Progress of long work on stderr: a bar with percent, rate and time left on a terminal, one plain line every 10 s
// elsewhere.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace tamis {

enum class ProgressUnit : uint8_t { bytes, tokens, items };

// Off for --quiet and --no-progress; on by default. Set once, before work begins.
void set_progress_enabled(bool is_enabled);

class Progress {
 public:
  // `total` 0 = unknown: then count and rate only. Text appears no sooner than 0.3 s (terminal) or 10 s (elsewhere)
  // after this.
  Progress(std::string label, ProgressUnit unit, uint64_t total);
  ~Progress();  // clears the bar; what was reported elsewhere stays
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void relabel(std::string label);  // what is being done now: "quantize 12/291"

  // Both from any thread.
  void advance(uint64_t n) { show(done_.fetch_add(n) + n); }
  void set(uint64_t done) {
    done_ = done;
    show(done);
  }

 private:
  void show(uint64_t done);
  void draw(uint64_t done, std::chrono::steady_clock::time_point now);

  std::string label_;
  const ProgressUnit unit_;
  const uint64_t total_;
  bool is_terminal_ = false;
  bool is_shown_ = false;
  std::chrono::steady_clock::time_point start_;
  std::atomic<int64_t> next_draw_ns_{0};  // after start_
  std::atomic<uint64_t> done_{0};
  std::mutex drawing_;
};

// One state as text, without carriage returns: "pull  41%  1.2 of 2.9 GB  34.1 MB/s  0:51 left". For `width` > 0 with a
// bar that fills that many columns.
std::string progress_text(std::string_view label, ProgressUnit unit, uint64_t done, uint64_t total, double seconds,
                          unsigned width);

// "934 B", "1.2 kB", "98.4 MB", "1.12 GB": decimal units, three significant digits.
std::string human_bytes(uint64_t bytes);
std::string human_count(uint64_t n);  // "934", "1.2k", "134.5M", "1.54B"

}  // namespace tamis
