// fuzz: rooms=server,api,engine,text,formats,base
// Any bytes as the body of a request in each dialect: a refusal with its message, or numbers within their bounds.
#include <array>
#include <cstdlib>
#include <string_view>

#include "server/embeddings.h"
#include "server/generation_call.h"
#include "server/sessions.h"

using namespace tamis::server;

namespace {

void check(const tamis::GenerateRequest& request, const CallLimits& limits) {
  if (request.n_choices < 1 || request.n_choices > limits.max_choices) std::abort();
  if (request.min_tokens > limits.n_ctx || request.stop.size() > GenerationCall::kMaxStops) std::abort();
  if (!(request.sampling.temp >= 0) || !(request.sampling.top_p >= 0 && request.sampling.top_p <= 1)) std::abort();
  if (request.n_top_logprobs > tamis::GenerateRequest::kMaxTopLogprobs) std::abort();
  for (const tamis::LogitBias& bias : request.sampling.logit_bias)
    if (bias.id < 0 || static_cast<uint32_t>(bias.id) >= limits.n_vocab) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const CallLimits limits{.n_vocab = 500, .n_ctx = 64, .max_choices = 4, .n_slots = 4};
  constexpr std::array kParsers = {parse_chat_completion, parse_text_completion, parse_native_completion,
                                   parse_anthropic,       parse_anthropic_count, parse_ollama_chat,
                                   parse_ollama_generate, parse_apply_template,  parse_response};
  const auto body = parse_body({reinterpret_cast<const char*>(data), size});
  if (!body) {
    if (body.error().status != 400 || body.error().message.empty()) std::abort();
    return 0;
  }
  for (const auto parse : kParsers) {
    const auto call = parse(*body, limits);
    if (!call) {
      if (call.error().status != 400 || call.error().message.empty()) std::abort();
      continue;
    }
    check(call->request, limits);
    if (call->slot < -1 || call->slot >= limits.n_slots) std::abort();
    if (!call->messages && call->prompts.empty()) std::abort();
    if (call->prompts.size() > GenerationCall::kMaxPrompts) std::abort();
    for (const GivenPrompt& prompt : call->prompts) {
      if (!prompt.text && (prompt.tokens.empty() || prompt.tokens.size() > limits.n_ctx)) std::abort();
      for (const tamis::TokenId id : prompt.tokens)
        if (id < 0 || static_cast<uint32_t>(id) >= limits.n_vocab) std::abort();
    }
  }
  if (const auto embeddings = parse_embeddings(*body, limits)) {
    for (const EmbeddingsCall::Input& input : embeddings->inputs)
      for (const tamis::TokenId id : input.tokens)
        if (id < 0 || static_cast<uint32_t>(id) >= limits.n_vocab) std::abort();
  }
  if (const auto session = parse_session(*body); session && !session->filename.empty())
    if (!tamis::FileDir::is_name(session->filename)) std::abort();
  (void)parse_tokenize(*body);
  (void)parse_detokenize(*body, limits);
  return 0;
}
