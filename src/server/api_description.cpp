// From routes and watched parsers to an OpenAPI document.
#include "server/api_description.h"

#include <algorithm>
#include <optional>

#include "server/fields.h"

namespace tamis::server {
namespace {

using Kind = FieldNote::Kind;

// What a parser cannot tell: the shape of what it reads by hand, and what a field means. The first row that fits is it.
struct FieldDoc {
  std::string_view path_of_route;  // a prefix; "": of any
  std::string_view field;
  std::string_view schema;  // JSON; "": as the parser says
  std::string_view about;
};

constexpr std::string_view kAnySchema = R"({"type":["object","boolean"]})";

constexpr FieldDoc kFieldDocs[] = {
    {"", "messages", R"({"type":"array","minItems":1,"maxItems":16384,"items":{"$ref":"#/components/schemas/Message"},
      "examples":[[{"role":"user","content":"Hello"}]]})",
     "The conversation so far."},
    {"/v1/responses", "input",
     R"({"anyOf":[{"type":"string"},{"type":"array","minItems":1,"maxItems":16384,
      "items":{"$ref":"#/components/schemas/InputItem"}}],"examples":["Hello"]})",
     "A user's text, or messages, calls of tools and their results."},
    {"/v1/embeddings", "input",
     R"({"anyOf":[{"type":"string"},{"type":"array","minItems":1,"items":{"type":"integer","minimum":0}},
      {"type":"array","minItems":1,"maxItems":2048,"items":{"anyOf":[{"type":"string"},
      {"type":"array","minItems":1,"items":{"type":"integer","minimum":0}}]}}],"examples":["Hello"]})",
     "A text, its tokens, or a list of these."},
    {"", "encoding_format", R"({"enum":["float","base64",null]})", "Numbers, or base64 of 32-bit floats."},
    {"", "dimensions", R"({"type":["integer","null"]})", "As many as the model gives: none are cut off."},
    {"/api/", "prompt", "", "What the user says."},
    {"/api/", "system", "", "Said before the prompt."},
    {"/v1/completions", "prompt",
     R"({"anyOf":[{"type":"string"},{"type":"array","minItems":1,"items":{"type":"integer","minimum":0}},
      {"type":"array","minItems":1,"maxItems":128,"items":{"anyOf":[{"type":"string"},
      {"type":"array","minItems":1,"items":{"type":"integer","minimum":0}}]}}],"examples":["Once",[1,2],["Once",[1]]]})",
     "A text to continue, its tokens, or a list of these."},
    {"", "prompt",
     R"({"anyOf":[{"type":"string"},{"type":"array","minItems":1,"items":{"type":"integer","minimum":0}},
      {"type":"array","minItems":1,"maxItems":1,"items":{"type":"string"}}],"examples":["Once"]})",
     "A text to continue, or its tokens."},
    {"", "content", R"({"type":"string","examples":["Hello"]})", "The text."},
    {"", "tokens", R"({"type":"array","items":{"type":"integer","minimum":0},"examples":[[1,2]]})", "Token ids."},
    {"", "system",
     R"({"anyOf":[{"type":"string"},{"type":"array","items":{"$ref":"#/components/schemas/TextPart"}},{"type":"null"}]})",
     "Said before the messages."},
    {"", "logit_bias",
     R"({"anyOf":[{"type":"object","maxProperties":1024,"propertyNames":{"pattern":"^[0-9]+$"},
      "additionalProperties":{"$ref":"#/components/schemas/Bias"}},{"type":"array","maxItems":1024,"items":{"type":"array",
      "prefixItems":[{"type":"integer","minimum":0},{"$ref":"#/components/schemas/Bias"}],"minItems":2,"maxItems":2}},
      {"type":"null"}]})",
     "Added to the logits of tokens; false forbids one."},
    {"", "stop", "", "Texts that end the answer; they are no part of it."},
    {"", "stop_sequences", "", "Texts that end the answer; they are no part of it."},
    {"", "chat_template_kwargs", R"({"type":["object","null"]})", "Variables for the model's chat template."},
    {"/v1/messages", "metadata", "", ""},
    {"", "metadata",
     R"({"type":["object","null"],"maxProperties":16,"propertyNames":{"maxLength":64},
      "additionalProperties":{"type":"string","maxLength":512}})",
     "Comes back with the answer."},
    {"/api/", "keep_alive", R"({"anyOf":[{"type":"string"},{"type":"number"},{"type":"null"}]})", ""},
    {"", "modalities", R"({"enum":[["text"],null]})", ""},
    {"", "response_format.type", R"({"enum":["text","json_object","json_schema"]})", ""},
    {"", "response_format.schema", kAnySchema, "A JSON Schema."},
    {"", "response_format.json_schema.schema", kAnySchema, "A JSON Schema."},
    {"", "text.format.type", R"({"enum":["text","json_object","json_schema"]})", ""},
    {"", "text.format.schema", kAnySchema, "A JSON Schema."},
    {"", "structured_outputs.json", kAnySchema, "A JSON Schema."},
    {"", "json_schema", kAnySchema, "A JSON Schema that the answer keeps to."},
    {"", "grammar", "", "A GBNF grammar that the answer keeps to."},
    {"", "format", R"({"anyOf":[{"enum":["json","",null]},{"type":"object"}]})",
     "\"json\", or a JSON Schema that the answer keeps to."},
    {"", "include",
     R"({"anyOf":[{"type":"array","maxItems":16,"items":{"$ref":"#/components/schemas/Include"}},
      {"$ref":"#/components/schemas/Include"},{"type":"null"}]})",
     "What the answer holds beside its text."},
    {"/v1/messages", "tool_choice", R"({"type":["object","null"]})", "Whether tools are called, and which."},
    {"", "tool_choice", R"({"anyOf":[{"enum":["none","auto","required",null]},{"type":"object"}]})",
     "Whether tools are called, and which."},
    {"", "think", R"({"enum":[true,false,"low","medium","high",null]})", "Whether the model reasons first."},
    {"", "thinking", R"({"type":["object","null"]})", "Whether the model reasons first, and for how long."},
    {"", "reasoning_format", R"({"enum":["auto","deepseek","none",null]})", "Whether reasoning stands apart."},
    {"/api/", "options.tfs_z", R"({"enum":[1,null]})", "No tail of the tokens is cut off."},
    {"", "stream", "", "The answer comes piece by piece."},
    {"", "id_slot", "", "Which conversation it is, for /slots/{id_slot}; -1: any."},
    {"/slots/", "filename", R"({"type":"string","pattern":"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$"})",
     "The session's name; erase needs none."},
    {"", "seed", "", "The same seed and request give the same answer; -1 draws one."},
    {"", "n", "", "Answers to the same prompt."},
    {"/v1/completions", "echo", "", "The prompt stands before the answer; with logprobs its log-probabilities, too."},
    {"", "priority", "", "Larger is sooner, among requests of the same key."},
    {"", "cache_salt", "", "Prompts share what was computed only under one salt."},
    {"", "store", "", "Nothing is kept."},
    {"", "model", "", "The model's name; any is served unless the server is strict about it."},
};

constexpr std::string_view kSchemas = R"({
  "Error":{"type":"object","required":["type","error"],"properties":{"type":{"const":"error"},"error":{"type":"object",
    "required":["message","type","param","code"],"properties":{"message":{"type":"string"},"type":{"type":"string"},
    "param":{"type":["string","null"]},"code":{"type":["string","null"]}}}}},
  "TextPart":{"type":"object","required":["type","text"],"properties":{"type":{"const":"text"},"text":{"type":"string"}}},
  "Message":{"type":"object","required":["role"],"properties":{
    "role":{"enum":["system","developer","user","assistant","tool"]},"name":{"type":"string"},
    "content":{"anyOf":[{"type":"string"},{"type":"array","items":{"type":"object"}},{"type":"null"}]},
    "tool_calls":{"type":"array","items":{"type":"object"}},"tool_call_id":{"type":"string"}}},
  "InputPart":{"type":"object","required":["type","text"],"properties":{"type":{"enum":["input_text","output_text"]},
    "text":{"type":"string"}}},
  "InputItem":{"anyOf":[
    {"type":"object","required":["role","content"],"properties":{"type":{"const":"message"},
    "role":{"enum":["system","developer","user","assistant"]},"id":{"type":"string"},"status":{"type":"string"},
    "content":{"anyOf":[{"type":"string"},{"type":"array","items":{"$ref":"#/components/schemas/InputPart"}}]}},
    "additionalProperties":false},
    {"type":"object","required":["type"],"properties":{"type":{"const":"reasoning"},"id":{"type":"string"},
    "status":{"type":"string"},"summary":{"type":"array"},"content":{"type":"array","items":{"type":"object",
    "required":["type","text"],"properties":{"type":{"const":"reasoning_text"},"text":{"type":"string"}}}}},
    "additionalProperties":false},
    {"type":"object","required":["type","call_id","name","arguments"],"properties":{"type":{"const":"function_call"},
    "id":{"type":"string"},"status":{"type":"string"},"call_id":{"type":"string"},"name":{"type":"string"},
    "arguments":{"type":"string"}},"additionalProperties":false},
    {"type":"object","required":["type","call_id","output"],"properties":{"type":{"const":"function_call_output"},
    "id":{"type":"string"},"status":{"type":"string"},"call_id":{"type":"string"},"name":{"type":"string"},
    "output":{"anyOf":[{"type":"string"},{"type":"array","items":{"$ref":"#/components/schemas/InputPart"}}]}},
    "additionalProperties":false}]},
  "Bias":{"anyOf":[{"type":"number","minimum":-100,"maximum":100},{"const":false}]},
  "Include":{"enum":["message.output_text.logprobs","reasoning.encrypted_content"]}})";

// Bodies that lead parsers through all they can read: none is valid everywhere, what is unknown is only refused.
constexpr std::string_view kProbes[] = {
    "{}",
    R"({"stream":true,"stream_options":{},"options":{},"metadata":{},"structured_outputs":{},"text":{"format":{"type":"json_schema"}},"reasoning":{},
        "response_format":{"type":"json_schema","json_schema":{}}})",
    R"({"response_format":{"type":"json_object"}})",
};

std::vector<FieldNote> notes_of(const ApiOperation& operation, const CallLimits& limits) {
  FieldRecorder recorder;
  for (const std::string_view probe : kProbes) operation.read(Json::parse(probe).value_or(Json::object()), limits);
  std::vector<FieldNote> notes = recorder.notes();
  std::erase_if(notes, [](const FieldNote& note) { return note.path.find('[') != std::string::npos; });
  return notes;
}

Json typed(std::string_view type, bool is_required) {
  Json out = Json::object();
  if (is_required) return out.set("type", type);
  return out.set("type", Json(Json::Array{Json(type), Json("null")}));
}

// The schema of a field as its parser reads it.
Json schema_of(const FieldNote& note) {
  Json out = Json::object();
  switch (note.kind) {
    case Kind::integer:
    case Kind::real:
      out = typed(note.kind == Kind::integer ? "integer" : "number", note.is_required);
      return out.set("minimum", note.minimum).set("maximum", note.maximum);
    case Kind::boolean: return typed("boolean", note.is_required);
    case Kind::text: {
      out = typed("string", note.is_required);
      return note.maximum.is_null() ? out : out.set("maxLength", note.maximum);
    }
    case Kind::object: return typed("object", note.is_required);
    case Kind::array: return typed("array", note.is_required);
    case Kind::texts: {
      Json list = typed("array", true);
      list.set("items", typed("string", true)).set("maxItems", note.maximum);
      Json::Array either{typed("string", true), std::move(list)};
      if (!note.is_required) either.push_back(typed("null", true));
      return out.set("anyOf", Json(std::move(either)));
    }
    case Kind::only: return out.set("enum", Json(Json::Array{note.allowed, Json()}));
    case Kind::choice: {
      Json values = note.allowed;
      values.push_back(Json());
      return out.set("enum", std::move(values));
    }
    case Kind::any: break;
  }
  return out;
}

Json documented(const ApiOperation& operation, const FieldNote& note) {
  const auto* const row = std::ranges::find_if(kFieldDocs, [&](const FieldDoc& doc) {
    return doc.field == note.path && operation.path.starts_with(doc.path_of_route);
  });
  const bool has_row = row != std::end(kFieldDocs);
  Json out = has_row && !row->schema.empty() ? Json::parse(row->schema).value_or(Json::object()) : schema_of(note);
  if (note.is_inert) return out.set("description", "Accepted, without effect.");
  if (has_row && !row->about.empty()) out.set("description", row->about);
  return out;
}

// The object of all fields whose path begins with `prefix`: "" or "options.".
Json object_of(const ApiOperation& operation, std::span<const FieldNote> notes, std::string_view prefix) {
  Json properties = Json::object(), required = Json::array();
  for (const FieldNote& note : notes) {
    if (!note.path.starts_with(prefix)) continue;
    const std::string_view name = std::string_view(note.path).substr(prefix.size());
    if (name.find('.') != std::string_view::npos) continue;
    const std::string inner = note.path + ".";
    const bool has_fields =
        std::ranges::any_of(notes, [&](const FieldNote& other) { return other.path.starts_with(inner); });
    Json schema = documented(operation, note);
    if (has_fields) {
      const Json object = object_of(operation, notes, inner);
      for (const auto& [key, value] : object.as_object())
        if (key != "type") schema.set(key, value);
    }
    properties.set(std::string(name), std::move(schema));
    if (note.is_required) required.push_back(name);
  }
  Json out = typed("object", true);
  out.set("properties", std::move(properties)).set("additionalProperties", false);
  return required.as_array().empty() ? out : out.set("required", std::move(required));
}

Json content(std::string_view type, Json schema) {
  Json media = Json::object(), out = Json::object();
  media.set("schema", std::move(schema));
  return out.set(std::string(type), std::move(media));
}

Json reference(std::string_view name) {
  Json out = Json::object();
  return out.set("$ref", fmt::format("#/components/schemas/{}", name));
}

Json responses(const ApiOperation& operation) {
  const bool is_json = operation.answer_type == "application/json";
  Json good = Json::object(), bad = Json::object(), out = Json::object();
  Json types = content(operation.answer_type, is_json ? Json::object() : typed("string", true));
  if (!operation.stream_type.empty()) {
    const Json stream = content(operation.stream_type, Json::object());
    types.set(stream.as_object().front().first, stream.as_object().front().second);
  }
  good.set("description", "The answer.").set("content", std::move(types));
  bad.set("description", "Why not.").set("content", content("application/json", reference("Error")));
  return out.set("200", std::move(good)).set("default", std::move(bad));
}

Json operation_json(const ApiOperation& operation, const CallLimits& limits) {
  Json out = Json::object();
  out.set("summary", operation.about);
  if (!operation.parameters.empty()) out.set("parameters", Json::parse(operation.parameters).value_or(Json::array()));
  if (operation.is_public) out.set("security", Json(Json::Array{Json::object()}));
  if (operation.read) {
    Json body = Json::object();
    const std::vector<FieldNote> notes = notes_of(operation, limits);
    body.set("required", true).set("content", content("application/json", object_of(operation, notes, "")));
    out.set("requestBody", std::move(body));
  }
  return out.set("responses", responses(operation));
}

// A key in either header, or none at all.
Json security(bool asks_for_key) {
  Json list = Json::array();
  if (!asks_for_key) list.push_back(Json::object());
  for (const std::string_view name : {"bearer", "x_api_key"}) {
    Json one = Json::object();
    list.push_back(one.set(std::string(name), Json::array()));
  }
  return list;
}

}  // namespace

Json describe_api(std::span<const ApiOperation> operations, const CallLimits& limits, std::string_view version,
                  bool asks_for_key) {
  Json paths = Json::object();
  for (const ApiOperation& operation : operations) {
    Json methods = paths.find(operation.path) == nullptr ? Json::object() : *paths.find(operation.path);
    methods.set(operation.method == "GET" ? "get" : "post", operation_json(operation, limits));
    paths.set(std::string(operation.path), std::move(methods));
  }
  Json info = Json::object(), components = Json::object(), schemes = Json::object(), out = Json::object();
  info.set("title", "tamis").set("version", version);
  schemes.set("bearer", Json::parse(R"({"type":"http","scheme":"bearer"})").value_or(Json()));
  schemes.set("x_api_key", Json::parse(R"({"type":"apiKey","in":"header","name":"x-api-key"})").value_or(Json()));
  components.set("schemas", Json::parse(kSchemas).value_or(Json())).set("securitySchemes", std::move(schemes));
  out.set("openapi", "3.1.0").set("info", std::move(info)).set("security", security(asks_for_key));
  return out.set("paths", std::move(paths)).set("components", std::move(components));
}

}  // namespace tamis::server
