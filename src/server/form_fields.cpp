// What an answer must be, in the words of each dialect: a grammar, a regular expression, a JSON Schema, any JSON
// object.
#include "server/call_fields.h"

namespace tamis::server {
namespace {

using Kind = GrammarSpec::Kind;

// The schema is itself JSON: an object, true or false.
void set_schema(Fields& fields, std::string_view field, const Json& schema, GenerationCall& call) {
  if (!schema.is_object() && !schema.is_bool())
    return fields.fail(field, fmt::format("got {}, expected a JSON Schema", kind_of(schema)));
  set_form(fields, field, {Kind::json_schema, schema.dump()}, call);
}

// The parts of a named schema, which stand at `place`; `why_needed`: what is told where there is none.
void read_named_schema(Fields& fields, const std::string& place, Fields& parts, std::string_view why_needed,
                       GenerationCall& call) {
  parts.inert_boolean("strict");  // a schema is always kept to
  parts.inert_text("description");
  const Json* const schema = parts.any("schema");
  if (schema == nullptr) return parts.fail("schema", why_needed);
  set_schema(fields, place + ".schema", *schema, call);
}

std::string read_type(Fields& format) {
  std::string type;
  if (!format.text("type", type)) format.fail("type", "is missing");
  if (type != "text" && type != "json_object" && type != "json_schema")
    format.fail("type", R"(expected "text", "json_object" or "json_schema")");
  return type;
}

void read_response_format(Fields& fields, GenerationCall& call) {
  constexpr std::string_view kField = "response_format";
  const Json* const format = fields.object(kField);
  if (format == nullptr) return;
  Fields inner(*format, "response_format.");
  const std::string type = read_type(inner);
  if (type == "json_object") {
    const Json* const schema = inner.any("schema");
    if (schema == nullptr) {
      set_form(fields, kField, {Kind::json_object, ""}, call);
    } else {
      set_schema(fields, "response_format.schema", *schema, call);
    }
  } else if (type == "json_schema") {
    const Json* const described = inner.object("json_schema");
    if (described == nullptr) {
      inner.fail("json_schema", "is missing");
    } else {
      Fields parts(*described, "response_format.json_schema.");
      std::string name;
      parts.text("name", name);
      read_named_schema(fields, "response_format.json_schema", parts, "is missing", call);
      fields.finish_inner(parts);
    }
  }
  fields.finish_inner(inner);
}

void read_structured_outputs(Fields& fields, GenerationCall& call) {
  const Json* const wanted = fields.object("structured_outputs");
  if (wanted == nullptr) return;
  Fields inner(*wanted, "structured_outputs.");
  std::string text;
  if (inner.text("regex", text)) set_form(fields, "structured_outputs.regex", {Kind::regex, text}, call);
  if (inner.text("grammar", text)) set_form(fields, "structured_outputs.grammar", {Kind::gbnf, text}, call);
  if (const Json* const schema = inner.any("json"); schema != nullptr)
    set_schema(fields, "structured_outputs.json", *schema, call);
  bool is_object = false;
  if (inner.boolean("json_object", is_object) && is_object)
    set_form(fields, "structured_outputs.json_object", {Kind::json_object, ""}, call);
  fields.finish_inner(inner);
}

}  // namespace

void set_form(Fields& fields, std::string_view field, GrammarSpec spec, GenerationCall& call) {
  if (call.form) return fields.fail(field, fmt::format("{} says already what the answer must be", call.form_field));
  call.form = std::move(spec);
  call.form_field = field;
}

void read_text_format(Fields& fields, const Json& format, GenerationCall& call) {
  constexpr const char *kField = "text.format", *kWhyNeeded = "json_schema needs one";
  Fields parts(format, "text.format.");
  const std::string type = read_type(parts);
  if (type == "json_object") set_form(fields, kField, {Kind::json_object, ""}, call);
  if (type == "json_schema") {
    std::string name;
    if (!parts.text("name", name)) parts.fail("name", kWhyNeeded);
    read_named_schema(fields, kField, parts, kWhyNeeded, call);
  }
  fields.finish_inner(parts);
}

void read_form(Fields& fields, GenerationCall& call) {
  read_response_format(fields, call);
  std::string grammar;
  if (fields.text("grammar", grammar) && !grammar.empty()) set_form(fields, "grammar", {Kind::gbnf, grammar}, call);
  if (const Json* const schema = fields.any("json_schema"); schema != nullptr)
    set_schema(fields, "json_schema", *schema, call);
  read_structured_outputs(fields, call);
}

}  // namespace tamis::server
