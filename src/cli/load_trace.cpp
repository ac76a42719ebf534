// Figures from traces.
#include "cli/load_trace.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace tamis::cli {

std::optional<double> ttft(const LoadTrace& trace) {
  if (!trace.pieces.empty()) return trace.pieces.front() - trace.sent;
  if (trace.is_answered() && trace.ended > trace.sent) return trace.ended - trace.sent;
  return std::nullopt;
}

double e2e(const LoadTrace& trace) { return (trace.pieces.empty() ? trace.ended : trace.pieces.back()) - trace.sent; }

std::optional<double> tpot(const LoadTrace& trace) {
  const auto first = ttft(trace);
  if (!first || trace.n_output < 2) return std::nullopt;
  return (e2e(trace) - *first) / static_cast<double>(trace.n_output - 1);
}

std::vector<double> gaps(const LoadTrace& trace) {
  std::vector<double> out;
  for (size_t i = 1; i < trace.pieces.size(); ++i) out.push_back(trace.pieces[i] - trace.pieces[i - 1]);
  return out;
}

double largest_gap(std::span<const LoadTrace> traces, double from, double to) {
  double largest = 0;
  for (const LoadTrace& trace : traces)
    for (size_t i = 1; i < trace.pieces.size(); ++i)
      if (trace.pieces[i] > from && trace.pieces[i - 1] < to)
        largest = std::max(largest, trace.pieces[i] - trace.pieces[i - 1]);
  return largest;
}

bool meets(const LoadTrace& trace, const Slo& slo) {
  const auto first = ttft(trace);
  return trace.is_answered() && first && *first <= slo.ttft_s && tpot(trace).value_or(0) <= slo.tpot_s;
}

bool has_missed(const LoadTrace& trace, const Slo& slo, uint64_t n_output, double now) {
  if (trace.pieces.empty()) return now - trace.sent > slo.ttft_s;
  if (trace.pieces.front() - trace.sent > slo.ttft_s) return true;
  return n_output > 1 && now - trace.pieces.front() > slo.tpot_s * static_cast<double>(n_output - 1);
}

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double at = share * static_cast<double>(values.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (values[high] - values[low]) * (at - static_cast<double>(low));
}

Spread spread_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  Spread out{.n = values.size()};
  out.mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  out.p50 = percentile(values, 0.5);
  out.p90 = percentile(values, 0.9);
  out.p95 = percentile(values, 0.95);
  out.p99 = percentile(values, 0.99);
  out.max = values.back();
  return out;
}

double jain(std::span<const double> values) {
  double sum = 0, squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
  }
  return squares == 0 ? 1 : sum * sum / (static_cast<double>(values.size()) * squares);
}

double served_tokens(std::span<const LoadTrace> traces, uint32_t client, double from, double to) {
  double sum = 0;
  for (const LoadTrace& trace : traces) {
    if (trace.client != client || trace.pieces.empty()) continue;
    const auto n =
        std::count_if(trace.pieces.begin(), trace.pieces.end(), [&](double at) { return at >= from && at <= to; });
    const auto n_output = static_cast<double>(std::max<uint64_t>(trace.n_output, trace.pieces.size()));
    sum += static_cast<double>(n) * n_output / static_cast<double>(trace.pieces.size());
  }
  return sum;
}

double computed_over_unique(std::span<const LoadTrace> traces, double n_unique) {
  double computed = 0;
  for (const LoadTrace& trace : traces)
    if (trace.is_answered()) computed += static_cast<double>(trace.n_prompt) - static_cast<double>(trace.n_cached);
  return n_unique > 0 ? computed / n_unique : 0;
}

LoadSummary summarize(std::span<const LoadTrace> traces, const Slo& slo) {
  LoadSummary out;
  std::vector<double> first, per_token, between, whole;
  std::map<uint32_t, double> by_client;
  double begin = std::numeric_limits<double>::infinity(), end = 0;
  for (const LoadTrace& trace : traces) {
    ++out.n_requests;
    begin = std::min(begin, trace.sent);
    end = std::max(end, trace.ended);
    double& served = by_client[trace.client];
    if (trace.is_cancelled) {
      ++out.n_cancelled;
      continue;
    }
    if (!trace.error.empty()) {
      ++out.n_failed;
      ++out.errors[trace.error];
      continue;
    }
    ++out.n_answered;
    out.n_good += meets(trace, slo) ? 1 : 0;
    out.n_prompt += trace.n_prompt;
    out.n_cached += trace.n_cached;
    out.n_output += trace.n_output;
    served += static_cast<double>(trace.n_output);
    if (const auto value = ttft(trace)) first.push_back(*value);
    if (const auto value = tpot(trace)) per_token.push_back(*value);
    for (const double gap : gaps(trace)) between.push_back(gap);
    whole.push_back(e2e(trace));
  }
  out.largest_gap = largest_gap(traces, -std::numeric_limits<double>::infinity(), end);
  out.seconds = out.n_requests == 0 ? 0 : end - begin;
  const auto rate = [&](auto n) { return out.seconds > 0 ? static_cast<double>(n) / out.seconds : 0; };
  out.request_rate = rate(out.n_answered);
  out.output_rate = rate(out.n_output);
  out.prompt_rate = rate(out.n_prompt);
  out.goodput = rate(out.n_good);
  out.ttft = spread_of(std::move(first));
  out.tpot = spread_of(std::move(per_token));
  out.itl = spread_of(std::move(between));
  out.e2e = spread_of(std::move(whole));
  std::vector<double> shares;
  for (const auto& [client, served] : by_client) shares.push_back(served);
  out.fairness = jain(shares);
  return out;
}

}  // namespace tamis::cli
