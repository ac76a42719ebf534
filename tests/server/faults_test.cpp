// Faults that users met elsewhere, over HTTP: stop strings over token borders (B23), clients that leave (B25), answers
// that depend on others (B28), a server that is silent while a prompt is read (B30).
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <optional>
#include <semaphore>
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
using test::ServerTest;
using test::text_at;

// An answer of its own that lets the model make one step for each permit: a token each.
class Pacemaker : public GenerateListener {
 public:
  void on_token(const TokenEvent&) override {
    if (!is_free) permits_.acquire();
  }
  void on_choice_end(const ChoiceEnd&) override {}
  void on_end(const RequestReport&) override {}
  void permit() { permits_.release(); }
  void let_go() {
    is_free = true;
    permits_.release();
  }

 private:
  std::atomic<bool> is_free{false};
  std::counting_semaphore<> permits_{0};
};

class ServerFaults : public ServerTest {
 protected:
  std::shared_ptr<Pacemaker> pace() {
    auto pacemaker = std::make_shared<Pacemaker>();
    GenerateRequest request;
    request.prompt = {65};
    request.n_predict = 2000;
    request.ignore_eos = true;
    EXPECT_TRUE(model_->scheduler->submit(std::move(request), pacemaker));
    EXPECT_TRUE(eventually([&] { return model_->scheduler->stats().n_queued == 0; }));
    return pacemaker;
  }

  // What an answer says, without ids and times: the texts of a stream's events one after the other.
  static std::string texts_of(const HttpAnswer& answer) {
    std::string out;
    std::vector<std::string> parts = event_data(answer.body);
    if (parts.empty()) parts.push_back(answer.body);
    for (const std::string& part : parts)
      if (part != "[DONE]") out += text_at(first_choice(*Json::parse(part)), "text");
    return out;
  }

  // Small steps: a long prompt takes many.
  void start_slowly() {
    n_ctx_train_ = 4096;
    SchedulerOptions scheduling;
    scheduling.max_seqs = 3;
    scheduling.max_batched_tokens = 4;
    start({}, scheduling);
  }

  std::optional<SequenceInfo> sequence_with_prompt_over(size_t n_tokens) const {
    for (const SequenceInfo& sequence : model_->scheduler->sequences())
      if (sequence.n_prompt > n_tokens) return sequence;
    return std::nullopt;
  }
};

const std::string kLong = fmt::format(R"({{"prompt":"{}","max_tokens":1}})", std::string(2000, 'a'));

TEST_F(ServerFaults, B23_AStreamEndsWhereTheWholeAnswerDoes) {
  start();
  const std::string body = "{" + kHello + R"(,"temperature":0,"max_tokens":32,"ignore_eos":true)";
  const std::string text = text_at(first_choice(json_of(post(kChat, body + "}"))), "message", "content");
  for (size_t n = 1; n <= 6; ++n) {
    for (size_t at = 0; at + n <= text.size(); at += 3) {
      Json request = *Json::parse(body + "}");
      const std::string stop = text.substr(at, n);
      if (!Json::parse(Json(stop).dump()) || Json::parse(Json(stop).dump())->as_string() != stop)
        continue;  // cut UTF-8
      request.set("stop", stop).set("stream", true);
      std::string joined, reason;
      for (const std::string& data : event_data(post(kChat, request.dump()).body)) {
        if (data == "[DONE]") continue;
        joined += text_at(first_choice(*Json::parse(data)), "delta", "content");
        reason += text_at(first_choice(*Json::parse(data)), "finish_reason");
      }
      EXPECT_EQ(joined, text.substr(0, text.find(stop))) << stop;
      EXPECT_EQ(reason, "stop");
    }
  }
}

TEST_F(ServerFaults, B10_ATextThatSpellsOutBosKeepsBothWithOneWarning) {
  for (const bool has_bos : {true, false}) {
    has_bos_ = has_bos;
    start();
    const auto n_tokens = [&](std::string_view prompt) {
      const Json body = json_of(post("/v1/completions", fmt::format(R"({{"prompt":"{}","max_tokens":1}})", prompt)));
      return body.find("usage")->find("prompt_tokens")->as_int();
    };
    testing::internal::CaptureStderr();
    const int64_t n_plain = n_tokens("hi");
    for (int i = 0; i < 2; ++i) EXPECT_EQ(n_tokens("<|bos|>hi"), n_plain + 1);
    const std::string log = testing::internal::GetCapturedStderr();
    const size_t first = log.find("BOS twice");
    EXPECT_EQ(first != std::string::npos, has_bos) << log;
    EXPECT_TRUE(!has_bos || log.find("BOS twice", first + 1) == std::string::npos) << "once";
    EXPECT_EQ(log.find("<|bos|>hi"), std::string::npos);
  }
}

TEST_F(ServerFaults, B25_WhoLeavesWhileItsPromptIsReadFreesTheModel) {
  start_slowly();
  const auto pacemaker = pace();
  Client client(server_->port());
  ASSERT_TRUE(client.send(json_post("/v1/completions", kLong)));
  ASSERT_TRUE(eventually([&] { return model_->scheduler->stats().n_queued == 1; }));
  for (int i = 0; i < 3; ++i) pacemaker->permit();
  ASSERT_TRUE(eventually([&] {
    const auto reading = sequence_with_prompt_over(1000);
    return reading && reading->n_computed > 0 && reading->n_computed < 100;
  }));
  client.close();
  // A step at a time, hundreds before the prompt would be done.
  EXPECT_TRUE(eventually([&] {
    pacemaker->permit();
    return !sequence_with_prompt_over(1000);
  }));
  EXPECT_EQ(model_->scheduler->stats().n_cancelled, 1U);
  EXPECT_LT(model_->scheduler->stats().n_computed_tokens, 1500U);
  pacemaker->let_go();
}

TEST_F(ServerFaults, B25_WhoLeavesWhileItWaitsIsNeverTakenUp) {
  SchedulerOptions scheduling;
  scheduling.max_seqs = 1;
  start({}, scheduling);
  const auto stopper = hold_steps(*model_->scheduler);
  ASSERT_TRUE(eventually([&] { return model_->scheduler->stats().n_queued == 0; }));
  Client client(server_->port());
  ASSERT_TRUE(client.send(json_post("/v1/completions", R"({"prompt":"a","max_tokens":5})")));
  ASSERT_TRUE(eventually([&] { return model_->scheduler->stats().n_queued == 1; }));
  client.close();
  expect_seen();
  stopper->let_go();
  ASSERT_TRUE(eventually([&] { return model_->scheduler->stats().n_cancelled == 1; }));
  EXPECT_EQ(model_->scheduler->stats().n_requests, 1U);  // the one that held the steps
}

TEST_F(ServerFaults, B25_WhoEndsItsSideStillGetsItsAnswer) {
  start();
  for (const std::string& stream : {std::string("false"), std::string("true")}) {
    const std::string question = json_post(
        "/v1/completions",
        fmt::format(R"({{"prompt":"a","max_tokens":200,"ignore_eos":true,"temperature":0,"stream":{}}})", stream));
    const HttpAnswer expected = test::ask(server_->port(), question);
    const auto stopper = hold_steps(*model_->scheduler);
    Client client(server_->port());
    ASSERT_TRUE(client.send(question));
    ASSERT_TRUE(eventually([&] { return model_->scheduler->sequences().size() == 2; }));
    client.end_sending();
    // The server has seen it.
    EXPECT_EQ(client.receive(test::milliseconds(10000), "\r\n\r\n"), "HTTP/1.1 102 Processing\r\n\r\n");
    stopper->let_go();
    const HttpAnswer answer = client.answer(test::milliseconds(60000));
    EXPECT_EQ(answer.status, 200);
    EXPECT_TRUE(answer.is_whole);
    EXPECT_EQ(texts_of(answer), texts_of(expected));
    EXPECT_FALSE(texts_of(answer).empty());
    EXPECT_TRUE(client.is_closed_within(test::milliseconds(10000)));
  }
  EXPECT_EQ(model_->scheduler->stats().n_cancelled, 0U);
}

TEST_F(ServerFaults, B25_WhoLeavesWhileItsAnswerIsMadeFreesTheModel) {
  n_ctx_train_ = 4096;  // no answer ends by itself in time
  start();
  const auto pacemaker = pace();
  uint64_t n_asked = 0;
  for (const char* const stream : {"true", "false"}) {
    Client client(server_->port());
    ASSERT_TRUE(client.send(json_post("/v1/completions", fmt::format(R"({{"prompt":"abc","max_tokens":4000,)"
                                                                     R"("logit_bias":{{"65":100}},"stream":{}}})",
                                                                     stream))));
    ++n_asked;
    const auto n_generated = [&] {
      const auto answer = sequence_with_prompt_over(1);
      return answer ? answer->n_generated : 0;
    };
    ASSERT_TRUE(eventually([&] {
      pacemaker->permit();
      return n_generated() > 0;
    }));
    if (stream == std::string("true")) {
      ASSERT_NE(client.receive(test::milliseconds(10000), "data: "), "");
    }
    client.close();
    // A step at a time, thousands before the answer would be done.
    EXPECT_TRUE(eventually([&] {
      pacemaker->permit();
      return model_->scheduler->stats().n_cancelled == n_asked;
    })) << stream;
    EXPECT_FALSE(sequence_with_prompt_over(1));
  }
  EXPECT_LT(model_->scheduler->stats().n_generated_tokens, 4000U);
  pacemaker->let_go();
}

TEST_F(ServerFaults, B28_TheTextDependsOnPromptAndSeedAlone) {
  start();
  const std::string body = "{" + kHello + R"(,"seed":1,"temperature":0.8,"max_tokens":64,"ignore_eos":true})";
  const auto text = [&] { return text_at(first_choice(json_of(post(kChat, body))), "message", "content"); };
  const std::string alone = text();
  EXPECT_EQ(text(), alone);  // its prompt is stored now
  std::vector<std::thread> threads;
  std::vector<std::string> texts(4);
  for (std::string& each : texts) threads.emplace_back([&] { each = text(); });
  threads.emplace_back([&] { post("/v1/completions", R"({"prompt":"something else","max_tokens":200})"); });
  threads.emplace_back([&] { post("/v1/embeddings", R"({"input":["something","else"]})"); });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& each : texts) EXPECT_EQ(each, alone);
  Json fresh = *Json::parse(body);
  fresh.set("cache_salt", "nobody else's");  // nothing is found stored
  EXPECT_EQ(text_at(first_choice(json_of(post(kChat, fresh.dump()))), "message", "content"), alone);
}

TEST_F(ServerFaults, B30_HealthAnswersWhileNoStepEnds) {
  start();
  const auto stopper = hold_steps(*model_->scheduler);
  Client waiting(server_->port());
  ASSERT_TRUE(waiting.send(json_post("/v1/completions", R"({"prompt":"a","max_tokens":5})")));
  ASSERT_TRUE(eventually([&] { return model_->scheduler->sequences().size() == 2; }));
  for (const char* const path : {"/health", "/ready", "/slots", "/metrics", "/v1/models", "/props", "/openapi.json"})
    EXPECT_EQ(get(path).status, 200) << path;
  EXPECT_EQ(post("/tokenize", R"({"content":"x"})").status, 200);
  stopper->let_go();
  EXPECT_EQ(waiting.answer().status, 200);
}

TEST_F(ServerFaults, B30_AShortPromptPassesALongOne) {
  start_slowly();
  const auto pacemaker = pace();
  Client first(server_->port()), second(server_->port());
  ASSERT_TRUE(first.send(json_post("/v1/completions", kLong)));
  ASSERT_TRUE(eventually([&] { return model_->scheduler->stats().n_queued == 1; }));
  for (int i = 0; i < 3; ++i) pacemaker->permit();
  ASSERT_TRUE(eventually([&] {
    const auto reading = sequence_with_prompt_over(1000);
    return reading && reading->n_computed > 0;
  }));
  ASSERT_TRUE(second.send(json_post("/v1/completions", R"({"prompt":"abcde","max_tokens":1})")));
  ASSERT_TRUE(eventually([&] { return model_->scheduler->stats().n_queued == 1; }));
  for (int i = 0; i < 30; ++i) pacemaker->permit();  // at most 120 tokens
  EXPECT_EQ(second.answer().status, 200);
  const auto reading = sequence_with_prompt_over(1000);
  ASSERT_TRUE(reading);
  EXPECT_LT(reading->n_computed, 1000U);
  pacemaker->let_go();
  EXPECT_EQ(first.answer(test::milliseconds(60000)).status, 200);
}

}  // namespace
}  // namespace tamis::server
