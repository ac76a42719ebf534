// traceparent in, OTLP's JSON out.
#include "server/request_trace.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <utility>

#include "formats/json.h"

namespace tamis::server {
namespace {

constexpr size_t kTraceIdBytes = 16, kSpanIdBytes = 8, kParentChars = 55;
constexpr int kServerSpan = 2, kInternalSpan = 1, kStatusError = 2;  // OTLP's enums

bool is_hex(std::string_view text) { return text.find_first_not_of("0123456789abcdef") == std::string_view::npos; }
bool is_id(std::string_view text) { return is_hex(text) && text.find_first_not_of('0') != std::string_view::npos; }

// version "-" trace id "-" span id "-" flags; later versions may go on behind another "-".
std::optional<TraceParent> parse_trace_parent(std::string_view text) {
  if (text.size() < kParentChars || text[2] != '-' || text[35] != '-' || text[52] != '-') return {};
  const std::string_view version = text.substr(0, 2), flags = text.substr(53, 2);
  if (!is_hex(version) || version == "ff" || !is_hex(flags)) return {};
  if (text.size() > kParentChars && (version == "00" || text[kParentChars] != '-')) return {};
  TraceParent out{std::string(text.substr(3, 32)), std::string(text.substr(36, 16))};
  if (!is_id(out.trace_id) || !is_id(out.span_id)) return {};
  out.is_sampled = std::string_view("13579bdf").find(flags[1]) != std::string_view::npos;
  return out;
}

Result<std::string> random_id(size_t n_bytes) {
  uint8_t bytes[kTraceIdBytes];
  std::string out;
  do {
    ssize_t n = 0;
    do n = ::getrandom(bytes, n_bytes, 0);
    while (n < 0 && errno == EINTR);
    if (n != static_cast<ssize_t>(n_bytes)) return fail(ErrorCode::io, "the system gave no random bytes");
    out.clear();
    for (size_t i = 0; i < n_bytes; ++i) fmt::format_to(std::back_inserter(out), "{:02x}", bytes[i]);
  } while (!is_id(out));
  return out;
}

int64_t nanoseconds(double seconds) { return static_cast<int64_t>(seconds * 1e9); }

class Attributes {
 public:
  Attributes& text(std::string_view key, std::string_view value) { return add(key, "stringValue", std::string(value)); }
  Attributes& integer(std::string_view key, uint64_t value) {  // 64 bits are text in protobuf's JSON
    return add(key, "intValue", std::to_string(value));
  }
  Attributes& real(std::string_view key, double value) { return add(key, "doubleValue", value); }
  Attributes& texts(std::string_view key, std::span<const std::string_view> values) {
    Json list = Json::array();
    for (const std::string_view value : values) list.push_back(Json::object().set("stringValue", value));
    return add(key, "arrayValue", Json::object().set("values", std::move(list)));
  }
  Json take() { return std::move(list_); }

 private:
  Attributes& add(std::string_view key, std::string kind, Json value) {
    Json attribute = Json::object();
    attribute.set("key", key).set("value", Json::object().set(std::move(kind), std::move(value)));
    list_.push_back(std::move(attribute));
    return *this;
  }
  Json list_ = Json::array();
};

struct Span {
  std::string trace_id, parent_id;
  std::string_view name;
  int kind = kInternalSpan;
  int64_t begin_ns = 0, end_ns = 0;  // since 1970
};

Json span_json(const Span& span, const std::string& id) {
  Json out = Json::object();
  out.set("traceId", span.trace_id).set("spanId", id);
  if (!span.parent_id.empty()) out.set("parentSpanId", span.parent_id);
  out.set("name", span.name).set("kind", span.kind);
  return out.set("startTimeUnixNano", std::to_string(span.begin_ns))
      .set("endTimeUnixNano", std::to_string(span.end_ns));
}

// Why it is an error; "" when it is none: bad requests and clients that left are the clients' own.
std::string error_type(const TracedRequest& request) {
  if (request.status >= 500) return std::to_string(request.status);
  return request.facts.end == "failed" ? "failed" : "";
}

Json attributes_of(const TracedRequest& request) {
  const RequestFacts& facts = request.facts;
  const RequestTrace& trace = request.trace;
  Attributes out;
  out.text("gen_ai.operation.name", trace.operation).text("gen_ai.provider.name", "tamis");
  out.text("gen_ai.request.id", request.id).text("http.request.method", request.method);
  out.text("http.route", request.path).text("url.path", request.path);
  if (request.status != 0) out.integer("http.response.status_code", static_cast<uint64_t>(request.status));
  if (const std::string type = error_type(request); !type.empty()) out.text("error.type", type);
  constexpr std::string_view kReasons = "gen_ai.response.finish_reasons", kCancelled[] = {"cancelled"};
  if (!facts.is_generation) {
    if (request.status == 0) out.texts(kReasons, kCancelled);
    return out.take();
  }
  out.text("gen_ai.request.model", trace.model).text("gen_ai.response.model", trace.model);
  out.integer("gen_ai.usage.input_tokens", facts.n_prompt).integer("gen_ai.usage.output_tokens", facts.n_generated);
  out.integer("gen_ai.usage.cache_read.input_tokens", facts.n_cached);
  out.texts(kReasons, trace.finish_reasons);
  out.real("gen_ai.latency.time_in_queue", facts.queue_ms / 1e3);
  if (facts.first_token_ms > 0) out.real("gen_ai.latency.time_to_first_token", facts.first_token_ms / 1e3);
  out.real("gen_ai.latency.time_in_model_prefill", trace.prompt_seconds);
  out.real("gen_ai.latency.time_in_model_decode", trace.generate_seconds);
  out.real("gen_ai.latency.e2e", request.seconds);
  return out.take();
}

struct Phase {
  std::string_view name;
  double seconds = 0;
};

// Those of several prompts run beside each other.
bool has_phases(const TracedRequest& request) { return request.facts.is_generation && request.trace.n_prompts == 1; }

std::vector<Phase> phases_of(const TracedRequest& request) {
  if (!has_phases(request)) return {};
  const RequestTrace& trace = request.trace;
  std::vector<Phase> out = {{"queue", request.facts.queue_ms / 1e3}};
  if (trace.prompt_seconds > 0) out.push_back({"prefill", trace.prompt_seconds});
  if (trace.generate_seconds > 0) out.push_back({"decode", trace.generate_seconds});
  return out;
}

Status add_spans(const TracedRequest& request, Json& spans) {
  const RequestTrace& trace = request.trace;
  Span whole{.kind = kServerSpan, .end_ns = request.ended_unix_ns};
  whole.begin_ns = whole.end_ns - nanoseconds(request.seconds);
  if (trace.parent) {
    whole.trace_id = trace.parent->trace_id;
    whole.parent_id = trace.parent->span_id;
  } else {
    TAMIS_TRY(whole.trace_id, random_id(kTraceIdBytes));
  }
  std::string name(trace.operation);
  if (!trace.model.empty()) name += " " + trace.model;
  whole.name = name;
  TAMIS_TRY(const std::string id, random_id(kSpanIdBytes));
  Json out = span_json(whole, id);
  out.set("attributes", attributes_of(request));
  if (!error_type(request).empty()) out.set("status", Json::object().set("code", kStatusError));
  spans.push_back(std::move(out));

  const auto since_submit = std::chrono::duration_cast<std::chrono::nanoseconds>(request.ended - trace.submitted);
  int64_t at = whole.end_ns - since_submit.count();
  for (const Phase& phase : phases_of(request)) {
    Span part{whole.trace_id, id, phase.name};
    part.begin_ns = std::clamp(at, whole.begin_ns, whole.end_ns);
    at += nanoseconds(phase.seconds);
    part.end_ns = std::clamp(at, part.begin_ns, whole.end_ns);
    TAMIS_TRY(const std::string part_id, random_id(kSpanIdBytes));
    spans.push_back(span_json(part, part_id));
  }
  return {};
}

}  // namespace

std::optional<TraceParent> find_trace_parent(const RequestHead& head) {
  std::optional<std::string_view> found;
  for (const auto& [name, value] : head.headers) {
    if (name != "traceparent") continue;
    if (found) return {};
    found = value;
  }
  return found ? parse_trace_parent(*found) : std::nullopt;
}

size_t n_spans(const TracedRequest& request) {
  if (!has_phases(request)) return 1;
  return size_t{2} + (request.trace.prompt_seconds > 0 ? 1 : 0) + (request.trace.generate_seconds > 0 ? 1 : 0);
}

Result<std::string> spans_json(std::span<const TracedRequest> requests, const std::string& version) {
  Json spans = Json::array();
  for (const TracedRequest& request : requests) TAMIS_TRY_STATUS(add_spans(request, spans));
  Json scope = Json::object(), scope_spans = Json::object(), resource_spans = Json::object(), out = Json::object();
  scope.set("name", "tamis").set("version", version);
  scope_spans.set("scope", std::move(scope)).set("spans", std::move(spans));
  Json resource = Attributes().text("service.name", "tamis").text("service.version", version).take();
  resource_spans.set("resource", Json::object().set("attributes", std::move(resource)));
  resource_spans.set("scopeSpans", Json::Array{std::move(scope_spans)});
  return out.set("resourceSpans", Json::Array{std::move(resource_spans)}).dump();
}

uint64_t n_rejected_spans(std::string_view response) {
  const auto json = Json::parse(response);
  const Json* const partial = json ? json->find("partialSuccess") : nullptr;
  const Json* const rejected = partial != nullptr ? partial->find("rejectedSpans") : nullptr;
  if (rejected == nullptr) return 0;
  if (rejected->is_int()) return static_cast<uint64_t>(std::max<int64_t>(rejected->as_int(), 0));
  uint64_t n = 0;
  if (!rejected->is_string()) return 0;
  const std::string& text = rejected->as_string();
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  return error == std::errc() && end == text.data() + text.size() ? n : 0;
}

}  // namespace tamis::server
