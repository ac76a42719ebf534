// Requests as typed values: every field of every dialect at its bounds and beyond them, and a list of bodies that must
// be refused with the field's name.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "server/generation_call.h"

namespace tamis::server {
namespace {

constexpr CallLimits kLimits{.n_vocab = 1000, .n_ctx = 128, .max_choices = 8};
constexpr int64_t kInt32 = 2147483647, kTokens = int64_t{1} << 31, kInt64 = 9223372036854775807;

using Parse = ApiResult<GenerationCall> (*)(const Json&, const CallLimits&);

struct Endpoint {
  const char* name;
  Parse parse;
  const char* required;  // the members of the least body
};

constexpr Endpoint kChat{"chat", parse_chat_completion, R"("messages":[{"role":"user","content":"hi"}])"};
constexpr Endpoint kStream{"chat stream", parse_chat_completion,
                           R"("stream":true,"messages":[{"role":"user","content":"hi"}])"};
constexpr Endpoint kText{"text", parse_text_completion, R"("prompt":"hi")"};
constexpr Endpoint kNative{"native", parse_native_completion, R"("prompt":"hi")"};
constexpr Endpoint kAnthropic{"anthropic", parse_anthropic,
                              R"("max_tokens":5,"messages":[{"role":"user","content":"hi"}])"};
constexpr Endpoint kResponse{"response", parse_response, R"("input":"hi")"};
constexpr Endpoint kOllamaChat{"ollama chat", parse_ollama_chat, R"("messages":[{"role":"user","content":"hi"}])"};
constexpr Endpoint kOllama{"ollama", parse_ollama_generate, R"("prompt":"hi")"};

ApiResult<GenerationCall> call(const Endpoint& endpoint, std::string_view body) {
  const auto json = parse_body(body);
  if (!json) return tl::unexpected<ApiError>(json.error());
  return endpoint.parse(*json, kLimits);
}

// The least body of the endpoint with one member more, or another.
std::string with(const Endpoint& endpoint, std::string_view member, std::string_view value) {
  std::string out = "{";
  const Json least = *Json::parse(fmt::format("{{{}}}", endpoint.required));
  for (const auto& [name, given] : least.as_object())
    if (name != member) out += fmt::format("\"{}\":{},", name, given.dump());
  return out + fmt::format("\"{}\":{}}}", member, value);
}

struct Number {
  const Endpoint& endpoint;
  const char* name;
  bool is_integer;
  double minimum, maximum;
};

const Number kNumbers[] = {
    {kChat, "temperature", false, 0, 100},
    {kChat, "top_p", false, 0, 1},
    {kChat, "min_p", false, 0, 1},
    {kChat, "typical_p", false, 0, 1},
    {kChat, "presence_penalty", false, -2, 2},
    {kChat, "frequency_penalty", false, -2, 2},
    {kChat, "repeat_penalty", false, 0.01, 100},
    {kChat, "repetition_penalty", false, 0.01, 100},
    {kChat, "xtc_probability", false, 0, 1},
    {kChat, "xtc_threshold", false, 0, 1},
    {kChat, "dry_multiplier", false, 0, 1000},
    {kChat, "dry_base", false, 1, 1000},
    {kChat, "mirostat_tau", false, 0.001, 1000},
    {kChat, "mirostat_eta", false, 0.0001, 100},
    {kChat, "top_k", true, -1, kInt32},
    {kChat, "repeat_last_n", true, -1, kInt32},
    {kChat, "mirostat", true, 0, 2},
    {kChat, "dry_allowed_length", true, 0, kInt32},
    {kChat, "dry_penalty_last_n", true, -1, kInt32},
    {kChat, "min_keep", true, 0, kInt32},
    {kChat, "min_tokens", true, 0, 128},
    {kChat, "n", true, 1, 8},
    {kChat, "max_tokens", true, 1, kTokens},
    {kChat, "max_completion_tokens", true, 1, kTokens},
    {kChat, "priority", true, -100, 100},
    {kText, "logprobs", true, 0, 20},
    {kText, "max_tokens", true, 0, kTokens},
    {kText, "n", true, 1, 8},
    {kText, "temperature", false, 0, 100},
    {kNative, "n_predict", true, -1, kTokens},
    {kNative, "n_probs", true, 0, 20},
    {kNative, "top_k", true, -1, kInt32},
    {kNative, "temperature", false, 0, 100},
    {kAnthropic, "max_tokens", true, 1, kTokens},
    {kAnthropic, "temperature", false, 0, 1},
    {kAnthropic, "top_p", false, 0, 1},
    {kAnthropic, "top_k", true, 0, 1 << 30},
};

TEST(Calls, NumbersHaveTypesAndBounds) {  // promise 11
  size_t n_refused = 0;
  for (const Number& number : kNumbers) {
    const auto text = [&](double value) {
      return number.is_integer ? fmt::format("{}", static_cast<int64_t>(value)) : fmt::format("{}", value);
    };
    for (const std::string& good : {text(number.minimum), text(number.maximum), std::string("null")}) {
      if (good == "null" && number.name == std::string("max_tokens") && &number.endpoint == &kAnthropic) continue;
      const auto parsed = call(number.endpoint, with(number.endpoint, number.name, good));
      EXPECT_TRUE(parsed) << number.endpoint.name << " " << number.name << " " << good << ": "
                          << parsed.error().message;
    }
    std::vector<std::string> bad = {
        "9223372036854775808",    "-9223372036854775808",  "1e308", "\"1\"", "[]", "[1]", "{}", "true",
        text(number.maximum + 1), text(number.minimum - 1)};
    if (number.is_integer) bad.emplace_back("1.5");
    for (const std::string& value : bad) {
      const auto parsed = call(number.endpoint, with(number.endpoint, number.name, value));
      ASSERT_FALSE(parsed) << number.endpoint.name << " " << number.name << " " << value;
      EXPECT_EQ(parsed.error().status, 400);
      EXPECT_EQ(parsed.error().param, number.name) << parsed.error().message;
      EXPECT_NE(parsed.error().message.find(number.name), std::string::npos);
      ++n_refused;
    }
  }
  EXPECT_GE(n_refused, 300U);
}

struct Refused {
  const Endpoint& endpoint;
  const char* member;
  const char* value;
  const char* param;  // null: the member
};

const Refused kRefused[] = {
    {kChat, "nonsense", "1", nullptr},
    {kChat, "Temperature", "1", nullptr},
    {kText, "messages", "[]", nullptr},
    {kNative, "nonsense", "null", nullptr},
    {kAnthropic, "n", "1", nullptr},
    {kAnthropic, "seed", "1", nullptr},
    {kOllama, "nonsense", "{}", nullptr},
    {kOllamaChat, "prompt", "\"x\"", nullptr},
    {kChat, "model", "1", nullptr},
    {kChat, "stream", "\"true\"", nullptr},
    {kChat, "stream", "1", nullptr},
    {kChat, "stream_options", "{\"include_usage\":true}", nullptr},
    {kChat, "stream_options", "[]", nullptr},
    {kStream, "stream_options", "{\"include_usage\":1}", "stream_options.include_usage"},
    {kStream, "stream_options", "{\"nonsense\":1}", "stream_options.nonsense"},
    {kChat, "seed", "-2", nullptr},
    {kChat, "seed", "1.5", nullptr},
    {kChat, "seed", "\"1\"", nullptr},
    {kChat, "seed", "18446744073709551615", nullptr},
    {kChat, "stop", "1", nullptr},
    {kChat, "stop", "\"\"", nullptr},
    {kChat, "stop", "[\"a\",1]", "stop[1]"},
    {kChat, "stop", "[\"a\",\"\"]", nullptr},
    {kChat, "stop", "{}", nullptr},
    {kChat, "stop", R"(["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"])", nullptr},
    {kChat, "logit_bias", "1", nullptr},
    {kChat, "logit_bias", "{\"1000\":1}", nullptr},
    {kChat, "logit_bias", "{\"-1\":1}", nullptr},
    {kChat, "logit_bias", "{\"x\":1}", nullptr},
    {kChat, "logit_bias", "{\"\":1}", nullptr},
    {kChat, "logit_bias", "{\"1\":101}", nullptr},
    {kChat, "logit_bias", "{\"1\":\"x\"}", nullptr},
    {kChat, "logit_bias", "{\"1\":true}", nullptr},
    {kChat, "logit_bias", "[[1]]", nullptr},
    {kChat, "logit_bias", "[[1000000000,1]]", nullptr},
    {kChat, "logit_bias", "[[1.5,1]]", nullptr},
    {kChat, "logit_bias", "[1,2]", nullptr},
    {kChat, "logit_bias", "{\"1\":1e308}", nullptr},
    {kChat, "logprobs", "1", nullptr},
    {kChat, "top_logprobs", "5", nullptr},
    {kChat, "ignore_eos", "1", nullptr},
    {kChat, "cache_salt", "\"\"", nullptr},
    {kChat, "cache_salt", "1", nullptr},
    {kChat, "messages", "1", nullptr},
    {kChat, "messages", "[]", nullptr},
    {kChat, "messages", "null", nullptr},
    {kChat, "messages", "{}", nullptr},
    {kChat, "messages", "[1]", "messages[0]"},
    {kChat, "messages", "[null]", "messages[0]"},
    {kChat, "messages", "[{}]", "messages[0].role"},
    {kChat, "messages", R"([{"role":"user"}])", "messages[0].content"},
    {kChat, "messages", R"([{"role":1,"content":"x"}])", "messages[0].role"},
    {kChat, "messages", R"([{"role":"root","content":"x"}])", "messages[0].role"},
    {kChat, "messages", R"([{"role":"tool","content":"x"}])", "messages[0].tool_call_id"},
    {kChat, "messages", R"([{"role":"user","content":1}])", "messages[0].content"},
    {kChat, "messages", R"([{"role":"user","content":null}])", "messages[0].content"},
    {kChat, "messages", R"([{"role":"user","content":{}}])", "messages[0].content"},
    {kChat, "messages", R"([{"role":"user","content":["x"]}])", "messages[0].content[0]"},
    {kChat, "messages", R"([{"role":"user","content":[{"type":"text"}]}])", "messages[0].content[0]"},
    {kChat, "messages", R"([{"role":"user","content":[{"type":"text","text":1}]}])", "messages[0].content[0]"},
    {kChat, "messages",
     R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"file:///etc/passwd"}}]}])",
     "messages[0].content[0]"},
    {kChat, "messages",
     R"([{"role":"user","content":"x"},{"role":"assistant","content":"y","tool_calls":[{"id":"1"}]}])",
     "messages[1].tool_calls[0].function"},
    {kChat, "messages", R"([{"role":"user","content":"x","extra":1}])", "messages[0].extra"},
    {kChat, "chat_template_kwargs", R"({"messages":[]})", "chat_template_kwargs.messages"},
    {kChat, "chat_template_kwargs", R"({"tools":[]})", "chat_template_kwargs.tools"},
    {kChat, "chat_template_kwargs", R"({"bos_token":"x"})", "chat_template_kwargs.bos_token"},
    {kChat, "chat_template_kwargs", "1", nullptr},
    {kChat, "chat_template", "\"{{ x }}\"", nullptr},
    {kChat, "chat_parser", "\"x\"", nullptr},
    {kChat, "grammar_triggers", R"([{"type":99}])", nullptr},
    {kChat, "response_format", R"({"type":"xml"})", "response_format.type"},
    {kChat, "response_format", R"({"type":"json_object","strict":true})", "response_format.strict"},
    {kChat, "response_format", R"({"type":"json_object","schema":1})", "response_format.schema"},
    {kChat, "response_format", R"({"type":"json_schema"})", "response_format.json_schema"},
    {kChat, "response_format", R"({"type":"json_schema","json_schema":{}})", "response_format.json_schema.schema"},
    {kChat, "response_format", R"({"type":"json_schema","json_schema":{"schema":"x"}})",
     "response_format.json_schema.schema"},
    {kChat, "structured_outputs", R"({"regex":"a","grammar":"root ::= \"a\""})", "structured_outputs.grammar"},
    {kChat, "structured_outputs", R"({"choice":["a"]})", "structured_outputs.choice"},
    {kChat, "response_format", "{}", "response_format.type"},
    {kChat, "response_format", "1", nullptr},
    {kChat, "grammar", "1", nullptr},
    {kChat, "json_schema", "1", nullptr},
    {kChat, "tools", R"([{"type":"function"}])", "tools[0].function"},
    {kChat, "tool_choice", "\"required\"", nullptr},
    {kChat, "functions", "[1]", nullptr},
    {kChat, "audio", R"({"voice":"x"})", nullptr},
    {kChat, "modalities", R"(["text","audio"])", nullptr},
    {kChat, "prediction", R"({"type":"content"})", nullptr},
    {kChat, "continue_final_message", "true", nullptr},
    {kChat, "add_generation_prompt", "1", nullptr},
    {kChat, "prompt_embeds", "\"x\"", nullptr},
    {kChat, "mm_processor_kwargs", "{}", nullptr},
    {kText, "prompt", "1", nullptr},
    {kText, "prompt", "null", nullptr},
    {kText, "prompt", "[]", nullptr},
    {kText, "prompt", "{}", nullptr},
    {kText, "prompt", "[-1]", nullptr},
    {kText, "prompt", "[1000]", nullptr},
    {kText, "prompt", "[1.5]", nullptr},
    {kText, "prompt", "[1,\"x\"]", nullptr},
    {kText, "prompt", "[[]]", "prompt[0]"},
    {kText, "prompt", "[[[1]]]", "prompt[0]"},
    {kText, "prompt", "[true]", "prompt[0]"},
    {kText, "prompt", "[[1],[2,-1]]", "prompt[1]"},
    {kNative, "prompt", "[\"a\",\"b\"]", nullptr},
    {kNative, "prompt", "[[1],[2]]", nullptr},
    {kText, "prompt", "[1e300]", nullptr},
    {kText, "suffix", "\"x\"", nullptr},
    {kText, "best_of", "2", nullptr},
    {kText, "echo", "1", nullptr},
    {kNative, "id_slot", "-5", nullptr},
    {kNative, "id_slot", "99", nullptr},
    {kNative, "n_discard", "-1000", nullptr},
    {kNative, "timings_per_token", "true", nullptr},
    {kNative, "n_keep", "\"x\"", nullptr},
    {kNative, "cache_prompt", "1", nullptr},
    {kChat, "store", "true", nullptr},
    {kText, "store", "true", nullptr},
    {kNative, "n_predict", "1099511627776", nullptr},
    {kNative, "n_probs", "1000000000", nullptr},
    {kNative, "stream", "null1", ""},
    {kNative, "samplers", "[\"top_k\"]", nullptr},
    {kAnthropic, "max_tokens", "null", nullptr},
    {kAnthropic, "system", "1", nullptr},
    {kAnthropic, "system", R"([{"type":"image"}])", "system[0]"},
    {kAnthropic, "tools", "[{}]", "tools[0].name"},
    {kAnthropic, "tool_choice", R"({"type":"any"})", nullptr},
    {kAnthropic, "stop_sequences", "[\"\"]", nullptr},
    {kAnthropic, "thinking", R"({"type":"sometimes"})", "thinking.type"},
    {kOllamaChat, "options", "1", nullptr},
    {kOllamaChat, "options", R"({"temperature":-1})", "options.temperature"},
    {kOllamaChat, "options", R"({"nonsense":1})", "options.nonsense"},
    {kOllamaChat, "options", R"({"num_ctx":129})", "options.num_ctx"},
    {kOllamaChat, "options", R"({"num_predict":"x"})", "options.num_predict"},
    {kOllamaChat, "options", R"({"tfs_z":0.5})", "options.tfs_z"},
    {kOllamaChat, "options", R"({"tfs_z":"1"})", "options.tfs_z"},
    {kOllamaChat, "options", R"({"vocab_only":true})", "options.vocab_only"},
    {kOllamaChat, "options", R"({"penalize_newline":false,"repeat_penalty":1.1})", "options.penalize_newline"},
    {kOllamaChat, "options", R"({"num_thread":"4"})", "options.num_thread"},
    {kOllamaChat, "options", R"({"use_mmap":1})", "options.use_mmap"},
    {kOllamaChat, "format", "\"xml\"", nullptr},
    {kOllamaChat, "tools", "[{}]", "tools[0].function"},
    {kOllamaChat, "think", "\"a lot\"", nullptr},
    {kOllama, "prompt", "1", nullptr},
    {kOllama, "images", "[\"x\"]", nullptr},
    {kOllama, "raw", "1", nullptr},
    {kOllama, "context", "[1]", nullptr},
    {kOllama, "template", "\"x\"", nullptr},
    {kOllama, "system", "{}", nullptr},
    {kOllama, "suffix", "\"x\"", nullptr},
    {kOllama, "format", "true", nullptr},
};

TEST(Calls, WhatIsRefusedIsNamed) {
  for (const Refused& each : kRefused) {
    const auto parsed = call(each.endpoint, with(each.endpoint, each.member, each.value));
    ASSERT_FALSE(parsed) << each.endpoint.name << " " << each.member << " " << each.value;
    EXPECT_EQ(parsed.error().status, 400);
    EXPECT_EQ(parsed.error().param, each.param == nullptr ? each.member : each.param)
        << each.endpoint.name << " " << each.value << ": " << parsed.error().message;
    const std::string& param = parsed.error().param;  // told once, before what is wrong with it
    if (param.empty()) continue;
    EXPECT_EQ(parsed.error().message.rfind(param + ": ", 0), 0U) << parsed.error().message;
    EXPECT_EQ(parsed.error().message.find(param + ": " + param), std::string::npos) << parsed.error().message;
  }
}

TEST(Calls, BodiesAreJsonObjects) {  // promise 10
  for (const std::string& body :
       {std::string(), std::string("{"), std::string("[]"), std::string("1"), std::string("null"), std::string("\"x\""),
        std::string("{\"a\":1,}"), std::string("{'a':1}"), std::string("{\"a\":NaN}"), std::string("{\"a\":1}x"),
        std::string("{\"a\":1,\"a\":2}"), std::string("{\"a\":\"\xff\"}"), std::string("{\"a\":\"\\ud800\"}"),
        std::string("{\"a\":1e999}"), std::string("\xef\xbb\xbf"), std::string(1000000, '['),
        "{\"a\":" + std::string(200, '[') + std::string(200, ']') + "}"}) {
    const auto parsed = parse_body(body);
    ASSERT_FALSE(parsed) << body.substr(0, 80);
    EXPECT_EQ(parsed.error().status, 400);
    EXPECT_LT(parsed.error().message.size(), 500U);
  }
  EXPECT_NE(parse_body("{\"a\":tru}").error().message.find("byte 9"), std::string::npos)
      << parse_body("{\"a\":tru}").error().message;
}

// What changes nothing has its documented type all the same.
TEST(Calls, FieldsWithoutEffectHaveTheirTypes) {
  struct Row {
    const Endpoint& endpoint;
    std::string name, good, bad;
    std::string at = "";  // the field named; "": `name`
  };
  const std::string longest(64, 'x'), pairs16 = [] {
    std::string out;
    for (int i = 0; i < 16; ++i) out += fmt::format("{}\"{}\":\"v\"", i > 0 ? "," : "", i);
    return out;
  }();
  const std::string text512(512, 'x');
  std::vector<Row> rows = {
      {kStream, "stream_options", R"({"include_obfuscation":false})", R"({"include_obfuscation":"no"})",
       "stream_options.include_obfuscation"},
      {kAnthropic, "service_tier", R"("standard_only")", R"("flex")"},
      {kAnthropic, "inference_geo", R"("eu")", "1"},
      {kAnthropic, "metadata", R"({"user_id":"x"})", R"({"user_id":1})", "metadata.user_id"},
      {kAnthropic, "metadata", R"({"user_id":null})", R"({"other":"x"})", "metadata.other"},
      {kAnthropic, "metadata", "{}", "\"x\""},
      {kAnthropic, "thinking", R"({"type":"enabled","display":"omitted"})", R"({"type":"enabled","display":true})",
       "thinking.display"},
      {kAnthropic, "tools", R"([{"name":"a","strict":true,"cache_control":{"type":"ephemeral","ttl":"1h"}}])",
       R"([{"name":"a","cache_control":{"type":"ephemeral","ttl":"2h"}}])", "tools[0].cache_control.ttl"},
      {kAnthropic, "tools", R"([{"name":"a","eager_input_streaming":null,"cache_control":null}])",
       R"([{"name":"a","eager_input_streaming":1}])", "tools[0].eager_input_streaming"},
      {kAnthropic, "system", R"([{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}])",
       R"([{"type":"text","text":"s","cache_control":{"type":"lasting"}}])", "system[0].cache_control.type"},
      {kAnthropic, "messages", R"([{"role":"user","content":[{"type":"text","text":"s","cache_control":null}]}])",
       R"([{"role":"user","content":[{"type":"text","text":"s","cache_control":5}]}])",
       "messages[0].content[0].cache_control"},
      {kChat, "messages", R"([{"role":"user","content":"x","name":"n"}])",
       R"([{"role":"user","content":"x","name":1}])", "messages[0].name"},
      {kChat, "tools", R"([{"type":"function","function":{"name":"a","strict":false}}])",
       R"([{"type":"function","function":{"name":"a","strict":"no"}}])", "tools[0].function.strict"},
      {kChat, "response_format",
       R"({"type":"json_schema","json_schema":{"schema":{},"strict":true,"description":"d"}})",
       R"({"type":"json_schema","json_schema":{"schema":{},"strict":1}})", "response_format.json_schema.strict"},
      {kOllama, "keep_alive", "\"5m\"", "[]"},
      {kOllama, "keep_alive", "-1", "true"},
      {kResponse, "text", R"({"verbosity":"low"})", R"({"verbosity":"most"})", "text.verbosity"},
      {kResponse, "reasoning", R"({"summary":"auto"})", R"({"summary":["auto"]})", "reasoning.summary"},
      {kResponse, "input", R"([{"role":"user","content":"x","id":"m","status":"completed"}])",
       R"([{"role":"user","content":"x","id":"m","status":"done"}])", "input[0].status"},
      {kResponse, "input", R"([{"role":"user","content":"x","phase":"commentary"}])",
       R"([{"role":"user","content":"x","id":7}])", "input[0].id"},
  };
  for (const Endpoint* const each : {&kChat, &kText, &kResponse}) {
    const Endpoint& endpoint = *each;
    for (const char* const name : {"user", "prompt_cache_key"}) {
      rows.push_back({endpoint, name, "\"u\"", "1"});
      rows.push_back({endpoint, name, "null", "{}"});
    }
    rows.push_back({endpoint, "safety_identifier", '"' + longest + '"', '"' + longest + "x\""});
    rows.push_back({endpoint, "safety_identifier", "\"\"", "[]"});
    rows.push_back({endpoint, "service_tier", R"("auto")", R"("first")"});
    rows.push_back({endpoint, "service_tier", R"("priority")", "1"});
    rows.push_back({endpoint, "prompt_cache_retention", R"("24h")", R"("25h")"});
    rows.push_back({endpoint, "prompt_cache_retention", R"("in_memory")", "true"});
    rows.push_back({endpoint, "metadata", "{" + pairs16 + "}", "{" + pairs16 + R"(,"16":"v"})"});
    rows.push_back({endpoint, "metadata", fmt::format(R"({{"{}":"{}"}})", longest, text512), R"({"a":1})"});
    rows.push_back({endpoint, "metadata", "{}", fmt::format(R"({{"a":"{}x"}})", text512)});
    rows.push_back({endpoint, "metadata", "null", fmt::format(R"({{"{}x":"a"}})", longest)});
    if (each == &kResponse) continue;
    rows.push_back({endpoint, "verbosity", R"("high")", R"("loud")"});
  }
  for (const Row& row : rows) {
    const auto good = call(row.endpoint, with(row.endpoint, row.name, row.good));
    EXPECT_TRUE(good) << row.endpoint.name << " " << row.good << ": " << good.error().message;
    const auto bad = call(row.endpoint, with(row.endpoint, row.name, row.bad));
    ASSERT_FALSE(bad) << row.endpoint.name << " " << row.name << " " << row.bad;
    EXPECT_EQ(bad.error().status, 400);
    EXPECT_EQ(bad.error().param, row.at.empty() ? row.name : row.at) << bad.error().message;
  }
}

TEST(Calls, MissingFieldsAreNamed) {
  EXPECT_EQ(call(kChat, "{}").error().param, "messages");
  EXPECT_EQ(call(kText, "{}").error().param, "prompt");
  EXPECT_EQ(call(kAnthropic, R"({"messages":[{"role":"user","content":"x"}]})").error().param, "max_tokens");
  EXPECT_EQ(parse_tokenize(Json::object()).error().param, "content");
  EXPECT_EQ(parse_detokenize(Json::object(), kLimits).error().param, "tokens");
}

TEST(Calls, ChatIsUnderstood) {
  const auto parsed =
      call(kChat, R"({"model":"m","messages":[{"role":"developer","content":"d"},{"role":"user","content":
      [{"type":"text","text":"a"},{"type":"text","text":"b"}]}],"stream":true,"stream_options":{"include_usage":true},
      "max_completion_tokens":7,"n":3,"stop":["x","y"],"seed":5,"temperature":0,"top_logprobs":2,"logprobs":true,
      "logit_bias":{"5":-100,"6":false},"user":"u","store":false,"metadata":{"k":"v"},"tools":[],"tool_choice":"none",
      "response_format":{"type":"text"},"chat_template_kwargs":{"enable_thinking":false},"top_k":64.0})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->messages->dump(), R"([{"role":"system","content":"d"},{"role":"user","content":"a\nb"}])");
  EXPECT_EQ(parsed->variables.dump(), R"({"enable_thinking":false,"add_generation_prompt":true})");
  EXPECT_TRUE(parsed->is_stream && parsed->includes_usage);
  const GenerateRequest& request = parsed->request;
  EXPECT_EQ(request.n_predict, 7);
  EXPECT_EQ(request.n_choices, 3U);
  EXPECT_EQ(request.stop, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(request.sampling.seed, 5U);
  EXPECT_EQ(request.sampling.temp, 0);
  EXPECT_EQ(request.sampling.top_k, 64);
  EXPECT_TRUE(request.has_logprobs);
  EXPECT_EQ(request.n_top_logprobs, 2U);
  ASSERT_EQ(request.sampling.logit_bias.size(), 2U);
  EXPECT_EQ(request.sampling.logit_bias[0].bias, -100);
  EXPECT_TRUE(std::isinf(request.sampling.logit_bias[1].bias));
}

TEST(Calls, OtherDialectsAreUnderstood) {
  const auto text = call(kText, R"({"prompt":["hi"],"logprobs":0,"echo":false})");
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(*text->prompts.front().text, "hi");
  EXPECT_EQ(text->request.n_predict, 16);
  EXPECT_TRUE(text->request.has_logprobs);
  EXPECT_EQ(call(kText, R"({"prompt":[1,2]})")->prompts.front().tokens, (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(*call(kText, R"({"prompt":""})")->prompts.front().text, "");
  const auto several = call(kText, R"({"prompt":[[3],"x",[4,5]],"echo":true,"logprobs":1,"max_tokens":0})");
  ASSERT_TRUE(several) << several.error().message;
  ASSERT_EQ(several->prompts.size(), 3U);
  EXPECT_EQ(several->prompts[0].tokens, (std::vector<TokenId>{3}));
  EXPECT_EQ(*several->prompts[1].text, "x");
  EXPECT_EQ(several->prompts[2].tokens, (std::vector<TokenId>{4, 5}));
  EXPECT_TRUE(several->request.scores_prompt);
  EXPECT_EQ(several->request.n_predict, 0);
  EXPECT_FALSE(call(kText, R"({"prompt":"x","logprobs":1})")->request.scores_prompt);

  const auto anthropic = call(kAnthropic, R"({"model":"m","max_tokens":9,"system":[{"type":"text","text":"s",
      "cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"u"}],"metadata":{"user_id":"x"},
      "stop_sequences":["z"],"thinking":{"type":"disabled"}})");
  ASSERT_TRUE(anthropic) << anthropic.error().message;
  EXPECT_EQ(anthropic->messages->dump(), R"([{"role":"system","content":"s"},{"role":"user","content":"u"}])");
  EXPECT_EQ(anthropic->request.stop, (std::vector<std::string>{"z"}));

  const auto ollama = call(kOllama, R"({"model":"m","prompt":"p","system":"s","stream":false,"keep_alive":"5m",
      "options":{"temperature":0,"num_predict":3,"num_ctx":128,"num_thread":4,"stop":["q"],"seed":1}})");
  ASSERT_TRUE(ollama) << ollama.error().message;
  EXPECT_EQ(ollama->messages->dump(), R"([{"role":"system","content":"s"},{"role":"user","content":"p"}])");
  EXPECT_FALSE(ollama->is_stream);
  EXPECT_EQ(ollama->request.n_predict, 3);
  EXPECT_TRUE(call(kOllama, R"({"prompt":"p"})")->is_stream);
  EXPECT_EQ(*call(kOllama, R"({"prompt":"p","raw":true})")->prompts.front().text, "p");

  const auto neutral = call(kOllama, R"({"prompt":"p","options":{"tfs_z":1,"penalize_newline":false,"num_keep":4,
      "vocab_only":false,"use_mmap":true}})");
  EXPECT_TRUE(neutral) << neutral.error().message;
  EXPECT_TRUE(call(kOllama, R"({"prompt":"p","options":{"penalize_newline":true,"repeat_penalty":1.1}})"));
  EXPECT_TRUE(call(kNative, R"({"prompt":"p","n_keep":-1,"timings_per_token":false,"cache_prompt":false})"));

  const auto tokenize = parse_tokenize(*parse_body(R"({"content":"x","add_special":true,"with_pieces":true})"));
  EXPECT_TRUE(tokenize && tokenize->add_special && tokenize->with_pieces && tokenize->parse_special);
}

}  // namespace
}  // namespace tamis::server
