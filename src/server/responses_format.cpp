// Answers as OpenAI's Responses: an object with a list of items, and a stream of numbered events about its parts.
#include "server/answer_format.h"

namespace tamis::server {
namespace {

Json usage_json(const RequestReport& report) {
  Json input = Json::object(), output = Json::object(), usage = Json::object();
  input.set("cached_tokens", uint64_t{report.n_cached}).set("cache_write_tokens", 0);
  output.set("reasoning_tokens", 0);
  usage.set("input_tokens", uint64_t{report.n_prompt}).set("input_tokens_details", std::move(input));
  usage.set("output_tokens", uint64_t{report.n_generated}).set("output_tokens_details", std::move(output));
  return usage.set("total_tokens", uint64_t{report.n_prompt + report.n_generated});
}

class ResponsesFormat : public AnswerFormat {
 public:
  using AnswerFormat::AnswerFormat;

  std::string begin() override {
    Json part = Json::object();
    part.set("part", text_part());
    std::string out = about_response("created", response("in_progress"));  // one by one: each takes a number
    out += about_response("in_progress", response("in_progress"));
    out += about_item("added", item("in_progress", Json::array()));
    return out += event("content_part.added", place(std::move(part)));
  }

  std::string token(const AnswerToken& token) override {
    if (facts_.has_logprobs) unsent_logprobs_.push_back(logprob_json(token));
    return delta(token.text);
  }

  std::string choice_end(const AnswerEnd& end) override {
    end_ = end.end;
    std::string out = delta(end.text);
    take_logprobs();  // of tokens without a text of their own
    Json text = Json::object(), part = Json::object();
    text.set("text", text_).set("logprobs", logprobs_);
    part.set("part", text_part());
    out += event("output_text.done", place(std::move(text)));
    out += event("content_part.done", place(std::move(part)));
    return out += about_item("done", item(status(), Json(Json::Array{text_part()})));
  }

  std::string end(const RequestReport& report) override { return about_response(status(), finished(report)); }

  std::string failed(const ApiError& error) override {
    Json why = Json::object(), out = response("failed");
    why.set("code", error.status == 503 ? "rate_limit_exceeded" : "server_error").set("message", error.message);
    return about_response("failed", out.set("error", std::move(why)));
  }

  Json whole(const std::vector<AnswerChoice>& choices, const RequestReport& report) override {
    const AnswerChoice& choice = choices.front();
    end_ = choice.end.end;
    text_ = choice.text;
    if (facts_.has_logprobs)
      for (const AnswerToken& token : choice.tokens) logprobs_.push_back(logprob_json(token));
    return finished(report);
  }

 private:
  std::string_view status() const { return openai_finish_reason(end_) == "stop" ? "completed" : "incomplete"; }

  Json given(std::string_view name, const Json& otherwise) const {
    const Json* const found = facts_.repeated.find(name);
    return found == nullptr ? otherwise : *found;
  }

  // Without an end: what is known from the start.
  Json response(std::string_view status) const {
    Json plain = Json::object(), text = Json::object(), reasoning = Json::object(), out = Json::object();
    plain.set("type", "text");
    text.set("format", std::move(plain));
    reasoning.set("effort", Json()).set("summary", Json());
    out.set("id", "resp_" + facts_.id).set("object", "response").set("created_at", facts_.created);
    out.set("status", status).set("background", false).set("error", Json()).set("incomplete_details", Json());
    out.set("instructions", given("instructions", Json()));
    out.set("max_output_tokens", given("max_output_tokens", Json())).set("model", facts_.model);
    out.set("output", Json::array()).set("parallel_tool_calls", true).set("previous_response_id", Json());
    out.set("reasoning", std::move(reasoning)).set("store", false);
    out.set("temperature", given("temperature", Json())).set("text", given("text", text));
    out.set("tool_choice", "auto").set("tools", Json::array()).set("top_p", given("top_p", Json()));
    return out.set("truncation", "disabled").set("usage", Json()).set("metadata", given("metadata", Json::object()));
  }

  Json finished(const RequestReport& report) const {
    Json out = response(status());
    if (status() == "incomplete") {
      Json why = Json::object();
      out.set("incomplete_details", why.set("reason", "max_output_tokens"));
    }
    out.set("output", Json(Json::Array{item(status(), Json(Json::Array{text_part()}))}));
    return out.set("usage", usage_json(report)).set("timings", timings_json(report));
  }

  std::string item_id() const { return "msg_" + facts_.id; }

  Json item(std::string_view status, Json content) const {
    Json out = Json::object();
    out.set("id", item_id()).set("type", "message").set("status", status).set("role", "assistant");
    return out.set("content", std::move(content));
  }

  Json text_part() const {
    Json out = Json::object();
    out.set("type", "output_text").set("text", text_).set("annotations", Json::array());
    return out.set("logprobs", logprobs_);
  }

  Json token_json(const TokenLogprob& token) const {
    const std::string bytes = facts_.tokenizer->token_bytes(token.id, true);
    Json list = Json::array(), out = Json::object();
    for (const char c : bytes) list.push_back(int64_t{static_cast<unsigned char>(c)});
    return out.set("token", bytes).set("logprob", double{token.logprob}).set("bytes", std::move(list));
  }

  Json logprob_json(const AnswerToken& token) const {
    Json top = Json::array(), out = token_json(token.logprob);
    for (const TokenLogprob& other : token.top) top.push_back(token_json(other));
    return out.set("top_logprobs", std::move(top));
  }

  Json take_logprobs() {
    for (const Json& each : unsent_logprobs_.as_array()) logprobs_.push_back(each);
    return std::exchange(unsent_logprobs_, Json::array());
  }

  std::string delta(const std::string& text) {
    if (text.empty()) return "";
    text_ += text;
    Json out = Json::object();
    out.set("delta", text).set("logprobs", take_logprobs());
    return event("output_text.delta", place(std::move(out)));
  }

  // `fields`, said of the one part of the one item.
  Json place(Json fields) const {
    Json out = Json::object();
    out.set("item_id", item_id()).set("output_index", 0).set("content_index", 0);
    for (auto& [key, value] : fields.as_object()) out.set(key, std::move(value));
    return out;
  }

  std::string about_item(std::string_view what, Json item) {
    Json out = Json::object();
    out.set("output_index", 0).set("item", std::move(item));
    return event(fmt::format("output_item.{}", what), std::move(out));
  }

  std::string about_response(std::string_view what, Json response) {
    Json out = Json::object();
    return event(what, out.set("response", std::move(response)));
  }

  std::string event(std::string_view what, Json fields) {
    const std::string name = fmt::format("response.{}", what);
    Json data = Json::object();
    data.set("type", name).set("sequence_number", n_events_++);
    for (auto& [key, value] : fields.as_object()) data.set(key, std::move(value));
    return fmt::format("event: {}\n", name) + server_sent_event(data);
  }

  uint64_t n_events_ = 0;
  std::string text_;
  Json logprobs_ = Json::array(), unsent_logprobs_ = Json::array();
  GenerationEnd end_ = GenerationEnd::end_of_text;
};

}  // namespace

std::unique_ptr<AnswerFormat> make_responses_format(AnswerFacts facts) {
  return std::make_unique<ResponsesFormat>(std::move(facts));
}

}  // namespace tamis::server
