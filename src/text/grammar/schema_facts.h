// What a JSON Schema demands of one value, gathered from the schema itself and from all that is joined to it by $ref
// and allOf. Between the schema's text and the grammar of json_schema.cpp.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/json.h"
#include "text/grammar/json_parts.h"

namespace tamis {

// A schema and where it stands, as a JSON pointer in a URI fragment ("#/properties/name").
struct SchemaRef {
  const Json* schema = nullptr;
  std::string pointer;
};

// The types of values, as bits. A number is an integer or a fraction.
enum SchemaType : uint8_t {
  kNullType = 1,
  kBooleanType = 2,
  kIntegerType = 4,
  kFractionType = 8,
  kStringType = 16,
  kArrayType = 32,
  kObjectType = 64,
  kNumberTypes = kIntegerType | kFractionType,
  kAllTypes = 127
};

struct NumberBound {
  Decimal value;
  bool is_exclusive = false;
};

struct SchemaText {  // a keyword's text, and where
  std::string text, pointer;
};

struct SchemaFacts {
  uint8_t types = kAllTypes;
  std::optional<std::vector<Json>> values;  // enum, const
  std::string values_pointer;
  std::optional<NumberBound> least, most;
  uint64_t multiple_of = 0;
  std::string multiple_of_pointer;
  uint32_t min_length = 0, max_length = kUnbounded;
  std::vector<SchemaText> patterns, formats;
  uint32_t min_items = 0, max_items = kUnbounded;
  uint32_t min_properties = 0, max_properties = kUnbounded;
  std::string min_properties_pointer;
  std::vector<std::string> required;
  std::vector<SchemaRef> array_parts, object_parts;  // schemas with keywords for items, for properties

  struct Choice {  // anyOf, oneOf: one of these besides
    std::vector<SchemaRef> branches;
    std::vector<const Json*> owners;  // schemas that are open around it
    bool is_exclusive = false;        // oneOf
    std::string pointer;
  };
  std::vector<Choice> choices;
  std::vector<const Json*> seen, open;

  // Whether anything but types is demanded of values.
  bool has_constraints() const;
};

class SchemaReader {
 public:
  SchemaReader(const Json& root, const Limits& limits) : root_(root), limits_(limits) {}

  // Adds what a schema demands. Errors: unsupported or invalid_argument, naming the pointer of the keyword.
  Status collect(const SchemaRef& ref, SchemaFacts& facts);

  // True when it is certain that no value satisfies both.
  Result<bool> are_disjoint(const SchemaFacts& a, const SchemaFacts& b);

 private:
  struct Keyword {
    const Json& value;
    const SchemaRef& in;
    std::string pointer;
  };
  Status read_keyword(std::string_view name, const Keyword& keyword, SchemaFacts& facts);
  Status read_number_keyword(std::string_view name, const Keyword& keyword, SchemaFacts& facts);
  Status read_size_keyword(std::string_view name, const Keyword& keyword, SchemaFacts& facts);
  Status read_type(const Keyword& keyword, SchemaFacts& facts);
  Status read_values(const Keyword& keyword, std::vector<Json> values, SchemaFacts& facts);
  Status read_required(const Keyword& keyword, SchemaFacts& facts);
  Status read_choice(const Keyword& keyword, bool is_exclusive, SchemaFacts& facts);
  Status read_all_of(const Keyword& keyword, SchemaFacts& facts);
  Status read_ref(const Keyword& keyword, SchemaFacts& facts);
  Result<SchemaRef> resolve(const Keyword& keyword) const;
  Result<std::vector<SchemaRef>> schemas_of(const Keyword& keyword) const;
  Result<bool> objects_are_disjoint(const SchemaFacts& a, const SchemaFacts& b);
  Result<std::optional<std::vector<Json>>> values_of_property(const SchemaFacts& facts, const std::string& name);

  const Json& root_;
  const Limits& limits_;
  uint64_t n_collected_ = 0;
};

// The same pointer with one more step, escaped (RFC 6901).
std::string join_pointer(std::string_view pointer, std::string_view step);
tl::unexpected<Error> schema_error(std::string_view pointer, std::string_view what);
tl::unexpected<Error> schema_unsupported(std::string_view pointer, std::string_view what);
// Equal as JSON values: 1 and 1.0 are.
bool are_equal_values(const Json& a, const Json& b);
uint8_t type_of_value(const Json& value);

}  // namespace tamis
