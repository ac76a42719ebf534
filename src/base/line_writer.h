// Lines to a file descriptor by a thread of their own. Under the logs of a server.
//
// Whoever reads the other end may stop reading: nobody who writes a line waits for that; what does not fit meanwhile is
// dropped and counted.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

namespace tamis {

// All member functions may be called from any thread; none but the destructor ever waits.
class LineWriter {
 public:
  static constexpr size_t kMaxWaitingBytes = size_t{1} << 20;
  // A line in place of those that were dropped, without its end. Called on the thread.
  using DroppedLine = std::function<std::string(uint64_t n_dropped)>;

  // `fd` stays its owner's, and outlives the program's last line.
  LineWriter(int fd, DroppedLine dropped_line);
  ~LineWriter();  // lets what waits be written, but waits for its reader for a second at most
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;

  void write(std::string line);  // without its end
  uint64_t n_dropped() const;    // lines

 private:
  struct Queue;  // outlives this while its thread waits for the reader

  const std::shared_ptr<Queue> queue_;
  std::thread thread_;
};

}  // namespace tamis
