// The API's own description against the parsers it describes: each documented field is taken within its bounds and
// refused beyond them, each value of a list is taken, what is not documented is refused.
#include "server/api_description.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "server/embeddings.h"
#include "server/sessions.h"
#include "tests/server/server_fixture.h"

namespace tamis::server {
namespace {

using test::json_of;
using test::ServerTest;
using test::text_at;

using Outcome = ApiResult<void>;
using Read = std::function<Outcome(const Json&, const CallLimits&)>;

template <class Parse>
Read reads(Parse parse) {
  return [parse](const Json& body, const CallLimits& limits) -> Outcome {
    const auto parsed = parse(body, limits);
    if (!parsed) return tl::unexpected<ApiError>(parsed.error());
    return {};
  };
}

const std::map<std::string, Read, std::less<>> kReads = {
    {"/v1/chat/completions", reads(parse_chat_completion)},
    {"/v1/completions", reads(parse_text_completion)},
    {"/v1/responses", reads(parse_response)},
    {"/completion", reads(parse_native_completion)},
    {"/v1/messages", reads(parse_anthropic)},
    {"/v1/messages/count_tokens", reads(parse_anthropic_count)},
    {"/api/chat", reads(parse_ollama_chat)},
    {"/api/generate", reads(parse_ollama_generate)},
    {"/apply-template", reads(parse_apply_template)},
    {"/v1/embeddings", reads(parse_embeddings)},
    {"/tokenize", reads([](const Json& body, const CallLimits&) { return parse_tokenize(body); })},
    {"/detokenize", reads(parse_detokenize)},
    {"/slots/{id_slot}", reads([](const Json& body, const CallLimits&) { return parse_session(body); })},
};

// One operation's body, field by field.
class Body {
 public:
  Body(const Json& schema, const Read& read, const CallLimits& limits) : schema_(schema), read_(read), limits_(limits) {
    const Json* const required = schema.find("required");
    for (const Json& name : required == nullptr ? Json::Array() : required->as_array()) {
      const Json& field = *schema.find("properties")->find(name.as_string());
      const Json* const examples = field.find("examples");
      least_.set(name.as_string(), examples != nullptr ? examples->as_array().front() : *field.find("minimum"));
    }
  }

  void check() {
    expect_taken("", Json());
    check_object(schema_, "");
  }
  size_t n_checked() const { return n_checked_; }

 private:
  void check_object(const Json& object, const std::string& prefix) {
    EXPECT_EQ(*object.find("additionalProperties"), Json(false)) << prefix;
    expect_refused(prefix + "nonsense", Json(1));
    for (const auto& [name, field] : object.find("properties")->as_object()) check_field(field, prefix + name);
  }

  void check_field(const Json& field, const std::string& path) {
    ++n_checked_;
    if (field.find("properties") != nullptr && field.find("additionalProperties") != nullptr)
      check_object(field, path + ".");
    if (const Json* const listed = field.find("enum")) {
      for (const Json& value : listed->as_array()) expect_taken(path, value);
      return expect_refused(path, Json("nonsense"));
    }
    if (const Json* const minimum = field.find("minimum")) return check_number(field, *minimum, path);
    const Json* const type = field.find("type");
    const Json main = type == nullptr ? Json() : type->is_array() ? type->as_array().front() : *type;
    if (main == Json("boolean")) {
      expect_taken(path, Json(true));
      expect_taken(path, Json(false));
      expect_refused(path, Json("true"));
    } else if (main == Json("string")) {
      expect_taken(path, Json("x"));
      expect_refused(path, Json(1));
      if (const Json* const most = field.find("maxLength")) check_length(static_cast<size_t>(most->as_int()), path);
    } else if (!main.is_null() || field.find("anyOf") != nullptr) {
      expect_refused(path, takes_numbers(field) ? Json::array() : Json(1.5));
    }
    if (const Json* const examples = field.find("examples"))
      for (const Json& example : examples->as_array()) expect_taken(path, example);
  }

  static bool takes_numbers(const Json& field) {
    const Json* const either = field.find("anyOf");
    return either != nullptr && std::ranges::any_of(either->as_array(), [](const Json& one) {
             return one.find("type") != nullptr && *one.find("type") == Json("number");
           });
  }

  // Characters, not bytes.
  void check_length(size_t n_most, const std::string& path) {
    std::string text;
    for (size_t i = 0; i < n_most; ++i) text += "é";
    expect_taken(path, Json(text));
    expect_refused(path, Json(text + "x"));
  }

  void check_number(const Json& field, const Json& minimum, const std::string& path) {
    const Json& maximum = *field.find("maximum");
    expect_taken(path, minimum);
    expect_taken(path, maximum);
    expect_refused(path, Json("1"));
    if (!minimum.is_int()) {
      expect_refused(path, Json(minimum.as_double() - 0.5));
      return expect_refused(path, Json(maximum.as_double() * 1.5));
    }
    expect_refused(path, Json(1.5));
    expect_refused(path, Json(minimum.as_int() - 1));
    expect_refused(path, Json(static_cast<uint64_t>(maximum.as_int()) + 1));
  }

  // The least body with `value` at `path`, and what that field needs beside it.
  Json with(const std::string& path, const Json& value) const {
    struct Beside {
      std::string_view prefix, path;
      Json value;
    };
    static const Beside kBeside[] = {
        {"stream_options", "stream", true},
        {"top_logprobs", "logprobs", true},
        {"response_format.json_schema", "response_format.type", "json_schema"},
        {"response_format.schema", "response_format.type", "json_object"},
        {"response_format.nonsense", "response_format.type", "text"},
        {"response_format.json_schema.", "response_format.json_schema.schema", true},
        {"text.format.", "text.format.type", "json_schema"},
        {"text.format.", "text.format.name", "n"},
        {"text.format.", "text.format.schema", Json::object()},
    };
    Json body = least_;
    const Json& properties = *schema_.find("properties");
    for (const Beside& beside : kBeside) {
      const std::string_view first = beside.path.substr(0, beside.path.find('.'));
      if (path.starts_with(beside.prefix) && properties.find(first) != nullptr)
        place(body, std::string(beside.path), beside.value);
    }
    if (!path.empty()) place(body, path, value);
    return body;
  }

  static void place(Json& object, const std::string& path, const Json& value) {
    const size_t dot = path.find('.');
    const std::string name = path.substr(0, dot);
    if (dot == std::string::npos) {
      object.set(name, value);
      return;
    }
    Json inner = object.find(name) == nullptr ? Json::object() : *object.find(name);
    place(inner, path.substr(dot + 1), value);
    object.set(name, std::move(inner));
  }

  void expect_taken(const std::string& path, const Json& value) {
    const Json body = with(path, value);
    const Outcome outcome = read_(body, limits_);
    EXPECT_TRUE(outcome || (!path.empty() && outcome.error().param != path)) << body.dump() << outcome.error().message;
  }

  void expect_refused(const std::string& path, const Json& value) {
    const Json body = with(path, value);
    const Outcome outcome = read_(body, limits_);
    ASSERT_FALSE(outcome) << body.dump();
    EXPECT_EQ(outcome.error().status, 400);
    EXPECT_TRUE(outcome.error().param.starts_with(path)) << body.dump() << outcome.error().message;
  }

  const Json& schema_;
  const Read& read_;
  const CallLimits& limits_;
  Json least_ = Json::object();
  size_t n_checked_ = 0;
};

TEST_F(ServerTest, TheDescriptionIsWhatTheParsersDo) {
  start();
  const Json api = json_of(get("/openapi.json"));
  EXPECT_EQ(text_at(api, "openapi"), "3.1.0");
  const CallLimits limits = limits_of(*model_);
  size_t n_fields = 0;
  for (const auto& [path, read] : kReads) {
    const Json* const methods = api.find("paths")->find(path);
    ASSERT_NE(methods, nullptr) << path;
    const Json& body = *methods->find("post")->find("requestBody");
    Body checked(*body.find("content")->find("application/json")->find("schema"), read, limits);
    SCOPED_TRACE(path);
    checked.check();
    n_fields += checked.n_checked();
  }
  EXPECT_GT(n_fields, 200U);
}

TEST_F(ServerTest, EveryPathOfTheDescriptionIsServed) {
  ServerOptions options;
  options.keys = *ApiKeys::parse("some-key\n");
  start(std::move(options));
  const auto ask = [&](std::string_view method, std::string path, std::string_view headers) {
    if (const size_t open = path.find('{'); open != std::string::npos) path.replace(open, path.size() - open, "tiny");
    const std::string type = method == "POST" ? "Content-Type: application/json\r\n" : "";
    return test::ask(server_->port(),
                     test::request(method, path, method == "POST" ? "{}" : "", type + std::string(headers)));
  };
  const std::string key = "Authorization: Bearer some-key\r\n";
  const Json api = json_of(ask("GET", "/openapi.json", key));
  EXPECT_EQ(api.find("security")->as_array().size(), 2U);  // never without one
  struct Operation {
    std::string method, path;
    bool is_open;
  };
  std::vector<Operation> operations;
  size_t n_open = 0;
  for (const auto& [path, methods] : api.find("paths")->as_object()) {
    for (const auto& [method, operation] : methods.as_object()) {
      operations.push_back({method == "get" ? "GET" : "POST", path, operation.find("security") != nullptr});
      n_open += operations.back().is_open ? 1 : 0;
      EXPECT_FALSE(text_at(operation, "summary").empty()) << path;
    }
  }
  for (const auto& [method, path, is_open] : operations) {
    const int status = ask(method, path, key).status;
    EXPECT_TRUE(status == 200 || (method == "POST" && status == 400)) << path << " " << status;
  }
  for (const auto& [method, path, is_open] : operations) {
    const int status = ask(method, path, "").status;
    EXPECT_TRUE(is_open ? status == 200 : status == 401 || status == 429) << path << " " << status;
  }
  EXPECT_EQ(n_open, 3U);  // /health, /v1/health, /ready
}

}  // namespace
}  // namespace tamis::server
