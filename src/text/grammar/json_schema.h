// The rules of a grammar for the values a JSON Schema accepts: one rule for each set of schemas that hold together.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "text/grammar/json_parts.h"
#include "text/grammar/schema_facts.h"

namespace tamis {

class SchemaCompiler {
 public:
  SchemaCompiler(const Json& root, GrammarSource& source)
      : root_(root), source_(source), reader_(root, source.limits()), json_(source) {}

  // The rule of the root. Errors: as SchemaReader's, and unsupported for what needs too many states.
  Result<RuleId> compile(const SchemaRef& root);
  // The rule of values that satisfy given facts.
  Result<RuleId> compile(SchemaFacts facts);

 private:
  struct Pending {
    RuleId rule;
    std::vector<SchemaRef> schemas;
  };
  // A value that satisfies all of these.
  PartId value_of(const std::vector<SchemaRef>& schemas);
  Status define_pending();
  Result<PartId> part_of(SchemaFacts facts);
  Result<PartId> part_of_choice(SchemaFacts facts);
  Status check_disjoint(const std::vector<SchemaFacts>& branches, const std::string& pointer);
  Result<PartId> part_of_values(SchemaFacts facts);
  Status keep_allowed(SchemaFacts facts, std::vector<Json>& values);
  Result<PartId> part_of_types(const SchemaFacts& facts);
  Result<PartId> number_part(const SchemaFacts& facts);
  Result<PartId> string_part(const SchemaFacts& facts);
  Result<std::optional<PartId>> simple_pattern(const SchemaFacts& facts);
  Result<PartId> combined_string(const SchemaFacts& facts);
  Result<Dfa> pattern_content(const SchemaText& pattern, bool is_search);
  Result<PartId> array_part(const SchemaFacts& facts);

  // Objects: schema_objects.cpp.
  struct Property {
    std::string name;
    std::vector<SchemaRef> schemas;
    bool is_required = false;
  };
  struct OtherKeys {  // keys that are not listed, all under the same schemas
    PartId key;
    std::vector<SchemaRef> schemas;
  };
  struct Members {
    std::vector<Property> properties;
    PartId other = 0;  // one member with another key
    bool has_other = false;
    uint32_t min = 0, max = kUnbounded;
    bool is_counted() const { return min != 0 || max != kUnbounded; }
  };
  Result<PartId> object_part(const SchemaFacts& facts);
  struct KeyPattern {  // of patternProperties
    const SchemaRef* part;
    SchemaRef schema;
    Dfa content;
  };
  Result<std::vector<KeyPattern>> patterns_of(const SchemaFacts& facts);
  Result<std::vector<Property>> properties_of(const SchemaFacts& facts, const std::vector<KeyPattern>& patterns);
  Result<std::vector<OtherKeys>> other_keys_of(const SchemaFacts& facts, const std::vector<Property>& properties,
                                               const std::vector<KeyPattern>& patterns);
  // Keys that match the patterns in `subset` (bits) and no others, and are not listed. Nothing when there are none.
  Result<std::optional<Dfa>> key_content(const std::vector<KeyPattern>& patterns, uint32_t subset, const Dfa& listed,
                                         const std::string& pointer);
  Result<Dfa> names_content(const std::vector<Property>& properties, const std::string& pointer);
  RuleId members_rule(const Members& members);
  PartId other_members(const Members& members, uint32_t count);

  const Json& root_;
  GrammarSource& source_;
  SchemaReader reader_;
  JsonParts json_;
  std::map<std::vector<const Json*>, RuleId> rules_;  // by the schemas that hold together
  std::vector<Pending> pending_;
};

}  // namespace tamis
