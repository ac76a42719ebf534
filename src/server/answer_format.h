// How an answer reads in each dialect: pieces of a stream, and the whole. Between the scheduler's events (answer_job)
// and the bytes that go back.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/scheduler.h"
#include "formats/json.h"
#include "server/api_error.h"
#include "text/answer_parser.h"
#include "text/tokenizer.h"

namespace tamis::server {

enum class Dialect : uint8_t {
  openai_chat,
  openai_text,
  openai_responses,
  native,
  anthropic,
  ollama_chat,
  ollama_generate
};

// A prompt that is said again.
struct Echo {
  std::string text;
  TokenId first_token = kNoToken;
};

// What every format may want to say.
struct AnswerFacts {
  std::string id;       // 16 hexadecimal digits
  std::string model;    // its alias
  int64_t created = 0;  // Unix time, seconds
  std::shared_ptr<const Tokenizer> tokenizer;
  size_t n_prompt = 0;         // tokens
  uint32_t n_choices = 1;      // of each prompt
  std::vector<Echo> echoes;    // of each prompt, where it stands before its choices
  bool scores_prompt = false;  // it and the end of a text have log-probabilities, too; with has_logprobs
  bool includes_usage = false, has_logprobs = false, returns_tokens = false;
  std::optional<uint32_t> slot;    // llama-server: its conversation, where those can be kept
  Json repeated = Json::object();  // fields of the request that the answer says again
};

// A TokenEvent that owns what it holds.
struct AnswerToken {
  uint32_t choice_idx = 0;
  TokenId id = kNoToken;
  std::string text;                 // of the answer, without reasoning and calls
  std::vector<AnswerPiece> pieces;  // all of it
  TokenLogprob logprob;
  std::vector<TokenLogprob> top;
};

struct AnswerEnd {
  uint32_t choice_idx = 0;
  GenerationEnd end = GenerationEnd::end_of_text;
  std::string text, stop_string;    // the last of the text, as AnswerToken has it
  std::vector<AnswerPiece> pieces;  // the last ones
  uint64_t seed = 0;
  size_t n_tokens = 0;
  size_t n_calls = 0;    // of tools, whole ones
  TokenScore end_token;  // as ChoiceEnd has it
};

struct AnswerCall {
  std::string id, name;
  std::string arguments;  // the text of a JSON object
};

// What a choice has said so far, taken together.
struct AnswerChoice {
  std::string text, reasoning;
  std::vector<AnswerCall> calls;
  std::vector<AnswerToken> tokens;
  AnswerEnd end;

  // A call that broke off, or whose arguments are no JSON object, becomes text.
  void add(const AnswerPiece& piece, const std::string& call_id);
};

// The id of a call: nine letters and digits, what the strictest of chat templates take back.
std::string call_id(std::string_view request_id, uint32_t choice_idx, uint32_t call_idx);

class AnswerFormat {
 public:
  explicit AnswerFormat(AnswerFacts facts) : facts_(std::move(facts)) {}
  virtual ~AnswerFormat() = default;

  virtual std::string_view content_type() const { return "text/event-stream"; }
  virtual std::string ping() const { return ": ping\n\n"; }

  // A stream, in this order: begin (n_cached: tokens of the prompt that were not computed), then tokens and the ends of
  // choices, then end or failed. "" sends nothing.
  virtual std::string begin(size_t /*n_cached*/) { return ""; }
  // With scores_prompt, before a token of that prompt's choices: its tokens from the second one on, several at a time.
  virtual void prompt_scores(size_t /*prompt_idx*/, std::vector<TokenScore>&& /*scores*/) {}
  virtual std::string token(const AnswerToken& token) = 0;
  virtual std::string choice_end(const AnswerEnd& end) = 0;
  virtual std::string end(const RequestReport& report) = 0;
  virtual std::string failed(const ApiError& error);

  // The whole answer at once.
  virtual Json whole(const std::vector<AnswerChoice>& choices, const RequestReport& report) = 0;

 protected:
  const AnswerFacts facts_;
};

std::unique_ptr<AnswerFormat> make_format(Dialect dialect, AnswerFacts facts);
std::unique_ptr<AnswerFormat> make_openai_format(Dialect dialect, AnswerFacts facts);
std::unique_ptr<AnswerFormat> make_anthropic_format(AnswerFacts facts);
std::unique_ptr<AnswerFormat> make_responses_format(AnswerFacts facts);
std::unique_ptr<AnswerFormat> make_ollama_format(Dialect dialect, AnswerFacts facts);

std::string server_sent_event(const Json& data);
std::string rfc3339(int64_t unix_time);                       // "2031-02-03T04:05:06Z"
std::string_view openai_finish_reason(GenerationEnd end);     // "stop", "length" or "timeout"
std::string_view openai_finish_reason(const AnswerEnd& end);  // … or "tool_calls"

// {"token", "logprob", "bytes", "top_logprobs"} of a token, as OpenAI's chats and responses tell it.
Json openai_logprob(const Tokenizer& tokenizer, const AnswerToken& token);

// {"prompt_n":…,"prompt_ms":…,…}: llama-server's.
Json timings_json(const RequestReport& report);

}  // namespace tamis::server
