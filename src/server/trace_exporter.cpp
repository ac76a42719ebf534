// Batches of spans, one at a time, until the collector takes them or they are given up.
#include "server/trace_exporter.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "base/log.h"
#include "server/request_trace.h"

namespace tamis::server {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kMaxRetryTime{30000};
constexpr std::chrono::seconds kWarningTime{60};  // one warning in that time, however often a collector comes and goes
constexpr std::chrono::seconds kSinkTime{2};      // for the sink to notice that it is over

}  // namespace

struct TraceExporter::Queue {
  Queue(TraceSink to, std::string of, TraceLimits given)
      : sink(std::move(to)), version(std::move(of)), limits(given), retry_time(given.retry_time) {
    batch.reserve(limits.batch);
  }
  void run();
  void send(uint64_t n);  // spans
  void on_failure(const Error& error);
  bool wait_to_try_again();
  void count(uint64_t TraceFigures::*figure, uint64_t n) {
    const std::lock_guard lock(mutex);
    figures.*figure += n;
  }

  const TraceSink sink;
  const std::string version;
  const TraceLimits limits;
  std::atomic<bool> is_over{false};

  // of the thread
  std::vector<TracedRequest> batch;
  std::chrono::milliseconds retry_time;
  bool is_away = false;  // the last try failed
  std::optional<Clock::time_point> warned_at;

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<TracedRequest> waiting;  // guarded, as all that follows
  TraceFigures figures;
  bool is_ending = false, has_ended = false;
};

void TraceExporter::Queue::run() {
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [this] { return is_ending || !waiting.empty(); });
    if (waiting.empty()) break;
    changed.wait_for(lock, limits.batch_time, [this] { return is_ending || waiting.size() >= limits.batch; });
    uint64_t n = 0;
    for (; batch.size() < limits.batch && !waiting.empty(); waiting.pop_front()) {
      n += n_spans(waiting.front());
      batch.push_back(std::move(waiting.front()));
    }
    lock.unlock();
    try {
      if (is_over)
        count(&TraceFigures::n_failed, n);
      else
        send(n);
    } catch (const std::bad_alloc&) {
      count(&TraceFigures::n_failed, n);
    }
    batch.clear();
    lock.lock();
  }
  has_ended = true;
  changed.notify_all();
}

void TraceExporter::Queue::send(uint64_t n) {
  const auto body = spans_json(batch, version);
  if (!body) return count(&TraceFigures::n_failed, n);
  for (uint32_t n_tries = 1;; ++n_tries) {
    const auto answer = sink(*body, is_over);
    if (answer) {
      if (std::exchange(is_away, false)) log_info("traces are taken again");
      retry_time = limits.retry_time;
      const uint64_t n_rejected = std::min(n_rejected_spans(*answer), n);
      count(&TraceFigures::n_rejected, n_rejected);
      return count(&TraceFigures::n_sent, n - n_rejected);
    }
    if (answer.error().code == ErrorCode::cancelled) return count(&TraceFigures::n_failed, n);
    on_failure(answer.error());
    if (answer.error().code != ErrorCode::network) return count(&TraceFigures::n_rejected, n);
    if (!wait_to_try_again() || n_tries >= limits.max_tries) return count(&TraceFigures::n_failed, n);
  }
}

void TraceExporter::Queue::on_failure(const Error& error) {
  const auto now = Clock::now();
  if (!std::exchange(is_away, true) && (!warned_at || now - *warned_at >= kWarningTime)) {
    warned_at = now;
    log_warning("traces are not taken: {}; requests go on without", error.message);
  }
}

// False when the server ends.
bool TraceExporter::Queue::wait_to_try_again() {
  std::unique_lock lock(mutex);
  if (changed.wait_for(lock, retry_time, [this] { return is_ending; })) return false;
  retry_time = std::min(2 * retry_time, kMaxRetryTime);
  return true;
}

TraceExporter::TraceExporter(TraceSink sink, std::string version, TraceLimits limits)
    : queue_(std::make_shared<Queue>(std::move(sink), std::move(version), limits)),
      thread_([queue = queue_] { queue->run(); }) {}

TraceExporter::~TraceExporter() {
  std::unique_lock lock(queue_->mutex);
  const auto has_ended = [this] { return queue_->has_ended; };
  queue_->is_ending = true;
  queue_->changed.notify_all();
  if (!queue_->changed.wait_for(lock, queue_->limits.last_words, has_ended)) queue_->is_over = true;
  const bool is_joinable = queue_->changed.wait_for(lock, kSinkTime, has_ended);
  lock.unlock();
  if (is_joinable)
    thread_.join();
  else
    thread_.detach();  // in a sink that does not end
}

void TraceExporter::add(const Answered& answered) {
  try {
    TracedRequest request{.facts = *answered.facts,
                          .trace = *answered.facts->trace,
                          .method = std::string(answered.method),
                          .path = std::string(answered.path),
                          .id = std::string(answered.id),
                          .status = answered.status,
                          .seconds = answered.seconds,
                          .ended = Clock::now()};
    const auto unix_time = std::chrono::system_clock::now().time_since_epoch();
    request.ended_unix_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(unix_time).count();
    const uint64_t n = n_spans(request);
    const std::lock_guard lock(queue_->mutex);
    if (queue_->waiting.size() < queue_->limits.max_waiting)
      queue_->waiting.push_back(std::move(request));
    else
      queue_->figures.n_no_room += n;
  } catch (const std::bad_alloc&) {
    queue_->count(&TraceFigures::n_no_room, 1);
  }
  queue_->changed.notify_all();
}

TraceFigures TraceExporter::figures() const {
  const std::lock_guard lock(queue_->mutex);
  return queue_->figures;
}

}  // namespace tamis::server
