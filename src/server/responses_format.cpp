// Answers as OpenAI's Responses: an object with a list of items, and a stream of numbered events about its parts.
#include <algorithm>
#include <optional>
#include <utility>

#include "server/answer_format.h"

namespace tamis::server {
namespace {

using Kind = AnswerPiece::Kind;

// The logprobs of an answer's text, without those of reasoning and calls.
class TextLogprobs {
 public:
  void add(const Tokenizer& tokenizer, const AnswerToken& token) {
    bool has_text = false;
    for (const AnswerPiece& piece : token.pieces) {
      is_text_ = piece.kind == Kind::text;
      has_text |= is_text_;
    }
    Json::Array& list = list_.as_array();
    if (!has_text && !is_text_) list.resize(n_certain_);
    if (has_text || is_text_) list.push_back(openai_logprob(tokenizer, token));
    if (has_text) n_certain_ = list.size();
  }
  Json take() {
    n_certain_ = 0;
    return std::exchange(list_, Json::array());
  }

 private:
  Json list_ = Json::array();
  size_t n_certain_ = 0;  // what stands behind is half a character, or held back: a mark may come of it
  bool is_text_ = true;
};

class ResponsesFormat : public AnswerFormat {
 public:
  using AnswerFormat::AnswerFormat;

  std::string begin(size_t) override {
    std::string out = about_response("created", response("in_progress"));  // one by one: each takes a number
    return out += about_response("in_progress", response("in_progress"));
  }

  std::string token(const AnswerToken& token) override {
    note(token);
    return tell(token.pieces);
  }

  std::string choice_end(const AnswerEnd& end) override {
    end_ = end.end;
    std::string out = tell(end.pieces);
    if (!open_ && items_.as_array().empty()) out += open(Kind::text);
    return out += close(status());
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
    for (const AnswerToken& token : choice.tokens) note(token);
    if (!choice.reasoning.empty()) add_item(Kind::reasoning, choice.reasoning);
    if (!choice.text.empty() || (choice.calls.empty() && choice.reasoning.empty())) add_item(Kind::text, choice.text);
    for (const AnswerCall& call : choice.calls) {
      name_ = call.name;
      call_id_ = call.id;
      add_item(Kind::call_begin, call.arguments);
    }
    if (choice.calls.empty()) items_.as_array().back().set("status", status());
    return finished(report);
  }

 private:
  std::string_view status() const { return openai_finish_reason(end_) == "stop" ? "completed" : "incomplete"; }

  Json given(std::string_view name, const Json& otherwise) const {
    const Json* const found = facts_.repeated.find(name);
    return found == nullptr || found->is_null() ? otherwise : *found;
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
    out.set("output", Json::array()).set("parallel_tool_calls", given("parallel_tool_calls", true));
    out.set("previous_response_id", Json()).set("reasoning", given("reasoning", reasoning)).set("store", false);
    out.set("temperature", given("temperature", Json())).set("text", given("text", text));
    out.set("tool_choice", given("tool_choice", "auto")).set("tools", given("tools", Json::array()));
    out.set("top_p", given("top_p", Json())).set("truncation", "disabled").set("usage", Json());
    return out.set("metadata", given("metadata", Json::object()));
  }

  Json finished(const RequestReport& report) const {
    Json out = response(status());
    if (status() == "incomplete") {
      Json why = Json::object();
      out.set("incomplete_details", why.set("reason", "max_output_tokens"));
    }
    out.set("output", items_);
    return out.set("usage", usage_json(report)).set("timings", timings_json(report));
  }

  Json usage_json(const RequestReport& report) const {
    Json input = Json::object(), output = Json::object(), usage = Json::object();
    input.set("cached_tokens", uint64_t{report.n_cached}).set("cache_write_tokens", 0);
    output.set("reasoning_tokens", n_reasoning_);
    usage.set("input_tokens", uint64_t{report.n_prompt}).set("input_tokens_details", std::move(input));
    usage.set("output_tokens", uint64_t{report.n_generated}).set("output_tokens_details", std::move(output));
    return usage.set("total_tokens", uint64_t{report.n_prompt + report.n_generated});
  }

  void note(const AnswerToken& token) {
    n_reasoning_ += std::ranges::any_of(token.pieces, [](const auto& piece) { return piece.kind == Kind::reasoning; });
    if (facts_.has_logprobs) unsent_logprobs_.add(*facts_.tokenizer, token);
  }

  // The open item, of which `text_` has been said.
  std::string item_id() const {
    constexpr std::string_view kPrefixes[] = {"msg", "rs", "fc"};
    return fmt::format("{}_{}_{}", kPrefixes[static_cast<size_t>(*open_)], facts_.id, items_.as_array().size());
  }

  Json item(std::string_view status, Json content) const {
    Json out = Json::object();
    out.set("id", item_id());
    switch (*open_) {
      case Kind::text: out.set("type", "message").set("status", status).set("role", "assistant"); break;
      case Kind::reasoning: out.set("type", "reasoning").set("status", status).set("summary", Json::array()); break;
      default:
        out.set("type", "function_call").set("status", status).set("call_id", call_id_).set("name", name_);
        return out.set("arguments", text_);
    }
    return out.set("content", std::move(content));
  }

  Json part() const {
    Json out = Json::object();
    if (*open_ == Kind::reasoning) return out.set("type", "reasoning_text").set("text", text_);
    out.set("type", "output_text").set("text", text_).set("annotations", Json::array());
    return out.set("logprobs", logprobs_);
  }

  // A whole item of a whole answer.
  void add_item(Kind kind, const std::string& text) {
    open_ = kind;
    text_ = text;
    logprobs_ = kind == Kind::text ? unsent_logprobs_.take() : Json::array();
    items_.push_back(item("completed", Json(Json::Array{part()})));
  }

  std::string tell(const std::vector<AnswerPiece>& pieces) {
    std::string out;
    for (const AnswerPiece& piece : pieces) {
      switch (piece.kind) {
        case Kind::text:
        case Kind::reasoning:
          if (open_ != piece.kind) {
            out += close("completed");
            out += open(piece.kind);
          }
          out += delta(piece.text);
          break;
        case Kind::call_begin:
          out += close("completed");
          name_ = piece.text;
          call_id_ = call_id(facts_.id, 0, piece.call_idx);
          out += open(piece.kind);
          break;
        case Kind::call_arguments: out += delta(piece.text); break;
        case Kind::call_end: out += close(piece.is_whole ? "completed" : "incomplete"); break;
      }
    }
    return out;
  }

  std::string open(Kind kind) {
    open_ = kind;
    text_.clear();
    logprobs_ = Json::array();
    std::string out = about_item("added", item("in_progress", Json::array()));
    return kind == Kind::call_begin ? out : out += about_part("added");
  }

  std::string close(std::string_view status) {
    if (!open_) return "";
    std::string out;
    Json said = Json::object();
    if (*open_ == Kind::call_begin) {
      said.set("name", name_).set("arguments", text_);
      out = event("function_call_arguments.done", place(std::move(said)));
    } else {
      said.set("text", text_);
      if (*open_ == Kind::text) {
        take_logprobs();  // of tokens without a text of their own
        said.set("logprobs", logprobs_);
      }
      out = event(*open_ == Kind::text ? "output_text.done" : "reasoning_text.done", place(std::move(said)));
      out += about_part("done");
    }
    Json done = item(status, Json(Json::Array{part()}));
    out += about_item("done", done);
    items_.push_back(std::move(done));
    open_.reset();
    return out;
  }

  std::string delta(const std::string& text) {
    if (text.empty()) return "";
    text_ += text;
    Json out = Json::object();
    out.set("delta", text);
    if (*open_ == Kind::text) out.set("logprobs", take_logprobs());
    return event(*open_ == Kind::text        ? "output_text.delta"
                 : *open_ == Kind::reasoning ? "reasoning_text.delta"
                                             : "function_call_arguments.delta",
                 place(std::move(out)));
  }

  Json take_logprobs() {
    Json fresh = unsent_logprobs_.take();
    for (const Json& each : fresh.as_array()) logprobs_.push_back(each);
    return fresh;
  }

  // `fields`, said of the open item, or of its one part where it has any.
  Json place(Json fields) const {
    Json out = Json::object();
    out.set("item_id", item_id()).set("output_index", uint64_t{items_.as_array().size()});
    if (*open_ != Kind::call_begin) out.set("content_index", 0);
    for (auto& [key, value] : fields.as_object()) out.set(key, std::move(value));
    return out;
  }

  std::string about_part(std::string_view what) {
    Json out = Json::object();
    out.set("part", part());
    return event(fmt::format("content_part.{}", what), place(std::move(out)));
  }

  std::string about_item(std::string_view what, Json item) {
    Json out = Json::object();
    out.set("output_index", uint64_t{items_.as_array().size()}).set("item", std::move(item));
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

  uint64_t n_events_ = 0, n_reasoning_ = 0;
  Json items_ = Json::array();  // that are done
  // The item being said, if any: what it is (call_begin: a call), a call's name and id, its text or arguments so far.
  std::optional<Kind> open_;
  std::string name_, call_id_, text_;
  Json logprobs_ = Json::array();  // of a message
  TextLogprobs unsent_logprobs_;
  GenerationEnd end_ = GenerationEnd::end_of_text;
};

}  // namespace

std::unique_ptr<AnswerFormat> make_responses_format(AnswerFacts facts) {
  return std::make_unique<ResponsesFormat>(std::move(facts));
}

}  // namespace tamis::server
