// What the server counts, and its page for Prometheus. Names and buckets are vLLM's where it has them, so that its
// dashboards and the Gateway API's inference extension read them; the rest begins with tamis_. Labels are fixed: no
// text of a client becomes one.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/scheduler.h"
#include "server/http.h"
#include "server/trace_exporter.h"

namespace tamis::server {

class Histogram {
 public:
  explicit Histogram(std::span<const double> upper_bounds)  // ascending, of static storage
      : upper_bounds_(upper_bounds), counts_(upper_bounds.size() + 1) {}
  void observe(double value);
  // Lines of the exposition format, cumulative; `labels` without braces.
  void print(std::string& out, std::string_view name, std::string_view labels) const;

 private:
  std::span<const double> upper_bounds_;
  std::vector<uint64_t> counts_;  // the last: above all bounds
  double sum_ = 0;
};

// What the answers of one model come to, as long as the server runs. All member functions may be called from any
// thread.
class ModelMetrics {
 public:
  ModelMetrics();
  void on_token_gap(double seconds);
  void on_report(const RequestReport& report, std::span<const GenerationEnd> ends);

 private:
  friend class Metrics;
  mutable std::mutex mutex_;
  std::array<uint64_t, 6> n_by_end_{};  // by GenerationEnd
  Histogram first_token_, token_gap_, queue_, whole_;
  Histogram prompt_tokens_, answer_tokens_;               // of a request
  Histogram prompt_time_, answer_time_, time_per_token_;  // of a request; seconds
};

// A model of several: it may be in memory or not.
struct ShelfFigures {
  bool is_loaded = false;
  uint64_t n_waiting = 0;  // requests that wait for it to be loaded
  uint64_t n_loads = 0, n_failed_loads = 0, n_unloads = 0;
  uint64_t n_bytes = 0;  // that it counts for in memory; 0 when it is not there
};

struct ModelFigures {
  std::string name;
  std::optional<SchedulerStats> scheduler;  // none: it is not in memory
  const ModelMetrics* counts = nullptr;
  std::optional<ShelfFigures> shelf;  // none: the server has one model alone
};

// What is about the server and no model.
struct ServerFigures {
  HttpStats http;
  bool is_draining = false;
  uint64_t n_access_lines_dropped = 0;  // of the access log
  uint64_t n_log_lines_dropped = 0;     // of the program's own
  std::optional<TraceFigures> traces;   // none: none are sent
};

// All member functions may be called from any thread.
class Metrics {
 public:
  void on_answered(int status);  // 0: the client left

  // With one model, all lines carry its name; with several, those that are about one do. Requires: at least one model.
  std::string page(std::span<const ModelFigures> models, const ServerFigures& server) const;

 private:
  static constexpr size_t kNStatuses = 600;
  static void print_histograms(std::string& out, std::span<const ModelFigures> models,
                               std::span<const std::string> labels);
  mutable std::mutex mutex_;
  std::array<uint64_t, kNStatuses> n_by_status_{};
};

}  // namespace tamis::server
