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

void read_response_format(Fields& fields, GenerationCall& call) {
  constexpr std::string_view kField = "response_format";
  const Json* const format = fields.object(kField);
  if (format == nullptr) return;
  Fields inner(*format, "response_format.");
  std::string type;
  if (!inner.text("type", type)) inner.fail("type", "expected a string");
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
      parts.accept_inert({"strict", "description"});  // a schema is always kept to
      const Json* const schema = parts.any("schema");
      if (schema == nullptr) {
        parts.fail("schema", "is missing");
      } else {
        set_schema(fields, "response_format.json_schema.schema", *schema, call);
      }
      fields.finish_inner(parts);
    }
  } else if (type != "text") {
    inner.fail("type", R"(expected "text", "json_object" or "json_schema")");
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

void read_form(Fields& fields, GenerationCall& call) {
  read_response_format(fields, call);
  std::string grammar;
  if (fields.text("grammar", grammar) && !grammar.empty()) set_form(fields, "grammar", {Kind::gbnf, grammar}, call);
  if (const Json* const schema = fields.any("json_schema"); schema != nullptr)
    set_schema(fields, "json_schema", *schema, call);
  read_structured_outputs(fields, call);
}

}  // namespace tamis::server
