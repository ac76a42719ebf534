// Whether two schemas exclude each other: what oneOf needs. Only what is certain counts.
#include <algorithm>

#include "text/grammar/schema_facts.h"

namespace tamis {
namespace {

bool have_common_value(const std::vector<Json>& a, const std::vector<Json>& b) {
  return std::any_of(a.begin(), a.end(), [&](const Json& x) {
    return std::any_of(b.begin(), b.end(), [&](const Json& y) { return are_equal_values(x, y); });
  });
}

// All numbers of a lie below all of b.
bool is_below(const SchemaFacts& a, const SchemaFacts& b) {
  if (!a.most || !b.least) return false;
  if (is_less(a.most->value, b.least->value)) return true;
  return a.most->value == b.least->value && (a.most->is_exclusive || b.least->is_exclusive);
}

// The types of the values a schema allows, by its enum where it has one.
uint8_t types_of(const SchemaFacts& facts) {
  if (!facts.values) return facts.types;
  uint8_t types = 0;
  for (const Json& value : *facts.values) types |= type_of_value(value);
  return types & facts.types;
}

}  // namespace

Result<bool> SchemaReader::are_disjoint(const SchemaFacts& of_a, const SchemaFacts& of_b) {
  const uint8_t common = types_of(of_a) & types_of(of_b);
  if (common == 0) return true;
  if (of_a.values && of_b.values) return !have_common_value(*of_a.values, *of_b.values);
  if ((common & ~kNumberTypes) == 0) return is_below(of_a, of_b) || is_below(of_b, of_a);
  if (common == kStringType) return of_a.max_length < of_b.min_length || of_b.max_length < of_a.min_length;
  if (common == kArrayType) return of_a.max_items < of_b.min_items || of_b.max_items < of_a.min_items;
  if (common == kObjectType) return objects_are_disjoint(of_a, of_b);
  return false;
}

// The values a property may have, if the schema lists them.
Result<std::optional<std::vector<Json>>> SchemaReader::values_of_property(const SchemaFacts& facts,
                                                                          const std::string& name) {
  SchemaFacts of_property;
  for (const SchemaRef& part : facts.object_parts) {
    const Json* properties = part.schema->find("properties");
    const Json* schema = properties == nullptr ? nullptr : properties->find(name);
    if (schema == nullptr) continue;
    TAMIS_TRY_STATUS(collect({schema, join_pointer(join_pointer(part.pointer, "properties"), name)}, of_property));
  }
  return of_property.values;
}

Result<bool> SchemaReader::objects_are_disjoint(const SchemaFacts& a, const SchemaFacts& b) {
  const auto forbids = [](const SchemaFacts& facts, const std::string& name) {
    return std::any_of(facts.object_parts.begin(), facts.object_parts.end(), [&](const SchemaRef& part) {
      const Json* properties = part.schema->find("properties");
      const Json* additional = part.schema->find("additionalProperties");
      return part.schema->find("patternProperties") == nullptr && additional != nullptr && additional->is_bool() &&
             !additional->as_bool() && (properties == nullptr || properties->find(name) == nullptr);
    });
  };
  for (const std::string& name : a.required) {
    if (forbids(b, name)) return true;
    if (std::find(b.required.begin(), b.required.end(), name) == b.required.end()) continue;
    TAMIS_TRY(const auto values_a, values_of_property(a, name));
    TAMIS_TRY(const auto values_b, values_of_property(b, name));
    if (values_a && values_b && !have_common_value(*values_a, *values_b)) return true;
  }
  return std::any_of(b.required.begin(), b.required.end(), [&](const std::string& name) { return forbids(a, name); });
}

}  // namespace tamis
