// While one lives, a thread of its own writes the lines of the log: no thread that logs waits for whoever reads stderr.
#pragma once

#include <unistd.h>

#include <cstdint>

namespace tamis {

class LogThread {
 public:
  // Requires: no other one lives. `fd` as LineWriter has it.
  explicit LogThread(int fd = STDERR_FILENO);
  ~LogThread();  // as LineWriter's
  LogThread(const LogThread&) = delete;
  LogThread& operator=(const LogThread&) = delete;
};

// Lines of the log that the LogThread there is has dropped; 0: there is none.
uint64_t n_log_lines_dropped();

}  // namespace tamis
