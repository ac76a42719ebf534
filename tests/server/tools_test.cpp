// Tools and reasoning through HTTP, in every dialect, with a tiny model that a grammar makes call them; and
// conversations with calls and results, right and wrong.
#include <fmt/format.h>

#include <map>

#include "cpu/backend.h"
#include "server/answer_job.h"
#include "tests/server/server_fixture.h"

namespace tamis::server {
namespace {

using test::event_data;
using test::first_choice;
using test::HttpAnswer;
using test::json_of;
using test::kChat;
using test::kHello;
using test::text_at;

const char* const kSchema =
    R"({"type":"object","properties":{"a":{"enum":["x","y"]}},"required":["a"],"additionalProperties":false})";
// A template that offers tools, with the marks of the tagged family and of reasoning.
const char* const kToolTemplate =
    "{% if tools %}<|system|>{% for t in tools %}{{ t.function.name }} {% endfor %}<tool_call><|end|>{% endif %}"
    "{% for m in messages %}<|{{ 'user' if m.role == 'tool' else m.role }}|>"
    "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function.name }} {{ c.function.arguments.a }} {{ c.id }}{% "
    "endfor %}"
    "{% if m.role == 'tool' %} of {{ m.name }} {{ m.tool_call_id }}{% endif %}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% if enable_thinking %}<think>\n{% endif %}{% endif %}";

std::string openai_tools() {
  return fmt::format(
      R"("tools":[{{"type":"function","function":{{"name":"pick","description":"d","parameters":{0}}}}},)"
      R"({{"type":"function","function":{{"name":"drop","parameters":{0}}}}}])",
      kSchema);
}

bool is_pick(const Json& arguments) { return arguments.find("a") != nullptr && arguments.as_object().size() == 1; }

class ToolsTest : public test::ServerTest {
 protected:
  std::string rendered(std::string_view messages, std::string_view more = "") const {
    const HttpAnswer answer = post("/apply-template", fmt::format("{{\"messages\":{}{}}}", messages, more));
    EXPECT_EQ(answer.status, 200) << answer.body;
    return text_at(json_of(answer), "prompt");
  }
};

TEST_F(ToolsTest, OpenAiCallsWholeAndStreamed) {
  chat_template_ = kToolTemplate;
  start();
  const std::string body = "{" + kHello + "," + openai_tools() +
                           R"(,"tool_choice":"required","parallel_tool_calls":false,"max_tokens":200,"seed":3,)";
  const Json whole = json_of(post(kChat, body + "\"stream\":false}"));
  const Json& message = *first_choice(whole).find("message");
  EXPECT_EQ(text_at(first_choice(whole), "finish_reason"), "tool_calls");
  EXPECT_TRUE(message.find("content")->is_null());
  ASSERT_NE(message.find("tool_calls"), nullptr) << whole.dump();
  ASSERT_EQ(message.find("tool_calls")->as_array().size(), 1U);
  const Json& call = message.find("tool_calls")->as_array()[0];
  EXPECT_EQ(text_at(call, "type"), "function");
  EXPECT_TRUE(test::matches("[0-9a-z]{9}", text_at(call, "id")));
  const std::string arguments = text_at(call, "function", "arguments");
  EXPECT_TRUE(is_pick(*Json::parse(arguments)));

  const HttpAnswer streamed = post(kChat, body + "\"stream\":true}");
  std::string name, joined, reason, id;
  for (const std::string& event : event_data(streamed.body)) {
    if (event == "[DONE]") continue;
    const Json chunk = *Json::parse(event);
    EXPECT_EQ(text_at(first_choice(chunk), "delta", "content"), "");
    reason += text_at(first_choice(chunk), "finish_reason");
    const Json* const calls = first_choice(chunk).find("delta")->find("tool_calls");
    if (calls == nullptr) continue;
    EXPECT_EQ(*calls->as_array()[0].find("index"), Json(0));
    id += text_at(calls->as_array()[0], "id");
    name += text_at(calls->as_array()[0], "function", "name");
    joined += text_at(calls->as_array()[0], "function", "arguments");
  }
  EXPECT_EQ(name, text_at(call, "function", "name"));
  EXPECT_EQ(joined, arguments);
  EXPECT_EQ(reason, "tool_calls");
  EXPECT_EQ(id.size(), 9U);
}

TEST_F(ToolsTest, SeveralCallsMayBeRequired) {
  chat_template_ = kToolTemplate;
  n_ctx_train_ = 2048;
  start();
  // The end of the text never comes: call follows call, up to the limit.
  const std::string body =
      "{" + kHello + "," + openai_tools() + R"(,"tool_choice":"required","max_tokens":800,"seed":3,"ignore_eos":true)";
  const Json whole = json_of(post(kChat, body + "}"));
  const Json* const calls = first_choice(whole).find("message")->find("tool_calls");
  ASSERT_NE(calls, nullptr) << whole.dump();
  ASSERT_GE(calls->as_array().size(), 2U) << whole.dump();
  for (const Json& call : calls->as_array()) EXPECT_TRUE(is_pick(*Json::parse(text_at(call, "function", "arguments"))));
  std::vector<std::string> names, arguments;
  for (const std::string& event : event_data(post(kChat, body + ",\"stream\":true}").body)) {
    if (event == "[DONE]") continue;
    const Json chunk = *Json::parse(event);
    const Json* const deltas = first_choice(chunk).find("delta")->find("tool_calls");
    if (deltas == nullptr) continue;
    const auto i = static_cast<size_t>(deltas->as_array()[0].find("index")->as_int());
    ASSERT_LE(i, names.size());
    names.resize(std::max(names.size(), i + 1));
    arguments.resize(names.size());
    names[i] += text_at(deltas->as_array()[0], "function", "name");
    arguments[i] += text_at(deltas->as_array()[0], "function", "arguments");
  }
  ASSERT_GE(names.size(), calls->as_array().size());  // one more may have broken off
  for (size_t i = 0; i < calls->as_array().size(); ++i) {
    EXPECT_EQ(names[i], text_at(calls->as_array()[i], "function", "name"));
    EXPECT_EQ(arguments[i], text_at(calls->as_array()[i], "function", "arguments"));
  }
  const Json one = json_of(post(kChat, body + ",\"parallel_tool_calls\":false}"));
  EXPECT_EQ(first_choice(one).find("message")->find("tool_calls")->as_array().size(), 1U) << one.dump();
}

TEST_F(ToolsTest, ANamedToolIsTheOneThatIsCalled) {
  n_ctx_train_ = 2048;
  start();  // a template without tools: they are spelled out
  for (const char* const name : {"pick", "drop"}) {
    const Json answer = json_of(post(
        kChat, "{" + kHello + "," + openai_tools() +
                   fmt::format(R"(,"tool_choice":{{"type":"function","function":{{"name":"{}"}}}},"max_tokens":200}})",
                               name)));
    const Json* const calls = first_choice(answer).find("message")->find("tool_calls");
    ASSERT_NE(calls, nullptr) << answer.dump();
    ASSERT_EQ(calls->as_array().size(), 1U);
    EXPECT_EQ(text_at(calls->as_array()[0], "function", "name"), name);
  }
}

TEST_F(ToolsTest, AnthropicCallsWholeAndStreamed) {
  chat_template_ = kToolTemplate;
  start();
  const std::string body = "{" + kHello +
                           fmt::format(R"(,"tools":[{{"name":"pick","input_schema":{}}}],"max_tokens":200,)", kSchema) +
                           R"("tool_choice":{"type":"any","disable_parallel_tool_use":true},"temperature":0,)";
  const Json whole = json_of(post("/v1/messages", body + "\"stream\":false}"));
  EXPECT_EQ(text_at(whole, "stop_reason"), "tool_use") << whole.dump();
  const Json& block = whole.find("content")->as_array().front();
  EXPECT_EQ(text_at(block, "type"), "tool_use");
  EXPECT_EQ(text_at(block, "name"), "pick");
  EXPECT_TRUE(is_pick(*block.find("input")));

  std::string input, names;
  for (const std::string& event : event_data(post("/v1/messages", body + "\"stream\":true}").body)) {
    const Json json = *Json::parse(event);
    if (!names.ends_with(text_at(json, "type") + " ")) names += text_at(json, "type") + " ";
    input += text_at(json, "delta", "partial_json");
  }
  EXPECT_EQ(names,
            "message_start content_block_start content_block_delta content_block_stop message_delta message_stop ");
  EXPECT_EQ(*Json::parse(input), *block.find("input"));
}

TEST_F(ToolsTest, OllamaTellsCallsWhole) {
  chat_template_ = kToolTemplate;
  start();
  const std::string body = "{" + kHello + "," + openai_tools() + R"(,"options":{"num_predict":9,"temperature":0},)";
  const Json free = json_of(post("/api/chat", body + "\"stream\":false}"));  // tools are taken; noise calls none
  EXPECT_EQ(free.find("message")->find("tool_calls"), nullptr) << free.dump();
  EXPECT_EQ(free.find("eval_count")->as_int(), 9) << free.dump();

  auto format = make_format(Dialect::ollama_chat, {.id = "0123456789abcdef", .model = "tiny"});
  AnswerToken token;
  token.pieces = {{AnswerPiece::Kind::reasoning, "Hm.", 0, true},
                  {AnswerPiece::Kind::call_begin, "pick", 0, true},
                  {AnswerPiece::Kind::call_arguments, "{\"a\": ", 0, true}};
  const Json thought = *Json::parse(format->token(token));
  EXPECT_EQ(text_at(thought, "message", "thinking"), "Hm.");
  token.pieces = {{AnswerPiece::Kind::call_arguments, "\"x\"}", 0, true},
                  {AnswerPiece::Kind::call_end, "raw", 0, true}};
  const Json called = *Json::parse(format->token(token));
  const Json& call = called.find("message")->find("tool_calls")->as_array()[0];
  EXPECT_EQ(text_at(call, "function", "name"), "pick");
  EXPECT_EQ(*call.find("function")->find("arguments"), *Json::parse(R"({"a":"x"})"));
  token.pieces = {{AnswerPiece::Kind::call_begin, "pick", 1, true},
                  {AnswerPiece::Kind::call_arguments, "{\"a\": ", 1, true},
                  {AnswerPiece::Kind::call_end, "<tool_call>{\"a\": ", 1, false}};
  EXPECT_EQ(text_at(*Json::parse(format->token(token)), "message", "content"), "<tool_call>{\"a\": ");
}

TEST_F(ToolsTest, ReasoningIsToldApartAndBounded) {
  chat_template_ = kToolTemplate;
  start();
  const std::string thinking = R"(,"chat_template_kwargs":{"enable_thinking":true},"temperature":0,"ignore_eos":true,)"
                               R"("logit_bias":{"60":-100})";  // no mark of its own: '<' never comes
  const std::string body = "{" + kHello + thinking + R"(,"max_tokens":40)";
  const Json endless = json_of(post(kChat, body + "}"));
  EXPECT_EQ(text_at(first_choice(endless), "message", "content"), "");
  const std::string all = text_at(first_choice(endless), "message", "reasoning_content");
  EXPECT_GT(all.size(), 10U);

  const Json bounded = json_of(post(kChat, body + R"(,"reasoning_budget":9})"));
  const std::string reasoning = text_at(first_choice(bounded), "message", "reasoning_content");
  EXPECT_FALSE(text_at(first_choice(bounded), "message", "content").empty());
  EXPECT_EQ(reasoning, all.substr(0, reasoning.size()));
  EXPECT_LT(reasoning.size(), all.size());

  std::string streamed, content;
  for (const std::string& event : event_data(post(kChat, body + R"(,"reasoning_budget":9,"stream":true})").body)) {
    if (event == "[DONE]") continue;
    const Json chunk = *Json::parse(event);
    streamed += text_at(first_choice(chunk), "delta", "reasoning_content");
    content += text_at(first_choice(chunk), "delta", "content");
  }
  EXPECT_EQ(streamed, reasoning);
  EXPECT_EQ(content, text_at(first_choice(bounded), "message", "content"));

  const Json raw = json_of(post(kChat, body + R"(,"reasoning_budget":9,"reasoning_format":"none"})"));
  EXPECT_NE(text_at(first_choice(raw), "message", "content").find("\n</think>\n\n"), std::string::npos);

  // A form holds behind the reasoning.
  const Json held = json_of(post(kChat, body + R"(,"reasoning_budget":9,"structured_outputs":{"regex":"[ab]{5}"}})"));
  EXPECT_EQ(text_at(first_choice(held), "message", "reasoning_content"), reasoning);
  EXPECT_TRUE(test::matches("[ab]{5}", text_at(first_choice(held), "message", "content"))) << held.dump();
}

TEST_F(ToolsTest, ReasoningInOtherDialects) {
  chat_template_ = kToolTemplate;
  start();
  const Json anthropic = json_of(
      post("/v1/messages",
           "{" + kHello + R"(,"max_tokens":60,"temperature":0,"thinking":{"type":"enabled","budget_tokens":5}})"));
  const Json::Array& blocks = anthropic.find("content")->as_array();
  ASSERT_GE(blocks.size(), 1U) << anthropic.dump();
  EXPECT_EQ(text_at(blocks[0], "type"), "thinking");
  EXPECT_FALSE(text_at(blocks[0], "thinking").empty());
  const Json ollama = json_of(post(
      "/api/chat", "{" + kHello + R"(,"think":true,"stream":false,"options":{"num_predict":20,"temperature":0}})"));
  EXPECT_FALSE(text_at(ollama, "message", "thinking").empty()) << ollama.dump();
  const Json off = json_of(post(
      "/api/chat", "{" + kHello + R"(,"think":false,"stream":false,"options":{"num_predict":20,"temperature":0}})"));
  EXPECT_EQ(text_at(off, "message", "thinking"), "");
}

TEST_F(ToolsTest, ConversationsWithCallsReachTheTemplate) {
  chat_template_ = kToolTemplate;
  start();
  const std::string expected =
      "<|user|>q<|end|><|assistant|><think>t</think><tool_call>pick x id1<|end|><|user|>r of pick "
      "id1<|end|><|assistant|>";
  const std::string call = R"({"id":"id1","type":"function","function":{"name":"pick","arguments":)";
  // OpenAI: arguments in a string; repaired: as an object, a result that names no call.
  for (const std::string& arguments : {std::string(R"("{\"a\":\"x\"}")"), std::string(R"({"a":"x"})")})
    for (const char* const id : {R"(,"tool_call_id":"id1")", ""})
      EXPECT_EQ(rendered(R"([{"role":"user","content":"q"},{"role":"assistant","content":null,"reasoning_content":"t",)"
                         R"("tool_calls":[)" +
                         call + arguments + R"(}}]},{"role":"tool","content":"r")" + id + "}]"),
                expected);
  EXPECT_EQ(rendered(R"([{"role":"user","content":"q"}])", "," + openai_tools()),
            "<|system|>pick drop <tool_call><|end|><|user|>q<|end|><|assistant|>");
  EXPECT_EQ(rendered(R"([{"role":"user","content":"q"}])", "," + openai_tools() + R"(,"tool_choice":"none")"),
            "<|user|>q<|end|><|assistant|>");
  // Anthropic: the same conversation has the same prompt.
  const auto n_tokens = [&](const std::string& path, const std::string& body, const char* a, const char* b) {
    const Json answer = json_of(post(path, body));
    const Json* const found = b[0] == '\0' ? answer.find(a) : answer.find(a)->find(b);
    return found == nullptr ? -1 : found->as_int();
  };
  const std::string blocks =
      R"([{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":""},)"
      R"({"type":"tool_use","id":"id1","name":"pick","input":{"a":"x"}}]},)"
      R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"id1","content":[{"type":"text","text":"r"}]}]}])";
  EXPECT_EQ(n_tokens("/v1/messages/count_tokens", "{\"messages\":" + blocks + "}", "input_tokens", ""),
            n_tokens(kChat,
                     R"({"max_tokens":1,"messages":[{"role":"user","content":"q"},{"role":"assistant","content":null,)"
                     R"("reasoning_content":"t","tool_calls":[)" +
                         call + R"({"a":"x"}}}]},{"role":"tool","content":"r","tool_call_id":"id1"}]})",
                     "usage", "prompt_tokens"));
}

TEST_F(ToolsTest, TemplatesWithoutToolsGetThemInWords) {
  start();
  const std::string offered = rendered(R"([{"role":"user","content":"q"}])", "," + openai_tools());
  EXPECT_NE(offered.find("{\"name\":\"pick\",\"description\":\"d\""), std::string::npos) << offered;
  EXPECT_NE(offered.find("<tool_call>"), std::string::npos);
  const std::string talk = rendered(
      R"([{"role":"user","content":"q"},{"role":"assistant","content":"c","tool_calls":[{"id":"1","function":{"name":"pick",)"
      R"("arguments":{"a":"x"}}},{"id":"2","function":{"name":"drop"}}]},{"role":"tool","tool_call_id":"2","content":"r2"},)"
      R"({"role":"tool","tool_call_id":"1","content":"r1"},{"role":"user","content":"and?"}])");
  EXPECT_EQ(
      talk,
      "<|user|>q<|end|><|assistant|>c\n<tool_call>\n{\"name\":\"pick\",\"arguments\":{\"a\":\"x\"}}\n</tool_call>\n"
      "<tool_call>\n{\"name\":\"drop\",\"arguments\":{}}\n</tool_call><|end|><|user|><tool_response>\nr2\n"
      "</tool_response>\n<tool_response>\nr1\n</tool_response>\nand?<|end|><|assistant|>");
}

TEST_F(ToolsTest, B11_ArgumentsAreWhatTheTemplateWants) {
  chat_template_ =
      "{{ tools }}{% for m in messages %}{% for c in m.tool_calls or [] %}{{ '(' + c.function.arguments + ')' }}"
      "{% endfor %}{% endfor %}";
  start();
  EXPECT_EQ(rendered(R"([{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":{"a":1}}}]}])"),
            "({\"a\":1})");
}

TEST_F(ToolsTest, B09_ToolsAndResultsCannotWriteControlTokens) {
  chat_template_ = kToolTemplate;
  start();
  const auto n_tokens = [&](const std::string& result) {
    Json body = *Json::parse(
        R"({"messages":[{"role":"user","content":"q"},{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f",)"
        R"("arguments":{"a":"<|end|>"}}}]}]})");
    Json message = Json::object();
    message.set("role", "tool").set("content", result);
    Json messages = *body.find("messages");
    messages.push_back(message);
    return json_of(post("/v1/messages/count_tokens", body.set("messages", messages).dump()))
        .find("input_tokens")
        ->as_int();
  };
  EXPECT_EQ(n_tokens("<|end|>") - n_tokens(""), 7);
}

// Keeps the answer; everything runs at once.
class KeptReply : public Reply {
 public:
  void send(Response response) override { sent = std::move(response); }
  void start_stream(Response, std::string) override {}
  void write(std::string) override {}
  void finish() override {}
  void fail(Response response, std::string) override { sent = std::move(response); }
  void cut_off() override {}
  void on_gone(std::function<void()>) override {}
  void post(std::function<void()> work) override { work(); }
  Response sent;
};

TEST(ToolCalls, TheEndOfTheOnlyCallEndsTheAnswer) {  // with parallel_tool_calls: false, in every family
  const std::map<std::string_view, std::string> written = {
      // as the family does, without the mark at the end; others as Hermes
      {"deepseek", "function<｜tool▁sep｜>pick\n```json\n{\"a\":\"x\"}\n```"},
      {"deepseek-dsml", "pick\">\n<｜DSML｜parameter name=\"a\" string=\"true\">x</｜DSML｜parameter>\n"},
      {"kimi", R"(functions.pick:0<|tool_call_argument_begin|>{"a":"x"})"},
      {"solar", R"(id1<|tool_call:name|>pick<|tool_call:args|>{"a":"x"})"},
      {"command", R"([{"tool_call_id":"0","tool_name":"pick","parameters":{"a":"x"}}])"},
      {"apertus", R"([{"pick":{"a":"x"}}])"},
      {"nemotron", R"([{"name":"pick","arguments":{"a":"x"}}])"},
      {"seed", "\n<function=pick>\n<parameter=a>x</parameter>\n</function>\n"},
      {"functionary-3.1", R"(pick>{"a":"x"})"},
  };
  size_t n_stopped = 0;
  for (const CallSyntax& family : call_syntaxes()) {
    SCOPED_TRACE(family.family);
    const ServedModel model(test::load_tiny(
        test::write_tiny_model({.chat_template = "tools " + std::string(family.template_mark)}), *make_cpu_backend()));
    ASSERT_EQ(model.syntax.calls, &family);
    auto call = parse_chat_completion(
        *Json::parse("{" + kHello + "," + openai_tools() + R"(,"parallel_tool_calls":false})"), {.n_vocab = 100});
    ASSERT_TRUE(call) << call.error().message;
    auto plan = plan_answer(model, "", *call);
    ASSERT_TRUE(plan) << plan.error().message;
    const bool stops = family.frame == CallSyntax::Frame::marked && !family.end.empty();
    EXPECT_EQ(plan->own_stop, stops ? family.end : "");
    EXPECT_EQ(call->request.stop.size(), stops ? 1U : 0U);
    if (!stops) continue;
    ++n_stopped;
    const auto reply = std::make_shared<KeptReply>();
    AnswerJob::Setup setup;
    setup.reply = reply;
    setup.format = make_format(Dialect::openai_chat, {.id = "0123456789abcdef", .model = "tiny"});
    setup.facts = std::make_shared<RequestFacts>();
    setup.metrics = std::make_shared<ModelMetrics>();
    setup.plan = *plan;
    setup.id = "0123456789abcdef";
    const auto found = written.find(family.family);
    const std::string text =
        std::string(family.begin) + (found == written.end()
                                         ? "\n" + std::string(R"({"name":"pick","arguments":{"a":"x"}})") + "\n"
                                         : found->second);
    setup.prompts = {{1}};
    const auto listener = std::make_shared<AnswerJob>(std::move(setup))->next_listener();
    listener->on_token({.text = text});
    listener->on_choice_end({.end = GenerationEnd::stop_string, .stop_string = plan->own_stop});
    listener->on_end({});
    const auto answer = Json::parse(reply->sent.body);
    ASSERT_TRUE(answer) << reply->sent.body;
    EXPECT_EQ(text_at(first_choice(*answer), "finish_reason"), "tool_calls") << reply->sent.body;
    const Json* const calls = first_choice(*answer).find("message")->find("tool_calls");
    ASSERT_NE(calls, nullptr) << reply->sent.body;
    ASSERT_EQ(calls->as_array().size(), 1U);
    EXPECT_EQ(text_at(calls->as_array()[0], "function", "name"), "pick");
    EXPECT_EQ(*Json::parse(text_at(calls->as_array()[0], "function", "arguments")), *Json::parse(R"({"a":"x"})"));
    EXPECT_TRUE(first_choice(*answer).find("message")->find("content")->is_null()) << reply->sent.body;
  }
  EXPECT_GE(n_stopped, 11U);
}

TEST(ToolCalls, RequiredCallsAreWrittenAsTheFamilyDoes) {
  const auto engine = test::load_tiny(test::write_tiny_model(), *make_cpu_backend());
  const Tokenizer& tokenizer = *engine->tokenizer();
  auto call = parse_chat_completion(*Json::parse("{" + kHello + "," + openai_tools() + "}"), {.n_vocab = 100});
  ASSERT_TRUE(call) << call.error().message;
  size_t n_several = 0;
  for (CallSyntax family : call_syntaxes()) {
    SCOPED_TRACE(family.family);
    const auto object = [&](std::string_view name, std::string_view choice) {
      return fmt::format(R"({{"name": "{}", "{}": {{"a": "{}"}}}})", name, family.arguments_key, choice);
    };
    const std::string one = object("pick", "x"), two = object("drop", "y");
    ToolUse tools = call->tools;
    const auto spec = required_calls(tokenizer, family, tools);
    EXPECT_EQ(spec.row.has_value(), family.several != CallSyntax::Several::none);
    tools.allows_several = false;
    EXPECT_FALSE(required_calls(tokenizer, family, tools).row);
    tools = {.offered = tools.offered, .is_required = true, .only = "pick"};
    EXPECT_FALSE(required_calls(tokenizer, family, tools).row);
    if (!spec.row) {
      EXPECT_TRUE(Grammar::from_json_schema(spec.text)->matches(one));
      continue;
    }
    ++n_several;
    const auto grammar = Grammar::from_json_row(spec.text, *spec.row);
    ASSERT_TRUE(grammar) << grammar.error().to_string();
    for (const std::string& all :
         {one, one + spec.row->between + two, one + spec.row->between + one + spec.row->between + two}) {
      const std::string text = spec.row->before + all + spec.row->after;
      EXPECT_TRUE(grammar->matches(text)) << text;
      EXPECT_FALSE(grammar->matches(all)) << all;
      const AnswerParserSetup setup{.syntax = {.calls = &family, .reasoning = {}}, .tools = call->tools.offered};
      AnswerParser parser(setup);
      std::string read;
      for (auto pieces : {parser.push(text), parser.finish()})
        for (const AnswerPiece& piece : pieces)
          read += piece.kind == AnswerPiece::Kind::call_end ? (piece.is_whole ? ";" : "?") : piece.text;
      std::string expected;
      for (size_t at = all.find("\"name\": \""); at != std::string::npos; at = all.find("\"name\": \"", at + 1))
        expected += all.substr(at + 9, 4) + all.substr(all.find("{\"a\"", at), 10) + ";";
      EXPECT_EQ(read, expected) << text;
    }
    EXPECT_FALSE(grammar->matches(spec.row->before + spec.row->after));
    family.begin = "<|end|>";  // a control token: no text can be it
    EXPECT_FALSE(required_calls(tokenizer, family, call->tools).row);
  }
  EXPECT_GE(n_several, 4U);
}

TEST(ToolCalls, MalformedConversationsAreNamed) {
  constexpr CallLimits kLimits{.n_vocab = 1000, .n_ctx = 128, .max_choices = 8};
  const std::string called =
      R"({"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},)";
  const std::pair<std::string, const char*> rows[] = {
      {R"({"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{"}}]})",
       "messages[0].tool_calls[0].function.arguments"},
      {R"({"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"[1]"}}]})",
       "messages[0].tool_calls[0].function.arguments"},
      {R"({"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":3}}]})",
       "messages[0].tool_calls[0].function.arguments"},
      {R"({"role":"assistant","tool_calls":[{"id":"1","function":{"arguments":"{}"}}]})",
       "messages[0].tool_calls[0].function.name"},
      {R"({"role":"assistant","tool_calls":[{"id":"1"}]})", "messages[0].tool_calls[0].function"},
      {R"({"role":"assistant","tool_calls":[{"id":1,"function":{"name":"f"}}]})", "messages[0].tool_calls[0].id"},
      {R"({"role":"assistant","tool_calls":[{"type":"x","function":{"name":"f"}}]})", "messages[0].tool_calls[0].type"},
      {R"({"role":"assistant","tool_calls":["f"]})", "messages[0].tool_calls[0].function"},
      {R"({"role":"assistant","tool_calls":"f"})", "messages[0].tool_calls"},
      {R"({"role":"assistant"})", "messages[0].content"},
      {R"({"role":"user","content":"x","tool_calls":[{"function":{"name":"f"}}]})", "messages[0].tool_calls"},
      {R"({"role":"tool","content":"r","tool_call_id":"1"})", "messages[0].tool_call_id"},
      {R"({"role":"tool","content":"r"})", "messages[0].tool_call_id"},
      {called + R"({"role":"tool","content":"r","tool_call_id":"2"})", "messages[1].tool_call_id"},
      {called + R"({"role":"tool","content":"r","tool_call_id":"1"},{"role":"tool","content":"r","tool_call_id":"1"})",
       "messages[2].tool_call_id"},
      {called + R"({"role":"tool","tool_call_id":"1"})", "messages[1].content"},
      {called + R"({"role":"tool","content":{},"tool_call_id":"1"})", "messages[1].content"},
      {called + R"({"role":"tool","content":"r","tool_call_id":1})", "messages[1].tool_call_id"},
      {R"({"role":"function","content":"r"})", "messages[0].role"},
      {R"({"role":"assistant","content":"x","reasoning_content":3})", "messages[0].reasoning_content"},
      {R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"r"}]})",
       "messages[0].content[0].tool_use_id"},
      {R"({"role":"user","content":[{"type":"tool_use","id":"1","name":"f","input":{}}]})", "messages[0].content[0]"},
      {R"({"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":[]}]})",
       "messages[0].content[0].input"},
      {R"({"role":"assistant","content":[{"type":"tool_use","id":"1","input":{}}]})", "messages[0].content[0].name"},
  };
  for (const auto& [messages, place] : rows) {
    const Json body = *Json::parse("{\"max_tokens\":1,\"messages\":[" + messages + "]}");
    for (const auto parse : {parse_chat_completion, parse_anthropic}) {
      const auto parsed = parse(body, kLimits);
      ASSERT_FALSE(parsed) << messages;
      EXPECT_EQ(parsed.error().status, 400);
      EXPECT_TRUE(parsed.error().message.starts_with(place)) << messages << ": " << parsed.error().message;
    }
  }
}

TEST(ToolCalls, MalformedToolsAreNamed) {
  constexpr CallLimits kLimits{.n_vocab = 1000, .n_ctx = 128, .max_choices = 8};
  const std::string one = R"({"type":"function","function":{"name":"f","parameters":{"type":"object"}}})";
  const std::pair<std::string, const char*> rows[] = {
      {R"("tools":{})", "tools"},
      {R"("tools":[3])", "tools[0]"},
      {R"("tools":[{"type":"web_search"}])", "tools[0].type"},
      {R"("tools":[{"type":"function"}])", "tools[0].function"},
      {R"("tools":[{"type":"function","function":{}}])", "tools[0].function.name"},
      {R"("tools":[{"type":"function","function":{"name":"a b"}}])", "tools[0].function.name"},
      {R"("tools":[{"type":"function","function":{"name":"f","parameters":[]}}])", "tools[0].function.parameters"},
      {R"("tools":[{"type":"function","function":{"name":"f","parameters":{"type":"string"}}}])",
       "tools[0].function.parameters.type"},
      {R"("tools":[{"type":"function","function":{"name":"f","x":1}}])", "tools[0].function.x"},
      {R"("tools":[)" + one + "," + one + "]", "tools[1].function.name"},
      {R"("tool_choice":"required")", "tool_choice"},
      {R"("tool_choice":"maybe")", "tool_choice"},
      {R"("tools":[)" + one + R"(],"tool_choice":{"type":"function","function":{"name":"g"}})", "tool_choice"},
      {R"("tools":[)" + one + R"(],"tool_choice":{"type":"function"})", "tool_choice.function"},
      {R"("functions":[{"name":"f"}])", "functions"},
      {R"("reasoning_format":"x")", "reasoning_format"},
      {R"("reasoning_budget":-2)", "reasoning_budget"},
  };
  for (const auto& [member, place] : rows) {
    const auto body = Json::parse("{" + kHello + "," + member + "}");
    ASSERT_TRUE(body) << member;
    const auto parsed = parse_chat_completion(*body, kLimits);
    ASSERT_FALSE(parsed) << member;
    EXPECT_EQ(parsed.error().param, place) << parsed.error().message;
  }
  for (const auto& [member, place] :
       {std::pair{R"("tools":[{"type":"bash_20250124","name":"bash"}])", "tools[0].type"},
        {R"("tools":[{"name":"f"}],"tool_choice":{"type":"x"})", "tool_choice.type"},
        {R"("tool_choice":{"type":"any"})", "tool_choice"},
        {R"("thinking":{"type":"x"})", "thinking.type"},
        {R"("thinking":{"type":"enabled","budget_tokens":0})", "thinking.budget_tokens"}}) {
    const auto parsed =
        parse_anthropic(*Json::parse("{\"max_tokens\":1," + kHello + "," + std::string(member) + "}"), kLimits);
    ASSERT_FALSE(parsed) << member;
    EXPECT_EQ(parsed.error().param, place) << parsed.error().message;
  }
}

TEST(AnswerChoice, BrokenCallsAreText) {
  using Kind = AnswerPiece::Kind;
  AnswerChoice choice;
  const auto add = [&](Kind kind, std::string_view text, uint32_t call_idx, bool is_whole = true) {
    choice.add({kind, std::string(text), call_idx, is_whole}, fmt::format("id{}", call_idx));
  };
  add(Kind::call_begin, "f", 0);
  add(Kind::call_arguments, "{\"a\": ", 0);
  add(Kind::call_end, "raw0 ", 0, false);
  add(Kind::call_begin, "f", 1);
  add(Kind::call_arguments, R"({"a": 1, "a": 2})", 1);  // JSON, but nobody can say which
  add(Kind::call_end, "raw1", 1);
  add(Kind::call_begin, "g", 2);
  add(Kind::call_arguments, "{}", 2);
  add(Kind::call_end, "raw2", 2);
  EXPECT_EQ(choice.text, "raw0 raw1");
  ASSERT_EQ(choice.calls.size(), 1U);
  EXPECT_EQ(choice.calls[0].name, "g");
  EXPECT_EQ(choice.calls[0].id, "id2");
}

TEST(CallIds, AreNineLettersAndDigitsAndDiffer) {
  std::vector<std::string> ids;
  for (const char* const request : {"0123456789abcdef", "0123456789abcdee"})
    for (uint32_t choice = 0; choice < 4; ++choice)
      for (uint32_t call = 0; call < 50; ++call) ids.push_back(call_id(request, choice, call));
  for (const std::string& id : ids) EXPECT_TRUE(test::matches("[0-9a-z]{9}", id)) << id;
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end()), ids.end());
}

}  // namespace
}  // namespace tamis::server
