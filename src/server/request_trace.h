// What OpenTelemetry is told of a request: its place in the client's trace, and spans as OTLP's JSON. No text of a
// client but the two numbers of its traceparent is in them. Between the facts of an answer and trace_exporter.
// Sources: W3C Trace Context; OTLP 1.x, JSON encoding; OpenTelemetry's conventions for HTTP and GenAI; vLLM's names of
// latencies.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "server/http.h"

namespace tamis::server {

struct TraceParent {
  std::string trace_id, span_id;  // 32 and 16 hexadecimal digits, in lower case, not all zero
  bool is_sampled = false;
};

// Of the header `traceparent`; nothing when there is none, more than one, or one that is malformed.
std::optional<TraceParent> find_trace_parent(const RequestHead& head);

// Beside what the access log tells of a request (RequestFacts).
struct RequestTrace {
  static constexpr size_t kMaxReasons = 64;

  std::optional<TraceParent> parent;
  std::string_view operation;  // "chat" or "text_completion"
  // When the engine ended its part:
  std::string model;  // as it is served, whatever the client called it
  std::chrono::steady_clock::time_point submitted{};
  size_t n_prompts = 1;
  // As in RequestReport, of all prompts together; the queue's time is in the facts.
  double prompt_seconds = 0, generate_seconds = 0;
  std::vector<std::string_view> finish_reasons;  // of each choice, kMaxReasons at most
};

// A request that has ended, and when by both clocks.
struct TracedRequest {
  RequestFacts facts;
  RequestTrace trace;
  std::string method, path, id;
  int status = 0;      // 0: the client left first
  double seconds = 0;  // from its first byte
  std::chrono::steady_clock::time_point ended{};
  int64_t ended_unix_ns = 0;
};

// Of the request itself and what the engine did for its prompt, where it has one: waiting, prompt, generation.
size_t n_spans(const TracedRequest& request);

// An ExportTraceServiceRequest with fresh ids: children lie within their parent. `version`: of the program.
// Errors: io when there are no random bytes.
Result<std::string> spans_json(std::span<const TracedRequest> requests, const std::string& version);

// How many spans an ExportTraceServiceResponse says were rejected; 0 for anything else.
uint64_t n_rejected_spans(std::string_view response);

}  // namespace tamis::server
