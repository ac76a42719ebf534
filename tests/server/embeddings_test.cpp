// /v1/embeddings over HTTP: every form of input, numbers and base64, many at once, and what is refused.
#include "server/embeddings.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "tests/server/server_fixture.h"

namespace tamis::server {
namespace {

using test::Client;
using test::HttpAnswer;
using test::json_of;
using test::ServerTest;
using test::text_at;

constexpr const char* kEmbeddings = "/v1/embeddings";

std::vector<double> values_at(const Json& answer, size_t i) {
  const Json& item = answer.find("data")->as_array().at(i);
  EXPECT_EQ(text_at(item, "object"), "embedding");
  EXPECT_EQ(item.find("index")->as_int(), static_cast<int64_t>(i));
  std::vector<double> out;
  for (const Json& value : item.find("embedding")->as_array()) out.push_back(value.as_double());
  return out;
}

// What base64 stands for, read as its table says.
std::vector<float> decoded(std::string_view text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<uint32_t> bytes;
  uint32_t bits = 0;
  int n_bits = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(kDigits.find(c));
    n_bits += 6;
    if (n_bits < 8) continue;
    n_bits -= 8;
    bytes.push_back(bits >> n_bits & 255);
  }
  std::vector<float> out;
  for (size_t i = 0; i + 4 <= bytes.size(); i += 4)
    out.push_back(std::bit_cast<float>(bytes[i] | bytes[i + 1] << 8 | bytes[i + 2] << 16 | bytes[i + 3] << 24));
  return out;
}

TEST_F(ServerTest, EmbeddingsOfTextsAndTokens) {
  start();
  const Json one = json_of(post(kEmbeddings, R"({"input":"hello there","model":"any"})"));
  EXPECT_EQ(text_at(one, "object"), "list");
  EXPECT_EQ(text_at(one, "model"), "tiny");
  const std::vector<double> values = values_at(one, 0);
  EXPECT_EQ(values.size(), limits_of(*model_).n_embd);
  double squares = 0;
  for (const double value : values) squares += value * value;
  EXPECT_NEAR(squares, 1, 1e-6);
  const Json ids = *json_of(post("/tokenize", R"({"content":"hello there","add_special":true})")).find("tokens");
  const auto n_tokens = static_cast<int64_t>(ids.as_array().size());
  EXPECT_EQ(one.find("usage")->find("prompt_tokens")->as_int(), n_tokens);
  EXPECT_EQ(one.find("usage")->find("total_tokens")->as_int(), n_tokens);

  Json body = Json::object();
  EXPECT_EQ(values_at(json_of(post(kEmbeddings, body.set("input", ids).dump())), 0), values);
  const Json several =
      json_of(post(kEmbeddings, body.set("input", Json(Json::Array{"x", "hello there", ids, "hello there y"})).dump()));
  ASSERT_EQ(several.find("data")->as_array().size(), 4U);
  EXPECT_NE(values_at(several, 0), values);
  EXPECT_EQ(values_at(several, 1), values);
  EXPECT_EQ(values_at(several, 2), values);
  EXPECT_NE(values_at(several, 3), values);

  body.set("input", "hello there").set("encoding_format", "base64").set("dimensions", uint64_t{values.size()});
  const Json coded = json_of(post(kEmbeddings, body.dump()));
  const std::vector<float> floats = decoded(text_at(coded.find("data")->as_array().front(), "embedding"));
  EXPECT_EQ(std::vector<double>(floats.begin(), floats.end()), values);
}

TEST_F(ServerTest, MoreEmbeddingsThanTheQueueHolds) {
  SchedulerOptions scheduling;
  scheduling.max_seqs = 2;
  scheduling.max_queue = 4;
  start({}, scheduling);
  Json list = Json::array();
  for (int i = 0; i < 100; ++i) list.push_back(fmt::format("text {}", i % 10));
  Json body = Json::object();
  const Json answer = json_of(post(kEmbeddings, body.set("input", std::move(list)).dump()));
  ASSERT_EQ(answer.find("data")->as_array().size(), 100U);
  for (size_t i = 10; i < 100; ++i) EXPECT_EQ(values_at(answer, i), values_at(answer, i % 10));
}

TEST_F(ServerTest, EmbeddingsOfWhoLeavesEnd) {  // B25
  SchedulerOptions scheduling;
  scheduling.max_seqs = 2;
  start({}, scheduling);
  const auto stopper = test::hold_steps(*model_->scheduler);
  ASSERT_TRUE(eventually([&] { return model_->scheduler->stats().n_queued == 0; }));
  Client client(server_->port());
  ASSERT_TRUE(client.send(test::json_post(kEmbeddings, R"({"input":["a","b","c","d","e","f"]})")));
  ASSERT_TRUE(eventually([&] { return model_->scheduler->stats().n_queued == 2; }));
  client.close();
  expect_seen();
  stopper->let_go();
  EXPECT_TRUE(eventually([&] {
    const SchedulerStats stats = model_->scheduler->stats();
    return stats.n_queued == 0 && stats.n_running == 0 && stats.n_cancelled + stats.n_finished == 3;
  }));
}

TEST_F(ServerTest, DrainingRefusesEmbeddingsThatWait) {
  SchedulerOptions scheduling;
  scheduling.max_seqs = 1;
  start({}, scheduling);
  const auto stopper = test::hold_steps(*model_->scheduler);
  ASSERT_TRUE(eventually([&] { return model_->scheduler->stats().n_queued == 0; }));
  Client client(server_->port());
  ASSERT_TRUE(client.send(test::json_post(kEmbeddings, R"({"input":["a","b"]})")));
  ASSERT_TRUE(eventually([&] { return model_->scheduler->stats().n_queued == 1; }));
  std::thread draining([&] { server_->drain(60); });
  EXPECT_TRUE(eventually([&] { return get("/ready").status == 503; }));
  stopper->let_go();
  EXPECT_EQ(client.answer().status, 503);
  draining.join();
}

TEST_F(ServerTest, AnswersOfEmbeddingsHaveTheirBytesCounted) {  // promise 20
  start();
  for (const char* const more : {"", R"(,"encoding_format":"base64")"}) {
    const std::string body = fmt::format(R"({{"input":["a","bc","def"]{}}})", more);
    const HttpAnswer answer = post(kEmbeddings, body);
    const uint64_t most = most_bytes(*parse_embeddings(*parse_body(body), limits_of(*model_)), limits_of(*model_));
    EXPECT_LE(answer.body.size(), most);
    EXPECT_LE(most, 3 * answer.body.size());
  }
  const auto total = std::make_shared<std::atomic<uint64_t>>(0);
  auto most = hold_bytes(total, kMaxHeldBytes - 10);
  ASSERT_NE(most, nullptr);
  const auto rest = hold_bytes(total, 10);
  EXPECT_NE(rest, nullptr);
  EXPECT_EQ(hold_bytes(total, 1), nullptr);
  most.reset();
  EXPECT_EQ(*total, 10U);
  EXPECT_NE(hold_bytes(total, 1), nullptr);
}

TEST(Embeddings, WhatIsRefusedIsNamed) {
  const CallLimits limits{.n_vocab = 1000, .n_ctx = 8, .max_choices = 8, .n_embd = 64};
  const std::pair<const char*, const char*> refused[] = {
      {R"({})", "input"},
      {R"({"input":null})", "input"},
      {R"({"input":1})", "input"},
      {R"({"input":[]})", "input"},
      {R"({"input":{}})", "input"},
      {R"({"input":[[]]})", "input[0]"},
      {R"({"input":["a",[]]})", "input[1]"},
      {R"({"input":["a",1]})", "input[1]"},
      {R"({"input":[1,"a"]})", "input"},
      {R"({"input":[-1]})", "input"},
      {R"({"input":[[1],[1000]]})", "input[1]"},
      {R"({"input":[1,2,3,4,5,6,7,8,9]})", "input"},
      {R"({"input":"a","encoding_format":"int8"})", "encoding_format"},
      {R"({"input":"a","dimensions":32})", "dimensions"},
      {R"({"input":"a","dimensions":"64"})", "dimensions"},
      {R"({"input":"a","task":"query"})", "task"},
  };
  for (const auto& [body, param] : refused) {
    const auto parsed = parse_embeddings(*parse_body(body), limits);
    ASSERT_FALSE(parsed) << body;
    EXPECT_EQ(parsed.error().param, param) << parsed.error().message;
  }
}

}  // namespace
}  // namespace tamis::server
