// Requests in the words of OpenAI's Responses: nothing is kept between them, so whatever leans on an earlier response
// is refused by name.
#include "server/call_fields.h"
#include "server/tool_fields.h"

namespace tamis::server {
namespace {

constexpr int64_t kMaxTokens = int64_t{1} << 31;

// 0.8, not what a float makes of it.
Json shortest(float value) { return Json::parse(fmt::format("{}", value)).value_or(Json()); }

void read_input(Fields& fields, GenerationCall& call) {
  MessageReader reader(fields);
  Json messages = Json::array();
  std::string instructions;
  if (fields.text("instructions", instructions) && !instructions.empty())
    messages.push_back(chat_message("system", instructions));
  const Json* const input = fields.any("input");
  if (input == nullptr) {
    fields.fail("input", "is missing");
  } else if (input->is_string()) {
    messages.push_back(chat_message("user", input->as_string()));
  } else if (!input->is_array()) {
    fields.fail("input", fmt::format("got {}, expected a string or an array of items", kind_of(*input)));
  } else if (const size_t n = input->as_array().size(); n == 0 || n > GenerationCall::kMaxMessages) {
    fields.fail("input", fmt::format("got {} items, expected 1 to {}", n, GenerationCall::kMaxMessages));
  } else {
    for (size_t i = 0; i < n && !fields.has_failed(); ++i)
      reader.read_item(fmt::format("input[{}]", i), input->as_array()[i]);
    Json items = reader.take();
    for (Json& message : items.as_array()) messages.push_back(std::move(message));
    if (messages.as_array().empty()) fields.fail("input", "holds nothing that can be answered");
  }
  call.messages = std::move(messages);
  call.messages_field = "input";
  call.variables.set("add_generation_prompt", true);
}

// "text": the form of the answer.
void read_text(Fields& fields, GenerationCall& call) {
  const Json* const text = fields.object("text");
  if (text == nullptr) return;
  Fields inner(*text, "text.");
  read_verbosity(inner);
  if (const Json* const format = inner.object("format"); format != nullptr) read_text_format(fields, *format, call);
  fields.finish_inner(inner);
}

// "include": what the answer should hold beyond its text.
void read_include(Fields& fields, GenerateRequest& request) {
  std::vector<std::string> wanted;
  fields.texts("include", 16, wanted);
  for (const std::string& each : wanted) {
    if (each == "message.output_text.logprobs") {
      request.has_logprobs = true;
    } else if (each != "reasoning.encrypted_content") {  // clients ask for it always; there is none here
      fields.fail("include", R"(only "message.output_text.logprobs" is supported)");
    }
  }
  if (fields.integer("top_logprobs", 0, GenerateRequest::kMaxTopLogprobs, request.n_top_logprobs) &&
      request.n_top_logprobs > 0)
    request.has_logprobs = true;
}

// What would need an earlier response, or a place to keep this one.
void refuse_what_is_not_kept(Fields& fields) {
  constexpr std::string_view kWhy = "responses are not kept here: send the whole conversation as input";
  for (const std::string_view name : {"previous_response_id", "conversation"})
    if (fields.any(name) != nullptr) fields.fail(name, kWhy);
  fields.only("store", Json(false), "responses are not kept here: only false is supported");
  fields.only("background", Json(false), "responses are not kept here: only false is supported");
  fields.only("truncation", Json("disabled"), "nothing is ever cut from a prompt: only \"disabled\" is supported");
  for (const std::string_view name : {"prompt", "context_management", "max_tool_calls", "moderation"})
    fields.unsupported(name);
}

}  // namespace

ApiResult<GenerationCall> parse_response(const Json& body, const CallLimits& limits) {
  Fields fields(body);
  GenerationCall call;
  GenerateRequest& request = call.request;
  fields.text("model", call.model);
  read_input(fields, call);
  read_template_kwargs(fields, call);
  fields.boolean("stream", call.is_stream);
  if (const Json* const options = fields.object("stream_options"); options != nullptr) {
    Fields inner(*options, "stream_options.");
    read_obfuscation(inner);
    fields.finish_inner(inner);
  }
  fields.integer("max_output_tokens", 1, kMaxTokens, request.n_predict);
  read_sampling(fields, limits, request);
  read_include(fields, request);
  read_text(fields, call);
  read_openai_metadata(fields);
  refuse_what_is_not_kept(fields);
  read_response_tools(fields, call);
  read_response_reasoning(fields, call);
  read_openai_inert(fields);
  TAMIS_API_TRY_STATUS(fields.finish());
  call.repeated.set("temperature", shortest(request.sampling.temp)).set("top_p", shortest(request.sampling.top_p));
  for (const std::string_view name : {"instructions", "max_output_tokens", "metadata", "text", "tools", "tool_choice",
                                      "parallel_tool_calls", "reasoning"})
    if (const Json* const given = body.find(name); given != nullptr && !given->is_null())
      call.repeated.set(std::string(name), *given);
  return call;
}

}  // namespace tamis::server
