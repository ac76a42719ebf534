// Answers as OpenAI's chat and text completions.
#include "server/answer_format.h"

namespace tamis::server {
namespace {

Json bytes_json(std::string_view bytes) {
  Json out = Json::array();
  for (const char c : bytes) out.push_back(int64_t{static_cast<unsigned char>(c)});
  return out;
}

Json usage_json(const RequestReport& report) {
  Json details = Json::object();
  details.set("cached_tokens", uint64_t{report.n_cached});
  Json usage = Json::object();
  usage.set("prompt_tokens", uint64_t{report.n_prompt}).set("completion_tokens", uint64_t{report.n_generated});
  usage.set("total_tokens", uint64_t{report.n_prompt + report.n_generated});
  return usage.set("prompt_tokens_details", std::move(details));
}

class OpenAiFormat : public AnswerFormat {
 public:
  OpenAiFormat(Dialect dialect, AnswerFacts facts)
      : AnswerFormat(std::move(facts)), is_chat_(dialect == Dialect::openai_chat) {}

  std::string token(const AnswerToken& token) override {
    std::string out = first_chunk(token.choice_idx);
    if (token.text.empty() && !facts_.has_logprobs) return out;
    return out + chunk(token.choice_idx, delta(token.text), logprobs(std::span(&token, 1)), Json());
  }

  std::string choice_end(const AnswerEnd& end) override {
    std::string out = first_chunk(end.choice_idx);
    if (!end.text.empty()) out += chunk(end.choice_idx, delta(end.text), Json(), Json());
    return out + chunk(end.choice_idx, is_chat_ ? Json::object() : delta(""), Json(), openai_finish_reason(end.end));
  }

  std::string end(const RequestReport& report) override {
    std::string out;
    if (facts_.includes_usage) {
      Json last = envelope(true);
      last.set("choices", Json::array()).set("usage", usage_json(report)).set("timings", timings_json(report));
      out = server_sent_event(last);
    }
    return out + "data: [DONE]\n\n";
  }

  std::string failed(const ApiError& error) override { return AnswerFormat::failed(error) + "data: [DONE]\n\n"; }

  Json whole(const std::vector<AnswerChoice>& choices, const RequestReport& report) override {
    Json list = Json::array();
    for (size_t i = 0; i < choices.size(); ++i) {
      const AnswerChoice& choice = choices[i];
      Json item = Json::object();
      item.set("index", uint64_t{i});
      if (is_chat_) {
        Json message = Json::object();
        message.set("role", "assistant").set("content", choice.text).set("refusal", Json());
        item.set("message", std::move(message));
      } else {
        item.set("text", facts_.echoed + choice.text);
      }
      item.set("logprobs", logprobs(choice.tokens)).set("finish_reason", openai_finish_reason(choice.end.end));
      list.push_back(std::move(item));
    }
    Json out = envelope(false);
    out.set("choices", std::move(list)).set("usage", usage_json(report)).set("timings", timings_json(report));
    return out;
  }

 private:
  Json envelope(bool is_chunk) const {
    Json out = Json::object();
    out.set("id", (is_chat_ ? "chatcmpl-" : "cmpl-") + facts_.id);
    out.set("object", !is_chat_ ? "text_completion" : is_chunk ? "chat.completion.chunk" : "chat.completion");
    return out.set("created", facts_.created).set("model", facts_.model).set("system_fingerprint", "tamis");
  }

  Json delta(const std::string& text) const {
    if (!is_chat_) return Json(text);
    Json out = Json::object();
    return out.set("content", text);
  }

  // The role, or the echoed prompt, once a choice.
  std::string first_chunk(uint32_t choice_idx) {
    if (choice_idx >= has_begun_.size()) has_begun_.resize(choice_idx + 1);
    if (has_begun_[choice_idx]) return "";
    has_begun_[choice_idx] = true;
    if (!is_chat_) return facts_.echoed.empty() ? "" : chunk(choice_idx, Json(facts_.echoed), Json(), Json());
    Json first = Json::object();
    first.set("role", "assistant").set("content", "");
    return chunk(choice_idx, std::move(first), Json(), Json());
  }

  std::string chunk(uint32_t choice_idx, Json content, Json logprobs, Json finish_reason) const {
    Json choice = Json::object();
    choice.set("index", choice_idx).set(is_chat_ ? "delta" : "text", std::move(content));
    choice.set("logprobs", std::move(logprobs)).set("finish_reason", std::move(finish_reason));
    Json out = envelope(true);
    out.set("choices", Json(Json::Array{std::move(choice)}));
    if (facts_.includes_usage) out.set("usage", Json());
    return server_sent_event(out);
  }

  Json logprobs(std::span<const AnswerToken> tokens) const {
    if (!facts_.has_logprobs) return {};
    return is_chat_ ? chat_logprobs(tokens) : text_logprobs(tokens);
  }

  Json token_json(const TokenLogprob& token) const {
    const std::string bytes = facts_.tokenizer->token_bytes(token.id, true);
    Json out = Json::object();
    return out.set("token", bytes).set("logprob", double{token.logprob}).set("bytes", bytes_json(bytes));
  }

  Json chat_logprobs(std::span<const AnswerToken> tokens) const {
    Json list = Json::array();
    for (const AnswerToken& token : tokens) {
      Json item = token_json(token.logprob);
      Json top = Json::array();
      for (const TokenLogprob& other : token.top) top.push_back(token_json(other));
      list.push_back(item.set("top_logprobs", std::move(top)));
    }
    Json out = Json::object();
    return out.set("content", std::move(list)).set("refusal", Json());
  }

  Json text_logprobs(std::span<const AnswerToken> tokens) const {
    Json texts = Json::array(), values = Json::array(), tops = Json::array();
    for (const AnswerToken& token : tokens) {
      texts.push_back(facts_.tokenizer->token_bytes(token.id, true));
      values.push_back(double{token.logprob.logprob});
      Json top = Json::object();
      for (const TokenLogprob& other : token.top)
        top.set(facts_.tokenizer->token_bytes(other.id, true), double{other.logprob});
      tops.push_back(std::move(top));
    }
    Json out = Json::object();
    out.set("tokens", std::move(texts)).set("token_logprobs", std::move(values));
    return out.set("top_logprobs", std::move(tops));
  }

  const bool is_chat_;
  std::vector<bool> has_begun_;
};

}  // namespace

std::unique_ptr<AnswerFormat> make_openai_format(Dialect dialect, AnswerFacts facts) {
  return std::make_unique<OpenAiFormat>(dialect, std::move(facts));
}

}  // namespace tamis::server
