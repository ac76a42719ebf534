// Requests in OpenAI's words, and in those that llama-server and vLLM added to them.
#include <limits>

#include "server/call_fields.h"
#include "server/tool_fields.h"

namespace tamis::server {
namespace {

constexpr int64_t kMaxTokens = int64_t{1} << 31;

void accept_openai_inert(Fields& fields) {
  fields.only("store", Json(false), "answers are not kept here: only false is supported");
  read_openai_metadata(fields);
  fields.mark_inert("metadata");
  read_verbosity(fields);
  read_openai_inert(fields);
}

void read_stream(Fields& fields, GenerationCall& call) {
  fields.boolean("stream", call.is_stream);
  const Json* const options = fields.object("stream_options");
  if (options == nullptr) return;
  if (!call.is_stream) return fields.fail("stream_options", "is allowed with stream only");
  Fields inner(*options, "stream_options.");
  inner.boolean("include_usage", call.includes_usage);
  read_obfuscation(inner);
  fields.finish_inner(inner);
}

void read_choices(Fields& fields, const CallLimits& limits, GenerateRequest& request) {
  fields.integer("n", 1, limits.max_choices, request.n_choices);
}

void read_chat(Fields& fields, GenerationCall& call) {
  fields.text("model", call.model);
  read_messages(fields, call);
  read_openai_tools(fields, call);
  read_reasoning(fields, call);
  read_template_kwargs(fields, call);
  bool has_generation_prompt = true;
  fields.boolean("add_generation_prompt", has_generation_prompt);
  call.variables.set("add_generation_prompt", has_generation_prompt);
}

void read_slot(Fields& fields, const CallLimits& limits, GenerationCall& call) {
  fields.integer("id_slot", -1, int64_t{limits.n_slots} - 1, call.slot);
}

void read_prompt(Fields& fields, std::string field, const Json& value, const CallLimits& limits, GenerationCall& call) {
  GivenPrompt prompt{.field = std::move(field)};
  if (value.is_string()) {
    prompt.text = value.as_string();
  } else if (!value.is_array() || value.as_array().empty()) {
    return fields.fail(prompt.field, fmt::format("got {}, expected a string or token ids", kind_of(value)));
  } else {
    read_prompt_ids(fields, prompt.field, value, limits, prompt.tokens);
  }
  call.prompts.push_back(std::move(prompt));
}

// "prompt": a text, token ids, or an array of at most n_most of these.
void read_prompts(Fields& fields, const CallLimits& limits, size_t n_most, GenerationCall& call) {
  const Json* const prompt = fields.any("prompt");
  if (prompt == nullptr) return fields.fail("prompt", "is missing");
  const bool is_list = prompt->is_array() && !prompt->as_array().empty() && !prompt->as_array().front().is_number();
  if (!is_list) return read_prompt(fields, "prompt", *prompt, limits, call);
  const size_t n = prompt->as_array().size();
  if (n > n_most)
    return fields.fail("prompt", n_most == 1 ? std::string("only /v1/completions takes several prompts in one request")
                                             : fmt::format("got {} prompts, at most {} are allowed", n, n_most));
  for (size_t i = 0; i < n && !fields.has_failed(); ++i)
    read_prompt(fields, fmt::format("prompt[{}]", i), prompt->as_array()[i], limits, call);
}

}  // namespace

ApiResult<GenerationCall> parse_chat_completion(const Json& body, const CallLimits& limits) {
  Fields fields(body);
  GenerationCall call;
  GenerateRequest& request = call.request;
  read_chat(fields, call);
  fields.unsupported("continue_final_message");
  read_stream(fields, call);
  fields.integer("max_tokens", 1, kMaxTokens, request.n_predict);
  fields.integer("max_completion_tokens", 1, kMaxTokens, request.n_predict);
  read_choices(fields, limits, request);
  read_stops(fields, "stop", request);
  read_sampling(fields, limits, request);
  fields.boolean("logprobs", request.has_logprobs);
  if (fields.integer("top_logprobs", 0, GenerateRequest::kMaxTopLogprobs, request.n_top_logprobs) &&
      !request.has_logprobs)
    fields.fail("top_logprobs", "is allowed with logprobs only");
  read_form(fields, call);
  fields.unsupported("audio");
  fields.unsupported("prediction");
  fields.unsupported("web_search_options");
  const Json* const modalities = fields.array("modalities");
  if (modalities != nullptr && *modalities != Json(Json::Array{Json("text")}))
    fields.fail("modalities", "only [\"text\"] is supported");
  read_slot(fields, limits, call);
  accept_openai_inert(fields);
  TAMIS_API_TRY_STATUS(fields.finish());
  return call;
}

ApiResult<GenerationCall> parse_text_completion(const Json& body, const CallLimits& limits) {
  Fields fields(body);
  GenerationCall call;
  GenerateRequest& request = call.request;
  request.n_predict = 16;  // OpenAI's
  fields.text("model", call.model);
  read_prompts(fields, limits, GenerationCall::kMaxPrompts, call);
  read_stream(fields, call);
  fields.integer("max_tokens", 0, kMaxTokens, request.n_predict);
  read_choices(fields, limits, request);
  read_stops(fields, "stop", request);
  read_sampling(fields, limits, request);
  request.has_logprobs = fields.integer("logprobs", 0, GenerateRequest::kMaxTopLogprobs, request.n_top_logprobs);
  fields.boolean("echo", call.echoes_prompt);
  request.scores_prompt = call.echoes_prompt && request.has_logprobs;
  fields.only("best_of", Json(int64_t{request.n_choices}), "only best_of = n is supported");
  fields.unsupported("suffix");
  read_slot(fields, limits, call);
  if (call.slot >= 0 && (call.prompts.size() > 1 || request.scores_prompt))
    fields.fail("id_slot", "is for one prompt, without its log-probabilities");
  read_form(fields, call);
  accept_openai_inert(fields);
  TAMIS_API_TRY_STATUS(fields.finish());
  return call;
}

ApiResult<GenerationCall> parse_native_completion(const Json& body, const CallLimits& limits) {
  Fields fields(body);
  GenerationCall call;
  GenerateRequest& request = call.request;
  fields.text("model", call.model);
  read_prompts(fields, limits, 1, call);
  fields.boolean("stream", call.is_stream);
  fields.integer("n_predict", -1, kMaxTokens, request.n_predict);
  fields.integer("max_tokens", -1, kMaxTokens, request.n_predict);
  read_stops(fields, "stop", request);
  read_sampling(fields, limits, request);
  request.has_logprobs = fields.integer("n_probs", 0, GenerateRequest::kMaxTopLogprobs, request.n_top_logprobs) &&
                         request.n_top_logprobs > 0;
  fields.boolean("return_tokens", call.returns_tokens);
  bool caches = true;  // it always does: no answer depends on it
  int64_t n_keep = 0;  // all of a prompt is kept
  fields.boolean("cache_prompt", caches);
  fields.integer("n_keep", -1, std::numeric_limits<int32_t>::max(), n_keep);
  fields.only("timings_per_token", Json(false), "timings are told at the end only");
  read_slot(fields, limits, call);
  fields.only("n_discard", Json(0), "nothing is ever discarded from a prompt");
  read_form(fields, call);
  TAMIS_API_TRY_STATUS(fields.finish());
  return call;
}

ApiResult<GenerationCall> parse_apply_template(const Json& body, const CallLimits&) {
  Fields fields(body);
  GenerationCall call;
  read_chat(fields, call);
  TAMIS_API_TRY_STATUS(fields.finish());
  return call;
}

ApiResult<TokenizeCall> parse_tokenize(const Json& body) {
  Fields fields(body);
  TokenizeCall call;
  std::string model;
  fields.text("model", model);
  if (!fields.text("content", call.content)) fields.fail("content", "is missing");
  fields.boolean("add_special", call.add_special);
  fields.boolean("parse_special", call.parse_special);
  fields.boolean("with_pieces", call.with_pieces);
  TAMIS_API_TRY_STATUS(fields.finish());
  return call;
}

ApiResult<std::vector<TokenId>> parse_detokenize(const Json& body, const CallLimits& limits) {
  Fields fields(body);
  std::vector<TokenId> ids;
  std::string model;
  fields.text("model", model);
  const Json* const tokens = fields.array("tokens");
  if (tokens == nullptr) {
    fields.fail("tokens", "is missing");
  } else {
    read_token_ids(fields, "tokens", *tokens, limits, ids);
  }
  TAMIS_API_TRY_STATUS(fields.finish());
  return ids;
}

ApiResult<Json> parse_body(std::string_view body) {
  auto json = Json::parse(body);
  if (!json) {
    const Error& error = json.error();
    const std::string where =
        error.site && error.site->has_offset ? fmt::format("byte {}: ", error.site->byte_offset) : std::string();
    return refuse("", "the body is not JSON: " + where + (error.site ? error.site->got : error.message));
  }
  if (!json->is_object()) return refuse("", fmt::format("the body is {}, expected an object", kind_of(*json)));
  return std::move(*json);
}

}  // namespace tamis::server
