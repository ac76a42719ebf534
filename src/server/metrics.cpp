// Counting, and Prometheus's text format (version 0.0.4).
#include "server/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/memory.h"

namespace tamis::server {
namespace {

// vLLM's, v1/metrics/loggers.py.
constexpr double kFirstTokenBounds[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,  0.5,   0.75,
                                        1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0};
constexpr double kTokenGapBounds[] = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,  0.3,  0.4, 0.5,
                                      0.75, 1.0,   2.5,  5.0,   7.5, 10.0, 20.0, 40.0, 80.0};
constexpr double kRequestBounds[] = {0.3,  0.5,  0.8,  1.0,  1.5,   2.0,   2.5,   5.0,   10.0,   15.0,  20.0,
                                     30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};
// The same for all models; vLLM's end where its model's context does.
constexpr double kTokenCountBounds[] = {1,    2,    5,    10,    20,    50,    100,    200,   500,
                                        1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000};

constexpr std::string_view kEndNames[] = {"stop", "stop", "length", "length", "abort", "timeout"};

void head(std::string& out, std::string_view name, std::string_view type, std::string_view help) {
  fmt::format_to(std::back_inserter(out), "# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

struct Row {
  std::string_view name, type, help;
  double value;
  std::string_view label = "", label_value = "";  // beside its group's; "" = none
};

// A model's lines of the same rows as every other model's.
struct Group {
  std::string labels;  // without braces; "" = none
  std::vector<Row> rows;
};

void print_line(std::string& out, std::string_view name, std::string_view labels, double value) {
  auto to = std::back_inserter(out);
  if (labels.empty())
    fmt::format_to(to, "{} {}\n", name, value);
  else
    fmt::format_to(to, "{}{{{}}} {}\n", name, labels, value);
}

std::string with_label(const std::string& labels, std::string_view name, std::string_view value) {
  return fmt::format("{}{}{}=\"{}\"", labels, labels.empty() ? "" : ",", name, value);
}

// Row by row: all lines of a name stand together. Requires: rows of one name follow each other.
void print_groups(std::string& out, std::span<const Group> groups) {
  std::string_view last;
  for (size_t i = 0; !groups.empty() && i < groups.front().rows.size(); ++i) {
    const Row& first = groups.front().rows[i];
    if (first.name != last) head(out, first.name, first.type, first.help);
    last = first.name;
    for (const Group& group : groups) {
      const Row& row = group.rows[i];
      print_line(out, row.name, row.label.empty() ? group.labels : with_label(group.labels, row.label, row.label_value),
                 row.value);
    }
  }
}

// A label's value: backslash, quote and line feed are the format's own.
std::string escape_label(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

double number(uint64_t value) { return static_cast<double>(value); }

// Counters that have a line for each of some reasons.
void add_reasons(std::vector<Row>& rows, const SchedulerStats& stats) {
  for (size_t i = 0; i < kNRefusals; ++i)
    rows.push_back({"tamis_requests_refused_total", "counter", "Requests refused.", number(stats.n_refused_by[i]),
                    "reason", refusal_name(static_cast<Refusal>(i))});
  for (const CacheMiss miss : {CacheMiss::unknown, CacheMiss::diverged, CacheMiss::evicted})
    rows.push_back({"tamis_prefix_cache_misses_total", "counter",
                    "Prompts of which more could have been found, by why it was not.",
                    number(stats.n_misses_by[static_cast<size_t>(miss)]), "reason", cache_miss_name(miss)});
}

std::vector<Row> scheduler_rows(const SchedulerStats& stats) {
  std::vector<Row> rows = {
      {"vllm:num_requests_waiting", "gauge", "Requests that wait for their first step.", number(stats.n_queued)},
      {"vllm:num_requests_running", "gauge", "Sequences that are computed.", number(stats.n_running)},
      {"vllm:kv_cache_usage_perc", "gauge", "Used part of the pool of keys and values, 0 to 1.",
       stats.kv_utilisation()},
      {"vllm:gpu_cache_usage_perc", "gauge", "The same under the name older routers ask for.", stats.kv_utilisation()},
      {"vllm:num_preemptions_total", "counter", "Times a sequence gave up its pages.", number(stats.n_pauses)},
      {"vllm:prompt_tokens_total", "counter", "Prompt tokens taken up.", number(stats.n_prompt_tokens)},
      {"vllm:generation_tokens_total", "counter", "Tokens generated.", number(stats.n_generated_tokens)},
      {"vllm:prefix_cache_queries_total", "counter", "Prompt tokens looked up.", number(stats.n_prompt_tokens)},
      {"vllm:prefix_cache_hits_total", "counter", "Of them, found.", number(stats.n_cached_tokens)},
      {"tamis_sequences_paused", "gauge", "Sequences without pages that had some.", number(stats.n_paused)},
      {"tamis_kv_pages", "gauge", "Pages of the pool.", number(stats.kv_pages)},
      {"tamis_kv_pages_used", "gauge", "Pages of running sequences.", number(stats.kv_pages_used)},
      {"tamis_kv_pages_stored", "gauge", "Pages kept for prompts that begin alike.", number(stats.kv_pages_stored)},
      {"tamis_kv_page_bytes", "gauge", "Size of a page.", number(stats.kv_page_bytes)},
      {"tamis_step_seconds", "gauge", "Time of a step, moving average.", stats.step_ms / 1e3},
      {"tamis_step_tokens", "gauge", "Token budget of the next step.", number(stats.step_tokens)},
      {"tamis_tokens_per_second", "gauge", "Generated, moving average.", stats.tokens_per_second},
      {"tamis_steps_total", "counter", "Steps computed.", number(stats.n_steps)},
      {"tamis_prompt_tokens_computed_total", "counter", "Prompt tokens computed, again ones too.",
       number(stats.n_computed_tokens)},
      {"tamis_requests_total", "counter", "Requests submitted.", number(stats.n_requests)},
      {"tamis_requests_cancelled_total", "counter", "Requests whose client left.", number(stats.n_cancelled)},
      {"tamis_requests_failed_total", "counter", "Requests that failed.", number(stats.n_failed)},
      {"tamis_kv_pages_spilled", "gauge", "Pages of paused sequences in the spill file.",
       number(stats.kv_pages_spilled)},
      {"tamis_kv_pages_spilled_total", "counter", "Pages written to the spill file.", number(stats.n_pages_spilled)},
      {"tamis_kv_pages_restored_total", "counter", "Pages read back from it.", number(stats.n_pages_restored)},
      {"vllm:spec_decode_num_draft_tokens_total", "counter", "Guessed tokens computed.",
       number(stats.n_drafted_tokens)},
      {"vllm:spec_decode_num_accepted_tokens_total", "counter", "Of them, chosen.", number(stats.n_accepted_tokens)},
      {"tamis_kv_pages_evicted_total", "counter", "Stored pages that gave way.", number(stats.n_pages_evicted)},
  };
  add_reasons(rows, stats);
  return rows;
}

std::vector<Row> shelf_rows(const ShelfFigures& shelf) {
  return {
      {"tamis_model_loaded", "gauge", "1 while the model is in memory.", shelf.is_loaded ? 1.0 : 0.0},
      {"tamis_model_bytes", "gauge", "Memory that it counts for.", number(shelf.n_bytes)},
      {"tamis_model_requests_waiting", "gauge", "Requests that wait for it to be loaded.", number(shelf.n_waiting)},
      {"tamis_model_loads_total", "counter", "Times it was loaded.", number(shelf.n_loads)},
      {"tamis_model_load_failures_total", "counter", "Times that failed.", number(shelf.n_failed_loads)},
      {"tamis_model_unloads_total", "counter", "Times it made room for others.", number(shelf.n_unloads)},
  };
}

std::vector<Row> server_rows(const ServerFigures& server) {
  const HttpStats& http = server.http;
  return {
      {"tamis_connections", "gauge", "Open connections.", number(http.n_connections)},
      {"tamis_connections_total", "counter", "Connections taken.", number(http.n_accepted)},
      {"tamis_connections_refused_total", "counter", "Connections refused: too many were open.",
       number(http.n_refused)},
      {"tamis_requests_timed_out_total", "counter", "Requests whose bytes came too slowly.", number(http.n_timeouts)},
      {"tamis_readers_dropped_total", "counter", "Clients that read their answer too slowly.",
       number(http.n_dropped_readers)},
      {"tamis_access_log_lines_dropped_total", "counter", "Lines of the access log that its reader was too slow for.",
       number(server.n_access_lines_dropped)},
      {"tamis_log_lines_dropped_total", "counter", "Lines of the program's own log that its reader was too slow for.",
       number(server.n_log_lines_dropped)},
      {"tamis_draining", "gauge", "1 while the server shuts down.", server.is_draining ? 1.0 : 0.0},
      {"process_resident_memory_bytes", "gauge", "Memory of the process.", number(resident_memory_bytes())},
  };
}

// Whether the collector has what it was meant to get.
std::vector<Row> trace_rows(const TraceFigures& traces) {
  constexpr std::string_view kDropped = "tamis_trace_spans_dropped_total",
                             kHelp = "Spans that no collector has, by why.";
  return {
      {"tamis_trace_spans_sent_total", "counter", "Spans that the collector took.", number(traces.n_sent)},
      {kDropped, "counter", kHelp, number(traces.n_no_room), "reason", "queue_full"},
      {kDropped, "counter", kHelp, number(traces.n_failed), "reason", "unreachable"},
      {kDropped, "counter", kHelp, number(traces.n_rejected), "reason", "rejected"},
  };
}

// What routers ask for to know how many tokens a model's pool holds.
void print_cache_info(std::string& out, std::span<const ModelFigures> models, std::span<const std::string> labels) {
  constexpr std::string_view kName = "vllm:cache_config_info";
  bool has_head = false;
  for (size_t k = 0; k < models.size(); ++k) {
    if (!models[k].scheduler) continue;
    if (!std::exchange(has_head, true)) head(out, kName, "gauge", "Pages of keys and values: tokens of one, how many.");
    const std::string size = with_label(labels[k], "block_size", std::to_string(PrefixCache::kBlockTokens));
    print_line(out, kName, with_label(size, "num_gpu_blocks", std::to_string(models[k].scheduler->kv_pages)), 1);
  }
}

}  // namespace

void Histogram::observe(double value) {
  const auto place = std::lower_bound(upper_bounds_.begin(), upper_bounds_.end(), value);
  ++counts_[static_cast<size_t>(place - upper_bounds_.begin())];
  sum_ += value;
}

void Histogram::print(std::string& out, std::string_view name, std::string_view labels) const {
  auto to = std::back_inserter(out);
  uint64_t n = 0;
  for (size_t i = 0; i < upper_bounds_.size(); ++i) {
    n += counts_[i];
    fmt::format_to(to, "{}_bucket{{{},le=\"{}\"}} {}\n", name, labels, upper_bounds_[i], n);
  }
  n += counts_.back();
  fmt::format_to(to, "{}_bucket{{{},le=\"+Inf\"}} {}\n{}_sum{{{}}} {}\n{}_count{{{}}} {}\n", name, labels, n, name,
                 labels, sum_, name, labels, n);
}

ModelMetrics::ModelMetrics()
    : first_token_(kFirstTokenBounds),
      token_gap_(kTokenGapBounds),
      queue_(kRequestBounds),
      whole_(kRequestBounds),
      prompt_tokens_(kTokenCountBounds),
      answer_tokens_(kTokenCountBounds),
      prompt_time_(kRequestBounds),
      answer_time_(kRequestBounds),
      time_per_token_(kTokenGapBounds) {}

void ModelMetrics::on_token_gap(double seconds) {
  const std::lock_guard lock(mutex_);
  token_gap_.observe(seconds);
}

void ModelMetrics::on_report(const RequestReport& report, std::span<const GenerationEnd> ends) {
  const std::lock_guard lock(mutex_);
  if (report.failure != nullptr) return;
  for (const GenerationEnd end : ends) ++n_by_end_[static_cast<size_t>(end)];
  if (report.first_token_seconds > 0) first_token_.observe(report.first_token_seconds);
  const double whole = report.queue_seconds + report.prompt_seconds + report.generate_seconds;
  queue_.observe(report.queue_seconds);
  whole_.observe(whole);
  prompt_tokens_.observe(static_cast<double>(report.n_prompt));
  answer_tokens_.observe(static_cast<double>(report.n_generated));
  if (report.first_token_seconds == 0) return;
  const double answer_time = std::max(whole - report.first_token_seconds, 0.0);
  prompt_time_.observe(std::max(report.first_token_seconds - report.queue_seconds, 0.0));
  answer_time_.observe(answer_time);
  // Choices are written at the same time: each has a part of the tokens, and a first one before that time.
  const auto n_choices = static_cast<double>(ends.size()), n_tokens = static_cast<double>(report.n_generated);
  if (n_tokens > n_choices) time_per_token_.observe(answer_time * n_choices / (n_tokens - n_choices));
}

void Metrics::on_answered(int status) {
  const std::lock_guard lock(mutex_);
  ++n_by_status_[static_cast<size_t>(std::clamp(status, 0, static_cast<int>(kNStatuses) - 1))];
}

void Metrics::print_histograms(std::string& out, std::span<const ModelFigures> models,
                               std::span<const std::string> labels) {
  const struct {
    std::string_view name, help;
    Histogram ModelMetrics::*histogram;
  } histograms[] = {
      {"vllm:time_to_first_token_seconds", "From submission to the first token.", &ModelMetrics::first_token_},
      {"vllm:inter_token_latency_seconds", "Between two tokens of an answer.", &ModelMetrics::token_gap_},
      {"vllm:request_queue_time_seconds", "From submission to the first step.", &ModelMetrics::queue_},
      {"vllm:e2e_request_latency_seconds", "From submission to the end.", &ModelMetrics::whole_},
      {"vllm:request_prompt_tokens", "Tokens of a request's prompt.", &ModelMetrics::prompt_tokens_},
      {"vllm:request_generation_tokens", "Tokens of its answers.", &ModelMetrics::answer_tokens_},
      {"vllm:request_prefill_time_seconds", "From its first step to its first token.", &ModelMetrics::prompt_time_},
      {"vllm:request_decode_time_seconds", "From its first token to the end.", &ModelMetrics::answer_time_},
      {"vllm:request_time_per_output_token_seconds", "That time, by each token after the first.",
       &ModelMetrics::time_per_token_},
  };
  for (const auto& row : histograms) {
    head(out, row.name, "histogram", row.help);
    for (size_t k = 0; k < models.size(); ++k) {
      const std::lock_guard lock(models[k].counts->mutex_);
      (models[k].counts->*row.histogram).print(out, row.name, labels[k]);
    }
  }
}

std::string Metrics::page(std::span<const ModelFigures> models, const ServerFigures& figures) const {
  std::vector<std::string> labels;  // of each model
  for (const ModelFigures& model : models) labels.push_back(fmt::format("model_name=\"{}\"", escape_label(model.name)));
  const std::string common = models.size() == 1 ? labels.front() : "";  // of what is about no model

  std::string out;
  std::vector<Group> schedulers, shelves;
  for (size_t i = 0; i < models.size(); ++i) {
    if (models[i].scheduler) schedulers.push_back({labels[i], scheduler_rows(*models[i].scheduler)});
    if (models[i].shelf) shelves.push_back({labels[i], shelf_rows(*models[i].shelf)});
  }
  print_groups(out, schedulers);
  print_groups(out, shelves);
  print_cache_info(out, models, labels);
  const Group server[] = {{common, server_rows(figures)}};
  print_groups(out, server);
  if (figures.traces) {
    const Group traces[] = {{common, trace_rows(*figures.traces)}};
    print_groups(out, traces);
  }

  {
    const std::lock_guard lock(mutex_);
    head(out, "tamis_http_requests_total", "counter", "Answers by status; 0: the client left first.");
    for (size_t status = 0; status < kNStatuses; ++status)
      if (n_by_status_[status] > 0)
        print_line(out, "tamis_http_requests_total", with_label(common, "code", std::to_string(status)),
                   number(n_by_status_[status]));
  }
  head(out, "vllm:request_success_total", "counter", "Finished answers by reason.");
  for (size_t k = 0; k < models.size(); ++k) {
    const std::lock_guard lock(models[k].counts->mutex_);
    for (const std::string_view reason : {"stop", "length", "abort", "timeout"}) {
      uint64_t n = 0;
      for (size_t i = 0; i < std::size(kEndNames); ++i)
        n += kEndNames[i] == reason ? models[k].counts->n_by_end_[i] : 0;
      print_line(out, "vllm:request_success_total", with_label(labels[k], "finished_reason", reason), number(n));
    }
  }
  print_histograms(out, models, labels);
  return out;
}

}  // namespace tamis::server
