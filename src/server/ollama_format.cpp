// Answers as ollama's /api/chat and /api/generate: one JSON object a line.
#include <fmt/chrono.h>

#include "server/answer_format.h"

namespace tamis::server {
namespace {

int64_t nanoseconds(double seconds) { return static_cast<int64_t>(seconds * 1e9); }

class OllamaFormat : public AnswerFormat {
 public:
  OllamaFormat(Dialect dialect, AnswerFacts facts)
      : AnswerFormat(std::move(facts)), is_chat_(dialect == Dialect::ollama_chat) {}

  std::string_view content_type() const override { return "application/x-ndjson"; }
  std::string ping() const override { return ""; }  // its lines have no form without meaning

  std::string token(const AnswerToken& token) override { return lines(token.pieces, token.text); }
  std::string choice_end(const AnswerEnd& end) override {
    end_ = end;
    return lines(end.pieces, end.text);
  }
  std::string end(const RequestReport& report) override { return line(last({}, end_, report)); }
  std::string failed(const ApiError& error) override { return error_json(error) + "\n"; }

  Json whole(const std::vector<AnswerChoice>& choices, const RequestReport& report) override {
    return last(choices.front(), choices.front().end, report);
  }

 private:
  static std::string line(const Json& json) { return json.dump() + "\n"; }

  // A line for each piece; calls are told whole.
  std::string lines(const std::vector<AnswerPiece>& pieces, const std::string& text) {
    if (pieces.empty() && !text.empty()) {  // an answer that is nothing but text
      AnswerChoice said;
      said.text = text;
      return line(part(said, false));
    }
    std::string out;
    for (const AnswerPiece& piece : pieces) {
      said_.add(piece, call_id(facts_.id, 0, piece.call_idx));
      if (piece.kind == AnswerPiece::Kind::call_begin || piece.kind == AnswerPiece::Kind::call_arguments) continue;
      out += line(part(said_, false));
      said_ = {};
    }
    return out;
  }

  Json part(const AnswerChoice& said, bool is_done) const {
    Json out = Json::object();
    out.set("model", facts_.model).set("created_at", rfc3339(facts_.created));
    Json message = Json::object();
    Json& target = is_chat_ ? message : out;
    if (is_chat_) message.set("role", "assistant");
    target.set(is_chat_ ? "content" : "response", said.text);
    if (!said.reasoning.empty()) target.set("thinking", said.reasoning);
    Json calls = Json::array();
    for (const AnswerCall& call : said.calls) {
      Json function = Json::object(), item = Json::object();
      function.set("name", call.name).set("arguments", Json::parse(call.arguments).value_or(Json::object()));
      calls.push_back(item.set("id", call.id).set("function", std::move(function)));
    }
    if (!said.calls.empty()) target.set("tool_calls", std::move(calls));
    if (is_chat_) out.set("message", std::move(message));
    return out.set("done", is_done);
  }

  Json last(const AnswerChoice& said, const AnswerEnd& end, const RequestReport& report) const {
    Json out = part(said, true);
    out.set("done_reason", openai_finish_reason(end.end));
    const double total = report.queue_seconds + report.prompt_seconds + report.generate_seconds;
    out.set("total_duration", nanoseconds(total)).set("load_duration", 0);
    out.set("prompt_eval_count", uint64_t{report.n_prompt});
    out.set("prompt_eval_duration", nanoseconds(report.prompt_seconds));
    return out.set("eval_count", uint64_t{report.n_generated})
        .set("eval_duration", nanoseconds(report.generate_seconds));
  }

  const bool is_chat_;
  AnswerEnd end_;
  AnswerChoice said_;  // of a stream, not told yet
};

}  // namespace

std::string rfc3339(int64_t unix_time) { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(unix_time)); }

std::unique_ptr<AnswerFormat> make_ollama_format(Dialect dialect, AnswerFacts facts) {
  return std::make_unique<OllamaFormat>(dialect, std::move(facts));
}

}  // namespace tamis::server
