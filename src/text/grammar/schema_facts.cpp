// Reading of JSON Schema's keywords, one after the other; what is not known is refused.
#include "text/grammar/schema_facts.h"

#include <algorithm>
#include <array>

namespace tamis {
namespace {

// They say nothing about which values are right.
constexpr std::string_view kAnnotations[] = {
    "title",           "description",  "default",    "examples", "$schema",   "$id",     "$comment",
    "$defs",           "definitions",  "deprecated", "readOnly", "writeOnly", "$anchor", "contentMediaType",
    "contentEncoding", "contentSchema"};
constexpr std::string_view kArrayKeywords[] = {"items", "prefixItems"};
constexpr std::string_view kObjectKeywords[] = {"properties", "patternProperties", "additionalProperties"};

template <size_t n>
bool is_among(const std::string_view (&names)[n], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool contains(const std::vector<const Json*>& list, const Json* item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

uint8_t type_named(std::string_view name) {
  constexpr std::pair<std::string_view, uint8_t> kNames[] = {
      {"null", kNullType},     {"boolean", kBooleanType}, {"integer", kIntegerType}, {"number", kNumberTypes},
      {"string", kStringType}, {"array", kArrayType},     {"object", kObjectType}};
  for (const auto& [known, type] : kNames)
    if (known == name) return type;
  return 0;
}

}  // namespace

std::string join_pointer(std::string_view pointer, std::string_view step) {
  std::string out(pointer);
  out += '/';
  for (const char c : step) out += c == '~' ? std::string("~0") : c == '/' ? std::string("~1") : std::string(1, c);
  return out;
}

tl::unexpected<Error> schema_error(std::string_view pointer, std::string_view what) {
  return fail(ErrorCode::invalid_argument, "schema, {}: {}", escape_for_display(pointer, 400), what);
}
tl::unexpected<Error> schema_unsupported(std::string_view pointer, std::string_view what) {
  return fail(ErrorCode::unsupported, "schema, {}: {}", escape_for_display(pointer, 400), what);
}

uint8_t type_of_value(const Json& value) {
  if (value.is_null()) return kNullType;
  if (value.is_bool()) return kBooleanType;
  if (value.is_number()) return to_decimal(value).fraction.empty() ? kIntegerType : kFractionType;
  if (value.is_string()) return kStringType;
  return value.is_array() ? kArrayType : kObjectType;
}

bool are_equal_values(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) return to_decimal(a) == to_decimal(b);
  if (a.is_array() && b.is_array())
    return std::equal(a.as_array().begin(), a.as_array().end(), b.as_array().begin(), b.as_array().end(),
                      are_equal_values);
  if (a.is_object() && b.is_object()) {
    return a.as_object().size() == b.as_object().size() &&
           std::all_of(a.as_object().begin(), a.as_object().end(), [&](const Json::Member& member) {
             const Json* other = b.find(member.first);
             return other != nullptr && are_equal_values(member.second, *other);
           });
  }
  return a == b;
}

bool SchemaFacts::has_constraints() const {
  return least || most || multiple_of != 0 || min_length != 0 || max_length != kUnbounded || !patterns.empty() ||
         !formats.empty() || min_items != 0 || max_items != kUnbounded || min_properties != 0 ||
         max_properties != kUnbounded || !required.empty() || !array_parts.empty() || !object_parts.empty() ||
         !choices.empty();
}

Status SchemaReader::collect(const SchemaRef& ref, SchemaFacts& facts) {
  const Json& schema = *ref.schema;
  if (schema.is_bool()) {
    if (!schema.as_bool()) facts.types = 0;
    return {};
  }
  if (!schema.is_object()) return schema_error(ref.pointer, "expected a schema: an object, true or false");
  if (contains(facts.open, &schema)) return schema_error(ref.pointer, "refers to itself with no value between");
  if (contains(facts.seen, &schema)) return {};
  if (facts.open.size() >= limits_.grammar_depth)
    return schema_error(ref.pointer, "too many schemas refer to each other");
  // References can be followed again and again: the work is bounded, not the schema's size.
  if (++n_collected_ > limits_.grammar_symbols) return schema_error(ref.pointer, "too many schemas are combined");
  facts.seen.push_back(&schema);
  facts.open.push_back(&schema);
  bool has_items = false, has_properties = false;
  for (const auto& [name, value] : schema.as_object()) {
    has_items |= is_among(kArrayKeywords, name);
    has_properties |= is_among(kObjectKeywords, name);
    if (is_among(kAnnotations, name) || is_among(kArrayKeywords, name) || is_among(kObjectKeywords, name)) continue;
    TAMIS_TRY_STATUS(read_keyword(name, {value, ref, join_pointer(ref.pointer, name)}, facts));
  }
  if (has_items) facts.array_parts.push_back(ref);
  if (has_properties) facts.object_parts.push_back(ref);
  facts.open.pop_back();
  return {};
}

Status SchemaReader::read_keyword(std::string_view name, const Keyword& keyword, SchemaFacts& facts) {
  if (name == "type") return read_type(keyword, facts);
  if (name == "enum") {
    if (!keyword.value.is_array() || keyword.value.as_array().empty())
      return schema_error(keyword.pointer, "expected a list of values");
    return read_values(keyword, keyword.value.as_array(), facts);
  }
  if (name == "const") return read_values(keyword, {keyword.value}, facts);
  if (name == "required") return read_required(keyword, facts);
  if (name == "anyOf") return read_choice(keyword, false, facts);
  if (name == "oneOf") return read_choice(keyword, true, facts);
  if (name == "allOf") return read_all_of(keyword, facts);
  if (name == "$ref") return read_ref(keyword, facts);
  if (name == "pattern" || name == "format") {
    if (!keyword.value.is_string()) return schema_error(keyword.pointer, "expected a string");
    (name == "pattern" ? facts.patterns : facts.formats).push_back({keyword.value.as_string(), keyword.pointer});
    return {};
  }
  if (name == "nullable") {
    if (!keyword.value.is_bool()) return schema_error(keyword.pointer, "expected true or false");
    return {};  // read_type looks at it
  }
  if (name == "uniqueItems" && keyword.value.is_bool() && !keyword.value.as_bool()) return {};
  if (name.starts_with("min") || name.starts_with("max") || name.starts_with("exclusive") || name == "multipleOf")
    return read_number_keyword(name, keyword, facts);
  return schema_unsupported(keyword.pointer,
                            fmt::format("the keyword \"{}\" is not supported", escape_for_display(name)));
}

Status SchemaReader::read_number_keyword(std::string_view name, const Keyword& keyword, SchemaFacts& facts) {
  const bool is_exclusive = name.starts_with("exclusive");
  const bool is_lower = name == "minimum" || name == "exclusiveMinimum";
  if (!is_lower && name != "maximum" && name != "exclusiveMaximum" && name != "multipleOf")
    return read_size_keyword(name, keyword, facts);
  if (!keyword.value.is_number()) {
    return schema_error(keyword.pointer,
                        keyword.value.is_bool() ? "expected a number (true is draft 4's way)" : "expected a number");
  }
  const Decimal value = to_decimal(keyword.value);
  if (name == "multipleOf") {
    if (value.is_negative || value.is_zero()) return schema_error(keyword.pointer, "expected a number above 0");
    if (!value.fraction.empty() || value.integer.size() > 9)
      return schema_unsupported(keyword.pointer, "expected a whole number up to 999999999");
    uint64_t number = 0;
    for (const char digit : value.integer) number = number * 10 + static_cast<uint64_t>(digit - '0');
    // Of both: the least common multiple.
    uint64_t a = facts.multiple_of == 0 ? 1 : facts.multiple_of, b = number;
    const uint64_t product = a * b;
    while (b != 0) a = std::exchange(b, a % b);
    facts.multiple_of = product / a;
    facts.multiple_of_pointer = keyword.pointer;
    if (facts.multiple_of > 999999999)
      return schema_unsupported(keyword.pointer, "too large beside the other multipleOf");
    return {};
  }
  std::optional<NumberBound>& bound = is_lower ? facts.least : facts.most;
  const bool is_tighter = !bound || (is_lower ? is_less(bound->value, value) : is_less(value, bound->value));
  if (is_tighter) {
    bound = NumberBound{value, is_exclusive};
  } else if (bound->value == value) {
    bound->is_exclusive |= is_exclusive;
  }
  return {};
}

Status SchemaReader::read_size_keyword(std::string_view name, const Keyword& keyword, SchemaFacts& facts) {
  struct Row {
    std::string_view name;
    uint32_t SchemaFacts::*member;
  };
  constexpr Row kRows[] = {
      {"minLength", &SchemaFacts::min_length},         {"maxLength", &SchemaFacts::max_length},
      {"minItems", &SchemaFacts::min_items},           {"maxItems", &SchemaFacts::max_items},
      {"minProperties", &SchemaFacts::min_properties}, {"maxProperties", &SchemaFacts::max_properties}};
  for (const Row& row : kRows) {
    if (row.name != name) continue;
    const Decimal value = keyword.value.is_number() ? to_decimal(keyword.value) : Decimal{true, "1", ""};
    if (value.is_negative || !value.fraction.empty())
      return schema_error(keyword.pointer, "expected a whole number, 0 or more");
    uint64_t number = 0;
    for (const char digit : value.integer)
      number = std::min<uint64_t>(number * 10 + static_cast<uint64_t>(digit - '0'), kUnbounded - 1);
    uint32_t& size = facts.*row.member;
    size = name.starts_with("min") ? std::max(size, static_cast<uint32_t>(number))
                                   : std::min(size, static_cast<uint32_t>(number));
    if (name == "minProperties") facts.min_properties_pointer = keyword.pointer;
    return {};
  }
  return schema_unsupported(keyword.pointer,
                            fmt::format("the keyword \"{}\" is not supported", escape_for_display(name)));
}

Status SchemaReader::read_type(const Keyword& keyword, SchemaFacts& facts) {
  const Json::Array one = {keyword.value};
  const Json::Array& names = keyword.value.is_array() ? keyword.value.as_array() : one;
  uint8_t types = 0;
  for (const Json& name : names) {
    const uint8_t type = name.is_string() ? type_named(name.as_string()) : 0;
    if (type == 0)
      return schema_error(keyword.pointer, "expected null, boolean, integer, number, string, array or object");
    types |= type;
  }
  const Json* nullable = keyword.in.schema->find("nullable");
  if (nullable != nullptr && nullable->is_bool() && nullable->as_bool()) types |= kNullType;
  facts.types &= types;
  return {};
}

Status SchemaReader::read_values(const Keyword& keyword, std::vector<Json> values, SchemaFacts& facts) {
  if (!facts.values) {
    facts.values = std::move(values);
  } else {
    std::erase_if(*facts.values, [&](const Json& value) {
      return std::none_of(values.begin(), values.end(),
                          [&](const Json& other) { return are_equal_values(value, other); });
    });
  }
  facts.values_pointer = keyword.pointer;
  return {};
}

Status SchemaReader::read_required(const Keyword& keyword, SchemaFacts& facts) {
  if (!keyword.value.is_array()) return schema_error(keyword.pointer, "expected a list of names");
  for (const Json& name : keyword.value.as_array()) {
    if (!name.is_string()) return schema_error(keyword.pointer, "expected a list of names");
    if (std::find(facts.required.begin(), facts.required.end(), name.as_string()) == facts.required.end())
      facts.required.push_back(name.as_string());
  }
  return {};
}

Result<std::vector<SchemaRef>> SchemaReader::schemas_of(const Keyword& keyword) const {
  if (!keyword.value.is_array() || keyword.value.as_array().empty())
    return schema_error(keyword.pointer, "expected a list of schemas");
  std::vector<SchemaRef> out;
  for (const Json& schema : keyword.value.as_array())
    out.push_back({&schema, join_pointer(keyword.pointer, std::to_string(out.size()))});
  return out;
}

Status SchemaReader::read_choice(const Keyword& keyword, bool is_exclusive, SchemaFacts& facts) {
  TAMIS_TRY(std::vector<SchemaRef> branches, schemas_of(keyword));
  facts.choices.push_back({std::move(branches), facts.open, is_exclusive, keyword.pointer});
  return {};
}

Status SchemaReader::read_all_of(const Keyword& keyword, SchemaFacts& facts) {
  TAMIS_TRY(const std::vector<SchemaRef> parts, schemas_of(keyword));
  for (const SchemaRef& part : parts) TAMIS_TRY_STATUS(collect(part, facts));
  return {};
}

Status SchemaReader::read_ref(const Keyword& keyword, SchemaFacts& facts) {
  TAMIS_TRY(const SchemaRef target, resolve(keyword));
  return collect(target, facts);
}

Result<SchemaRef> SchemaReader::resolve(const Keyword& keyword) const {
  if (!keyword.value.is_string()) return schema_error(keyword.pointer, "expected a string");
  const std::string& text = keyword.value.as_string();
  if (text != "#" && !text.starts_with("#/")) {
    return schema_unsupported(
        keyword.pointer,
        fmt::format("got \"{}\", expected a reference within the schema, like #/$defs/name", escape_for_display(text)));
  }
  const Json* at = &root_;
  for (size_t i = 1; i < text.size();) {
    const size_t end = std::min(text.find('/', i + 1), text.size());
    std::string step;
    for (size_t k = i + 1; k < end; ++k) {
      const bool is_escape = text[k] == '~' && k + 1 < end && (text[k + 1] == '0' || text[k + 1] == '1');
      step += is_escape ? (text[++k] == '0' ? '~' : '/') : text[k];
    }
    i = end;
    if (at->is_array()) {
      size_t index = 0;
      const bool is_number = !step.empty() && step.size() < 9 && std::all_of(step.begin(), step.end(), [&](char c) {
        index = index * 10 + static_cast<size_t>(c - '0');
        return c >= '0' && c <= '9';
      });
      at = is_number && index < at->as_array().size() ? &at->as_array()[index] : nullptr;
    } else {
      at = at->find(step);
    }
    if (at == nullptr)
      return schema_error(keyword.pointer,
                          fmt::format("got \"{}\", which is nowhere in the schema", escape_for_display(text)));
  }
  return SchemaRef{at, text};
}

}  // namespace tamis
