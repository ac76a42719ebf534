// Lines of the access log, for people or for programs.
#include "server/access_log.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "formats/json.h"
#include "server/answer_format.h"

namespace tamis::server {
namespace {

constexpr size_t kMaxPathBytes = 256;
constexpr std::chrono::seconds kLastWords{1};  // for the lines that wait when the log ends

std::string or_dash(std::string_view text) { return text.empty() ? "-" : escape_for_display(text, kMaxPathBytes); }

std::string text_line(const Answered& answered, int64_t unix_time) {
  std::string out =
      fmt::format("{} {} {} {} {} {:.1f}ms id={}", rfc3339(unix_time), or_dash(answered.peer), or_dash(answered.method),
                  or_dash(answered.path), answered.status, answered.seconds * 1e3, or_dash(answered.id));
  const RequestFacts* const facts = answered.facts;
  if (facts == nullptr) return out;
  if (!facts->owner.empty()) out += fmt::format(" key=\"{}\"", facts->owner);
  if (facts->is_generation)
    out +=
        fmt::format(" prompt={} cached={} generated={} queue={:.1f}ms first={:.1f}ms end={}", facts->n_prompt,
                    facts->n_cached, facts->n_generated, facts->queue_ms, facts->first_token_ms, or_dash(facts->end));
  return out;
}

std::string json_line(const Answered& answered, int64_t unix_time) {
  const auto milliseconds = [](double ms) { return static_cast<double>(static_cast<int64_t>(ms * 10 + 0.5)) / 10; };
  Json out = Json::object();
  out.set("time", rfc3339(unix_time)).set("id", std::string(answered.id)).set("peer", std::string(answered.peer));
  out.set("method", or_dash(answered.method)).set("path", or_dash(answered.path)).set("status", answered.status);
  out.set("ms", milliseconds(answered.seconds * 1e3));
  const RequestFacts* const facts = answered.facts;
  if (facts == nullptr) return out.dump();
  if (!facts->owner.empty()) out.set("key", facts->owner);
  if (!facts->is_generation) return out.dump();
  out.set("prompt_tokens", uint64_t{facts->n_prompt}).set("cached_tokens", uint64_t{facts->n_cached});
  out.set("generated_tokens", uint64_t{facts->n_generated}).set("queue_ms", milliseconds(facts->queue_ms));
  return out.set("first_token_ms", milliseconds(facts->first_token_ms)).set("end", facts->end).dump();
}

// In one call, so that lines do not mix with those of other threads, as long as whoever reads takes it whole. A closed
// stderr is nobody's error.
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

std::string access_line(AccessLog format, const Answered& answered, int64_t unix_time) {
  return format == AccessLog::json ? json_line(answered, unix_time) : text_line(answered, unix_time);
}

std::string dropped_line(AccessLog format, uint64_t n_dropped, int64_t unix_time) {
  const std::string time = rfc3339(unix_time);
  if (format != AccessLog::json) return fmt::format("{} {} lines of the log were dropped", time, n_dropped);
  Json out = Json::object();
  return out.set("time", time).set("dropped_lines", n_dropped).dump();
}

struct AccessLogWriter::Queue {
  Queue(AccessLog given, int to) : format(given), fd(to) {}
  void run();

  const AccessLog format;
  const int fd;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> lines;  // guarded, as all that follows
  size_t n_bytes = 0;              // of them
  uint64_t n_dropped = 0;
  uint64_t n_told = 0;  // of those that were dropped
  int64_t last_time = 0;
  bool is_ending = false, has_ended = false;
};

void AccessLogWriter::Queue::run() {
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [this] { return is_ending || !lines.empty() || n_told < n_dropped; });
    if (lines.empty() && n_told == n_dropped) break;
    const std::vector<std::string> taken = std::exchange(lines, {});
    n_bytes = 0;
    const uint64_t n_lost = n_dropped - std::exchange(n_told, n_dropped);
    const int64_t time = last_time;
    lock.unlock();
    for (const std::string& line : taken) write_line(fd, line);
    try {
      if (n_lost > 0) write_line(fd, dropped_line(format, n_lost, time) + "\n");
    } catch (const std::bad_alloc&) {
      // The metric tells of them.
    }
    lock.lock();
  }
  has_ended = true;
  changed.notify_all();
}

AccessLogWriter::AccessLogWriter(AccessLog format, int fd)
    : queue_(std::make_shared<Queue>(format, fd)), thread_([queue = queue_] { queue->run(); }) {}

AccessLogWriter::~AccessLogWriter() {
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

void AccessLogWriter::write(const Answered& answered, int64_t unix_time) {
  std::string line = access_line(queue_->format, answered, unix_time) + "\n";
  {
    const std::lock_guard lock(queue_->mutex);
    queue_->last_time = unix_time;
    if (queue_->n_bytes + line.size() > kMaxWaitingBytes) {
      ++queue_->n_dropped;
    } else {
      queue_->n_bytes += line.size();
      queue_->lines.push_back(std::move(line));
    }
  }
  queue_->changed.notify_one();
}

uint64_t AccessLogWriter::n_dropped() const {
  const std::lock_guard lock(queue_->mutex);
  return queue_->n_dropped;
}

}  // namespace tamis::server
