// The access log: a line a request on stderr, with what an operator asks for and no text of a user. Last stop of a
// request. Nobody waits for whoever reads it (base/line_writer.h).
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/line_writer.h"
#include "server/http.h"

namespace tamis::server {

enum class AccessLog : uint8_t { off, text, json };

// One line without its end. Everything a client chose is escaped and cut at 256 bytes. `unix_time`: seconds.
std::string access_line(AccessLog format, const Answered& answered, int64_t unix_time);

// In place of lines that were dropped.
std::string dropped_line(AccessLog format, uint64_t n_dropped, int64_t unix_time);

// As LineWriter: none but the destructor ever waits.
class AccessLogWriter {
 public:
  // Requires: a format that is not `off`. `fd` as LineWriter has it.
  explicit AccessLogWriter(AccessLog format, int fd = STDERR_FILENO);

  void write(const Answered& answered, int64_t unix_time);
  uint64_t n_dropped() const { return writer_.n_dropped(); }  // lines

 private:
  const AccessLog format_;
  const std::shared_ptr<std::atomic<int64_t>> last_time_;  // Unix time of the last line; its writer's, too
  LineWriter writer_;
};

}  // namespace tamis::server
