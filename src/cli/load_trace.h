// What a load generator saw, as a trace of times, and the figures made from it: pure functions, the same whatever
// server was asked. Definitions: docs/bench-serve.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tamis::cli {

// One request. Times are seconds since the run began.
struct LoadTrace {
  uint32_t client = 0;  // who sent it: a user, or a tenant
  double sent = 0;
  std::vector<double> pieces;  // when each piece of text came, ascending; mostly one a token
  std::string text;            // the pieces' content
  double ended = 0;            // the last byte came, or it failed or was given up
  int status = 0;              // HTTP; 0: no answer came
  std::string error;           // "" = nothing went wrong
  bool is_cancelled = false;   // given up by the scenario: neither answered nor failed
  uint64_t n_prompt = 0, n_cached = 0,
           n_output = 0;  // tokens, as the server's usage says; without usage n_output counts pieces

  bool is_answered() const { return error.empty() && !is_cancelled; }
};

// From sending to the first text. An answer that ended without text: to its end. Nothing while none came.
std::optional<double> ttft(const LoadTrace& trace);
// From sending to the last text.
double e2e(const LoadTrace& trace);
// (e2e − ttft) ÷ (output tokens − 1); nothing for answers of one token.
std::optional<double> tpot(const LoadTrace& trace);
// ITL: the time between one piece and the next, in order.
std::vector<double> gaps(const LoadTrace& trace);
// The longest time between two pieces of one answer of which some part lies in [from, to], counted whole: silence that
// began before is silence all the same. 0 when there is none.
double largest_gap(std::span<const LoadTrace> traces, double from, double to);

struct Slo {
  double ttft_s = 2, tpot_s = 0.15;
};
// Answered, and within both bounds.
bool meets(const LoadTrace& trace, const Slo& slo);
// Whether a request in flight at `now` has missed already: no text past the first bound, or so late that `n_output`
// tokens can no longer come within the second.
bool has_missed(const LoadTrace& trace, const Slo& slo, uint64_t n_output, double now);

// The value below which `share` of them lie, between neighbours linear (numpy's default). 0 for none.
double percentile(std::vector<double> values, double share);

struct Spread {
  size_t n = 0;
  double mean = 0, p50 = 0, p90 = 0, p95 = 0, p99 = 0, max = 0;
};
Spread spread_of(std::vector<double> values);

// Jain's fairness index (Σx)² ÷ (n Σx²): 1 when all are equal, 1/n when one has all. 1 for none.
double jain(std::span<const double> values);

// Output tokens of the traces that came in [from, to]: by pieces, each worth n_output ÷ pieces.
double served_tokens(std::span<const LoadTrace> traces, uint32_t client, double from, double to);

// Prompt tokens that were computed (prompt − cached, of all answered) ÷ `n_unique`. 0 for n_unique = 0.
double computed_over_unique(std::span<const LoadTrace> traces, double n_unique);

// Everything above of one phase of a run.
struct LoadSummary {
  size_t n_requests = 0, n_answered = 0, n_failed = 0, n_cancelled = 0, n_good = 0;  // good: meets the SLO
  std::map<std::string, size_t> errors;                                              // of the failed, by text
  double seconds = 0;  // from the first sending to the last end
  uint64_t n_prompt = 0, n_cached = 0, n_output = 0;
  double request_rate = 0, output_rate = 0, prompt_rate = 0, goodput = 0;  // a second
  Spread ttft, tpot, itl, e2e;                                             // of the answered
  double largest_gap = 0;
  double fairness = 1;  // Jain's index of output tokens by client
};
LoadSummary summarize(std::span<const LoadTrace> traces, const Slo& slo);

}  // namespace tamis::cli
