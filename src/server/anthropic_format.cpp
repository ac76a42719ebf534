// Answers as Anthropic's /v1/messages: blocks of thinking, text and calls of tools, one after the other.
#include "server/answer_format.h"

namespace tamis::server {
namespace {

using Kind = AnswerPiece::Kind;

std::string named_event(std::string_view name, Json fields) {
  Json data = Json::object();
  data.set("type", name);
  for (auto& [key, value] : fields.as_object()) data.set(key, std::move(value));
  return fmt::format("event: {}\n", name) + server_sent_event(data);
}

Json block(std::string_view type) {
  Json out = Json::object();
  return out.set("type", type);
}

Json text_block(std::string text) { return block("text").set("text", std::move(text)); }
Json thinking_block(std::string text) {
  return block("thinking").set("thinking", std::move(text)).set("signature", "");  // nobody checks one here
}
Json call_block(const std::string& id, const std::string& name, Json input) {
  return block("tool_use").set("id", id).set("name", name).set("input", std::move(input));
}

class AnthropicFormat : public AnswerFormat {
 public:
  using AnswerFormat::AnswerFormat;

  std::string ping() const override { return named_event("ping", Json::object()); }

  std::string begin(size_t n_cached) override {
    Json message = envelope();
    message.set("content", Json::array()).set("stop_reason", Json()).set("stop_sequence", Json());
    message.set("usage", usage_json(facts_.n_prompt, n_cached, 0));
    Json start = Json::object();
    return named_event("message_start", start.set("message", std::move(message)));
  }

  std::string token(const AnswerToken& token) override {
    std::string out;
    for (const AnswerPiece& piece : token.pieces) out += events(piece);
    return out;
  }

  std::string choice_end(const AnswerEnd& end) override {
    end_ = end;
    std::string out;
    for (const AnswerPiece& piece : end.pieces) out += events(piece);
    return out + close();
  }

  std::string end(const RequestReport& report) override {
    Json reason = Json::object(), message = Json::object();
    set_reason(reason, end_);
    message.set("delta", std::move(reason)).set("usage", usage_json(report));
    return named_event("message_delta", std::move(message)) + named_event("message_stop", Json::object());
  }

  std::string failed(const ApiError& error) override { return "event: error\ndata: " + error_json(error) + "\n\n"; }

  Json whole(const std::vector<AnswerChoice>& choices, const RequestReport& report) override {
    const AnswerChoice& choice = choices.front();
    Json content = Json::array();
    if (!choice.reasoning.empty()) content.push_back(thinking_block(choice.reasoning));
    if (!choice.text.empty() || choice.calls.empty()) content.push_back(text_block(choice.text));
    for (const AnswerCall& call : choice.calls)
      content.push_back(call_block(call.id, call.name, Json::parse(call.arguments).value_or(Json::object())));
    Json out = envelope();
    out.set("content", std::move(content));
    set_reason(out, choice.end);
    return out.set("usage", usage_json(report));
  }

 private:
  // Tokens read from the cache are counted apart from the others: the prompt has the sum of both.
  static Json usage_json(size_t n_prompt, size_t n_cached, size_t n_generated) {
    Json usage = Json::object();
    usage.set("input_tokens", uint64_t{n_prompt - n_cached}).set("cache_creation_input_tokens", 0);
    return usage.set("cache_read_input_tokens", uint64_t{n_cached}).set("output_tokens", uint64_t{n_generated});
  }
  static Json usage_json(const RequestReport& report) {
    return usage_json(report.n_prompt, report.n_cached, report.n_generated);
  }

  Json envelope() const {
    Json out = Json::object();
    out.set("id", "msg_" + facts_.id).set("type", "message").set("role", "assistant");
    return out.set("model", facts_.model);
  }

  static void set_reason(Json& out, const AnswerEnd& end) {
    const bool has_stopped = end.end == GenerationEnd::stop_string && end.n_calls == 0;
    const bool is_cut = openai_finish_reason(end.end) != "stop";
    out.set("stop_reason", is_cut            ? "max_tokens"
                           : end.n_calls > 0 ? "tool_use"
                           : has_stopped     ? "stop_sequence"
                                             : "end_turn");
    out.set("stop_sequence", has_stopped ? Json(end.stop_string) : Json());
  }

  std::string events(const AnswerPiece& piece) {
    std::string out;
    switch (piece.kind) {
      case Kind::text:
        out = open(piece.kind, text_block(""));
        out += delta("text_delta", "text", piece.text);
        break;
      case Kind::reasoning:
        out = open(piece.kind, thinking_block(""));
        out += delta("thinking_delta", "thinking", piece.text);
        break;
      case Kind::call_begin:
        out = close();
        out += open(piece.kind, call_block(call_id(facts_.id, 0, piece.call_idx), piece.text, Json::object()));
        break;
      case Kind::call_arguments: out = delta("input_json_delta", "partial_json", piece.text); break;
      case Kind::call_end: out = close(); break;
    }
    return out;
  }

  std::string open(Kind kind, Json content_block) {
    if (open_ == kind) return "";
    std::string out = close();
    open_ = kind;
    Json start = Json::object();
    start.set("index", n_blocks_).set("content_block", std::move(content_block));
    return out + named_event("content_block_start", std::move(start));
  }

  std::string close() {
    if (!open_) return "";
    open_.reset();
    Json stop = Json::object();
    return named_event("content_block_stop", stop.set("index", n_blocks_++));
  }

  std::string delta(std::string_view type, const char* name, const std::string& text) const {
    Json out = Json::object();
    out.set("index", n_blocks_).set("delta", block(type).set(name, text));
    return named_event("content_block_delta", std::move(out));
  }

  AnswerEnd end_;
  std::optional<Kind> open_;  // of the block that is open
  uint32_t n_blocks_ = 0;     // closed
};

}  // namespace

std::unique_ptr<AnswerFormat> make_anthropic_format(AnswerFacts facts) {
  return std::make_unique<AnthropicFormat>(std::move(facts));
}

}  // namespace tamis::server
