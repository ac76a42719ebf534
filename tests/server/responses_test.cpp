// OpenAI's Responses over HTTP, whole and streamed, and what is told about running sequences.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "server/generation_call.h"
#include "tests/server/server_fixture.h"

namespace tamis::server {
namespace {

using test::event_data;
using test::first_choice;
using test::HttpAnswer;
using test::json_of;
using test::kChat;
using test::ServerTest;
using test::text_at;

constexpr const char* kResponses = "/v1/responses";

const Json& output_part(const Json& response) {
  return response.find("output")->as_array().front().find("content")->as_array().front();
}

TEST_F(ServerTest, ResponsesSayWhatChatSays) {
  start();
  const std::string text = chat_text(R"("max_tokens":16)");
  const Json whole = json_of(post(kResponses, R"({"input":"hello there","temperature":0,"max_output_tokens":16})"));
  EXPECT_EQ(text_at(whole, "object"), "response");
  EXPECT_EQ(text_at(whole, "model"), "tiny");
  EXPECT_EQ(text_at(output_part(whole), "type"), "output_text");
  EXPECT_EQ(text_at(output_part(whole), "text"), text);
  EXPECT_EQ(*whole.find("store"), Json(false));
  EXPECT_EQ(whole.find("max_output_tokens")->as_int(), 16);
  EXPECT_EQ(whole.find("temperature")->as_double(), 0);
  const Json& usage = *whole.find("usage");
  EXPECT_EQ(usage.find("input_tokens")->as_int() + usage.find("output_tokens")->as_int(),
            usage.find("total_tokens")->as_int());
  ASSERT_NE(usage.find("input_tokens_details")->find("cached_tokens"), nullptr);

  // Instructions are a system prompt; items are messages, those of an earlier answer too.
  const Json items = json_of(post(kResponses, R"({"instructions":"be brief","input":[
      {"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]},
      {"type":"message","id":"msg_1","status":"completed","role":"assistant",
       "content":[{"type":"output_text","text":"c","annotations":[],"logprobs":[]}]},
      {"role":"user","content":"d"}],"temperature":0,"max_output_tokens":16})"));
  const Json chat = json_of(post(kChat, R"({"messages":[{"role":"system","content":"be brief"},
      {"role":"user","content":"a\nb"},{"role":"assistant","content":"c"},{"role":"user","content":"d"}],
      "temperature":0,"max_tokens":16})"));
  EXPECT_EQ(text_at(output_part(items), "text"), text_at(first_choice(chat), "message", "content"));
  EXPECT_EQ(items.find("usage")->find("input_tokens")->as_int(), chat.find("usage")->find("prompt_tokens")->as_int());
  const Json counted = json_of(post("/v1/responses/input_tokens", R"({"input":"hello there"})"));
  EXPECT_EQ(counted.find("input_tokens")->as_int(), usage.find("input_tokens")->as_int());
}

TEST_F(ServerTest, ResponsesEndAsTheyShould) {
  start();
  const Json cut =
      json_of(post(kResponses, R"({"input":"hi","temperature":0,"max_output_tokens":3,"ignore_eos":true})"));
  EXPECT_EQ(text_at(cut, "status"), "incomplete");
  EXPECT_EQ(text_at(cut, "incomplete_details", "reason"), "max_output_tokens");
  const Json done = json_of(post(kResponses, R"({"input":"hi","seed":1,"text":{"format":{"type":"json_schema",
      "name":"n","strict":true,"schema":{"enum":["yes","no"]}}}})"));
  EXPECT_EQ(text_at(done, "status"), "completed");
  EXPECT_TRUE(done.find("incomplete_details")->is_null());
  EXPECT_TRUE(text_at(output_part(done), "text") == "\"yes\"" || text_at(output_part(done), "text") == "\"no\"");
  EXPECT_EQ(text_at(*done.find("text"), "format", "name"), "n");
  EXPECT_EQ(*done.find("text")->find("format")->find("strict"), Json(true));
}

TEST_F(ServerTest, ResponsesStreamTheirEvents) {
  start();
  const std::string body = R"("input":"hello there","temperature":0,"max_output_tokens":8,"ignore_eos":true,
      "include":["message.output_text.logprobs"],"top_logprobs":2})";
  const Json whole = json_of(post(kResponses, "{" + body));
  const HttpAnswer answer = post(kResponses, "{\"stream\":true," + body);
  EXPECT_EQ(answer.header("content-type"), "text/event-stream");
  EXPECT_TRUE(answer.is_whole);
  std::vector<std::string> kinds;
  std::string joined, done;
  size_t n_logprobs = 0;
  int64_t n = 0;
  Json last;
  for (const std::string& data : event_data(answer.body)) {
    last = *Json::parse(data);
    EXPECT_EQ(last.find("sequence_number")->as_int(), n++);
    const std::string type = text_at(last, "type");
    EXPECT_NE(answer.body.find("event: " + type + "\ndata: " + data), std::string::npos);
    if (kinds.empty() || kinds.back() != type) kinds.push_back(type);
    if (type == "response.output_text.delta") {
      joined += text_at(last, "delta");
      n_logprobs += last.find("logprobs")->as_array().size();
    }
    if (type == "response.output_text.done") done = text_at(last, "text");
  }
  EXPECT_EQ(kinds, (std::vector<std::string>{"response.created", "response.in_progress", "response.output_item.added",
                                             "response.content_part.added", "response.output_text.delta",
                                             "response.output_text.done", "response.content_part.done",
                                             "response.output_item.done", "response.incomplete"}));
  EXPECT_EQ(joined, text_at(output_part(whole), "text"));
  EXPECT_EQ(done, joined);
  EXPECT_LE(n_logprobs, 8U);
  // The last event holds the whole answer.
  const Json& response = *last.find("response");
  EXPECT_EQ(output_part(response).find("logprobs")->as_array().size(), 8U);
  EXPECT_EQ(output_part(response).find("logprobs")->dump(), output_part(whole).find("logprobs")->dump());
  EXPECT_EQ(response.find("usage")->find("output_tokens")->as_int(), 8);
}

TEST(Responses, WhatIsNotKeptIsRefusedByName) {
  const CallLimits limits{.n_vocab = 1000, .n_ctx = 128, .max_choices = 8};
  const std::pair<const char*, const char*> refused[] = {
      {R"("previous_response_id":"resp_1")", "previous_response_id"},
      {R"("conversation":"conv_1")", "conversation"},
      {R"("store":true)", "store"},
      {R"("background":true)", "background"},
      {R"("truncation":"auto")", "truncation"},
      {R"("prompt":{"id":"p"})", "prompt"},
      {R"("include":["file_search_call.results"])", "include"},
      {R"("top_logprobs":21)", "top_logprobs"},
      {R"("max_output_tokens":0)", "max_output_tokens"},
      {R"("n":2)", "n"},
      {R"("messages":[])", "messages"},
      {R"("metadata":{"a":1})", "metadata"},
      {R"("text":{"format":{"type":"xml"}})", "text.format.type"},
      {R"("text":{"format":{"type":"json_schema","schema":{}}})", "text.format.name"},
      {R"("text":{"format":{"type":"json_schema","name":"n"}})", "text.format.schema"},
      {R"("text":{"format":{}})", "text.format.type"},
      {R"("text":{"form":{}})", "text.form"},
      {R"("stream_options":{"include_usage":true})", "stream_options.include_usage"},
      {R"("input":[])", "input"},
      {R"("input":1)", "input"},
      {R"("input":["x"])", "input[0]"},
      {R"("input":[{"type":"image_generation_call"}])", "input[0].type"},
      {R"("input":[{"role":"tool","content":"x"}])", "input[0].role"},
      {R"("input":[{"role":"user"}])", "input[0].content"},
      {R"("input":[{"role":"user","content":[{"type":"input_image","image_url":"file:///x"}]}])",
       "input[0].content[0]"},
      {R"("input":[{"role":"user","content":"x","extra":1}])", "input[0].extra"},
  };
  for (const auto& [member, param] : refused) {
    const std::string input = std::string_view(member).starts_with("\"input\"") ? "" : R"("input":"x",)";
    const auto parsed = parse_response(*parse_body("{" + input + member + "}"), limits);
    ASSERT_FALSE(parsed) << member;
    EXPECT_EQ(parsed.error().status, 400);
    EXPECT_EQ(parsed.error().param, param) << parsed.error().message;
  }
  EXPECT_EQ(parse_response(Json::object(), limits).error().param, "input");
}

TEST_F(ServerTest, FaultsOfAPromptNameTheInput) {
  start();
  Json body = Json::object();
  body.set("input", std::string(2000, 'a'));
  const Json refused = json_of(post(kResponses, body.dump()));
  EXPECT_EQ(text_at(refused, "error", "param"), "input");
  EXPECT_EQ(text_at(refused, "error", "code"), "context_length_exceeded");
}

TEST_F(ServerTest, SlotsTellNumbersAndNoTexts) {  // promise 27
  SchedulerOptions scheduling;
  scheduling.max_seqs = 1;
  start({}, scheduling);
  EXPECT_EQ(get("/slots").body, "[]\n");
  const auto stopper = test::hold_steps(*model_->scheduler);
  ASSERT_TRUE(eventually([&] { return model_->scheduler->stats().n_queued == 0; }));
  test::Client waiting(server_->port());
  ASSERT_TRUE(waiting.send(test::json_post(kResponses, R"({"input":"secret words","max_output_tokens":1})")));
  ASSERT_TRUE(eventually([&] { return model_->scheduler->sequences().size() == 2; }));
  const HttpAnswer answer = get("/slots");  // while no step ends (B30)
  EXPECT_EQ(answer.body.find("secret"), std::string::npos);
  const Json slots = json_of(answer);
  ASSERT_EQ(slots.as_array().size(), 2U);
  EXPECT_EQ(slots.as_array()[0].find("n_prompt_tokens")->as_int(), 1);
  EXPECT_EQ(text_at(slots.as_array()[1], "state"), "waiting");
  EXPECT_GT(slots.as_array()[1].find("n_prompt_tokens")->as_int(), 10);
  stopper->let_go();
  EXPECT_EQ(waiting.answer().status, 200);
}

}  // namespace
}  // namespace tamis::server
