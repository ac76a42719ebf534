// Tools and reasoning in OpenAI's Responses: over HTTP with a grammar that makes a tiny model call them, items of
// conversations right and wrong, and the events of a stream.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "server/generation_call.h"
#include "tests/server/server_fixture.h"

namespace tamis::server {
namespace {

using test::event_data;
using test::HttpAnswer;
using test::json_of;
using test::ServerTest;
using test::text_at;
using Kind = AnswerPiece::Kind;

constexpr const char* kResponses = "/v1/responses";
constexpr CallLimits kLimits{.n_vocab = 1000, .n_ctx = 128, .max_choices = 8};
const std::string kTool =
    R"({"type":"function","name":"pick","description":"d","strict":true,"parameters":{"type":"object","properties":)"
    R"({"a":{"enum":["x","y"]}},"required":["a"],"additionalProperties":false}})";
const char* const kTemplate =
    "{% if tools %}<|system|>{{ tools[0].function.name }}<tool_call><|end|>{% endif %}{% for m in messages %}"
    "<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}<|assistant|>{% if enable_thinking %}<think>\n{% endif %}";

const Json& item_at(const Json& response, size_t i) { return response.find("output")->as_array().at(i); }

// "type" of each event, a row of equal ones once.
std::vector<std::string> kinds_of(const std::vector<std::string>& events) {
  std::vector<std::string> kinds;
  for (const std::string& data : events) {
    const std::string type = text_at(*Json::parse(data), "type").substr(9);  // "response."
    if (kinds.empty() || kinds.back() != type) kinds.push_back(type);
  }
  return kinds;
}

TEST_F(ServerTest, ResponsesCallToolsWholeAndStreamed) {
  chat_template_ = kTemplate;
  start();
  const std::string body = R"("input":"hello","tools":[)" + kTool +
                           R"(],"tool_choice":{"type":"function","name":"pick"},"parallel_tool_calls":false,"seed":3)";
  const Json whole = json_of(post(kResponses, "{" + body + "}"));
  EXPECT_EQ(text_at(whole, "status"), "completed");
  EXPECT_EQ(text_at(*whole.find("tool_choice"), "name"), "pick");
  EXPECT_EQ(*whole.find("parallel_tool_calls"), Json(false));
  EXPECT_EQ(*whole.find("tools")->as_array().front().find("strict"), Json(true));
  ASSERT_EQ(whole.find("output")->as_array().size(), 1U) << whole.dump();
  const Json& call = item_at(whole, 0);
  EXPECT_EQ(text_at(call, "type"), "function_call");
  EXPECT_EQ(text_at(call, "status"), "completed");
  EXPECT_EQ(text_at(call, "name"), "pick");
  EXPECT_TRUE(test::matches("[0-9a-z]{9}", text_at(call, "call_id")));
  const std::string arguments = text_at(call, "arguments");
  EXPECT_TRUE(test::matches(R"j(\{\s*"a"\s*:\s*"[xy]"\s*\})j", arguments)) << arguments;

  const HttpAnswer answer = post(kResponses, "{\"stream\":true," + body + "}");
  const std::vector<std::string> events = event_data(answer.body);
  EXPECT_EQ(kinds_of(events),
            (std::vector<std::string>{"created", "in_progress", "output_item.added", "function_call_arguments.delta",
                                      "function_call_arguments.done", "output_item.done", "completed"}));
  std::string joined, item_id;
  Json last;
  for (const std::string& data : events) {
    last = *Json::parse(data);
    const std::string type = text_at(last, "type");
    if (type == "response.output_item.added") item_id = text_at(last, "item", "id");
    if (!type.starts_with("response.function_call_arguments")) continue;
    EXPECT_EQ(text_at(last, "item_id"), item_id);
    EXPECT_EQ(*last.find("output_index"), Json(0));
    joined += text_at(last, "delta");
    if (type.ends_with("done")) {
      EXPECT_EQ(text_at(last, "arguments"), joined);
    }
  }
  EXPECT_EQ(joined, arguments);
  EXPECT_EQ(text_at(item_at(*last.find("response"), 0), "arguments"), arguments);
  EXPECT_EQ(text_at(item_at(*last.find("response"), 0), "id"), item_id);

  // With its result, the conversation goes on.
  Json again = *Json::parse("{" + body + R"(,"max_output_tokens":2})");
  Json::Array items = {chat_message("user", "hello"), call};
  Json result = Json::object();
  result.set("type", "function_call_output").set("call_id", *call.find("call_id")).set("output", "done");
  items.push_back(result);
  again.set("input", items).set("tool_choice", "none");
  const HttpAnswer next = post(kResponses, again.dump());
  EXPECT_EQ(next.status, 200) << next.body;
  EXPECT_EQ(text_at(item_at(json_of(next), 0), "type"), "message");
}

TEST_F(ServerTest, ResponsesTellReasoningApart) {
  chat_template_ = kTemplate;
  start();
  const std::string body =
      R"("input":"hello","temperature":0,"ignore_eos":true,"logit_bias":{"60":-100},"max_output_tokens":40,)"
      R"("reasoning_budget":9,"chat_template_kwargs":{"enable_thinking":true},"include":["message.output_text.logprobs"])";
  const Json whole = json_of(post(kResponses, "{" + body + "}"));
  ASSERT_EQ(whole.find("output")->as_array().size(), 2U) << whole.dump();
  const Json& reasoning = item_at(whole, 0);
  EXPECT_EQ(text_at(reasoning, "type"), "reasoning");
  EXPECT_EQ(text_at(reasoning, "status"), "completed");
  const Json& thought = reasoning.find("content")->as_array().front();
  EXPECT_EQ(text_at(thought, "type"), "reasoning_text");
  EXPECT_FALSE(text_at(thought, "text").empty());
  EXPECT_EQ(text_at(item_at(whole, 1), "status"), "incomplete");
  const Json& said = item_at(whole, 1).find("content")->as_array().front();
  const int64_t n_reasoning = whole.find("usage")->find("output_tokens_details")->find("reasoning_tokens")->as_int();
  EXPECT_GT(n_reasoning, 0);
  const auto n_scored = static_cast<int64_t>(said.find("logprobs")->as_array().size());
  EXPECT_GT(n_scored, 0);
  EXPECT_LE(n_scored + n_reasoning, 40);

  const std::vector<std::string> events = event_data(post(kResponses, "{\"stream\":true," + body + "}").body);
  EXPECT_EQ(kinds_of(events), (std::vector<std::string>{
                                  "created", "in_progress", "output_item.added", "content_part.added",
                                  "reasoning_text.delta", "reasoning_text.done", "content_part.done",
                                  "output_item.done", "output_item.added", "content_part.added", "output_text.delta",
                                  "output_text.done", "content_part.done", "output_item.done", "incomplete"}));
  const Json last = *Json::parse(events.back());
  const Json& response = *last.find("response");
  EXPECT_EQ(item_at(response, 0).find("content")->dump(), reasoning.find("content")->dump());
  EXPECT_EQ(item_at(response, 1).find("content")->dump(), item_at(whole, 1).find("content")->dump());
}

TEST(ResponsesFormat, ACallThatBreaksOffEndsItsItem) {
  const auto format = make_format(Dialect::openai_responses, {.id = "0123456789abcdef", .model = "tiny"});
  AnswerToken token;
  token.pieces = {{Kind::text, "I look.", 0, true},       {Kind::call_begin, "pick", 0, true},
                  {Kind::call_arguments, "{}", 0, true},  {Kind::call_end, "raw", 0, true},
                  {Kind::text, "And", 0, true},           {Kind::call_begin, "pick", 1, true},
                  {Kind::call_arguments, "{\"a", 1, true}};
  std::string all = format->token(token);
  AnswerEnd end;
  end.end = GenerationEnd::token_limit;
  end.pieces = {{Kind::call_end, "raw", 1, false}};
  all += format->choice_end(end);
  all += format->end({});
  const std::vector<std::string> events = event_data(all);
  const Json last = *Json::parse(events.back());
  const Json& response = *last.find("response");
  const std::pair<const char*, const char*> expected[] = {{"message", "completed"},
                                                          {"function_call", "completed"},
                                                          {"message", "completed"},
                                                          {"function_call", "incomplete"}};
  ASSERT_EQ(response.find("output")->as_array().size(), std::size(expected));
  std::vector<std::string> ids;
  for (size_t i = 0; i < std::size(expected); ++i) {
    EXPECT_EQ(text_at(item_at(response, i), "type"), expected[i].first);
    EXPECT_EQ(text_at(item_at(response, i), "status"), expected[i].second);
    ids.push_back(text_at(item_at(response, i), "id"));
  }
  std::ranges::sort(ids);
  EXPECT_EQ(std::ranges::adjacent_find(ids), ids.end());
  EXPECT_EQ(text_at(item_at(response, 3), "arguments"), "{\"a");
  EXPECT_EQ(text_at(response, "status"), "incomplete");
}

TEST(ResponsesFormat, AnAnswerOfNothingIsAnEmptyMessage) {
  const auto format = make_format(Dialect::openai_responses, {.id = "0123456789abcdef", .model = "tiny"});
  std::string all = format->choice_end({});
  all += format->end({});
  const Json last = *Json::parse(event_data(all).back());
  ASSERT_EQ(last.find("response")->find("output")->as_array().size(), 1U);
  EXPECT_EQ(text_at(item_at(*last.find("response"), 0).find("content")->as_array().front(), "text"), "");
}

TEST(Responses, ItemsBecomeMessagesAgain) {
  const auto parsed = parse_response(*Json::parse(R"({"instructions":"be brief","input":[
      {"role":"user","content":"q"},
      {"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"t"}],"status":"completed"},
      {"type":"message","role":"assistant","content":[{"type":"output_text","text":"c"}]},
      {"type":"function_call","id":"fc_1","call_id":"1","name":"f","arguments":"{\"a\":1}","status":"completed"},
      {"type":"function_call","call_id":"2","name":"g","arguments":""},
      {"type":"function_call_output","call_id":"2","output":"r2"},
      {"type":"function_call_output","call_id":"1","output":[{"type":"input_text","text":"r1"}]},
      {"type":"function_call","call_id":"3","name":"f","arguments":"{}"},
      {"type":"function_call_output","call_id":"3","output":""},
      {"type":"reasoning","summary":[],"encrypted_content":"?"},
      {"role":"assistant","content":"d"},{"role":"assistant","content":"e"}]})"),
                                     kLimits);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(*parsed->messages, *Json::parse(R"([{"role":"system","content":"be brief"},{"role":"user","content":"q"},
      {"role":"assistant","content":"c","reasoning_content":"t","tool_calls":[
        {"id":"1","type":"function","function":{"name":"f","arguments":{"a":1}}},
        {"id":"2","type":"function","function":{"name":"g","arguments":{}}}]},
      {"role":"tool","content":"r2","tool_call_id":"2","name":"g"},{"role":"tool","content":"r1","tool_call_id":"1","name":"f"},
      {"role":"assistant","content":"","tool_calls":[{"id":"3","type":"function","function":{"name":"f","arguments":{}}}]},
      {"role":"tool","content":"","tool_call_id":"3","name":"f"},
      {"role":"assistant","content":"d"},{"role":"assistant","content":"e"}])"))
      << parsed->messages->dump();
}

TEST(Responses, ToolsAndReasoningAreRead) {
  const std::string tools = R"({"input":"x","tools":[)" + kTool + "]";
  const auto parsed = parse_response(
      *Json::parse(tools + R"(,"tool_choice":"required","parallel_tool_calls":false,"reasoning":{"effort":"low",
        "summary":"auto"},"reasoning_budget":5})"),
      kLimits);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_TRUE(parsed->tools.is_required);
  EXPECT_FALSE(parsed->tools.allows_several);
  EXPECT_EQ(parsed->reasoning_budget, 5);
  EXPECT_EQ(*parsed->variables.find("reasoning_effort"), Json("low"));
  const Json& function = *parsed->tools.offered.as_array().front().find("function");
  EXPECT_EQ(text_at(function, "name"), "pick");
  EXPECT_NE(function.find("parameters")->find("properties"), nullptr);
  const auto none =
      parse_response(*Json::parse(tools + R"(,"tool_choice":"none","reasoning":{"effort":"none"}})"), kLimits);
  ASSERT_TRUE(none) << none.error().message;
  EXPECT_TRUE(none->tools.offered.as_array().empty());
  EXPECT_EQ(*none->variables.find("enable_thinking"), Json(false));
}

TEST(Responses, MalformedToolsAndItemsAreNamed) {
  const std::string tools = R"("input":"x","tools":[)" + kTool + "]";
  const std::string call = R"({"type":"function_call","call_id":"1","name":"f","arguments":"{}"})";
  const std::string output = R"({"type":"function_call_output","call_id":"1","output":"r"})";
  const std::pair<std::string, const char*> rows[] = {
      {R"("input":"x","tools":[3])", "tools[0]"},
      {R"("input":"x","tools":[{}])", "tools[0].type"},
      {R"("input":"x","tools":[{"type":"web_search"}])", "tools[0].type"},
      {R"("input":"x","tools":[{"type":"mcp","server_url":"http://169.254.169.254/"}])", "tools[0].type"},
      {R"("input":"x","tools":[{"type":"function"}])", "tools[0].name"},
      {R"("input":"x","tools":[{"type":"function","function":{"name":"f"}}])", "tools[0].name"},
      {R"("input":"x","tools":[{"type":"function","name":"f","x":1}])", "tools[0].x"},
      {R"("input":"x","tools":[{"type":"function","name":"f","parameters":1}])", "tools[0].parameters"},
      {R"("input":"x","tools":[)" + kTool + "," + kTool + "]", "tools[1].name"},
      {R"("input":"x","tool_choice":"required")", "tool_choice"},
      {tools + R"(,"tool_choice":"maybe")", "tool_choice"},
      {tools + R"(,"tool_choice":{"type":"function","name":"g"})", "tool_choice"},
      {tools + R"(,"tool_choice":{"type":"function"})", "tool_choice.name"},
      {tools + R"(,"tool_choice":{"type":"function","function":{"name":"pick"}})", "tool_choice.name"},
      {tools + R"(,"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[]})", "tool_choice.type"},
      {tools + R"(,"max_tool_calls":3)", "max_tool_calls"},
      {R"("input":"x","reasoning":{"effort":3})", "reasoning.effort"},
      {R"("input":"x","reasoning":{"x":3})", "reasoning.x"},
      {R"("input":[{"type":"item_reference","id":"msg_1"}])", "input[0].type"},
      {R"("input":[{"type":3}])", "input[0].type"},
      {R"("input":[{"type":"reasoning","summary":[]}])", "input"},
      {R"("input":[{"type":"reasoning","content":[{"type":"output_text","text":"x"}]}])", "input[0].content[0]"},
      {R"("input":[{"type":"function_call","call_id":"1","arguments":"{}"}])", "input[0].name"},
      {R"("input":[{"type":"function_call","call_id":1,"name":"f","arguments":"{}"}])", "input[0].call_id"},
      {R"("input":[{"type":"function_call","call_id":"1","name":"f","arguments":"{"}])", "input[0].arguments"},
      {R"("input":[{"type":"function_call","call_id":"1","name":"f","arguments":[]}])", "input[0].arguments"},
      {R"("input":[)" + output + "]", "input[0].call_id"},
      {R"("input":[)" + call + "," + output + "," + output + "]", "input[2].call_id"},
      {R"("input":[)" + call + R"(,{"type":"function_call_output","call_id":"1"}])", "input[1].output"},
      {R"("input":[)" + call + R"(,{"type":"function_call_output","call_id":"1","output":3}])", "input[1].output"},
      {R"("input":[)" + call + R"(,{"type":"function_call_output","call_id":"1","output":[{"type":"input_file"}]}])",
       "input[1].output[0]"},
  };
  for (const auto& [members, param] : rows) {
    const auto parsed = parse_response(*Json::parse("{" + members + "}"), kLimits);
    ASSERT_FALSE(parsed) << members;
    EXPECT_EQ(parsed.error().status, 400);
    EXPECT_EQ(parsed.error().param, param) << members << parsed.error().message;
  }
  const auto search = parse_response(*Json::parse(R"({"input":"x","tools":[{"type":"web_search"}]})"), kLimits);
  EXPECT_NE(search.error().message.find("web_search"), std::string::npos) << search.error().message;
}

}  // namespace
}  // namespace tamis::server
