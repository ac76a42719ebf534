// Many streamed requests at once from one thread, each with the times of its pieces. For `tamis bench serve`; the
// network library sits behind load_client.cpp.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/load_trace.h"
#include "formats/json.h"

namespace tamis::cli {

// Where requests go: http://HOST[:PORT][/PATH].
struct LoadTarget {
  std::string host, port, base_path;  // "127.0.0.1", "8080", "" or "/prefix" without a last slash
};
// Errors: invalid_argument for what is not such an address; unsupported for https.
Result<LoadTarget> parse_load_url(const std::string& url);

struct LoadCall {
  uint32_t client = 0;
  std::string path, body;                                  // below base_path; body "" = GET
  std::string key;                                         // sent as a bearer token; "" = none
  std::function<void(const LoadTrace&)> on_piece, on_end;  // may be empty; both may send, cancel and plan
};

class LoadClient {
 public:
  // Looks the host up; connects nothing yet. `timeout_s`: a request without its end by then has failed.
  // Errors: network when the host is not known.
  static Result<std::unique_ptr<LoadClient>> create(const LoadTarget& target, double timeout_s);
  virtual ~LoadClient() = default;

  // Sends at once, each call on a connection of its own; returns the index of its trace.
  virtual size_t send(LoadCall call) = 0;
  virtual void cancel(size_t trace_idx) = 0;  // closes the connection, calls on_end; nothing when it has ended
  virtual void cancel_all() = 0;
  virtual void plan(double when, std::function<void()> work) = 0;  // seconds since the run began
  virtual void drop_plans() = 0;                                   // what plan() still holds is never done
  virtual double now() const = 0;

  // Returns when nothing is in flight or planned. Errors: cancelled when `stop` turned true.
  virtual Status run(const std::atomic<bool>& stop) = 0;

  virtual const LoadTrace& trace(size_t trace_idx) const = 0;
  virtual std::vector<LoadTrace> take_traces() = 0;  // of all since the last call; Requires: run() has returned

  // One whole answer of at most 16 MiB, outside the traces. Requires: nothing in flight or planned. Errors: network.
  virtual Result<Json> get(const std::string& path, const std::string& key, const std::atomic<bool>& stop) = 0;
};

}  // namespace tamis::cli
