// The log while a thread of its own writes it: nobody waits for its reader, and what is dropped is told.
#include "base/log.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "base/line_writer.h"
#include "base/log_thread.h"
#include "tests/base/small_pipe.h"

namespace tamis {
namespace {

using test::SmallPipe;

TEST(LogThread, WhoLogsDoesNotWaitForTheReader) {
  SmallPipe pipe;
  const LogThread thread(pipe.in());
  EXPECT_EQ(n_log_lines_dropped(), 0U);
  const std::string text(1000, 'x');
  size_t n_written = 0;
  for (; n_log_lines_dropped() == 0; ++n_written) log_warning("{} {}", n_written, text);
  constexpr size_t kMark = 22;  // "tamis: warning: 1234 " and the end of a line
  EXPECT_GT(n_written * (text.size() + kMark), LineWriter::kMaxWaitingBytes);
  const uint64_t n_dropped = n_log_lines_dropped();
  const size_t n_kept = n_written - n_dropped;
  const std::vector<std::string> lines = pipe.read(n_kept + 1);
  ASSERT_EQ(lines.size(), n_kept + 1);
  for (size_t i = 0; i < n_kept; ++i) ASSERT_EQ(lines[i], "tamis: warning: " + std::to_string(i) + " " + text);
  EXPECT_EQ(lines.back(), "tamis: warning: " + std::to_string(n_dropped) + " lines of the log were dropped");
  log_line(LogLevel::info, "and goes on");
  EXPECT_EQ(pipe.read(n_kept + 2).back(), "tamis: and goes on");
}

TEST(LogThread, ItsEndWritesWhatWaits) {
  SmallPipe pipe;
  constexpr size_t kThreads = 4, kLines = 10;
  {
    const LogThread thread(pipe.in());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < kThreads; ++i)
      threads.emplace_back([] {
        for (size_t k = 0; k < kLines; ++k) log_warning("line {}", k);
      });
    for (std::thread& each : threads) each.join();
  }
  const std::vector<std::string> lines = pipe.read(kThreads * kLines);
  EXPECT_EQ(lines.size(), kThreads * kLines);
  for (const std::string& line : lines) EXPECT_TRUE(line.starts_with("tamis: warning: line ")) << line;
  EXPECT_EQ(n_log_lines_dropped(), 0U);
}

}  // namespace
}  // namespace tamis
