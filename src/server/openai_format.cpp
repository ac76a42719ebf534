// Answers as OpenAI's chat and text completions.
#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "base/utf8.h"
#include "server/answer_format.h"

namespace tamis::server {
namespace {

Json token_json(const Tokenizer& tokenizer, const TokenLogprob& token) {
  const std::string bytes = tokenizer.token_bytes(token.id, true);
  Json list = Json::array(), out = Json::object();
  for (const char c : bytes) list.push_back(int64_t{static_cast<unsigned char>(c)});
  return out.set("token", bytes).set("logprob", double{token.logprob}).set("bytes", std::move(list));
}

Json usage_json(const RequestReport& report) {
  Json details = Json::object();
  details.set("cached_tokens", uint64_t{report.n_cached});
  Json usage = Json::object();
  usage.set("prompt_tokens", uint64_t{report.n_prompt}).set("completion_tokens", uint64_t{report.n_generated});
  usage.set("total_tokens", uint64_t{report.n_prompt + report.n_generated});
  return usage.set("prompt_tokens_details", std::move(details));
}

// "logprobs" of text completions.
class LogprobLists {
 public:
  explicit LogprobLists(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // A prompt's first token, which nothing makes probable.
  void add_first(TokenId id) {
    texts_.push_back(name_of(id));
    values_.push_back(Json());
    tops_.push_back(Json());
  }
  void add(const TokenLogprob& token, std::span<const TokenLogprob> top) {
    texts_.push_back(name_of(token.id));
    values_.push_back(double{token.logprob});
    Json others = Json::object();
    for (const TokenLogprob& other : top) {
      const std::string name = name_of(other.id);  // the most probable of those that read alike
      if (others.find(name) == nullptr) others.set(name, double{other.logprob});
    }
    tops_.push_back(std::move(others));
  }
  void add(const TokenScore& score) { add(score.logprob, score.top); }

  Json take() {
    Json out = Json::object();
    out.set("tokens", std::move(texts_)).set("token_logprobs", std::move(values_));
    return out.set("top_logprobs", std::move(tops_));
  }

 private:
  // The token's text; where that is none, its bytes, as OpenAI has them: "bytes:\xe2\x80".
  std::string name_of(TokenId id) const {
    const std::string bytes = tokenizer_.token_bytes(id, true);
    if (utf8_first_invalid(bytes) == bytes.size()) return bytes;
    std::string out = "bytes:";
    for (const char c : bytes) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    return out;
  }

  const Tokenizer& tokenizer_;
  Json texts_ = Json::array(), values_ = Json::array(), tops_ = Json::array();
};

class OpenAiFormat : public AnswerFormat {
 public:
  OpenAiFormat(Dialect dialect, AnswerFacts facts)
      : AnswerFormat(std::move(facts)), is_chat_(dialect == Dialect::openai_chat), scores_(facts_.echoes.size()) {}

  void prompt_scores(size_t prompt_idx, std::vector<TokenScore>&& scores) override {
    std::move(scores.begin(), scores.end(), std::back_inserter(scores_[prompt_idx]));
  }

  std::string token(const AnswerToken& token) override {
    std::string out = first_chunk(token.choice_idx);
    Json scored = logprobs(std::span(&token, 1));
    std::vector<Json> all = deltas(token.choice_idx, token.pieces, token.text);
    if (all.empty() && facts_.has_logprobs) all.push_back(delta(""));
    for (Json& one : all) out += chunk(token.choice_idx, std::move(one), std::exchange(scored, Json()), Json());
    return out;
  }

  std::string choice_end(const AnswerEnd& end) override {
    std::string out = first_chunk(end.choice_idx);
    for (Json& one : deltas(end.choice_idx, end.pieces, end.text))
      out += chunk(end.choice_idx, std::move(one), Json(), Json());
    Json scored;
    if (facts_.scores_prompt && end.end_token.logprob.id != kNoToken) {
      LogprobLists lists(*facts_.tokenizer);
      lists.add(end.end_token);
      scored = lists.take();
    }
    return out +
           chunk(end.choice_idx, is_chat_ ? Json::object() : delta(""), std::move(scored), openai_finish_reason(end));
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
        item.set("message", message(choice));
      } else {
        const Echo* const echo = echo_of(i);
        item.set("text", echo == nullptr ? choice.text : echo->text + choice.text);
      }
      item.set("logprobs", is_chat_ ? logprobs(choice.tokens) : whole_logprobs(i, choice))
          .set("finish_reason", openai_finish_reason(choice.end));
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

  static Json message(const AnswerChoice& choice) {
    Json out = Json::object();
    const bool is_calls_only = choice.text.empty() && !choice.calls.empty();
    out.set("role", "assistant").set("content", is_calls_only ? Json() : Json(choice.text)).set("refusal", Json());
    if (!choice.reasoning.empty()) out.set("reasoning_content", choice.reasoning);
    if (choice.calls.empty()) return out;
    Json calls = Json::array();
    for (const AnswerCall& call : choice.calls) {
      Json function = Json::object(), item = Json::object();
      function.set("name", call.name).set("arguments", call.arguments);
      calls.push_back(item.set("id", call.id).set("type", "function").set("function", std::move(function)));
    }
    return out.set("tool_calls", std::move(calls));
  }

  // What a stream's chunks say of a token's pieces, one after the other.
  std::vector<Json> deltas(uint32_t choice_idx, const std::vector<AnswerPiece>& pieces, const std::string& text) const {
    std::vector<Json> out;
    if (!is_chat_ && !text.empty()) out.push_back(delta(text));
    for (const AnswerPiece& piece : pieces) {
      Json one = Json::object();
      switch (piece.kind) {
        case AnswerPiece::Kind::text: out.push_back(delta(piece.text)); break;
        case AnswerPiece::Kind::reasoning: out.push_back(one.set("reasoning_content", piece.text)); break;
        case AnswerPiece::Kind::call_begin: {
          Json call = call_delta(piece.call_idx, "name", piece.text);
          call.set("id", call_id(facts_.id, choice_idx, piece.call_idx)).set("type", "function");
          out.push_back(one.set("tool_calls", Json(Json::Array{std::move(call)})));
          break;
        }
        case AnswerPiece::Kind::call_arguments:
          out.push_back(one.set("tool_calls", Json(Json::Array{call_delta(piece.call_idx, "arguments", piece.text)})));
          break;
        case AnswerPiece::Kind::call_end: break;
      }
    }
    return out;
  }

  static Json call_delta(uint32_t call_idx, const char* name, const std::string& text) {
    Json function = Json::object(), out = Json::object();
    function.set(name, text);
    if (name == std::string_view("name")) function.set("arguments", "");
    return out.set("index", call_idx).set("function", std::move(function));
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
    if (!is_chat_) {
      const Echo* const echo = echo_of(choice_idx);
      if (echo == nullptr || (echo->text.empty() && !facts_.scores_prompt)) return "";
      return chunk(choice_idx, Json(echo->text), prompt_logprobs(choice_idx), Json());
    }
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

  Json chat_logprobs(std::span<const AnswerToken> tokens) const {
    Json list = Json::array();
    for (const AnswerToken& token : tokens) list.push_back(openai_logprob(*facts_.tokenizer, token));
    Json out = Json::object();
    return out.set("content", std::move(list)).set("refusal", Json());
  }

  Json text_logprobs(std::span<const AnswerToken> tokens) const {
    LogprobLists lists(*facts_.tokenizer);
    for (const AnswerToken& token : tokens) lists.add(token.logprob, token.top);
    return lists.take();
  }

  // Null: the prompt is not said again.
  const Echo* echo_of(size_t choice_idx) const {
    return facts_.echoes.empty() ? nullptr : &facts_.echoes[choice_idx / facts_.n_choices];
  }

  void add_prompt(size_t choice_idx, LogprobLists& lists) const {
    lists.add_first(echo_of(choice_idx)->first_token);
    for (const TokenScore& score : scores_[choice_idx / facts_.n_choices]) lists.add(score);
  }

  Json prompt_logprobs(size_t choice_idx) const {
    if (!facts_.scores_prompt) return {};
    LogprobLists lists(*facts_.tokenizer);
    add_prompt(choice_idx, lists);
    return lists.take();
  }

  Json whole_logprobs(size_t choice_idx, const AnswerChoice& choice) const {
    if (!facts_.has_logprobs) return {};
    LogprobLists lists(*facts_.tokenizer);
    if (facts_.scores_prompt) add_prompt(choice_idx, lists);
    for (const AnswerToken& token : choice.tokens) lists.add(token.logprob, token.top);
    if (facts_.scores_prompt && choice.end.end_token.logprob.id != kNoToken) lists.add(choice.end.end_token);
    return lists.take();
  }

  const bool is_chat_;
  std::vector<std::vector<TokenScore>> scores_;  // of each prompt that is echoed
  std::vector<bool> has_begun_;
};

}  // namespace

Json openai_logprob(const Tokenizer& tokenizer, const AnswerToken& token) {
  Json top = Json::array(), out = token_json(tokenizer, token.logprob);
  for (const TokenLogprob& other : token.top) top.push_back(token_json(tokenizer, other));
  return out.set("top_logprobs", std::move(top));
}

std::unique_ptr<AnswerFormat> make_openai_format(Dialect dialect, AnswerFacts facts) {
  return std::make_unique<OpenAiFormat>(dialect, std::move(facts));
}

}  // namespace tamis::server
