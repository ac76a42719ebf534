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

  std::string token(const AnswerToken& token) override {
    return token.text.empty() ? "" : line(part(token.text, false));
  }
  std::string choice_end(const AnswerEnd& end) override {
    end_ = end;
    return end.text.empty() ? "" : line(part(end.text, false));
  }
  std::string end(const RequestReport& report) override { return line(last("", end_, report)); }
  std::string failed(const ApiError& error) override { return error_json(error) + "\n"; }

  Json whole(const std::vector<AnswerChoice>& choices, const RequestReport& report) override {
    return last(choices.front().text, choices.front().end, report);
  }

 private:
  static std::string line(const Json& json) { return json.dump() + "\n"; }

  Json part(const std::string& text, bool is_done) const {
    Json out = Json::object();
    out.set("model", facts_.model).set("created_at", rfc3339(facts_.created));
    if (is_chat_) {
      Json message = Json::object();
      message.set("role", "assistant").set("content", text);
      out.set("message", std::move(message));
    } else {
      out.set("response", text);
    }
    return out.set("done", is_done);
  }

  Json last(const std::string& text, const AnswerEnd& end, const RequestReport& report) const {
    Json out = part(text, true);
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
};

}  // namespace

std::string rfc3339(int64_t unix_time) { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(unix_time)); }

std::unique_ptr<AnswerFormat> make_ollama_format(Dialect dialect, AnswerFacts facts) {
  return std::make_unique<OllamaFormat>(dialect, std::move(facts));
}

}  // namespace tamis::server
