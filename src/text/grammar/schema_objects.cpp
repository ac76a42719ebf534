// Objects: the listed properties in their order, then all others.
#include <algorithm>
#include <map>
#include <set>

#include "base/utf8.h"
#include "text/grammar/front_ends.h"
#include "text/grammar/json_schema.h"

namespace tamis {
namespace {

constexpr size_t kMostStates = 20000;  // of one set of keys
constexpr size_t kMostPatterns = 4;    // of patternProperties: each subset is a kind of key

struct ObjectKeywords {
  const Json* properties;
  const Json* patterns;
  const Json* additional;
};

Result<ObjectKeywords> keywords_of(const SchemaRef& part) {
  const ObjectKeywords out{part.schema->find("properties"), part.schema->find("patternProperties"),
                           part.schema->find("additionalProperties")};
  if (out.properties != nullptr && !out.properties->is_object())
    return schema_error(join_pointer(part.pointer, "properties"), "expected an object of schemas");
  if (out.patterns != nullptr && !out.patterns->is_object())
    return schema_error(join_pointer(part.pointer, "patternProperties"), "expected an object of schemas");
  return out;
}

bool is_false(const SchemaRef& ref) { return ref.schema->is_bool() && !ref.schema->as_bool(); }

// How JSON text of this program's own writes a key, without quotes.
std::string content_of(const std::string& name) {
  const std::string text = Json(name).dump();
  return text.substr(1, text.size() - 2);
}

}  // namespace

Result<std::vector<SchemaCompiler::KeyPattern>> SchemaCompiler::patterns_of(const SchemaFacts& facts) {
  std::vector<KeyPattern> out;
  for (const SchemaRef& part : facts.object_parts) {
    TAMIS_TRY(const ObjectKeywords keywords, keywords_of(part));
    if (keywords.patterns == nullptr) continue;
    const std::string pointer = join_pointer(part.pointer, "patternProperties");
    for (const auto& [pattern, schema] : keywords.patterns->as_object()) {
      if (out.size() == kMostPatterns)
        return schema_unsupported(pointer, fmt::format("more than {} patterns hold together", kMostPatterns));
      const std::string at = join_pointer(pointer, pattern);
      TAMIS_TRY(Dfa content, pattern_content({pattern, at}, true));
      out.push_back({&part, {&schema, at}, std::move(content)});
    }
  }
  return out;
}

// The properties that are listed somewhere or required, each with all schemas that hold for it.
Result<std::vector<SchemaCompiler::Property>> SchemaCompiler::properties_of(const SchemaFacts& facts,
                                                                            const std::vector<KeyPattern>& patterns) {
  std::vector<Property> out;
  std::set<std::string> names;
  const std::set<std::string> required(facts.required.begin(), facts.required.end());
  const auto add = [&](const std::string& name) {
    if (names.insert(name).second) out.push_back({name, {}, required.contains(name)});
  };
  for (const SchemaRef& part : facts.object_parts) {
    TAMIS_TRY(const ObjectKeywords keywords, keywords_of(part));
    if (keywords.properties == nullptr) continue;
    for (const auto& [name, schema] : keywords.properties->as_object()) add(name);
  }
  for (const std::string& name : facts.required) add(name);
  for (Property& property : out) {
    const std::string content = content_of(property.name);
    for (const SchemaRef& part : facts.object_parts) {
      TAMIS_TRY(const ObjectKeywords keywords, keywords_of(part));
      const Json* own = keywords.properties == nullptr ? nullptr : keywords.properties->find(property.name);
      bool is_covered = own != nullptr;
      if (own != nullptr)
        property.schemas.push_back({own, join_pointer(join_pointer(part.pointer, "properties"), property.name)});
      for (const KeyPattern& pattern : patterns) {
        if (pattern.part != &part || !pattern.content.matches(content)) continue;
        property.schemas.push_back(pattern.schema);
        is_covered = true;
      }
      if (!is_covered && keywords.additional != nullptr)
        property.schemas.push_back({keywords.additional, join_pointer(part.pointer, "additionalProperties")});
    }
  }
  return out;
}

Result<Dfa> SchemaCompiler::names_content(const std::vector<Property>& properties, const std::string& pointer) {
  std::vector<PartId> names;
  for (const Property& property : properties) {
    // Every way to write the name, without the quotes.
    std::vector<PartId> chars;
    for (size_t i = 0; i < property.name.size();) {
      const size_t length = utf8_sequence_length(property.name, i);
      const char32_t c = length == 0 ? U'\ufffd' : utf8_code_point(property.name, i, length);
      chars.push_back(source_.chars({{c, c}}, CharForm::json_any));
      i += std::max<size_t>(1, length);
    }
    names.push_back(source_.sequence(std::move(chars)));
  }
  auto dfa = source_.to_dfa(source_.choice(std::move(names)), kMostStates);
  if (!dfa) return schema_unsupported(pointer, "the names of its properties need too many states");
  return *std::move(dfa);
}

Result<std::optional<Dfa>> SchemaCompiler::key_content(const std::vector<KeyPattern>& patterns, uint32_t subset,
                                                       const Dfa& listed, const std::string& pointer) {
  std::optional<Dfa> keys = subtract(json_.any_content(), listed, kMostStates, source_.budget());
  for (size_t i = 0; i < patterns.size() && keys; ++i) {
    const bool is_matched = (subset >> i & 1u) != 0;
    keys = is_matched ? intersect(*keys, patterns[i].content, kMostStates, source_.budget())
                      : subtract(*keys, patterns[i].content, kMostStates, source_.budget());
  }
  if (!keys) return schema_unsupported(pointer, "its keys need too many states");
  return keys->is_empty() ? std::nullopt : keys;
}

Result<std::vector<SchemaCompiler::OtherKeys>> SchemaCompiler::other_keys_of(const SchemaFacts& facts,
                                                                             const std::vector<Property>& properties,
                                                                             const std::vector<KeyPattern>& patterns) {
  const std::string pointer = facts.object_parts.empty() ? "#" : facts.object_parts[0].pointer;
  std::optional<Dfa> listed;
  std::vector<OtherKeys> out;
  for (uint32_t subset = 0; subset < 1u << patterns.size(); ++subset) {
    OtherKeys keys{};
    for (const SchemaRef& part : facts.object_parts) {
      bool is_covered = false;
      for (size_t i = 0; i < patterns.size(); ++i) {
        if (patterns[i].part != &part || (subset >> i & 1u) == 0) continue;
        keys.schemas.push_back(patterns[i].schema);
        is_covered = true;
      }
      const Json* additional = part.schema->find("additionalProperties");
      if (!is_covered && additional != nullptr)
        keys.schemas.push_back({additional, join_pointer(part.pointer, "additionalProperties")});
    }
    if (std::any_of(keys.schemas.begin(), keys.schemas.end(), is_false)) continue;
    if (properties.empty() && patterns.empty()) {
      keys.key = json_.any_string();
    } else {
      if (!listed) {
        TAMIS_TRY(listed, names_content(properties, pointer));
      }
      TAMIS_TRY(const auto content, key_content(patterns, subset, *listed, pointer));
      if (!content) continue;
      keys.key = json_.quoted(*content);
    }
    out.push_back(std::move(keys));
  }
  return out;
}

Result<PartId> SchemaCompiler::object_part(const SchemaFacts& facts) {
  if (facts.object_parts.empty() && facts.required.empty() && facts.min_properties == 0 &&
      facts.max_properties == kUnbounded)
    return json_.any_object();
  Members members;
  TAMIS_TRY(const std::vector<KeyPattern> patterns, patterns_of(facts));
  TAMIS_TRY(members.properties, properties_of(facts, patterns));
  TAMIS_TRY(const std::vector<OtherKeys> others, other_keys_of(facts, members.properties, patterns));
  std::vector<PartId> other;
  for (const OtherKeys& keys : others)
    other.push_back(source_.sequence({keys.key, source_.literal(":"), json_.space(), value_of(keys.schemas)}));
  members.has_other = !other.empty();
  members.other = source_.choice(std::move(other));
  members.min = facts.min_properties;
  members.max = facts.max_properties;
  // Two other members might have one key: past the first they cannot be counted towards the minimum.
  const auto n_required = static_cast<uint32_t>(std::count_if(members.properties.begin(), members.properties.end(),
                                                              [](const Property& p) { return p.is_required; }));
  if (members.has_other && members.min > n_required + 1) {
    return schema_unsupported(facts.min_properties_pointer,
                              "expected at most one more than the required properties where others are allowed");
  }
  if (members.max < std::max(members.min, n_required)) return source_.never();
  return json_.bracketed("{", source_.reference(members_rule(members)), "}");
}

// A rule for the members from each property on, and for each number of members before it (0, or more than 0, where
// they are not counted).
RuleId SchemaCompiler::members_rule(const Members& members) {
  std::map<std::pair<size_t, uint32_t>, RuleId> rules;
  std::vector<std::pair<size_t, uint32_t>> open;
  const auto rule_of = [&](size_t index, uint32_t count) {
    const auto [it, is_new] = rules.emplace(std::pair(index, count), 0);
    if (is_new) {
      it->second = source_.add_rule("members");
      open.emplace_back(index, count);
    }
    return it->second;
  };
  const RuleId first = rule_of(0, 0);
  while (!open.empty() && source_.check_size()) {
    const auto [i, count] = open.back();
    open.pop_back();
    const RuleId rule = rules[{i, count}];
    if (i == members.properties.size()) {
      source_.define(rule, other_members(members, count));
      continue;
    }
    const Property& property = members.properties[i];
    const uint32_t next = members.is_counted() ? count + 1 : 1;
    std::vector<PartId> ways;
    if (count < members.max) {
      ways.push_back(source_.sequence({count > 0 ? json_.comma() : source_.empty(), json_.key(property.name),
                                       value_of(property.schemas), source_.reference(rule_of(i + 1, next))}));
    }
    if (!property.is_required) ways.push_back(source_.reference(rule_of(i + 1, count)));
    source_.define(rule, source_.choice(std::move(ways)));
  }
  return first;
}

// Members with other keys, after `count` listed ones.
PartId SchemaCompiler::other_members(const Members& members, uint32_t count) {
  const uint32_t least = members.min > count ? members.min - count : 0;
  const uint32_t most = members.max == kUnbounded ? kUnbounded : members.max - std::min(count, members.max);
  if (!members.has_other || most == 0) return least == 0 ? source_.empty() : source_.never();
  const PartId more = source_.sequence({json_.comma(), members.other});
  if (count > 0) return source_.repeat(more, least, most);
  const uint32_t most_after = most == kUnbounded ? kUnbounded : most - 1;
  const PartId all = source_.sequence({members.other, source_.repeat(more, least == 0 ? 0 : least - 1, most_after)});
  return least == 0 ? source_.optional(all) : all;
}

}  // namespace tamis
