// What a client asks for, in whichever dialect: JSON in, a typed and bounded request out. Between the body's bytes and
// prompt, tokens and scheduler (answer_job). Needs no model but its numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/scheduler.h"
#include "formats/json.h"
#include "server/api_error.h"
#include "text/grammar/grammar.h"

namespace tamis::server {

// What bounds a request.
struct CallLimits {
  uint32_t n_vocab = 0;      // ids of prompts and biases are below it
  uint32_t n_ctx = 0;        // of one sequence
  uint32_t max_choices = 1;  // of one request
  uint32_t n_embd = 0;       // numbers of an embedding
  uint32_t n_slots = 0;      // names of conversations
};

// Tools that an answer may call.
struct ToolUse {
  static constexpr size_t kMaxTools = 512;

  Json offered = Json::array();  // [{"type": "function", "function": {"name", "description", "parameters"}}, …]
  bool is_required = false;      // the answer must be calls
  std::string only;              // … of this one; "" = of any
  bool allows_several = true;    // calls in one answer
};

// A prompt as it is, without a template.
struct GivenPrompt {
  std::string field = "prompt";     // "prompt[3]" in a list
  std::optional<std::string> text;  // none: `tokens`, at least one
  std::vector<TokenId> tokens;
};

struct GenerationCall {
  static constexpr size_t kMaxMessages = 16384, kMaxStops = 16, kMaxBiases = 1024, kMaxPrompts = 128;

  // The prompt is messages for the template, or texts and token ids: one, in OpenAI's completions several.
  // What the template sees: {"role", "content"}, and where they have any "reasoning_content", "tool_calls" (arguments
  // as objects), "tool_call_id", "name".
  std::optional<Json> messages;
  std::string_view messages_field = "messages";  // that they came in
  Json variables = Json::object();               // what else it sees
  std::vector<GivenPrompt> prompts;

  GenerateRequest request;  // all but its prompt
  std::string model;        // as asked for; "" = any
  bool is_stream = false;
  bool includes_usage = false;  // OpenAI: a stream's last chunk tells it
  bool echoes_prompt = false;   // OpenAI completions
  bool returns_tokens = false;  // llama-server: ids beside the text
  int64_t slot = -1;            // llama-server: which conversation it is; -1: any

  std::optional<GrammarSpec> form;  // what the answer must be; none = anything
  std::string form_field;           // that asked for it

  ToolUse tools;
  bool separates_reasoning = true;  // false: it stays in the text, marks and all
  int64_t reasoning_budget = -1;    // tokens; < 0 = any number

  Json repeated = Json::object();  // OpenAI responses: fields of the request that the answer says again
};

// A message as templates see it: {"role", "content"}. Its "developer" is their "system".
Json chat_message(std::string_view role, std::string text);

// One for each way to ask. Errors: 400 naming the field.
ApiResult<GenerationCall> parse_chat_completion(const Json& body, const CallLimits& limits);    // OpenAI
ApiResult<GenerationCall> parse_text_completion(const Json& body, const CallLimits& limits);    // OpenAI
ApiResult<GenerationCall> parse_response(const Json& body, const CallLimits& limits);           // OpenAI
ApiResult<GenerationCall> parse_native_completion(const Json& body, const CallLimits& limits);  // llama-server
ApiResult<GenerationCall> parse_anthropic(const Json& body, const CallLimits& limits);
ApiResult<GenerationCall> parse_anthropic_count(const Json& body, const CallLimits& limits);
ApiResult<GenerationCall> parse_ollama_chat(const Json& body, const CallLimits& limits);
ApiResult<GenerationCall> parse_ollama_generate(const Json& body, const CallLimits& limits);
ApiResult<GenerationCall> parse_apply_template(const Json& body, const CallLimits& limits);  // llama-server

struct TokenizeCall {
  std::string content;
  bool add_special = false, parse_special = true, with_pieces = false;
};
ApiResult<TokenizeCall> parse_tokenize(const Json& body);
ApiResult<std::vector<TokenId>> parse_detokenize(const Json& body, const CallLimits& limits);

// The body as a JSON object. Errors: 400 with the byte of the fault.
ApiResult<Json> parse_body(std::string_view body);

}  // namespace tamis::server
