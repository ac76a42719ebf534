// The queue of lines and its thread.
#include "base/line_writer.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

namespace tamis {
namespace {

constexpr std::chrono::seconds kLastWords{1};  // for the lines that wait at the end

// In one call, so that lines do not mix with those of other threads, as long as whoever reads takes it whole. A closed
// descriptor is nobody's error.
void write_line(int fd, std::string_view rest) {
  while (!rest.empty()) {
    const ssize_t n = ::write(fd, rest.data(), rest.size());
    if (n >= 0) {
      rest.remove_prefix(static_cast<size_t>(n));
    } else if (errno == EAGAIN) {  // who has the other end may have set it so
      pollfd there{.fd = fd, .events = POLLOUT, .revents = 0};
      ::poll(&there, 1, -1);
    } else if (errno != EINTR) {
      return;
    }
  }
}

}  // namespace

struct LineWriter::Queue {
  Queue(int to, DroppedLine given) : fd(to), dropped_line(std::move(given)) {}
  void run();

  const int fd;
  const DroppedLine dropped_line;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> lines;  // guarded, as all that follows
  size_t n_bytes = 0;              // of them
  uint64_t n_dropped = 0;
  uint64_t n_told = 0;  // of those that were dropped
  bool is_ending = false, has_ended = false;
};

void LineWriter::Queue::run() {
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [this] { return is_ending || !lines.empty() || n_told < n_dropped; });
    if (lines.empty() && n_told == n_dropped) break;
    const std::vector<std::string> taken = std::exchange(lines, {});
    n_bytes = 0;
    const uint64_t n_lost = n_dropped - std::exchange(n_told, n_dropped);
    lock.unlock();
    for (const std::string& line : taken) write_line(fd, line);
    try {
      if (n_lost > 0) write_line(fd, dropped_line(n_lost) + "\n");
    } catch (const std::bad_alloc&) {
      // n_dropped() tells of them.
    }
    lock.lock();
  }
  has_ended = true;
  changed.notify_all();
}

LineWriter::LineWriter(int fd, DroppedLine dropped_line)
    : queue_(std::make_shared<Queue>(fd, std::move(dropped_line))), thread_([queue = queue_] { queue->run(); }) {}

LineWriter::~LineWriter() {
  std::unique_lock lock(queue_->mutex);
  queue_->is_ending = true;
  queue_->changed.notify_all();
  const bool has_ended = queue_->changed.wait_for(lock, kLastWords, [this] { return queue_->has_ended; });
  lock.unlock();
  if (has_ended)
    thread_.join();
  else
    thread_.detach();  // in the middle of a line that nobody reads
}

void LineWriter::write(std::string line) {
  line += '\n';
  {
    const std::lock_guard lock(queue_->mutex);
    if (queue_->n_bytes + line.size() > kMaxWaitingBytes) {
      ++queue_->n_dropped;
    } else {
      const size_t n_bytes = line.size();
      queue_->lines.push_back(std::move(line));
      queue_->n_bytes += n_bytes;
    }
  }
  queue_->changed.notify_one();
}

uint64_t LineWriter::n_dropped() const {
  const std::lock_guard lock(queue_->mutex);
  return queue_->n_dropped;
}

}  // namespace tamis
