// The server with a tiny model: every dialect whole and streamed, who may ask, what is refused, how it ends.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/server/server_fixture.h"

namespace tamis::server {
namespace {

using test::Client;
using test::event_data;
using test::first_choice;
using test::hold_steps;
using test::HttpAnswer;
using test::json_of;
using test::json_post;
using test::kChat;
using test::kHello;
using test::matches;
using test::milliseconds;
using test::ServerTest;
using test::text_at;

TEST_F(ServerTest, AnswersKeepToTheirForm) {
  start();
  const std::string begin = "{" + kHello + R"(,"max_tokens":200,"seed":1,)";
  for (const std::string& form : {std::string(R"("structured_outputs":{"regex":"[ab]{5}"})"),
                                  std::string(R"("grammar":"root ::= [ab] [ab]{4}")")}) {
    const Json answer = json_of(post(kChat, begin + form + "}"));
    const std::string text = text_at(first_choice(answer), "message", "content");
    EXPECT_TRUE(matches("[ab]{5}", text)) << text;
    EXPECT_EQ(text_at(first_choice(answer), "finish_reason"), "stop");
  }
  const std::string schema =
      R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"enum":["x","y"]}},"required":["a","b"],"additionalProperties":false})";
  for (const std::string& form :
       {R"("json_schema":)" + schema,
        R"("response_format":{"type":"json_schema","json_schema":{"name":"n","schema":)" + schema + "}}",
        R"("response_format":{"type":"json_object","schema":)" + schema + "}"}) {
    const Json answer = json_of(post(kChat, begin + form + "}"));
    const auto value = Json::parse(text_at(first_choice(answer), "message", "content"));
    ASSERT_TRUE(value) << answer.dump();
    EXPECT_TRUE(value->find("a")->is_int());
    EXPECT_TRUE(*value->find("b") == Json("x") || *value->find("b") == Json("y"));
  }
  const Json ollama = json_of(post("/api/generate", R"({"prompt":"x","stream":false,"format":)" + schema + "}"));
  EXPECT_TRUE(Json::parse(text_at(ollama, "response"))) << ollama.dump();

  const HttpAnswer refused = post(kChat, begin + R"("json_schema":{"properties":{"a":{"type":"integr"}}}})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("/properties/a"), std::string::npos) << refused.body;
  EXPECT_EQ(text_at(json_of(refused), "error", "param"), "json_schema");
}

TEST_F(ServerTest, ChatWholeAndStreamedAreTheSame) {
  start();
  const std::string body = "{" + kHello + R"(,"temperature":0,"max_tokens":24,"ignore_eos":true)";
  const Json whole = json_of(post(kChat, body + "}"));
  EXPECT_EQ(text_at(whole, "object"), "chat.completion");
  EXPECT_EQ(text_at(whole, "model"), "tiny");
  EXPECT_EQ(text_at(first_choice(whole), "message", "role"), "assistant");
  EXPECT_EQ(text_at(first_choice(whole), "finish_reason"), "length");
  const std::string text = text_at(first_choice(whole), "message", "content");
  EXPECT_FALSE(text.empty());
  const Json& usage = *whole.find("usage");
  EXPECT_EQ(usage.find("completion_tokens")->as_int(), 24);
  EXPECT_GT(usage.find("prompt_tokens")->as_int(), 10);

  const HttpAnswer streamed = post(kChat, body + R"(,"stream":true,"stream_options":{"include_usage":true}})");
  EXPECT_EQ(streamed.header("content-type"), "text/event-stream");
  EXPECT_TRUE(streamed.is_whole);
  const std::vector<std::string> events = event_data(streamed.body);
  ASSERT_GE(events.size(), 4U);
  EXPECT_EQ(events.back(), "[DONE]");
  std::string joined, reason;
  for (size_t i = 0; i + 2 < events.size(); ++i) {
    const Json event = *Json::parse(events[i]);
    EXPECT_EQ(text_at(event, "object"), "chat.completion.chunk");
    EXPECT_EQ(event.find("id")->as_string(), Json::parse(events[0])->find("id")->as_string());
    joined += text_at(first_choice(event), "delta", "content");
    reason += text_at(first_choice(event), "finish_reason");
  }
  EXPECT_EQ(joined, text);
  EXPECT_EQ(reason, "length");
  EXPECT_EQ(text_at(first_choice(*Json::parse(events[0])), "delta", "role"), "assistant");
  const Json last = *Json::parse(events[events.size() - 2]);
  EXPECT_TRUE(last.find("choices")->as_array().empty());
  EXPECT_EQ(last.find("usage")->find("completion_tokens")->as_int(), 24);
}

TEST_F(ServerTest, EveryDialectSaysTheSame) {
  start();
  const std::string text = chat_text(R"("max_tokens":16)");
  const Json anthropic =
      json_of(post("/v1/messages", "{" + kHello + R"(,"max_tokens":16,"temperature":0,"model":"any"})"));
  EXPECT_EQ(text_at(anthropic, "type"), "message");
  EXPECT_EQ(text_at(anthropic.find("content")->as_array().front(), "text"), text);
  const Json ollama =
      json_of(post("/api/chat", "{" + kHello + R"(,"stream":false,"options":{"num_predict":16,"temperature":0}})"));
  EXPECT_EQ(text_at(ollama, "message", "content"), text);
  EXPECT_TRUE(ollama.find("done")->as_bool());
  const Json generated = json_of(
      post("/api/generate", R"({"prompt":"hello there","stream":false,"options":{"num_predict":16,"temperature":0}})"));
  EXPECT_EQ(text_at(generated, "response"), text);
  const Json prompt = json_of(post("/apply-template", "{" + kHello + "}"));
  EXPECT_EQ(text_at(prompt, "prompt"), "<|user|>hello there<|end|><|assistant|>");
  Json raw = Json::object();
  raw.set("prompt", text_at(prompt, "prompt")).set("temperature", 0).set("max_tokens", 16);
  EXPECT_EQ(text_at(first_choice(json_of(post("/v1/completions", raw.dump()))), "text"), text);
  const Json native = json_of(post("/completion", raw.dump()));
  EXPECT_EQ(text_at(native, "content"), text);
  EXPECT_EQ(native.find("tokens_evaluated")->as_int(),
            anthropic.find("usage")->find("input_tokens")->as_int() +
                anthropic.find("usage")->find("cache_read_input_tokens")->as_int());
}

TEST_F(ServerTest, AnthropicStreamsItsEvents) {
  start();
  const HttpAnswer answer = post("/v1/messages", "{" + kHello + R"(,"max_tokens":8,"temperature":0,"stream":true})");
  std::vector<std::string> names;
  std::string text;
  for (const std::string& event : event_data(answer.body)) {
    const Json json = *Json::parse(event);
    if (names.empty() || names.back() != text_at(json, "type")) names.push_back(text_at(json, "type"));
    text += text_at(json, "delta", "text");
  }
  EXPECT_EQ(names, (std::vector<std::string>{"message_start", "content_block_start", "content_block_delta",
                                             "content_block_stop", "message_delta", "message_stop"}));
  EXPECT_EQ(text, chat_text(R"("max_tokens":8)"));
}

TEST_F(ServerTest, AnthropicCountsWhatWasCachedApart) {
  start();
  const std::string begin = R"({"messages":[{"role":"user","content":")" + std::string(100, 'a') + R"("}])";
  const int64_t n_prompt = json_of(post("/v1/messages/count_tokens", begin + "}")).find("input_tokens")->as_int();
  const auto at = [](const Json& usage, std::string_view name) { return usage.find(name)->as_int(); };
  const std::string body = begin + R"(,"max_tokens":4,"temperature":0)";
  EXPECT_EQ(at(*json_of(post("/v1/messages", body + "}")).find("usage"), "input_tokens"),
            n_prompt);  // nothing is stored
  const Json again = *json_of(post("/v1/messages", body + "}")).find("usage");
  EXPECT_GE(at(again, "cache_read_input_tokens"), 64);
  EXPECT_EQ(at(again, "input_tokens") + at(again, "cache_read_input_tokens"), n_prompt);
  Json first, last;
  for (const std::string& data : event_data(post("/v1/messages", body + R"(,"stream":true})").body)) {
    const Json event = *Json::parse(data);
    if (text_at(event, "type") == "message_start") first = *event.find("message")->find("usage");
    if (text_at(event, "type") == "message_delta") last = *event.find("usage");
  }
  ASSERT_TRUE(first.is_object() && last.is_object());
  EXPECT_EQ(last.dump(), again.dump());
  EXPECT_EQ(at(first, "output_tokens"), 0);
  for (const char* const name : {"input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"})
    EXPECT_EQ(at(first, name), at(again, name)) << name;
}

TEST_F(ServerTest, TimingsTellWhyNoMoreWasCached) {
  start();
  const std::string text(100, 'a');
  const auto timings = [&](const char* path, const std::string& prompt) {
    return *json_of(post(path, fmt::format(R"({{"prompt":"{}","max_tokens":4,"ignore_eos":true}})", prompt)))
                .find("timings");
  };
  const Json first = timings("/v1/completions", text);
  EXPECT_EQ(text_at(first, "cache_miss"), "unknown");
  EXPECT_EQ(first.find("cache_n")->as_int(), 0);
  EXPECT_EQ(first.find("prompt_n")->as_int(), 101);
  EXPECT_EQ(first.find("predicted_n")->as_int(), 4);
  const Json again = timings("/completion", text);
  EXPECT_EQ(text_at(again, "cache_miss"), "none");
  EXPECT_EQ(again.find("cache_n")->as_int(), 96);
  EXPECT_EQ(again.find("prompt_n")->as_int(), 5);
  EXPECT_EQ(text_at(timings("/completion", text.substr(0, 50) + std::string(50, 'b')), "cache_miss"), "diverged");
  const auto events = event_data(
      post(kChat, "{" + kHello + R"(,"max_tokens":2,"stream":true,"stream_options":{"include_usage":true}})").body);
  ASSERT_GE(events.size(), 2U);
  EXPECT_NE(Json::parse(events[events.size() - 2])->find("timings"), nullptr);
}

TEST_F(ServerTest, ShowTellsWhatTheTemplateCan) {
  const auto abilities = [&] { return json_of(post("/api/show", R"({"model":"tiny"})")).find("capabilities")->dump(); };
  start();
  EXPECT_EQ(abilities(), R"(["completion"])");
  server_.reset();
  chat_template_ += "{# </think> #}{% if tools %}{{ tools }}{% endif %}";
  start();
  EXPECT_EQ(abilities(), R"(["completion","tools","thinking"])");
}

TEST_F(ServerTest, OllamaStreamsLines) {
  start();
  const HttpAnswer answer = post("/api/chat", "{" + kHello + R"(,"options":{"num_predict":8,"temperature":0}})");
  EXPECT_EQ(answer.header("content-type"), "application/x-ndjson");
  std::string text;
  bool is_done = false;
  for (size_t i = 0; i < answer.body.size();) {
    const size_t end = answer.body.find('\n', i);
    ASSERT_NE(end, std::string::npos);
    const Json line = *Json::parse(answer.body.substr(i, end - i));
    text += text_at(line, "message", "content");
    is_done = line.find("done")->as_bool();
    i = end + 1;
  }
  EXPECT_TRUE(is_done);
  EXPECT_EQ(text, chat_text(R"("max_tokens":8)"));
}

TEST_F(ServerTest, ChoicesSeedsStopsAndLogprobs) {
  start();
  const Json several = json_of(post(kChat, "{" + kHello + R"(,"n":3,"seed":7,"temperature":1,"max_tokens":8})"));
  ASSERT_EQ(several.find("choices")->as_array().size(), 3U);
  const Json again = json_of(post(kChat, "{" + kHello + R"(,"n":3,"seed":7,"temperature":1,"max_tokens":8})"));
  for (size_t i = 0; i < 3; ++i)
    EXPECT_EQ(several.find("choices")->as_array()[i].find("message")->dump(),
              again.find("choices")->as_array()[i].find("message")->dump());

  const std::string text = chat_text(R"("max_tokens":24,"ignore_eos":true)");
  ASSERT_GE(text.size(), 6U);
  size_t cut = 3;
  while (cut < text.size() && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) ++cut;
  size_t cut_end = cut + 1;
  while (cut_end < text.size() && (static_cast<unsigned char>(text[cut_end]) & 0xC0) == 0x80) ++cut_end;
  const std::string stop = text.substr(cut, cut_end - cut);
  Json request = *Json::parse("{" + kHello + R"(,"temperature":0,"max_tokens":24,"ignore_eos":true})");
  request.set("stop", stop);
  const Json stopped = json_of(post(kChat, request.dump()));
  EXPECT_EQ(text_at(first_choice(stopped), "message", "content"), text.substr(0, text.find(stop)));
  EXPECT_EQ(text_at(first_choice(stopped), "finish_reason"), "stop");

  const Json scored = json_of(post(
      kChat, "{" + kHello + R"(,"temperature":0,"max_tokens":4,"ignore_eos":true,"logprobs":true,"top_logprobs":3})"));
  const Json::Array& tokens = first_choice(scored).find("logprobs")->find("content")->as_array();
  ASSERT_EQ(tokens.size(), 4U);
  for (const Json& token : tokens) {
    ASSERT_EQ(token.find("top_logprobs")->as_array().size(), 3U);
    EXPECT_EQ(token.find("top_logprobs")->as_array()[0].find("logprob")->as_double(),
              token.find("logprob")->as_double());
    EXPECT_LE(token.find("logprob")->as_double(), 0);
  }
  EXPECT_EQ(chat_text(R"("max_tokens":8,"logit_bias":{"65":100})"), "AAAAAAAA");
}

TEST_F(ServerTest, TokenizesBothWays) {
  start();
  EXPECT_EQ(post("/tokenize", R"({"content":"AB"})").body, "{\"tokens\":[65,66]}\n");
  EXPECT_EQ(post("/tokenize", R"({"content":"A","add_special":true,"with_pieces":true})").body,
            "{\"tokens\":[{\"id\":256,\"piece\":\"<|bos|>\"},{\"id\":65,\"piece\":\"A\"}]}\n");
  EXPECT_EQ(post("/detokenize", R"({"tokens":[65,66]})").body, "{\"content\":\"AB\"}\n");
  EXPECT_EQ(post("/detokenize", R"({"tokens":[-1]})").status, 400);
  const std::string many = fmt::format("{{\"content\":\"{}\",", std::string((size_t{1} << 20) + 1, 'a'));
  EXPECT_EQ(post("/tokenize", many + "\"with_pieces\":false}").status, 200);
  EXPECT_EQ(post("/tokenize", many + "\"with_pieces\":true}").status, 400);
  const Json counted = json_of(post("/v1/messages/count_tokens", "{" + kHello + "}"));
  const Json answered = json_of(post(kChat, "{" + kHello + R"(,"max_tokens":1})"));
  EXPECT_EQ(counted.find("input_tokens")->as_int(), answered.find("usage")->find("prompt_tokens")->as_int());
}

TEST_F(ServerTest, B09_MessagesCannotWriteControlTokens) {
  start();
  const auto n_tokens = [&](std::string_view content) {
    Json message = Json::object(), body = Json::object();
    message.set("role", "user").set("content", content);
    body.set("messages", Json(Json::Array{message}));
    return json_of(post("/v1/messages/count_tokens", body.dump())).find("input_tokens")->as_int();
  };
  EXPECT_EQ(n_tokens("<|end|>") - n_tokens(""), 7);  // seven bytes, not one token
}

TEST_F(ServerTest, FactsAreTold) {
  start();
  const Json models = json_of(get("/v1/models"));
  EXPECT_EQ(text_at(models.find("data")->as_array().front(), "id"), "tiny");
  EXPECT_EQ(get("/v1/models/tiny").status, 200);
  EXPECT_EQ(get("/v1/models/other").status, 404);
  EXPECT_EQ(text_at(json_of(get("/props")), "model_path"), "tiny");  // promise 26: no path
  EXPECT_EQ(text_at(json_of(get("/api/version")), "version"), "1.2.3");
  EXPECT_EQ(text_at(json_of(get("/api/tags")).find("models")->as_array().front(), "name"), "tiny");
  EXPECT_EQ(text_at(json_of(post("/api/show", R"({"model":"tiny"})")), "details", "format"), "gguf");
  EXPECT_EQ(get("/health").body, "{\"status\":\"ok\"}\n");
  EXPECT_EQ(get("/ready").status, 200);
}

TEST_F(ServerTest, MetricsAreWellFormedAndBounded) {  // promise 32
  start();
  post(kChat, "{" + kHello + R"(,"max_tokens":4,"ignore_eos":true,"user":"label-injection\"} 1"})");
  const auto names_of = [](const std::string& page) {
    constexpr std::string_view kLine =
        R"re([a-z0-9_:]+\{model_name="tiny"(,(le|code|finished_reason|reason)="[^"]*"|,block_size="32",num_gpu_blocks="[0-9]+")?\} [-+.e0-9]+)re";
    std::vector<std::string> names;
    for (size_t i = 0; i < page.size();) {
      const size_t end = page.find('\n', i);
      const std::string text = page.substr(i, end - i);
      i = end + 1;
      if (text.starts_with("# HELP ") || text.starts_with("# TYPE ")) continue;
      EXPECT_TRUE(matches(kLine, text)) << text;
      names.push_back(text.substr(0, text.rfind(' ')));
    }
    return names;
  };
  std::string page;
  ASSERT_TRUE(eventually([&] {  // the step that ends an answer counts it afterwards
    page = get("/metrics").body;
    return page.find("vllm:generation_tokens_total{model_name=\"tiny\"} 4\n") != std::string::npos;
  }));
  for (const char* const name : {"vllm:num_requests_waiting", "vllm:num_requests_running", "vllm:kv_cache_usage_perc",
                                 "vllm:time_to_first_token_seconds_bucket", "vllm:inter_token_latency_seconds_count"})
    EXPECT_NE(page.find(name), std::string::npos) << name;
  const auto has = [&](std::string_view name, std::string_view label, std::string_view value) {
    const std::string line = fmt::format("\n{}{{model_name=\"tiny\"{}}} {}\n", name, label, value);
    EXPECT_NE(page.find(line), std::string::npos) << line;
  };
  has("vllm:inter_token_latency_seconds_count", "", "3");
  has("vllm:time_to_first_token_seconds_count", "", "1");
  has("vllm:request_generation_tokens_sum", "", "4");
  has("vllm:request_generation_tokens_bucket", ",le=\"2\"", "0");
  has("vllm:request_generation_tokens_bucket", ",le=\"5\"", "1");
  has("vllm:request_prompt_tokens_bucket", ",le=\"200000\"", "1");
  has("vllm:request_prompt_tokens_bucket", ",le=\"1\"", "0");
  for (const char* const time : {"prefill_time", "decode_time", "time_per_output_token"})
    has(fmt::format("vllm:request_{}_seconds_count", time), "", "1");
  has("vllm:cache_config_info",
      fmt::format(",block_size=\"32\",num_gpu_blocks=\"{}\"", model_->scheduler->stats().kv_pages), "1");
  has("tamis_access_log_lines_dropped_total", "", "0");
  has("tamis_log_lines_dropped_total", "", "0");
  for (const char* const reason : {"invalid", "queue_full", "key_full", "waited", "draining"})
    has("tamis_requests_refused_total", fmt::format(",reason=\"{}\"", reason), "0");
  EXPECT_EQ(page.find("# TYPE tamis_requests_refused_total"), page.rfind("# TYPE tamis_requests_refused_total"));
  EXPECT_EQ(page.find("process_resident_memory_bytes{model_name=\"tiny\"} 0\n"), std::string::npos);
  const auto before = names_of(page);
  for (int i = 0; i < 50; ++i)
    post(kChat, fmt::format("{{{},\"max_tokens\":1,\"user\":\"u{}\",\"model\":\"m{}\"}}", kHello, i, i));
  EXPECT_EQ(names_of(get("/metrics").body), before);
}

TEST_F(ServerTest, WhatIsNotServedIsRefused) {
  start();
  const uint16_t port = server_->port();
  EXPECT_EQ(get("/nothing").status, 404);
  EXPECT_EQ(get("/../../etc/passwd").status, 404);
  EXPECT_EQ(get("/v1/models/../../etc/passwd").status, 404);
  const HttpAnswer wrong_method = get(kChat);
  EXPECT_EQ(wrong_method.status, 405);
  EXPECT_EQ(wrong_method.header("allow"), "POST, OPTIONS");
  EXPECT_EQ(test::ask(port, test::request("DELETE", "/v1/models")).header("allow"), "GET, HEAD, OPTIONS");
  // What a browser asks before a page of another origin may post: allowed are methods, never an origin (promise 28).
  const HttpAnswer preflight = test::ask(
      port,
      test::request("OPTIONS", kChat, "", "Origin: http://evil.example\r\nAccess-Control-Request-Method: POST\r\n"));
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.header("allow"), "POST, OPTIONS");
  for (const auto& [name, value] : preflight.headers) EXPECT_FALSE(name.starts_with("access-control-")) << name;
  EXPECT_EQ(test::ask(port, test::request("OPTIONS", "/nothing")).status, 404);
  EXPECT_EQ(test::ask(port, test::request("POST", kChat, "{}", "Content-Type: text/plain\r\n")).status, 415);
  EXPECT_EQ(test::ask(port, test::request("POST", kChat, "{}")).status, 415);
  EXPECT_EQ(test::ask(port, json_post(kChat, "{}", "Content-Encoding: gzip\r\n")).status, 415);
  EXPECT_EQ(test::ask(port, "POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n\r\n").status,
            403);
  EXPECT_EQ(
      test::ask(port, "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\r\n").status,
      411);
  EXPECT_EQ(test::ask(port, test::request("GET", "/v1/models", "", "Origin: http://evil.example\r\n"))
                .header("access-control-allow-origin"),
            "");
  for (const char* const host : {"evil.example", "evil.example:80", "localhost.evil.example", "[::2]", "127.0.0.1.x"}) {
    const std::string bytes = fmt::format("GET /v1/models HTTP/1.1\r\nHost: {}\r\n\r\n", host);
    EXPECT_EQ(test::ask(port, bytes).status, 403) << host;
  }
  for (const char* const host : {"localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]", "[::1]:80"})
    EXPECT_EQ(test::ask(port, fmt::format("GET /v1/models HTTP/1.1\r\nHost: {}\r\n\r\n", host)).status, 200) << host;
}

TEST_F(ServerTest, ErrorsHaveOneSchema) {
  start();
  for (const HttpAnswer& answer :
       {get("/nothing"), get(kChat), post(kChat, "{"), post(kChat, "{}"), post("/v1/messages", "{}"),
        post("/api/chat", R"({"messages":[],"x":1})"), post("/v1/embeddings", "{}"),
        test::ask(server_->port(), "GET / HTTP/1.1\r\n\r\n"),
        test::ask(server_->port(), "GET /" + std::string(9000, 'a') + " HTTP/1.1\r\n\r\n")}) {
    const Json json = json_of(answer);
    EXPECT_GE(answer.status, 400);
    EXPECT_EQ(text_at(json, "type"), "error");
    EXPECT_FALSE(text_at(json, "error", "message").empty());
    EXPECT_FALSE(text_at(json, "error", "type").empty());
    ASSERT_NE(json.find("error")->find("param"), nullptr);
    ASSERT_NE(json.find("error")->find("code"), nullptr);
  }
  EXPECT_EQ(text_at(json_of(post(kChat, "{" + kHello + R"(,"temperature":-1})")), "error", "param"), "temperature");
}

TEST_F(ServerTest, PromptsThatDoNotFitAreRefused) {
  start();
  Json body = Json::object();
  body.set("prompt", std::string(2000, 'a'));
  const HttpAnswer answer = post("/v1/completions", body.dump());
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(text_at(json_of(answer), "error", "code"), "context_length_exceeded");
  EXPECT_EQ(post("/v1/completions", R"({"prompt":"","max_tokens":2})").status, 200);  // BOS alone
}

TEST_F(ServerTest, KeysAreAskedForEverywhereButHealth) {  // promises 24 and 25
  ServerOptions options;
  options.keys = *ApiKeys::parse("# who\nfirst-key\n\nsecond-key\r\n");
  start(std::move(options));
  const uint16_t port = server_->port();
  EXPECT_EQ(get("/health").status, 200);
  EXPECT_EQ(get("/ready").status, 200);
  const HttpAnswer none = get("/v1/models");
  EXPECT_EQ(none.status, 401);
  EXPECT_EQ(none.header("www-authenticate"), "Bearer");
  const auto with = [&](std::string_view header) {
    return test::ask(port, test::request("GET", "/v1/models", "", std::string(header) + "\r\n"));
  };
  EXPECT_EQ(with("Authorization: Bearer first-key").status, 200);
  EXPECT_EQ(with("Authorization: bearer second-key").status, 200);
  EXPECT_EQ(with("X-Api-Key: second-key").status, 200);
  for (const char* const wrong :
       {"Authorization: first-key", "Authorization: Bearer ", "Authorization: Bearer first-ke",
        "Authorization: Basic first-key", "X-Api-Key: # who", "Authorization: Bearer first-keyx"}) {
    EXPECT_EQ(with(wrong).status, 401) << wrong;
    EXPECT_EQ(with(wrong).body, none.body);
  }
  // Before routing, and before the body is read.
  EXPECT_EQ(get("/nothing").status, 401);
  EXPECT_EQ(test::ask(port, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n").status,
            401);
  int n_unauthorized = 0;
  HttpAnswer last;
  for (int i = 0; i < 30 && last.status != 429; ++i) {
    last = with("Authorization: Bearer wrong");
    n_unauthorized += last.status == 401 ? 1 : 0;
  }
  EXPECT_EQ(last.status, 429);
  EXPECT_EQ(get("/v1/models").status, 429);
  EXPECT_EQ(get("/health").status, 200);
  // Who shares that address, behind a proxy say, is served with a key.
  EXPECT_EQ(with("Authorization: Bearer first-key").status, 200);
  EXPECT_EQ(with("X-Api-Key: second-key").status, 200);
  EXPECT_EQ(with("Authorization: Bearer wrong").status, 429);
}

TEST_F(ServerTest, StrictModelsMustBeNamed) {
  ServerOptions options;
  options.is_strict_model = true;
  start(std::move(options));
  EXPECT_EQ(post(kChat, "{" + kHello + R"(,"max_tokens":1,"model":"tiny"})").status, 200);
  EXPECT_EQ(post(kChat, "{" + kHello + R"(,"max_tokens":1})").status, 404);
  EXPECT_EQ(text_at(json_of(post(kChat, "{" + kHello + R"(,"model":"gpt-5"})")), "error", "code"), "model_not_found");
}

TEST_F(ServerTest, WithoutAModelEverythingWaits) {  // promise 23
  start({}, {}, false);
  EXPECT_EQ(get("/health").status, 503);
  EXPECT_EQ(get("/ready").status, 503);
  const HttpAnswer refused = post(kChat, "{" + kHello + "}");
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.header("retry-after"), "1");
  EXPECT_EQ(get("/v1/models").status, 200);
  load();
  EXPECT_EQ(get("/health").status, 200);
  EXPECT_EQ(post(kChat, "{" + kHello + R"(,"max_tokens":1})").status, 200);
}

TEST_F(ServerTest, WhoLeavesFreesTheModel) {  // promise 15
  n_ctx_train_ = 4096;                        // long answers: none ends by itself in time
  start();
  uint64_t n_asked = 0;
  for (const char* const stream : {"true", "false"}) {
    Client client(server_->port());
    ASSERT_TRUE(client.send(json_post(kChat, fmt::format("{{{},\"ignore_eos\":true,\"stream\":{}}}", kHello, stream))));
    ++n_asked;
    ASSERT_TRUE(eventually([&] { return model_->scheduler->stats().n_requests == n_asked; }));
    client.close();
    EXPECT_TRUE(eventually([&] {
      const SchedulerStats stats = model_->scheduler->stats();
      return stats.n_cancelled == n_asked && stats.n_running == 0 && stats.kv_pages_used == 0;
    }));
  }
}

TEST_F(ServerTest, AFullQueueSaysSoAtOnce) {  // promise 12
  SchedulerOptions scheduling;
  scheduling.max_seqs = 1;
  scheduling.max_queue = 2;
  start({}, scheduling);
  const auto stopper = hold_steps(*model_->scheduler);
  ASSERT_TRUE(eventually([&] { return model_->scheduler->stats().n_queued == 0; }));
  const std::string question = json_post(kChat, "{" + kHello + R"(,"max_tokens":1})");
  std::vector<Client> waiting;
  for (uint32_t i = 1; i <= 2; ++i) {
    waiting.emplace_back(server_->port());
    ASSERT_TRUE(waiting.back().send(question));
    ASSERT_TRUE(eventually([&] { return model_->scheduler->stats().n_queued == i; }));
  }
  Client refused(server_->port());
  ASSERT_TRUE(refused.send(question));
  const HttpAnswer answer = refused.answer();
  EXPECT_EQ(answer.status, 503);
  EXPECT_FALSE(answer.header("retry-after").empty());
  EXPECT_EQ(get("/health").status, 200);
  stopper->let_go();
  for (Client& client : waiting) EXPECT_EQ(client.answer().status, 200);
}

TEST_F(ServerTest, AFullQueueIsNotReady) {  // promise 23
  SchedulerOptions scheduling;
  scheduling.max_seqs = 1;
  scheduling.max_queue = 3;
  start({}, scheduling);
  EXPECT_EQ(get("/ready").status, 200);
  const auto stopper = hold_steps(*model_->scheduler);
  ASSERT_TRUE(eventually([&] { return model_->scheduler->stats().n_queued == 0; }));
  std::vector<Client> waiting;
  for (uint32_t i = 1; i <= 3; ++i) {
    EXPECT_EQ(get("/ready").status, 200);
    waiting.emplace_back(server_->port());
    ASSERT_TRUE(waiting.back().send(json_post(kChat, "{" + kHello + R"(,"max_tokens":1})")));
    ASSERT_TRUE(eventually([&] { return model_->scheduler->stats().n_queued == i; }));
  }
  EXPECT_EQ(get("/ready").status, 503);
  EXPECT_EQ(get("/health").status, 200);
  stopper->let_go();
  for (Client& client : waiting) EXPECT_EQ(client.answer().status, 200);
  EXPECT_EQ(get("/ready").status, 200);
}

TEST_F(ServerTest, AnEngineThatMakesNoStepIsNotHealthy) {  // promise 22
  ServerOptions options;
  options.stuck_after_seconds = 0.2;
  start(std::move(options));
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_EQ(get("/health").status, 200);  // nothing is asked for
  const auto stopper = hold_steps(*model_->scheduler);
  EXPECT_TRUE(eventually([&] { return get("/health").status == 503; }));
  stopper->let_go();
  EXPECT_TRUE(eventually([&] { return get("/health").status == 200; }));
}

TEST_F(ServerTest, DrainingRefusesWhatWaits) {  // promise 17
  SchedulerOptions scheduling;
  scheduling.max_seqs = 1;
  start({}, scheduling);
  const auto stopper = hold_steps(*model_->scheduler);
  ASSERT_TRUE(eventually([&] { return model_->scheduler->stats().n_queued == 0; }));
  std::vector<Client> waiting;
  for (uint32_t i = 1; i <= 4; ++i) {
    waiting.emplace_back(server_->port());
    ASSERT_TRUE(waiting.back().send(json_post(kChat, "{" + kHello + R"(,"stream":true,"max_tokens":2})")));
    ASSERT_TRUE(eventually([&] { return model_->scheduler->stats().n_queued == i; }));
  }
  bool is_clean = false;
  std::thread draining([&] { is_clean = server_->drain(60); });
  EXPECT_TRUE(eventually([&] { return get("/ready").status == 503; }));
  stopper->let_go();
  draining.join();
  EXPECT_TRUE(is_clean);
  for (Client& client : waiting) {
    const HttpAnswer answer = client.answer();
    EXPECT_EQ(answer.status, 503);
    EXPECT_FALSE(answer.header("retry-after").empty());
  }
}

TEST_F(ServerTest, DrainingLetsRunningAnswersEnd) {  // promise 17
  start();
  Client client(server_->port());
  ASSERT_TRUE(client.send(
      json_post(kChat, "{" + kHello + R"(,"temperature":0,"max_tokens":300,"ignore_eos":true,"stream":true})")));
  ASSERT_TRUE(eventually([&] { return model_->scheduler->stats().n_requests == 1; }));
  bool is_clean = false;
  std::thread draining([&] { is_clean = server_->drain(60); });
  EXPECT_TRUE(eventually([&] { return get("/ready").status == 503; }));
  EXPECT_EQ(get("/health").status, 200);
  EXPECT_EQ(post(kChat, "{" + kHello + "}").status, 503);
  const HttpAnswer answer = client.answer(milliseconds(60000));
  draining.join();
  EXPECT_TRUE(is_clean);
  EXPECT_TRUE(answer.is_whole);
  EXPECT_EQ(event_data(answer.body).back(), "[DONE]");
}

TEST_F(ServerTest, DrainingEndsWhatDoesNotEnd) {
  start();
  Client client(server_->port());
  ASSERT_TRUE(client.send(json_post(kChat, "{" + kHello + R"(,"ignore_eos":true,"stream":true})")));
  ASSERT_TRUE(eventually([&] { return model_->scheduler->stats().n_requests == 1; }));
  server_->drain(0);
  const HttpAnswer answer = client.answer();
  EXPECT_TRUE(answer.is_whole);  // 503, or a stream with its end
  EXPECT_TRUE(answer.status == 503 || event_data(answer.body).back() == "[DONE]") << answer.body;
}

TEST_F(ServerTest, ManyAtOnceGetWhatTheyGetAlone) {
  start();
  const std::string alone = chat_text(R"("max_tokens":24,"ignore_eos":true)");
  std::vector<std::thread> threads;
  std::vector<std::string> texts(12);
  for (std::string& text : texts)
    threads.emplace_back([this, &text] { text = chat_text(R"("max_tokens":24,"ignore_eos":true)"); });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : texts) EXPECT_EQ(text, alone);
}

TEST_F(ServerTest, BadRequestsDoNotDisturbGoodOnes) {  // promise 1
  start();
  const std::string alone = chat_text(R"("max_tokens":16)");
  std::atomic<bool> is_over{false};
  std::atomic<int> n_good{0}, n_wrong{0};
  std::thread good([&] {
    while (!is_over || n_good == 0) (chat_text(R"("max_tokens":16)") == alone ? n_good : n_wrong)++;
  });
  const std::string bodies[] = {"",
                                "{",
                                "[]",
                                std::string(100000, '['),
                                "{\"messages\":[[[[]]]]}",
                                "{\"messages\":null}",
                                "{" + kHello + ",\"n\":1000000000}",
                                "{" + kHello + ",\"stop\":{}}",
                                "{" + kHello + ",\"logit_bias\":[[1000000000,1]]}",
                                "\xff\xfe",
                                std::string(1000, '\0')};
  for (int round = 0; round < 5; ++round) {
    for (const std::string& body : bodies) {
      for (const char* const path : {kChat, "/v1/completions", "/completion", "/v1/messages", "/api/chat", "/tokenize",
                                     "/detokenize", "/apply-template", "/api/generate", "/api/show"}) {
        const int status = post(path, body).status;
        EXPECT_TRUE(status == 400 || (status == 200 && path == std::string("/api/show"))) << path << " " << status;
      }
    }
  }
  is_over = true;
  good.join();
  EXPECT_EQ(n_wrong, 0);
}

TEST(ApiKeys, FilesAreChecked) {
  EXPECT_FALSE(ApiKeys::parse(""));
  EXPECT_FALSE(ApiKeys::parse("# only words\n\n"));
  EXPECT_FALSE(ApiKeys::parse("two words\n"));
  EXPECT_FALSE(ApiKeys::parse("caf\xc3\xa9\n"));
  EXPECT_FALSE(ApiKeys::parse(std::string(2000, 'a')));
  EXPECT_TRUE(ApiKeys::parse("a"));
}

TEST(ApiKeys, AKeyIsKnownByItsIdWhereverItStands) {
  const auto owner = [](std::string_view file, std::string_view key) {
    RequestHead head;
    head.headers = {{"x-api-key", std::string(key)}};
    return ApiKeys::parse(file)->owner(head);
  };
  const auto first = owner("a\nb\n", "a"), moved = owner("b\n# and\nc\na\n", "a"), other = owner("a\nb\n", "b");
  ASSERT_TRUE(first && moved && other);
  EXPECT_EQ(first->name, "key 1");
  EXPECT_EQ(moved->name, "key 3");
  EXPECT_EQ(first->id, "ca978112ca1bbdca");  // printf a | sha256sum
  EXPECT_EQ(moved->id, first->id);
  EXPECT_EQ(other->id, "3e23e8160039594a");
  EXPECT_FALSE(owner("a\nb\n", "c"));
  EXPECT_EQ(ApiKeys().owner({})->id, "");
}

TEST(FailureLimit, ForgetsAfterAMinute) {
  FailureLimit limit(3);
  const FailureLimit::Clock::time_point start{};
  for (int i = 0; i < 3; ++i) limit.on_failure("a", start);
  EXPECT_FALSE(limit.is_blocked("a", start));
  limit.on_failure("a", start);
  EXPECT_TRUE(limit.is_blocked("a", start + std::chrono::seconds(59)));
  EXPECT_FALSE(limit.is_blocked("b", start));
  EXPECT_FALSE(limit.is_blocked("a", start + std::chrono::seconds(60)));
  for (int i = 0; i < 100000; ++i) limit.on_failure(std::to_string(i), start);  // bounded: it ends, and quickly
}

}  // namespace
}  // namespace tamis::server
