// Spans of requests: what is in them, whose children they are, and what becomes of them when a collector does not take
// them.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <future>
#include <mutex>
#include <vector>

#include "server/request_trace.h"
#include "server/trace_exporter.h"
#include "tests/server/server_fixture.h"

namespace tamis::test {
namespace {

using server::TraceExporter;
using server::TraceLimits;
using server::TraceSink;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kTraceId = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr const char* kSpanId = "00f067aa0ba902b7";
const std::string kParent = fmt::format("00-{}-{}-01", kTraceId, kSpanId);

// A collector that takes everything.
class Collector {
 public:
  TraceSink sink() {
    return [this](const std::string& body, const std::atomic<bool>&) -> Result<std::string> {
      const std::lock_guard lock(mutex_);
      bodies_.push_back(body);
      return std::string("{}");
    };
  }
  std::vector<std::string> bodies() {
    const std::lock_guard lock(mutex_);
    return bodies_;
  }
  std::vector<Json> spans() {
    std::vector<Json> out;
    for (const std::string& body : bodies()) {
      const auto json = Json::parse(body);
      EXPECT_TRUE(json) << body;
      const Json& resource = json->find("resourceSpans")->as_array().front();
      EXPECT_THAT(resource.find("resource")->dump(), HasSubstr(R"({"key":"service.name","value":{"stringValue":)"));
      const auto& more = resource.find("scopeSpans")->as_array().front().find("spans")->as_array();
      out.insert(out.end(), more.begin(), more.end());
    }
    return out;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> bodies_;
};

// The value of an attribute as JSON text; "" when there is none.
std::string attribute(const Json& span, std::string_view key) {
  const Json* const list = span.find("attributes");
  if (list == nullptr) return "";
  for (const Json& one : list->as_array())
    if (one.find("key")->as_string() == key) return one.find("value")->dump();
  return "";
}

int64_t time_of(const Json& span, std::string_view which) {
  int64_t out = 0;
  for (const char c : text_at(span, which)) out = 10 * out + (c - '0');
  return out;
}

void expect_id(const Json& span, std::string_view which, size_t n_digits) {
  const std::string id = text_at(span, which);
  EXPECT_EQ(id.size(), n_digits) << id;
  EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos) << id;
  EXPECT_NE(id.find_first_not_of('0'), std::string::npos);
}

server::RequestHead head_with(const std::vector<std::string>& parents) {
  server::RequestHead head;
  for (const std::string& value : parents) head.headers.emplace_back("traceparent", value);
  return head;
}

TEST(TraceParent, IsReadAsW3cSays) {
  const auto parent = server::find_trace_parent(head_with({kParent}));
  ASSERT_TRUE(parent);
  EXPECT_EQ(parent->trace_id, kTraceId);
  EXPECT_EQ(parent->span_id, kSpanId);
  EXPECT_TRUE(parent->is_sampled);
  const std::string front = kParent.substr(0, 53);
  EXPECT_FALSE(server::find_trace_parent(head_with({front + "00"}))->is_sampled);
  EXPECT_TRUE(server::find_trace_parent(head_with({front + "0b"}))->is_sampled);
  EXPECT_FALSE(server::find_trace_parent(head_with({front + "fe"}))->is_sampled);
  EXPECT_TRUE(server::find_trace_parent(head_with({"cc" + kParent.substr(2)})));
  EXPECT_TRUE(server::find_trace_parent(head_with({"cc" + kParent.substr(2) + "-what comes later"})));
}

TEST(TraceParent, MalformedOnesAreIgnored) {
  const std::string zeros(32, '0');
  std::vector<std::string> bad = {"",
                                  "x",
                                  "ff" + kParent.substr(2),
                                  kParent + "-00",
                                  kParent + "0",
                                  "cc" + kParent.substr(2) + "0",
                                  fmt::format("00-{}-{}-01", zeros, kSpanId),
                                  fmt::format("00-{}-{}-01", kTraceId, zeros.substr(16)),
                                  fmt::format("00-4BF92F3577B34DA6A3CE929D0E0E4736-{}-01", kSpanId),
                                  std::string(8192, '0')};
  for (size_t i = 0; i < kParent.size(); ++i) {
    bad.push_back(kParent.substr(0, i));
    bad.push_back(kParent);
    bad.back()[i] = 'g';
  }
  for (const std::string& value : bad) EXPECT_FALSE(server::find_trace_parent(head_with({value}))) << value;
  EXPECT_FALSE(server::find_trace_parent(head_with({})));
  EXPECT_FALSE(server::find_trace_parent(head_with({kParent, kParent})));
}

class TracedServer : public ServerTest {
 protected:
  ~TracedServer() override { server_.reset(); }  // before the collector
  void start_traced(server::ServerOptions options = {}) {
    options.trace_sink = collector_.sink();
    start(std::move(options));
  }
  // A whole answer to the body with those lines of header.
  HttpAnswer ask_with(std::string_view target, std::string_view body, std::string_view headers = "") {
    return test::ask(server_->port(), json_post(target, body, headers));
  }
  // All that were sent when the server has ended.
  std::vector<Json> spans() {
    server_.reset();
    return collector_.spans();
  }
  Collector collector_;
};

TEST_F(TracedServer, ARequestHasASpanAndItsPartsLieWithinIt) {
  start_traced();
  const std::string body = R"({"prompt":"sesame marker","max_tokens":4,"temperature":0,"ignore_eos":true})";
  const HttpAnswer answer = ask_with("/v1/completions", body, fmt::format("traceparent: {}\r\n", kParent));
  ASSERT_EQ(answer.status, 200) << answer.body;
  const std::vector<Json> all = spans();
  ASSERT_EQ(all.size(), 4U);
  const Json& whole = all[0];
  EXPECT_EQ(text_at(whole, "traceId"), kTraceId);
  EXPECT_EQ(text_at(whole, "parentSpanId"), kSpanId);
  expect_id(whole, "spanId", 16);
  EXPECT_EQ(text_at(whole, "name"), "text_completion tiny");
  EXPECT_EQ(whole.find("kind")->as_int(), 2);
  EXPECT_EQ(whole.find("status"), nullptr);
  EXPECT_EQ(attribute(whole, "gen_ai.operation.name"), R"({"stringValue":"text_completion"})");
  EXPECT_EQ(attribute(whole, "gen_ai.request.model"), R"({"stringValue":"tiny"})");
  const Json usage = *json_of(answer).find("usage");
  EXPECT_EQ(attribute(whole, "gen_ai.usage.input_tokens"),
            fmt::format(R"({{"intValue":"{}"}})", usage.find("prompt_tokens")->as_int()));
  EXPECT_EQ(attribute(whole, "gen_ai.usage.output_tokens"), R"({"intValue":"4"})");
  EXPECT_EQ(attribute(whole, "gen_ai.response.finish_reasons"),
            R"({"arrayValue":{"values":[{"stringValue":"length"}]}})");
  EXPECT_EQ(attribute(whole, "http.response.status_code"), R"({"intValue":"200"})");
  EXPECT_EQ(attribute(whole, "http.route"), R"({"stringValue":"/v1/completions"})");
  EXPECT_EQ(attribute(whole, "gen_ai.request.id"),
            fmt::format(R"({{"stringValue":"{}"}})", answer.header("x-request-id")));
  for (const char* const latency : {"time_in_queue", "time_to_first_token", "e2e"})
    EXPECT_THAT(attribute(whole, fmt::format("gen_ai.latency.{}", latency)), HasSubstr("doubleValue")) << latency;

  int64_t last = time_of(whole, "startTimeUnixNano");
  EXPECT_GT(last, 0);
  std::vector<std::string> names;
  for (size_t i = 1; i < all.size(); ++i) {
    names.push_back(text_at(all[i], "name"));
    EXPECT_EQ(text_at(all[i], "traceId"), kTraceId);
    EXPECT_EQ(text_at(all[i], "parentSpanId"), text_at(whole, "spanId"));
    expect_id(all[i], "spanId", 16);
    EXPECT_NE(text_at(all[i], "spanId"), text_at(whole, "spanId"));
    EXPECT_LE(last, time_of(all[i], "startTimeUnixNano"));
    EXPECT_LE(time_of(all[i], "startTimeUnixNano"), time_of(all[i], "endTimeUnixNano"));
    last = time_of(all[i], "endTimeUnixNano");
  }
  EXPECT_THAT(names, ElementsAre("queue", "prefill", "decode"));
  EXPECT_LE(last, time_of(whole, "endTimeUnixNano"));
}

TEST_F(TracedServer, NoTextOfAClientOrAnAnswerIsSent) {
  server::ServerOptions options;
  options.keys = *server::ApiKeys::parse("sesame-key\n");
  start_traced(std::move(options));
  const std::string body =
      R"({"messages":[{"role":"user","content":"sesame"}],"user":"sesame","model":"sesame","max_tokens":8,"temperature":0})";
  const HttpAnswer answer = ask_with(
      kChat + std::string("?sesame=1"), body,
      "authorization: Bearer sesame-key\r\nuser-agent: sesame\r\ntracestate: sesame=1\r\nbaggage: sesame=1\r\n");
  ASSERT_EQ(answer.status, 200) << answer.body;
  const std::string text = text_at(first_choice(json_of(answer)), "message", "content");
  server_.reset();
  const auto bodies = collector_.bodies();
  ASSERT_EQ(bodies.size(), 1U);
  EXPECT_EQ(bodies[0].find("sesame"), std::string::npos) << bodies[0];
  ASSERT_GT(text.size(), 3U);
  EXPECT_EQ(bodies[0].find(text), std::string::npos) << bodies[0];
}

TEST_F(TracedServer, WithoutAParentATraceBegins) {
  start_traced();
  const std::string body = fmt::format("{{{},\"max_tokens\":1}}", kHello);
  const std::string bad = fmt::format("traceparent: {}0\r\n", kParent);
  for (const std::string& header :
       {std::string(), bad, fmt::format("traceparent: {0}\r\ntraceparent: {0}\r\n", kParent)})
    EXPECT_EQ(ask_with(kChat, body, header).status, 200);
  std::vector<std::string> ids;
  for (const Json& span : spans()) {
    expect_id(span, "traceId", 32);
    if (span.find("kind")->as_int() != 2) continue;
    EXPECT_EQ(span.find("parentSpanId"), nullptr);
    EXPECT_EQ(text_at(span, "name"), "chat tiny");
    ids.push_back(text_at(span, "traceId"));
  }
  EXPECT_EQ(ids.size(), 3U);
  std::ranges::sort(ids);
  EXPECT_EQ(std::ranges::adjacent_find(ids), ids.end());
  EXPECT_EQ(std::ranges::count(ids, kTraceId), 0);
}

TEST_F(TracedServer, OnlyRequestsThatGenerateAndAreSampledHaveSpans) {
  server::ServerOptions options;
  options.keys = *server::ApiKeys::parse("good\n");
  start_traced(std::move(options));
  const std::string body = fmt::format("{{{},\"max_tokens\":1}}", kHello), key = "authorization: Bearer good\r\n";
  EXPECT_EQ(ask_with(kChat, body, key + fmt::format("traceparent: {}00\r\n", kParent.substr(0, 53))).status, 200);
  EXPECT_EQ(ask_with(kChat, body).status, 401);
  EXPECT_EQ(ask_with("/tokenize", R"({"content":"x"})", key).status, 200);
  EXPECT_EQ(get("/health").status, 200);
  EXPECT_TRUE(spans().empty());
}

TEST_F(TracedServer, EveryEndIsTold) {
  start_traced();
  EXPECT_EQ(ask_with(kChat, R"({"messages":1})").status, 400);
  EXPECT_EQ(
      ask_with(kChat, fmt::format(R"({{{},"n":2,"max_tokens":2,"ignore_eos":true,"stream":true}})", kHello)).status,
      200);
  {
    const auto held = hold_steps(*model_->scheduler);
    ASSERT_TRUE(eventually([&] { return model_->scheduler->stats().n_queued == 0; }));
    Client client(server_->port());
    ASSERT_TRUE(client.send(json_post(kChat, fmt::format("{{{}}}", kHello))));
    ASSERT_TRUE(eventually([&] { return model_->scheduler->stats().n_queued == 1; }));
    client.close();
    expect_seen();
  }
  server_->set_model(nullptr);
  EXPECT_EQ(ask_with(kChat, fmt::format("{{{}}}", kHello)).status, 503);
  std::vector<Json> all = spans();
  std::erase_if(all, [](const Json& span) { return span.find("kind")->as_int() != 2; });
  ASSERT_EQ(all.size(), 4U);
  constexpr std::string_view kReasons = "gen_ai.response.finish_reasons";
  EXPECT_EQ(attribute(all[0], "http.response.status_code"), R"({"intValue":"400"})");
  EXPECT_EQ(text_at(all[0], "name"), "chat");
  EXPECT_EQ(attribute(all[0], "gen_ai.usage.output_tokens"), "");
  EXPECT_EQ(all[0].find("status"), nullptr);  // the client's own
  EXPECT_EQ(attribute(all[1], kReasons),
            R"({"arrayValue":{"values":[{"stringValue":"length"},{"stringValue":"length"}]}})");
  EXPECT_EQ(attribute(all[1], "gen_ai.usage.output_tokens"), R"({"intValue":"4"})");
  EXPECT_EQ(attribute(all[2], kReasons), R"({"arrayValue":{"values":[{"stringValue":"cancelled"}]}})");
  EXPECT_EQ(attribute(all[2], "http.response.status_code"), "");
  EXPECT_EQ(attribute(all[3], "error.type"), R"({"stringValue":"503"})");
  EXPECT_EQ(all[3].find("status")->dump(), R"({"code":2})");
}

TEST_F(TracedServer, SeveralPromptsAreOneSpan) {
  start_traced();
  const std::string body = R"({"prompt":["ab","cd"],"n":3,"max_tokens":2,"temperature":1,"ignore_eos":true})";
  ASSERT_EQ(ask_with("/v1/completions", body).status, 200);
  std::string many;
  for (int i = 0; i < 30; ++i) many += R"(,"a")";
  ASSERT_EQ(ask_with("/v1/completions", fmt::format(R"({{"prompt":["a"{}],"n":3,"max_tokens":1}})", many)).status, 200);
  const std::vector<Json> all = spans();
  ASSERT_EQ(all.size(), 2U);
  const auto n_reasons = [](const Json& span) {
    const std::string reasons = attribute(span, "gen_ai.response.finish_reasons");
    size_t n = 0;
    for (size_t at = 0; (at = reasons.find("stringValue", at)) != std::string::npos; ++at) ++n;
    return n;
  };
  EXPECT_EQ(n_reasons(all[0]), 6U);
  EXPECT_EQ(n_reasons(all[1]), server::RequestTrace::kMaxReasons);
  EXPECT_EQ(attribute(all[0], "gen_ai.usage.output_tokens"), R"({"intValue":"12"})");
}

TEST_F(TracedServer, MetricsTellWhatBecameOfSpans) {
  start_traced();
  for (const char* const reason : {"queue_full", "unreachable", "rejected"})
    EXPECT_THAT(
        get("/metrics").body,
        HasSubstr(fmt::format("tamis_trace_spans_dropped_total{{model_name=\"tiny\",reason=\"{}\"}} 0\n", reason)));
  EXPECT_EQ(ask_with(kChat, R"({"messages":1})").status, 400);
  EXPECT_TRUE(eventually([&] {
    return get("/metrics").body.find("tamis_trace_spans_sent_total{model_name=\"tiny\"} 1\n") != std::string::npos;
  }));
}

TEST_F(ServerTest, WithoutACollectorMetricsTellOfNone) {
  start();
  EXPECT_EQ(get("/metrics").body.find("tamis_trace"), std::string::npos);
}

// A request that has ended, as the exporter is told of it: one span, or two when it is a generation.
class Ended {
 public:
  explicit Ended(bool is_generation = false) {
    facts_.trace = std::make_shared<server::RequestTrace>();
    facts_.trace->operation = "chat";
    facts_.is_generation = is_generation;
  }
  server::Answered answered() const {
    return {.method = "POST", .path = kChat, .id = "0123456789abcdef", .status = 200, .seconds = 1, .facts = &facts_};
  }

 private:
  server::RequestFacts facts_;
};

constexpr TraceLimits kQuick{.batch = 1, .batch_time = milliseconds(0), .retry_time = milliseconds(1)};

template <class Condition>
bool eventually(const Condition& condition) {
  for (int i = 0; i < 1000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return false;
}

TEST(TraceExporter, WhatDoesNotFitIsCountedAndKeepsNobody) {
  std::promise<void> called, free;
  std::atomic<int> n_calls{0};
  TraceLimits limits = kQuick;
  limits.max_waiting = 3;
  limits.batch = 2;
  const auto is_free = free.get_future().share();
  const auto sink = [&](const std::string&, const std::atomic<bool>&) -> Result<std::string> {
    if (n_calls++ == 0) {
      called.set_value();
      is_free.wait();
    }
    return std::string();
  };
  TraceExporter exporter(sink, "1", limits);
  const Ended one, two(true);
  exporter.add(one.answered());
  called.get_future().wait();  // of the queue nothing is left
  for (int i = 0; i < 3; ++i) exporter.add(one.answered());
  EXPECT_EQ(exporter.figures().n_no_room, 0U);
  for (int i = 0; i < 10; ++i) exporter.add(two.answered());
  EXPECT_EQ(exporter.figures().n_no_room, 20U);
  free.set_value();
  EXPECT_TRUE(eventually([&] { return exporter.figures().n_sent == 4; }));
  EXPECT_EQ(n_calls, 3);  // one, two, one
  EXPECT_EQ(exporter.figures().n_failed + exporter.figures().n_rejected, 0U);
}

TEST(TraceExporter, TheSameBodyIsTriedAgainAndOneWarningTellsOfIt) {
  std::vector<std::string> bodies;
  const auto sink = [&](const std::string& body, const std::atomic<bool>&) -> Result<std::string> {
    bodies.push_back(body);
    if (bodies.size() % 4 != 0) return fail(ErrorCode::network, "nobody there");
    return std::string();
  };
  testing::internal::CaptureStderr();
  {
    TraceExporter exporter(sink, "1", kQuick);
    for (uint64_t n = 1; n <= 2; ++n) {
      exporter.add(Ended().answered());
      EXPECT_TRUE(eventually([&] { return exporter.figures().n_sent == n; }));
    }
    EXPECT_EQ(exporter.figures().n_failed, 0U);
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(log, "tamis: warning: traces are not taken: nobody there; requests go on without\n");
  ASSERT_EQ(bodies.size(), 8U);
  for (int i = 1; i < 4; ++i) EXPECT_EQ(bodies[i], bodies[0]);
  EXPECT_NE(bodies[4], bodies[0]);
}

TEST(TraceExporter, WhatNobodyTakesIsGivenUpAndCounted) {
  std::atomic<int> n_calls{0};
  std::atomic<ErrorCode> code{ErrorCode::network};
  const auto sink = [&](const std::string&, const std::atomic<bool>&) -> Result<std::string> {
    ++n_calls;
    return fail(code, "no");
  };
  TraceLimits limits = kQuick;
  limits.max_tries = 3;
  TraceExporter exporter(sink, "1", limits);
  exporter.add(Ended().answered());
  EXPECT_TRUE(eventually([&] { return exporter.figures().n_failed == 1; }));
  EXPECT_EQ(n_calls, 3);
  code = ErrorCode::unsupported;
  exporter.add(Ended(true).answered());
  EXPECT_TRUE(eventually([&] { return exporter.figures().n_rejected == 2; }));
  EXPECT_EQ(n_calls, 4);
  EXPECT_EQ(exporter.figures().n_sent, 0U);
}

TEST(TraceExporter, PartsThatACollectorRejectsAreCounted) {
  EXPECT_EQ(server::n_rejected_spans(R"({"partialSuccess":{"rejectedSpans":"3"}})"), 3U);
  EXPECT_EQ(server::n_rejected_spans(R"({"partialSuccess":{"rejectedSpans":2}})"), 2U);
  for (const char* const odd :
       {"", "{}", "[", "null", "[1]", R"({"partialSuccess":3})", R"({"partialSuccess":{"rejectedSpans":-1}})",
        R"({"partialSuccess":{"rejectedSpans":"-1"}})", R"({"partialSuccess":{"rejectedSpans":[]}})"})
    EXPECT_EQ(server::n_rejected_spans(odd), 0U) << odd;
  const auto sink = [&](const std::string&, const std::atomic<bool>&) -> Result<std::string> {
    return std::string(R"({"partialSuccess":{"rejectedSpans":"99999999999999999"}})");
  };
  TraceExporter exporter(sink, "1", kQuick);
  exporter.add(Ended(true).answered());
  EXPECT_TRUE(eventually([&] { return exporter.figures().n_rejected == 2; }));  // no more than there were
  EXPECT_EQ(exporter.figures().n_sent, 0U);
}

TEST(TraceExporter, ItsEndSendsWhatWaitsButWaitsForNobodyLong) {
  Collector collector;
  {
    TraceLimits limits;
    limits.batch_time = std::chrono::hours(1);
    TraceExporter exporter(collector.sink(), "1", limits);
    for (int i = 0; i < 3; ++i) exporter.add(Ended().answered());
  }
  EXPECT_EQ(collector.spans().size(), 3U);
  std::atomic<bool> has_begun{false}, was_told{false};
  {
    const auto never = [&](const std::string&, const std::atomic<bool>& is_over) -> Result<std::string> {
      has_begun = true;
      while (!is_over) std::this_thread::sleep_for(milliseconds(1));
      was_told = true;
      return fail(ErrorCode::cancelled, "stopped");
    };
    TraceLimits limits = kQuick;
    limits.last_words = milliseconds(1);
    TraceExporter exporter(never, "1", limits);
    for (int i = 0; i < 3; ++i) exporter.add(Ended().answered());
    ASSERT_TRUE(eventually([&] { return has_begun.load(); }));
  }
  EXPECT_TRUE(was_told);
}

}  // namespace
}  // namespace tamis::test
