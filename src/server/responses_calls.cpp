// Requests in the words of OpenAI's Responses: nothing is kept between them, so whatever leans on an earlier response
// is refused by name.
#include "server/call_fields.h"

namespace tamis::server {
namespace {

constexpr int64_t kMaxTokens = int64_t{1} << 31;
constexpr size_t kMaxMetadata = 16;

// 0.8, not what a float makes of it.
Json shortest(float value) { return Json::parse(fmt::format("{}", value)).value_or(Json()); }

Json message(std::string_view role, std::string_view content) {
  Json out = Json::object();
  return out.set("role", role).set("content", content);
}

// What may stand in "input": a message (its type may be left out), as clients write it or as an answer held it.
void read_message_item(Fields& fields, const std::string& place, const Json& item, Json& messages) {
  Fields inner(item, place + ".");
  inner.accept_inert({"type", "id", "status", "phase"});
  std::string role;
  inner.text("role", role);
  if (role != "user" && role != "assistant" && role != "system" && role != "developer")
    inner.fail("role", R"(expected "user", "assistant", "system" or "developer")");
  const Json* const content = inner.any("content");
  if (content == nullptr) {
    inner.fail("content", "is missing");
  } else if (const auto text = content_text(inner, "content", *content, {"input_text", "output_text"})) {
    messages.push_back(message(role == "developer" ? "system" : role, *text));
  }
  fields.finish_inner(inner);
}

void read_item(Fields& fields, const std::string& place, const Json& item, Json& messages) {
  if (!item.is_object()) return fields.fail(place, fmt::format("got {}, expected an object", kind_of(item)));
  const Json* const type = item.find("type");
  if (type == nullptr || type->is_null() || *type == Json("message"))
    return read_message_item(fields, place, item, messages);
  fields.fail(place + ".type", R"(only "message" is supported)");
}

void read_input(Fields& fields, GenerationCall& call) {
  Json messages = Json::array();
  std::string instructions;
  if (fields.text("instructions", instructions) && !instructions.empty())
    messages.push_back(message("system", instructions));
  const Json* const input = fields.any("input");
  if (input == nullptr) {
    fields.fail("input", "is missing");
  } else if (input->is_string()) {
    messages.push_back(message("user", input->as_string()));
  } else if (!input->is_array()) {
    fields.fail("input", fmt::format("got {}, expected a string or an array of items", kind_of(*input)));
  } else if (const size_t n = input->as_array().size(); n == 0 || n > GenerationCall::kMaxMessages) {
    fields.fail("input", fmt::format("got {} items, expected 1 to {}", n, GenerationCall::kMaxMessages));
  } else {
    for (size_t i = 0; i < n && !fields.has_failed(); ++i)
      read_item(fields, fmt::format("input[{}]", i), input->as_array()[i], messages);
  }
  call.messages = std::move(messages);
  call.messages_field = "input";
  call.variables.set("add_generation_prompt", true);
}

// "text": the form of the answer.
void read_text(Fields& fields, GenerationCall& call) {
  const Json* const text = fields.object("text");
  if (text == nullptr) return;
  call.form_field = "text.format";
  Fields inner(*text, "text.");
  inner.accept_inert({"verbosity"});
  if (const Json* const format = inner.object("format"); format != nullptr) {
    Fields parts(*format, "text.format.");
    std::string type, name;
    if (!parts.text("type", type)) parts.fail("type", "is missing");
    if (type == "json_object") {
      call.form = {GrammarSpec::Kind::json_object, ""};
    } else if (type == "json_schema") {
      if (!parts.text("name", name)) parts.fail("name", "json_schema needs one");
      parts.accept_inert({"strict", "description"});  // a schema is always kept to
      const Json* const schema = parts.any("schema");
      if (schema == nullptr) {
        parts.fail("schema", "json_schema needs one");
      } else if (!schema->is_object()) {
        parts.fail("schema", fmt::format("got {}, expected a JSON Schema", kind_of(*schema)));
      } else {
        call.form = {GrammarSpec::Kind::json_schema, schema->dump()};
      }
    } else if (type != "text") {
      parts.fail("type", R"(expected "text", "json_object" or "json_schema")");
    }
    inner.finish_inner(parts);
  }
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

void read_metadata(Fields& fields) {
  const Json* const metadata = fields.object("metadata");
  if (metadata == nullptr) return;
  if (metadata->as_object().size() > kMaxMetadata)
    return fields.fail("metadata", fmt::format("at most {} are allowed", kMaxMetadata));
  for (const auto& [name, value] : metadata->as_object())
    if (!value.is_string()) return fields.fail("metadata", fmt::format("got {}, expected strings", kind_of(value)));
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
    inner.accept_inert({"include_obfuscation"});
    fields.finish_inner(inner);
  }
  fields.integer("max_output_tokens", 1, kMaxTokens, request.n_predict);
  read_sampling(fields, limits, request);
  read_include(fields, request);
  read_text(fields, call);
  read_metadata(fields);
  refuse_what_is_not_kept(fields);
  for (const std::string_view name : {"tools", "reasoning"}) fields.unsupported(name);
  const Json* const choice = fields.any("tool_choice");
  if (choice != nullptr && *choice != Json("none") && *choice != Json("auto"))
    fields.fail("tool_choice", "not supported yet");
  fields.accept_inert({"parallel_tool_calls", "user", "service_tier", "safety_identifier", "prompt_cache_key",
                       "prompt_cache_retention"});
  TAMIS_API_TRY_STATUS(fields.finish());
  call.repeated.set("temperature", shortest(request.sampling.temp)).set("top_p", shortest(request.sampling.top_p));
  for (const std::string_view name : {"instructions", "max_output_tokens", "metadata", "text"})
    if (const Json* const given = body.find(name); given != nullptr && !given->is_null())
      call.repeated.set(std::string(name), *given);
  return call;
}

}  // namespace tamis::server
