// Requests in Anthropic's and in ollama's words.
#include <limits>

#include "server/call_fields.h"
#include "server/tool_fields.h"

namespace tamis::server {
namespace {

constexpr int64_t kMaxTokens = int64_t{1} << 31;

// Anthropic's system prompt stands beside the messages; templates want it before them.
void read_anthropic_prompt(Fields& fields, GenerationCall& call) {
  read_messages(fields, call);
  read_anthropic_tools(fields, call);
  read_anthropic_thinking(fields, call);
  for (const std::string_view name : {"mcp_servers", "container", "context_management"}) fields.unsupported(name);
  call.variables.set("add_generation_prompt", true);
  const Json* const system = fields.any("system");
  if (system == nullptr || fields.has_failed()) return;
  const auto text = content_text(fields, "system", *system);
  if (!text || text->empty()) return;
  Json::Array& messages = call.messages->as_array();
  messages.insert(messages.begin(), chat_message("system", *text));
}

// ollama's "options". Those about loading a model cannot change one that runs.
void read_ollama_options(Fields& fields, const CallLimits& limits, GenerateRequest& request) {
  const Json* const options = fields.object("options");
  if (options == nullptr) return;
  Fields inner(*options, "options.");
  read_common_sampling(inner, request.sampling);
  inner.integer("num_predict", -2, kMaxTokens, request.n_predict);
  read_stops(inner, "stop", request);
  int64_t n_ctx = 0;
  inner.integer("num_ctx", 1, limits.n_ctx, n_ctx);  // at most what the server runs with
  int64_t number = 0;
  for (const std::string_view name : {"num_keep", "num_batch", "num_gpu", "main_gpu", "num_thread"})
    inner.integer(name, -1, std::numeric_limits<int32_t>::max(), number);
  bool is_set = false;
  for (const std::string_view name : {"use_mmap", "use_mlock", "numa", "low_vram"}) inner.boolean(name, is_set);
  inner.only("vocab_only", Json(false), "the model is loaded whole");
  const Json* const tail_free = inner.any("tfs_z");
  if (tail_free != nullptr && (!tail_free->is_number() || tail_free->as_double() != 1))
    inner.fail("tfs_z", "only 1 is supported");
  bool penalizes_newline = true;
  const SamplingParams& sampling = request.sampling;
  const bool has_penalty =
      sampling.repeat_penalty != 1 || sampling.presence_penalty != 0 || sampling.frequency_penalty != 0;
  if (inner.boolean("penalize_newline", penalizes_newline) && !penalizes_newline && has_penalty)
    inner.fail("penalize_newline", "penalties are of all tokens: only true is supported with one");
  fields.finish_inner(inner);
}

// "json", or a JSON Schema.
void read_ollama_format(Fields& fields, GenerationCall& call) {
  const Json* const format = fields.any("format");
  if (format == nullptr || *format == Json("")) return;
  if (*format == Json("json")) return set_form(fields, "format", {GrammarSpec::Kind::json_object, ""}, call);
  if (!format->is_object()) return fields.fail("format", R"(expected "json" or a JSON Schema)");
  set_form(fields, "format", {GrammarSpec::Kind::json_schema, format->dump()}, call);
}

// How long the model should stay loaded: "5m", or seconds.
void read_keep_alive(Fields& fields) {
  const Json* const time = fields.any("keep_alive");
  fields.mark_inert("keep_alive");
  if (time != nullptr && !time->is_string() && !time->is_number())
    fields.fail("keep_alive", fmt::format("got {}, expected a string or a number", kind_of(*time)));
}

void read_anthropic_inert(Fields& fields) {
  const Json* const metadata = fields.object("metadata");
  fields.mark_inert("metadata");
  if (metadata != nullptr) {
    Fields inner(*metadata, "metadata.");
    inner.inert_text("user_id");
    fields.finish_inner(inner);
  }
  fields.inert_choice("service_tier", {"auto", "standard_only"});
  fields.inert_text("inference_geo");
}

void read_ollama_common(Fields& fields, const CallLimits& limits, GenerationCall& call) {
  fields.text("model", call.model);
  call.is_stream = true;
  fields.boolean("stream", call.is_stream);
  read_ollama_options(fields, limits, call.request);
  read_ollama_format(fields, call);
  read_think(fields, call);
  read_keep_alive(fields);
  fields.unsupported("logprobs");
  fields.unsupported("top_logprobs");
}

}  // namespace

ApiResult<GenerationCall> parse_anthropic(const Json& body, const CallLimits&) {
  Fields fields(body);
  GenerationCall call;
  GenerateRequest& request = call.request;
  fields.text("model", call.model);
  read_anthropic_prompt(fields, call);
  if (!fields.integer("max_tokens", 1, kMaxTokens, request.n_predict)) fields.fail("max_tokens", "is missing");
  fields.boolean("stream", call.is_stream);
  read_stops(fields, "stop_sequences", request);
  fields.real("temperature", 0, 1, request.sampling.temp);
  fields.real("top_p", 0, 1, request.sampling.top_p);
  fields.integer("top_k", 0, int64_t{1} << 30, request.sampling.top_k);
  read_anthropic_inert(fields);
  TAMIS_API_TRY_STATUS(fields.finish());
  return call;
}

ApiResult<GenerationCall> parse_anthropic_count(const Json& body, const CallLimits&) {
  Fields fields(body);
  GenerationCall call;
  fields.text("model", call.model);
  read_anthropic_prompt(fields, call);
  TAMIS_API_TRY_STATUS(fields.finish());
  return call;
}

ApiResult<GenerationCall> parse_ollama_chat(const Json& body, const CallLimits& limits) {
  Fields fields(body);
  GenerationCall call;
  read_messages(fields, call);
  read_ollama_tools(fields, call);
  call.variables.set("add_generation_prompt", true);
  read_ollama_common(fields, limits, call);
  TAMIS_API_TRY_STATUS(fields.finish());
  return call;
}

ApiResult<GenerationCall> parse_ollama_generate(const Json& body, const CallLimits& limits) {
  Fields fields(body);
  GenerationCall call;
  std::string prompt, system;
  bool is_raw = false;
  fields.text("prompt", prompt);
  fields.text("system", system);
  fields.boolean("raw", is_raw);
  for (const std::string_view name : {"suffix", "images", "template", "context"}) fields.unsupported(name);
  read_ollama_common(fields, limits, call);
  TAMIS_API_TRY_STATUS(fields.finish());
  if (is_raw) {
    call.prompts.push_back({.text = std::move(prompt), .tokens = {}});
    return call;
  }
  Json messages = Json::array();
  if (!system.empty()) messages.push_back(chat_message("system", std::move(system)));
  messages.push_back(chat_message("user", std::move(prompt)));
  call.messages = std::move(messages);
  call.variables.set("add_generation_prompt", true);
  return call;
}

}  // namespace tamis::server
