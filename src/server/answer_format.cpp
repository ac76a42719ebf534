// What the formats share, and the answers of llama-server's /completion.
#include "server/answer_format.h"

namespace tamis::server {
namespace {

std::string_view native_stop_type(GenerationEnd end) {
  switch (end) {
    case GenerationEnd::end_of_text: return "eos";
    case GenerationEnd::stop_string: return "word";
    case GenerationEnd::token_limit:
    case GenerationEnd::context_full:
    case GenerationEnd::time_limit: return "limit";
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
    if (facts_.slot) out.set("id_slot", *facts_.slot);
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

}  // namespace

std::string AnswerFormat::failed(const ApiError& error) { return "data: " + error_json(error) + "\n\n"; }

std::string server_sent_event(const Json& data) { return "data: " + data.dump() + "\n\n"; }

std::string_view openai_finish_reason(GenerationEnd end) {
  if (end == GenerationEnd::time_limit) return "timeout";
  return end == GenerationEnd::token_limit || end == GenerationEnd::context_full ? "length" : "stop";
}

std::string_view openai_finish_reason(const AnswerEnd& end) {
  const std::string_view reason = openai_finish_reason(end.end);
  return end.n_calls > 0 && reason == "stop" ? "tool_calls" : reason;
}

void AnswerChoice::add(const AnswerPiece& piece, const std::string& id) {
  switch (piece.kind) {
    case AnswerPiece::Kind::text: text += piece.text; break;
    case AnswerPiece::Kind::reasoning: reasoning += piece.text; break;
    case AnswerPiece::Kind::call_begin: calls.push_back({id, piece.text, ""}); break;
    case AnswerPiece::Kind::call_arguments: calls.back().arguments += piece.text; break;
    case AnswerPiece::Kind::call_end: {
      const auto arguments = Json::parse(calls.back().arguments);
      if (piece.is_whole && arguments && arguments->is_object()) break;
      calls.pop_back();
      text += piece.text;
    }
  }
}

std::string call_id(std::string_view request_id, uint32_t choice_idx, uint32_t call_idx) {
  constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuvwxyz";
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a, then mixed: ids of one request differ in every digit
  for (const char c : fmt::format("{}/{}/{}", request_id, choice_idx, call_idx))
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  hash ^= hash >> 32;
  hash *= 0xd6e8feb86659fd93;
  hash ^= hash >> 32;
  std::string out;
  for (int i = 0; i < 9; ++i, hash /= kDigits.size()) out += kDigits[hash % kDigits.size()];
  return out;
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
  out.set("draft_n", uint64_t{report.n_drafted}).set("draft_n_accepted", uint64_t{report.n_accepted});
  return out.set("queue_ms", report.queue_seconds * 1e3).set("first_token_ms", report.first_token_seconds * 1e3);
}

std::unique_ptr<AnswerFormat> make_format(Dialect dialect, AnswerFacts facts) {
  switch (dialect) {
    case Dialect::openai_chat:
    case Dialect::openai_text: return make_openai_format(dialect, std::move(facts));
    case Dialect::openai_responses: return make_responses_format(std::move(facts));
    case Dialect::native: return std::make_unique<NativeFormat>(std::move(facts));
    case Dialect::anthropic: return make_anthropic_format(std::move(facts));
    case Dialect::ollama_chat:
    case Dialect::ollama_generate: break;
  }
  return make_ollama_format(dialect, std::move(facts));
}

}  // namespace tamis::server
