// What the formats share, and the answers of llama-server's /completion and Anthropic's /v1/messages.
#include "server/answer_format.h"

namespace tamis::server {
namespace {

std::string_view native_stop_type(GenerationEnd end) {
  switch (end) {
    case GenerationEnd::end_of_text: return "eos";
    case GenerationEnd::stop_string: return "word";
    case GenerationEnd::token_limit:
    case GenerationEnd::context_full: return "limit";
    case GenerationEnd::cancelled: break;
  }
  return "none";
}

class NativeFormat : public AnswerFormat {
 public:
  using AnswerFormat::AnswerFormat;

  std::string token(const AnswerToken& token) override {
    if (token.text.empty() && !facts_.has_logprobs && !facts_.returns_tokens) return "";
    Json out = Json::object();
    out.set("index", 0).set("content", token.text);
    out.set("tokens", facts_.returns_tokens ? Json(Json::Array{Json(int64_t{token.id})}) : Json::array());
    out.set("stop", false);
    if (facts_.has_logprobs) out.set("completion_probabilities", Json(Json::Array{probability(token)}));
    return server_sent_event(out);
  }

  std::string choice_end(const AnswerEnd& end) override {
    last_.end = end;
    return "";
  }

  std::string end(const RequestReport& report) override {
    last_.text = last_.end.text;
    return server_sent_event(whole({last_}, report));
  }

  Json whole(const std::vector<AnswerChoice>& choices, const RequestReport& report) override {
    const AnswerChoice& choice = choices.front();
    Json ids = Json::array(), probabilities = Json::array();
    for (const AnswerToken& token : choice.tokens) {
      if (facts_.returns_tokens) ids.push_back(int64_t{token.id});
      if (facts_.has_logprobs) probabilities.push_back(probability(token));
    }
    Json out = Json::object();
    out.set("index", 0).set("content", choice.text).set("tokens", std::move(ids)).set("stop", true);
    out.set("model", facts_.model).set("stop_type", native_stop_type(choice.end.end));
    out.set("stopping_word", choice.end.stop_string).set("truncated", false);
    out.set("tokens_predicted", uint64_t{report.n_generated}).set("tokens_evaluated", uint64_t{report.n_prompt});
    out.set("tokens_cached", uint64_t{report.n_cached}).set("seed", choice.end.seed);
    if (facts_.has_logprobs) out.set("completion_probabilities", std::move(probabilities));
    return out.set("timings", timings_json(report));
  }

 private:
  Json token_json(const TokenLogprob& token) const {
    Json out = Json::object();
    out.set("id", int64_t{token.id}).set("token", facts_.tokenizer->token_bytes(token.id, true));
    return out.set("logprob", double{token.logprob});
  }

  Json probability(const AnswerToken& token) const {
    Json top = Json::array();
    for (const TokenLogprob& other : token.top) top.push_back(token_json(other));
    Json out = token_json(token.logprob);
    return out.set("top_logprobs", std::move(top));
  }

  AnswerChoice last_;
};

std::string named_event(std::string_view name, Json fields) {
  Json data = Json::object();
  data.set("type", name);
  for (auto& [key, value] : fields.as_object()) data.set(key, std::move(value));
  return fmt::format("event: {}\n", name) + server_sent_event(data);
}

class AnthropicFormat : public AnswerFormat {
 public:
  using AnswerFormat::AnswerFormat;

  std::string ping() const override { return named_event("ping", Json::object()); }

  std::string begin() override {
    Json usage = Json::object();
    usage.set("input_tokens", uint64_t{facts_.n_prompt}).set("output_tokens", 0);
    Json message = envelope();
    message.set("content", Json::array()).set("stop_reason", Json()).set("stop_sequence", Json());
    message.set("usage", std::move(usage));
    Json start = Json::object(), block = Json::object();
    start.set("message", std::move(message));
    block.set("index", 0).set("content_block", text_block(""));
    return named_event("message_start", std::move(start)) + named_event("content_block_start", std::move(block));
  }

  std::string token(const AnswerToken& token) override { return delta(token.text); }

  std::string choice_end(const AnswerEnd& end) override {
    end_ = end;
    Json stop = Json::object();
    return delta(end.text) + named_event("content_block_stop", stop.set("index", 0));
  }

  std::string end(const RequestReport& report) override {
    Json reason = Json::object(), usage = Json::object(), message = Json::object();
    set_reason(reason, end_);
    usage.set("output_tokens", uint64_t{report.n_generated});
    message.set("delta", std::move(reason)).set("usage", std::move(usage));
    return named_event("message_delta", std::move(message)) + named_event("message_stop", Json::object());
  }

  std::string failed(const ApiError& error) override { return "event: error\ndata: " + error_json(error) + "\n\n"; }

  Json whole(const std::vector<AnswerChoice>& choices, const RequestReport& report) override {
    Json usage = Json::object();
    // Anthropic counts tokens read from its cache apart from the others.
    usage.set("input_tokens", uint64_t{report.n_prompt - report.n_cached}).set("cache_creation_input_tokens", 0);
    usage.set("cache_read_input_tokens", uint64_t{report.n_cached}).set("output_tokens", uint64_t{report.n_generated});
    Json out = envelope();
    out.set("content", Json(Json::Array{text_block(choices.front().text)}));
    set_reason(out, choices.front().end);
    return out.set("usage", std::move(usage));
  }

 private:
  Json envelope() const {
    Json out = Json::object();
    out.set("id", "msg_" + facts_.id).set("type", "message").set("role", "assistant");
    return out.set("model", facts_.model);
  }

  static Json text_block(std::string text) {
    Json out = Json::object();
    return out.set("type", "text").set("text", std::move(text));
  }

  static void set_reason(Json& out, const AnswerEnd& end) {
    const bool has_stopped = end.end == GenerationEnd::stop_string;
    out.set("stop_reason", has_stopped                             ? "stop_sequence"
                           : end.end == GenerationEnd::end_of_text ? "end_turn"
                                                                   : "max_tokens");
    out.set("stop_sequence", has_stopped ? Json(end.stop_string) : Json());
  }

  static std::string delta(const std::string& text) {
    if (text.empty()) return "";
    Json inner = Json::object(), out = Json::object();
    inner.set("type", "text_delta").set("text", text);
    out.set("index", 0).set("delta", std::move(inner));
    return named_event("content_block_delta", std::move(out));
  }

  AnswerEnd end_;
};

}  // namespace

std::string AnswerFormat::failed(const ApiError& error) { return "data: " + error_json(error) + "\n\n"; }

std::string server_sent_event(const Json& data) { return "data: " + data.dump() + "\n\n"; }

std::string_view openai_finish_reason(GenerationEnd end) {
  return end == GenerationEnd::token_limit || end == GenerationEnd::context_full ? "length" : "stop";
}

Json timings_json(const RequestReport& report) {
  const auto rate = [](size_t n, double seconds) { return seconds > 0 ? static_cast<double>(n) / seconds : 0.0; };
  const size_t n_computed = report.n_prompt - report.n_cached;
  Json out = Json::object();
  out.set("cache_n", uint64_t{report.n_cached}).set("cache_miss", cache_miss_name(report.miss));
  out.set("prompt_n", uint64_t{n_computed}).set("prompt_ms", report.prompt_seconds * 1e3);
  out.set("prompt_per_second", rate(n_computed, report.prompt_seconds));
  out.set("predicted_n", uint64_t{report.n_generated}).set("predicted_ms", report.generate_seconds * 1e3);
  out.set("predicted_per_second", rate(report.n_generated, report.generate_seconds));
  return out.set("queue_ms", report.queue_seconds * 1e3).set("first_token_ms", report.first_token_seconds * 1e3);
}

std::unique_ptr<AnswerFormat> make_format(Dialect dialect, AnswerFacts facts) {
  switch (dialect) {
    case Dialect::openai_chat:
    case Dialect::openai_text: return make_openai_format(dialect, std::move(facts));
    case Dialect::native: return std::make_unique<NativeFormat>(std::move(facts));
    case Dialect::anthropic: return std::make_unique<AnthropicFormat>(std::move(facts));
    case Dialect::ollama_chat:
    case Dialect::ollama_generate: break;
  }
  return make_ollama_format(dialect, std::move(facts));
}

}  // namespace tamis::server
