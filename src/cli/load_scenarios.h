// The scenarios of `tamis bench serve`: who sends what and when, and the figures each is about (docs/bench-serve.md).
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/load_client.h"
#include "cli/load_trace.h"
#include "cli/load_words.h"

namespace tamis::cli {

// What the command line says; what it does not say is the scenario's own.
struct LoadOptions {
  std::string model;              // as requests name it
  bool is_chat = true;            // /v1/chat/completions, else /v1/completions
  std::vector<std::string> keys;  // may be empty; each tenant sends its own where there are enough
  uint64_t seed = 1;
  Slo slo;
  double share = 0.9;          // of the requests that must meet the SLO at a rate that counts
  std::optional<double> rate;  // requests a second
  std::optional<uint32_t> n_clients, n_requests;
  std::optional<TokenRange> prompt, output;
};

struct LoadPhase {
  std::string name;
  std::vector<LoadTrace> traces;
  LoadSummary summary;
};

struct LoadFact {
  std::string name;  // "goodput_rate"
  double value = 0;
  std::string unit;  // "requests/s", "s", "" for ratios and counts
};

struct LoadReport {
  std::string scenario;
  std::vector<LoadPhase> phases;
  std::vector<LoadFact> facts;
};

struct ScenarioRow {
  std::string_view name;     // "S3"
  std::string_view summary;  // one line
};
std::span<const ScenarioRow> load_scenarios();
// Errors: invalid_argument for a name that is none; unsupported for S10.
Status check_scenario(std::string_view name);

// Runs one scenario. Errors: those of check_scenario; invalid_argument for options that it lacks; network when the
// server does not answer what the scenario stands on; cancelled.
Result<LoadReport> run_scenario(std::string_view name, LoadClient& client, const LoadOptions& options,
                                const std::atomic<bool>& stop);

// Looks for the highest rate that passes: doubles while it passes (halves while it does not), then tries the geometric
// middle `n_refinements` times. The same steps from the same start, so that servers are tried at the same rates.
class RateSearch {
 public:
  RateSearch(double start, int n_refinements) : start_(start), n_left_(n_refinements) {}
  std::optional<double> next() const;  // nothing when it is over
  void on_result(double rate, bool has_passed);
  double best() const { return low_; }  // 0: none passed

 private:
  static constexpr double kHighest = 64, kLowest = 1.0 / 16;  // of the start
  const double start_;
  int n_left_;
  double low_ = 0, high_ = 0;  // highest that passed, lowest that did not; 0: none yet
};

// Times of `n` arrivals of a Poisson process, seconds from its start; the same shape at every rate.
std::vector<double> poisson_times(uint64_t seed, double rate, size_t n);

}  // namespace tamis::cli
