// /v1/completions as evaluation harnesses use it: lists of prompts, echoed prompts and how probable they are.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "engine/distribution.h"
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
using test::ServerTest;
using test::text_at;

constexpr const char* kCompletions = "/v1/completions";
constexpr const char* kGreedy = R"("temperature":0,"ignore_eos":true,"max_tokens":12)";

const Json::Array& choices_of(const Json& answer) { return answer.find("choices")->as_array(); }

int64_t usage_at(const Json& answer, std::string_view name) { return answer.find("usage")->find(name)->as_int(); }

template <class T>
std::string joined(const std::vector<T>& items) {
  std::string out;
  for (const T& item : items) out += fmt::format("{}{}", out.empty() ? "" : ",", item);
  return out;
}

class Completions : public ServerTest {
 protected:
  Json complete(const std::string& prompt, const std::string& members = kGreedy) const {
    const HttpAnswer answer = post(kCompletions, fmt::format(R"({{"prompt":{},{}}})", prompt, members));
    EXPECT_EQ(answer.status, 200) << answer.body;
    return json_of(answer);
  }

  // What a plain forward of the tokens says of those from the second one on.
  std::vector<double> plain_logprobs(const std::vector<TokenId>& prompt) const {
    const Engine& engine = *model_->engine;
    const std::vector<float> logits = test::plain_logits(engine, prompt);
    const size_t n_vocab = engine.model().n_vocab();
    std::vector<double> out;
    for (size_t i = 0; i + 1 < prompt.size(); ++i)
      out.push_back(static_cast<float>(-negative_log_likelihood(std::span(logits).subspan(i * n_vocab, n_vocab),
                                                                static_cast<size_t>(prompt[i + 1]))));
    return out;
  }

  // The choice's lists are of the prompt and n_more tokens.
  void expect_scored(const Json& choice, const std::vector<TokenId>& prompt, size_t n_more) const {
    const Json& lists = *choice.find("logprobs");
    const Json::Array& values = lists.find("token_logprobs")->as_array();
    const Json::Array& tops = lists.find("top_logprobs")->as_array();
    ASSERT_EQ(values.size(), prompt.size() + n_more) << choice.dump();
    ASSERT_EQ(tops.size(), values.size());
    ASSERT_EQ(lists.find("tokens")->as_array().size(), values.size());
    EXPECT_TRUE(values[0].is_null());
    EXPECT_TRUE(tops[0].is_null());
    const std::vector<double> plain = plain_logprobs(prompt);
    for (size_t i = 1; i < prompt.size(); ++i) {
      EXPECT_EQ(values[i].as_double(), plain[i - 1]) << i;
      EXPECT_EQ(lists.find("tokens")->as_array()[i], Json(model_->engine->tokenizer()->token_bytes(prompt[i], true)));
    }
  }
};

TEST_F(Completions, SeveralPromptsAreAnsweredAsEachAlone) {
  start();
  const std::vector<std::string> prompts = {R"("once")", "[65,66,67]", R"("upon a time there was")", R"([72])",
                                            R"("")"};
  std::vector<std::string> expected;
  int64_t n_prompt = 0;
  for (const std::string& prompt : prompts) {
    const Json alone = complete(prompt);
    expected.push_back(text_at(first_choice(alone), "text"));
    n_prompt += usage_at(alone, "prompt_tokens");
  }
  EXPECT_NE(expected[0], expected[1]);
  const std::string list = "[" + joined(prompts) + "]";
  const Json answer = complete(list);
  ASSERT_EQ(choices_of(answer).size(), prompts.size());
  for (size_t i = 0; i < prompts.size(); ++i) {
    const Json& choice = choices_of(answer)[i];
    EXPECT_EQ(choice.find("index")->as_int(), static_cast<int64_t>(i));
    EXPECT_EQ(text_at(choice, "text"), expected[i]);
    EXPECT_EQ(text_at(choice, "finish_reason"), "length");
  }
  EXPECT_EQ(usage_at(answer, "prompt_tokens"), n_prompt);
  EXPECT_EQ(usage_at(answer, "completion_tokens"), static_cast<int64_t>(12 * prompts.size()));
  EXPECT_EQ(usage_at(answer, "total_tokens"), n_prompt + static_cast<int64_t>(12 * prompts.size()));
  EXPECT_EQ(choices_of(complete("[[65,66,67],[72]]"))[1].find("text")->as_string(), expected[3]);
}

TEST_F(Completions, ChoicesOfSeveralPromptsStandPromptByPrompt) {
  start();
  const std::string drawn = R"("n":3,"seed":7,"temperature":1,"ignore_eos":true,"max_tokens":8)";
  std::vector<std::string> expected;
  for (const char* const prompt : {R"("a")", R"("b")"}) {
    const Json alone = complete(prompt, drawn);
    for (const Json& choice : choices_of(alone)) expected.push_back(text_at(choice, "text"));
  }
  const Json answer = complete(R"(["a","b"])", drawn);
  ASSERT_EQ(choices_of(answer).size(), 6U);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(choices_of(answer)[i].find("index")->as_int(), static_cast<int64_t>(i));
    EXPECT_EQ(text_at(choices_of(answer)[i], "text"), expected[i]);
  }
}

TEST_F(Completions, ManyPromptsGoThroughAShortQueue) {
  SchedulerOptions scheduling;
  scheduling.max_seqs = 2;
  scheduling.max_queue = 1;
  start({}, scheduling);
  std::string list;
  for (int i = 0; i < 128; ++i) list += fmt::format("{}[{}]", i > 0 ? "," : "", 40 + i % 100);
  const Json answer = complete("[" + list + "]", R"("temperature":0,"ignore_eos":true,"max_tokens":2)");
  ASSERT_EQ(choices_of(answer).size(), 128U);
  EXPECT_EQ(usage_at(answer, "completion_tokens"), 256);
  EXPECT_EQ(text_at(choices_of(answer)[3], "text"), text_at(choices_of(answer)[103], "text"));
}

// A prompt for which the queue has no room waits until one before it has ended; it does not end those that run.
TEST_F(Completions, PromptsOfAListWaitForRoom) {
  SchedulerOptions scheduling;
  scheduling.max_seqs = 2;
  scheduling.max_queue = 8;
  scheduling.max_queue_per_tenant = 1;
  start({}, scheduling);
  const auto stopper = hold_steps(*model_->scheduler);
  ASSERT_TRUE(eventually([&] { return model_->scheduler->stats().n_queued == 0; }));
  Client client(server_->port());
  ASSERT_TRUE(client.send(
      json_post(kCompletions, R"({"prompt":["a","b","c","d","e"],"max_tokens":2,"temperature":0,"ignore_eos":true})")));
  ASSERT_TRUE(eventually([&] { return model_->scheduler->stats().n_refused == 1; }));
  stopper->let_go();
  const HttpAnswer answer = client.answer();
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(choices_of(json_of(answer)).size(), 5U);
}

TEST_F(Completions, StreamsOfSeveralPromptsTellWhoseAPieceIs) {
  start();
  for (const std::string& more : {std::string(), std::string(R"(,"echo":true)"),
                                  std::string(R"(,"echo":true,"logprobs":2)"), std::string(R"(,"n":2)")}) {
    const std::string members = kGreedy + more;
    const Json whole = complete(R"(["once","upon",[65,66]])", members);
    const HttpAnswer streamed =
        post(kCompletions,
             fmt::format(
                 R"({{"prompt":["once","upon",[65,66]],{},"stream":true,"stream_options":{{"include_usage":true}}}})",
                 members));
    EXPECT_TRUE(streamed.is_whole);
    std::map<int64_t, std::string> texts, reasons;
    std::map<int64_t, std::vector<std::string>> logprobs;
    const std::vector<std::string> events = event_data(streamed.body);
    ASSERT_GT(events.size(), 3U);
    EXPECT_EQ(events.back(), "[DONE]");
    for (size_t i = 0; i + 2 < events.size(); ++i) {
      const Json choice = Json::parse(events[i])->find("choices")->as_array().front();
      const int64_t idx = choice.find("index")->as_int();
      texts[idx] += text_at(choice, "text");
      reasons[idx] += text_at(choice, "finish_reason");
      if (const Json& scored = *choice.find("logprobs"); scored.is_object())
        for (const Json& value : scored.find("token_logprobs")->as_array()) logprobs[idx].push_back(value.dump());
    }
    ASSERT_EQ(texts.size(), choices_of(whole).size());
    for (const Json& choice : choices_of(whole)) {
      const int64_t idx = choice.find("index")->as_int();
      EXPECT_EQ(texts[idx], text_at(choice, "text")) << members;
      EXPECT_EQ(reasons[idx], "length");
      std::vector<std::string> expected;
      if (const Json& scored = *choice.find("logprobs"); scored.is_object())
        for (const Json& value : scored.find("token_logprobs")->as_array()) expected.push_back(value.dump());
      EXPECT_EQ(logprobs[idx], expected);
    }
    EXPECT_EQ(*Json::parse(events[events.size() - 2])->find("usage")->find("total_tokens"),
              *whole.find("usage")->find("total_tokens"));
  }
}

TEST_F(Completions, AnEchoedPromptIsScored) {
  start();
  const std::vector<TokenId> tokens = {72, 101, 108, 108, 111, 32, 119, 111, 114, 108, 100};
  const std::string ids = "[" + joined(tokens) + "]";
  complete(ids);  // now what can be is stored
  const Json answer = complete(ids, R"("temperature":0,"ignore_eos":true,"max_tokens":3,"echo":true,"logprobs":1)");
  EXPECT_TRUE(text_at(first_choice(answer), "text").starts_with("Hello world"));
  expect_scored(first_choice(answer), tokens, 3);
  EXPECT_EQ(text_at(*answer.find("timings"), "cache_miss"), "bypassed");
  EXPECT_EQ(answer.find("timings")->find("cache_n")->as_int(), 0);

  // Only the prompt: a long one, of which a part is stored.
  std::vector<TokenId> more;
  for (int i = 0; i < 30; ++i) more.insert(more.end(), tokens.begin(), tokens.end());
  const std::string long_ids = "[" + joined(more) + "]";
  complete(long_ids);
  const Json scored = complete(long_ids, R"("max_tokens":0,"echo":true,"logprobs":0)");
  expect_scored(first_choice(scored), more, 0);
  EXPECT_EQ(usage_at(scored, "completion_tokens"), 0);
  EXPECT_EQ(text_at(first_choice(scored), "finish_reason"), "length");
  EXPECT_EQ(text_at(first_choice(scored), "text").size(), more.size());

  // A text: its tokens begin with BOS.
  const Json text = complete(R"("Hello world")", R"("max_tokens":0,"echo":true,"logprobs":2)");
  std::vector<TokenId> with_bos = tokens;
  with_bos.insert(with_bos.begin(), test::kTinyBos);
  expect_scored(first_choice(text), with_bos, 0);
  EXPECT_EQ(text_at(first_choice(text), "text"), "Hello world");
  EXPECT_EQ(text_at(first_choice(complete(R"("Hello")", R"("max_tokens":0)")), "text"), "");
  EXPECT_EQ(text_at(first_choice(complete(R"("Hello")", R"("max_tokens":0,"echo":true)")), "text"), "Hello");
}

// Log-probabilities of a long prompt come at once, more than a stream's reader may otherwise fall back.
TEST_F(Completions, ALongScoredPromptIsNoReadersFault) {
  n_ctx_train_ = 4096;
  start();
  std::vector<TokenId> prompt;
  for (int i = 0; i < 4000; ++i) prompt.push_back(i * 7 % 256);
  const HttpAnswer streamed =
      post(kCompletions,
           fmt::format(R"({{"prompt":[{}],"max_tokens":0,"echo":true,"logprobs":20,"stream":true}})", joined(prompt)));
  EXPECT_GT(streamed.body.size(), size_t{2} << 20);
  EXPECT_TRUE(streamed.is_whole);
  EXPECT_EQ(event_data(streamed.body).back(), "[DONE]");
}

TEST_F(Completions, TokensThatAreNoTextAreNamedByTheirBytes) {
  start();
  const Json answer = complete("[65,226,130,172]", R"("max_tokens":0,"echo":true,"logprobs":5)");
  EXPECT_EQ(text_at(first_choice(answer), "text"), "A€");
  const Json& lists = *first_choice(answer).find("logprobs");
  EXPECT_EQ(*lists.find("tokens"), Json(Json::Array{"A", "bytes:\\xe2", "bytes:\\x82", "bytes:\\xac"}));
  for (size_t i = 1; i < 4; ++i) EXPECT_EQ(lists.find("top_logprobs")->as_array()[i].as_object().size(), 5U);
}

// As lm-evaluation-harness asks: the last entry is of the token chosen, also where that ends the text.
TEST_F(Completions, AHarnessFindsEachPromptsTokensBeforeTheLastEntry) {
  start();
  const std::vector<std::vector<TokenId>> prompts = {{65, 66, 67, 68}, {72, 105}, {90}};
  std::string list;
  for (const auto& prompt : prompts) list += fmt::format("{}[{}]", list.empty() ? "" : ",", joined(prompt));
  for (const char* const bias : {"{}", R"({"257":100})"}) {
    const Json answer =
        complete("[" + list + "]", fmt::format(R"("model":"tiny","temperature":0,"max_tokens":1,"logprobs":1,)"
                                               R"("seed":1234,"echo":true,"logit_bias":{})",
                                               bias));
    ASSERT_EQ(choices_of(answer).size(), prompts.size());
    for (size_t i = 0; i < prompts.size(); ++i) {
      const Json& choice = choices_of(answer)[i];
      expect_scored(choice, prompts[i], 1);
      EXPECT_LT(choice.find("logprobs")->find("token_logprobs")->as_array().back().as_double(), 0);
      for (size_t k = 1; k < prompts[i].size(); ++k)
        EXPECT_EQ(choice.find("logprobs")->find("top_logprobs")->as_array()[k].as_object().size(), 1U);
    }
  }
}

TEST_F(Completions, WhatCannotBeIsRefusedByName) {
  start();
  std::string too_many = R"("a")", too_long = "65";
  for (int i = 0; i < 128; ++i) too_many += R"(,"a")";
  for (int i = 0; i < 600; ++i) too_long += ",65";
  const std::pair<std::string, std::string> rows[] = {
      {fmt::format(R"("prompt":[{}])", too_many), "prompt"},
      {R"("prompt":[])", "prompt"},
      {R"("prompt":["a",[1,100000]])", "prompt[1]"},
      {R"("prompt":["a",[-1]])", "prompt[1]"},
      {R"("prompt":["a",[]])", "prompt[1]"},
      {R"("prompt":["a",5])", "prompt[1]"},
      {R"("prompt":["a",null])", "prompt[1]"},
      {R"("prompt":["a",[[1]]])", "prompt[1]"},
      {fmt::format(R"("prompt":["a",[{}]])", too_long), "prompt[1]"},
      {fmt::format(R"("prompt":["a","{}"])", std::string(600, 'x')), "prompt[1]"},
      {R"("prompt":["a","b"],"id_slot":0)", "id_slot"},
      {R"("prompt":"a","id_slot":0,"echo":true,"logprobs":1)", "id_slot"},
      {R"("prompt":"a","max_tokens":-1)", "max_tokens"},
      {R"("prompt":"a","echo":true,"logprobs":21)", "logprobs"},
  };
  for (const auto& [members, param] : rows) {
    const HttpAnswer answer = post(kCompletions, "{" + members + "}");
    EXPECT_EQ(answer.status, 400) << members.substr(0, 100);
    EXPECT_EQ(text_at(json_of(answer), "error", "param"), param) << answer.body;
  }
  const HttpAnswer native = post("/completion", R"({"prompt":["a","b"]})");
  EXPECT_EQ(native.status, 400);
  EXPECT_EQ(text_at(json_of(native), "error", "param"), "prompt");
  EXPECT_EQ(model_->scheduler->stats().n_requests, 0U);
}

TEST_F(Completions, AFailedPromptEndsTheWholeRequest) {
  SchedulerOptions scheduling;
  scheduling.max_seqs = 2;
  start({}, scheduling);
  Json body = Json::object();
  body.set("prompt", Json(Json::Array{"a", "b", "c", "d", "e", "f"})).set("grammar", test::too_ambiguous_grammar());
  body.set("max_tokens", 200).set("temperature", 0);
  body.set("logit_bias", *Json::parse(R"({"97":100})"));  // "a", for ever
  const HttpAnswer failed = post(kCompletions, body.dump());
  EXPECT_GE(failed.status, 400) << failed.body;
  EXPECT_FALSE(text_at(json_of(failed), "error", "message").empty());
  const HttpAnswer streamed = post(kCompletions, body.set("stream", true).dump());
  EXPECT_NE(streamed.body.find("\"error\""), std::string::npos) << streamed.body;
  EXPECT_TRUE(streamed.is_whole);
  ASSERT_TRUE(eventually([&] { return model_->scheduler->sequences().empty(); }));
  EXPECT_LE(model_->scheduler->stats().n_requests, 4U)
      << failed.body << streamed.body;  // two at a time: no more were begun
  complete(R"(["a","b"])");
}

TEST_F(Completions, WhoLeavesEndsAllPrompts) {
  n_ctx_train_ = 4096;
  SchedulerOptions scheduling;
  scheduling.max_seqs = 2;
  start({}, scheduling);
  for (const char* const stream : {"true", "false"}) {
    const uint64_t n_before = model_->scheduler->stats().n_requests;
    const auto stopper = hold_steps(*model_->scheduler);
    Client client(server_->port());
    ASSERT_TRUE(client.send(json_post(
        kCompletions,
        fmt::format(R"({{"prompt":["a","b","c","d","e","f"],"max_tokens":4000,"ignore_eos":true,"stream":{}}})",
                    stream))));
    ASSERT_TRUE(eventually([&] { return model_->scheduler->sequences().size() == 3; }));  // two of them wait
    client.close();
    expect_seen();
    stopper->let_go();
    ASSERT_TRUE(eventually([&] { return model_->scheduler->sequences().empty(); }));
    EXPECT_LE(model_->scheduler->stats().n_requests, n_before + 3);  // with the one that held the steps
    EXPECT_EQ(model_->scheduler->stats().n_queued, 0U);
  }
  complete(R"(["a","b"])");
}

}  // namespace
}  // namespace tamis::server
