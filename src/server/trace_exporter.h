// Spans on their way to a collector: a bounded queue and a thread of its own, as the access log has them. Whatever the
// collector does (away, slow, hostile), nobody but this thread waits for it, and what does not fit is dropped and
// counted.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/result.h"
#include "server/http.h"

namespace tamis::server {

// Gives one body to the collector; what comes back is its answer's body. Called by one thread, blocks for a bounded
// time, and returns soon once `is_over`. Errors: network for what may be different the next time; cancelled by
// `is_over`; any other code when the same body need not be tried again. No exception but std::bad_alloc leaves it.
using TraceSink = std::function<Result<std::string>(const std::string& body, const std::atomic<bool>& is_over)>;

struct TraceLimits {
  size_t max_waiting = 2048;  // requests; one more is dropped
  size_t batch = 128;         // of them in one body at most
  uint32_t max_tries = 5;     // of one body
  // How long the first request of a batch waits for others; before a second try, doubled up to 30 s while the collector
  // stays away; for what waits when the server ends.
  std::chrono::milliseconds batch_time{1000}, retry_time{1000}, last_words{2000};
};

struct TraceFigures {  // spans
  uint64_t n_sent = 0;
  uint64_t n_no_room = 0;   // dropped: the queue was full
  uint64_t n_failed = 0;    // dropped: the collector did not answer
  uint64_t n_rejected = 0;  // dropped: it answered that it does not take them
};

// All member functions may be called from any thread; none but the destructor ever waits.
class TraceExporter {
 public:
  // `version`: of the program, for the collector.
  TraceExporter(TraceSink sink, std::string version, TraceLimits limits = {});
  ~TraceExporter();  // lets what waits be sent, for `last_words` at most
  TraceExporter(const TraceExporter&) = delete;
  TraceExporter& operator=(const TraceExporter&) = delete;

  // Requires: answered.facts->trace.
  void add(const Answered& answered);
  TraceFigures figures() const;

 private:
  struct Queue;  // outlives this should its thread be kept

  const std::shared_ptr<Queue> queue_;
  std::thread thread_;
};

}  // namespace tamis::server
