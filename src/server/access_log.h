// The access log: a line a request on stderr, with what an operator asks for and no text of a user. Last stop of a
// request.
//
// Whoever reads stderr may stop reading. Lines are written by a thread of their own, so that nobody else waits for that
// reader; what does not fit meanwhile is dropped and counted.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "server/http.h"

namespace tamis::server {

enum class AccessLog : uint8_t { off, text, json };

// One line without its end. Everything a client chose is escaped and cut at 256 bytes. `unix_time`: seconds.
std::string access_line(AccessLog format, const Answered& answered, int64_t unix_time);

// In place of lines that were dropped.
std::string dropped_line(AccessLog format, uint64_t n_dropped, int64_t unix_time);

// All member functions may be called from any thread; none but the destructor ever waits.
class AccessLogWriter {
 public:
  static constexpr size_t kMaxWaitingBytes = size_t{1} << 20;

  // Requires: a format that is not `off`. `fd` stays its owner's, and outlives the program's last line.
  explicit AccessLogWriter(AccessLog format, int fd = STDERR_FILENO);
  ~AccessLogWriter();  // lets what waits be written, but waits for its reader for a second at most
  AccessLogWriter(const AccessLogWriter&) = delete;
  AccessLogWriter& operator=(const AccessLogWriter&) = delete;

  void write(const Answered& answered, int64_t unix_time);
  uint64_t n_dropped() const;  // lines

 private:
  struct Queue;  // outlives this while its thread waits for the reader

  const std::shared_ptr<Queue> queue_;
  std::thread thread_;
};

}  // namespace tamis::server
