// What the server counts, and its page for Prometheus. Names and buckets are vLLM's where it has them, so that its
// dashboards and the Gateway API's inference extension read them; the rest begins with tamis_. Labels are fixed: no
// text of a client becomes one.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/scheduler.h"
#include "server/http.h"

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

// All member functions may be called from any thread.
class Metrics {
 public:
  Metrics();
  void on_answered(int status);  // 0: the client left
  void on_token_gap(double seconds);
  void on_report(const RequestReport& report, std::span<const GenerationEnd> ends);

  // `scheduler` may be null while no model is there.
  std::string page(std::string_view model, const SchedulerStats* scheduler, const HttpStats& http,
                   bool is_draining) const;

 private:
  static constexpr size_t kNStatuses = 600;
  mutable std::mutex mutex_;
  std::array<uint64_t, kNStatuses> n_by_status_{};
  std::array<uint64_t, 6> n_by_end_{};  // by GenerationEnd
  Histogram first_token_, token_gap_, queue_, whole_;
};

}  // namespace tamis::server
