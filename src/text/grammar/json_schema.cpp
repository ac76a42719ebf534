// From a schema's facts to a grammar: values of one type after the other.
#include "text/grammar/json_schema.h"

#include <algorithm>

#include "text/grammar/automaton.h"
#include "text/grammar/front_ends.h"
#include "text/grammar/schema_formats.h"
#include "text/grammar/stack_table.h"

namespace tamis {
namespace {

constexpr size_t kMostStates = 20000;  // of one string's automaton

}  // namespace

Result<RuleId> SchemaCompiler::compile(const SchemaRef& root) {
  value_of({root});
  TAMIS_TRY_STATUS(define_pending());
  return rules_[{root.schema}];
}

Result<RuleId> SchemaCompiler::compile(SchemaFacts facts) {
  const RuleId rule = source_.add_rule("#");
  TAMIS_TRY(const PartId body, part_of(std::move(facts)));
  source_.define(rule, body);
  TAMIS_TRY_STATUS(define_pending());
  return rule;
}

// Rules are defined later, one at a time: schemas that refer to each other need no recursion here.
PartId SchemaCompiler::value_of(const std::vector<SchemaRef>& schemas) {
  if (schemas.empty()) return json_.any_value();
  std::vector<const Json*> key;
  for (const SchemaRef& ref : schemas) key.push_back(ref.schema);
  std::sort(key.begin(), key.end());
  key.erase(std::unique(key.begin(), key.end()), key.end());
  const auto known = rules_.find(key);
  if (known != rules_.end()) return source_.reference(known->second);
  const RuleId rule = source_.add_rule(schemas[0].pointer);
  rules_.emplace(std::move(key), rule);
  pending_.push_back({rule, schemas});
  return source_.reference(rule);
}

Status SchemaCompiler::define_pending() {
  while (!pending_.empty()) {
    const Pending next = std::move(pending_.back());
    pending_.pop_back();
    SchemaFacts facts;
    for (const SchemaRef& ref : next.schemas) TAMIS_TRY_STATUS(reader_.collect(ref, facts));
    TAMIS_TRY(const PartId body, part_of(std::move(facts)));
    source_.define(next.rule, body);
    TAMIS_TRY_STATUS(source_.check_size());
  }
  return {};
}

Result<PartId> SchemaCompiler::part_of(SchemaFacts facts) {
  if (!facts.choices.empty()) return part_of_choice(std::move(facts));
  if (facts.values) return part_of_values(std::move(facts));
  return part_of_types(facts);
}

// Each branch together with everything else that is demanded.
Result<PartId> SchemaCompiler::part_of_choice(SchemaFacts facts) {
  const SchemaFacts::Choice choice = std::move(facts.choices.back());
  facts.choices.pop_back();
  if (facts.choices.size() > source_.limits().grammar_depth)
    return schema_error(choice.branches[0].pointer, "too many anyOf and oneOf hold together");
  std::vector<SchemaFacts> branches;
  for (const SchemaRef& branch : choice.branches) {
    SchemaFacts& both = branches.emplace_back(facts);
    both.open = choice.owners;
    TAMIS_TRY_STATUS(reader_.collect(branch, both));
  }
  if (choice.is_exclusive) TAMIS_TRY_STATUS(check_disjoint(branches, choice.pointer));
  std::vector<PartId> alternatives;
  for (SchemaFacts& branch : branches) {
    TAMIS_TRY(const PartId part, part_of(std::move(branch)));
    alternatives.push_back(part);
    TAMIS_TRY_STATUS(source_.check_size());
  }
  return source_.choice(std::move(alternatives));
}

Status SchemaCompiler::check_disjoint(const std::vector<SchemaFacts>& branches, const std::string& pointer) {
  for (size_t i = 0; i < branches.size(); ++i) {
    for (size_t k = i + 1; k < branches.size(); ++k) {
      TAMIS_TRY(const bool are_apart, reader_.are_disjoint(branches[i], branches[k]));
      if (are_apart) continue;
      return schema_unsupported(pointer, fmt::format("branches {} and {} may both hold; anyOf allows that, oneOf needs "
                                                     "branches told apart by type, or by a required property's const "
                                                     "or enum",
                                                     i, k));
    }
  }
  return {};
}

// enum and const: those of the listed values that the rest of the schema allows.
Result<PartId> SchemaCompiler::part_of_values(SchemaFacts facts) {
  std::vector<Json> values = *std::exchange(facts.values, std::nullopt);
  std::erase_if(values, [&](const Json& value) { return (type_of_value(value) & facts.types) == 0; });
  if (facts.has_constraints() && !values.empty()) {
    TAMIS_TRY_STATUS(keep_allowed(std::move(facts), values));
  }
  std::vector<PartId> parts;
  for (const Json& value : values) parts.push_back(json_.value(value));
  return source_.choice(std::move(parts));
}

// The rest of the schema becomes a grammar of its own, which the values' texts are tried against.
Status SchemaCompiler::keep_allowed(SchemaFacts facts, std::vector<Json>& values) {
  GrammarSource rest_source(source_.limits());
  rest_source.take_over(source_);
  SchemaCompiler rest(root_, rest_source);
  TAMIS_TRY(const RuleId rule, rest.compile(std::move(facts)));
  const auto rest_grammar = compile_grammar(rest_source, rule);
  source_.take_over(rest_source);
  TAMIS_TRY_STATUS(source_.check_size());
  if (!rest_grammar) {
    // Nothing at all satisfies the rest; other errors show up again when the limits are checked.
    values.clear();
    return {};
  }
  std::erase_if(values, [&](const Json& value) { return !matches_text(*rest_grammar, value.dump()); });
  return {};
}

Result<PartId> SchemaCompiler::part_of_types(const SchemaFacts& facts) {
  std::vector<PartId> parts;
  if ((facts.types & kNullType) != 0) parts.push_back(source_.literal("null"));
  if ((facts.types & kBooleanType) != 0) {
    parts.push_back(source_.literal("true"));
    parts.push_back(source_.literal("false"));
  }
  if ((facts.types & kNumberTypes) != 0) {
    TAMIS_TRY(const PartId part, number_part(facts));
    parts.push_back(part);
  }
  if ((facts.types & kStringType) != 0) {
    TAMIS_TRY(const PartId part, string_part(facts));
    parts.push_back(part);
  }
  if ((facts.types & kArrayType) != 0) {
    TAMIS_TRY(const PartId part, array_part(facts));
    parts.push_back(part);
  }
  if ((facts.types & kObjectType) != 0) {
    TAMIS_TRY(const PartId part, object_part(facts));
    parts.push_back(part);
  }
  return source_.choice(std::move(parts));
}

Result<PartId> SchemaCompiler::number_part(const SchemaFacts& facts) {
  constexpr uint64_t kLargestMultiple = 10000;
  NumberBounds bounds;
  // A multiple of a whole number is one.
  bounds.integers_only = (facts.types & kFractionType) == 0 || facts.multiple_of != 0;
  if (facts.multiple_of > kLargestMultiple)
    return schema_unsupported(facts.multiple_of_pointer, fmt::format("more than {}", kLargestMultiple));
  bounds.multiple_of = static_cast<uint32_t>(facts.multiple_of);
  if (facts.least) {
    const auto& [value, is_exclusive] = *facts.least;
    bounds.least = bounds.integers_only ? least_integer(value, is_exclusive)
                   : is_exclusive       ? next_double(value, true)
                                        : value;
  }
  if (facts.most) {
    const auto& [value, is_exclusive] = *facts.most;
    bounds.most = bounds.integers_only ? largest_integer(value, is_exclusive)
                  : is_exclusive       ? next_double(value, false)
                                       : value;
  }
  if (bounds.least && bounds.most && is_less(*bounds.most, *bounds.least)) return source_.never();
  const auto part = json_.bounded_number(bounds);
  if (!part)
    return schema_unsupported(facts.multiple_of_pointer.empty() ? "#" : facts.multiple_of_pointer,
                              "these bounds need too many states");
  return *part;
}

// ---- strings

Result<PartId> SchemaCompiler::string_part(const SchemaFacts& facts) {
  if (facts.max_length < facts.min_length) return source_.never();
  if (facts.patterns.empty() && facts.formats.empty())
    return json_.string_of_length(facts.min_length, facts.max_length);
  TAMIS_TRY(const auto simple, simple_pattern(facts));
  return simple ? *simple : combined_string(facts);
}

// One pattern for the whole string and nothing else: its repeats may be counted, so no automaton of it is made here.
Result<std::optional<PartId>> SchemaCompiler::simple_pattern(const SchemaFacts& facts) {
  if (facts.patterns.size() != 1 || !facts.formats.empty() || facts.min_length != 0 || facts.max_length != kUnbounded)
    return std::nullopt;
  const auto regex = parse_regex(facts.patterns[0].text, CharForm::json, source_);
  if (!regex || !regex->begins_at_begin || !regex->ends_at_end || regex->has_assertions) return std::nullopt;
  return json_.quoted(regex->part);
}

Result<Dfa> SchemaCompiler::pattern_content(const SchemaText& pattern, bool is_search) {
  auto regex = parse_regex(pattern.text, CharForm::json, source_);
  if (!regex) {
    return fail(regex.error().code, "schema, {}: {}", escape_for_display(pattern.pointer, 400), regex.error().message);
  }
  PartId part = regex->part;
  if (is_search) {
    const PartId anything = source_.automaton(std::make_shared<const Dfa>(json_.any_content()));
    if (!regex->begins_at_begin) part = source_.sequence({anything, part});
    if (!regex->ends_at_end) part = source_.sequence({part, anything});
  }
  auto dfa = source_.to_dfa(part, kMostStates);
  if (!dfa) return schema_unsupported(pattern.pointer, fmt::format("needs more than {} states", kMostStates));
  return *std::move(dfa);
}

Result<PartId> SchemaCompiler::combined_string(const SchemaFacts& facts) {
  std::optional<Dfa> content;
  const auto narrow = [&](Dfa dfa, const std::string& pointer) -> Status {
    content = content ? intersect(*content, dfa, kMostStates, source_.budget()) : std::move(dfa);
    if (!content) return schema_unsupported(pointer, "needs too many states together with the other constraints");
    return {};
  };
  for (const SchemaText& pattern : facts.patterns) {
    TAMIS_TRY(Dfa dfa, pattern_content(pattern, true));
    TAMIS_TRY_STATUS(narrow(std::move(dfa), pattern.pointer));
  }
  for (const SchemaText& format : facts.formats) {
    const auto pattern = format_pattern(format.text);
    if (!pattern) {
      return schema_unsupported(format.pointer, fmt::format("got \"{}\", expected one of {}",
                                                            escape_for_display(format.text), known_formats()));
    }
    TAMIS_TRY(Dfa dfa, pattern_content({std::string(*pattern), format.pointer}, false));
    TAMIS_TRY_STATUS(narrow(std::move(dfa), format.pointer));
  }
  if (facts.min_length != 0 || facts.max_length != kUnbounded) {
    const std::string& pointer = (facts.patterns.empty() ? facts.formats : facts.patterns)[0].pointer;
    auto lengths = json_.content_of_length(facts.min_length, facts.max_length);
    if (!lengths) return schema_unsupported(pointer, "the lengths beside it need too many states");
    TAMIS_TRY_STATUS(narrow(*std::move(lengths), pointer));
  }
  return json_.quoted(*content);
}

// ---- arrays

Result<PartId> SchemaCompiler::array_part(const SchemaFacts& facts) {
  size_t n_prefix = 0;
  std::vector<std::vector<SchemaRef>> prefix;
  std::vector<SchemaRef> rest;
  for (const SchemaRef& part : facts.array_parts) {
    const Json* items = part.schema->find("prefixItems");
    if (items != nullptr && !items->is_array())
      return schema_error(join_pointer(part.pointer, "prefixItems"), "expected a list of schemas");
    if (items != nullptr) n_prefix = std::max(n_prefix, items->as_array().size());
  }
  prefix.resize(n_prefix);
  for (const SchemaRef& part : facts.array_parts) {
    const Json* items = part.schema->find("items");
    const Json* first = part.schema->find("prefixItems");
    const std::string items_pointer = join_pointer(part.pointer, "items");
    if (items != nullptr && items->is_array())
      return schema_unsupported(items_pointer, "got a list, which is draft 2019's way: expected prefixItems");
    const size_t n_first = first == nullptr ? 0 : first->as_array().size();
    for (size_t i = 0; i < n_prefix; ++i) {
      if (i < n_first) {
        prefix[i].push_back(
            {&first->as_array()[i], join_pointer(join_pointer(part.pointer, "prefixItems"), std::to_string(i))});
      } else if (items != nullptr) {
        prefix[i].push_back({items, items_pointer});
      }
    }
    if (items != nullptr) rest.push_back({items, items_pointer});
  }
  const uint32_t min = facts.min_items, max = facts.max_items;
  if (max < min) return source_.never();

  // From the end: the items after the listed ones, then each listed one with what follows it.
  const auto n = static_cast<uint32_t>(std::min<size_t>(n_prefix, max));
  const PartId item = n < max ? value_of(rest) : source_.never();
  const PartId more = source_.sequence({json_.comma(), item});
  const uint32_t least = min > n ? min - n : 0, most = max == kUnbounded ? kUnbounded : max - n;
  const auto one_less = [](uint32_t x) { return x == 0 || x == kUnbounded ? x : x - 1; };
  PartId tail = source_.repeat(more, least, most);
  if (n == 0) {
    tail =
        most == 0 ? source_.empty() : source_.sequence({item, source_.repeat(more, one_less(least), one_less(most))});
    if (min == 0) tail = source_.optional(tail);
  }
  for (uint32_t i = n; i-- > 0;) {
    tail = source_.sequence({value_of(prefix[i]), tail});
    if (i > 0) tail = source_.sequence({json_.comma(), tail});
    if (min <= i) tail = source_.optional(tail);
    // A rule of its own keeps the tree flat.
    const RuleId rule = source_.add_rule("items");
    source_.define(rule, tail);
    tail = source_.reference(rule);
  }
  return json_.bracketed("[", tail, "]");
}

Result<RuleId> parse_json_schema(const Json& schema, GrammarSource& source) {
  return SchemaCompiler(schema, source).compile(SchemaRef{&schema, "#"});
}

}  // namespace tamis
