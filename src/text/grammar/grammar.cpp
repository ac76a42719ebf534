// The ways to a compiled grammar, and the store of those in use.
#include "text/grammar/grammar.h"

#include <list>
#include <mutex>

#include "text/grammar/front_ends.h"
#include "text/grammar/json_parts.h"
#include "text/grammar/stack_table.h"

namespace tamis {

Result<Grammar> Grammar::compile(const std::function<Result<RuleId>(GrammarSource&)>& parse, const Limits& limits) {
  GrammarSource source(limits);
  TAMIS_TRY(const RuleId root, parse(source));
  TAMIS_TRY(GrammarAutomaton automaton, compile_grammar(source, root));
  return Grammar(std::make_shared<const GrammarAutomaton>(std::move(automaton)));
}

Result<Grammar> Grammar::from_gbnf(std::string_view text, const Limits& limits) {
  auto grammar = compile([&](GrammarSource& source) { return parse_gbnf(text, source); }, limits);
  if (!grammar && !grammar.error().message.starts_with("grammar")) grammar.error().message.insert(0, "grammar: ");
  return grammar;
}

Result<Grammar> Grammar::from_regex(std::string_view pattern, const Limits& limits) {
  const auto parse = [&](GrammarSource& source) -> Result<RuleId> {
    TAMIS_TRY(const ParsedRegex regex, parse_regex(pattern, CharForm::utf8, source));
    PartId part = regex.part;
    if (regex.has_assertions) {
      auto dfa = source.to_dfa(part, limits.grammar_states);
      if (!dfa) return fail(ErrorCode::unsupported, "needs more than {} states", limits.grammar_states);
      part = source.automaton(std::make_shared<const Dfa>(*std::move(dfa)));
    }
    const RuleId root = source.add_rule("the whole pattern");
    source.define(root, part);
    return root;
  };
  auto grammar = compile(parse, limits);
  if (!grammar && !grammar.error().message.starts_with("regex")) grammar.error().message.insert(0, "regex: ");
  return grammar;
}

namespace {

Result<Json> read_schema(std::string_view text, const Limits& limits) {
  if (text.size() > limits.grammar_bytes) {
    return fail(ErrorCode::invalid_argument, "schema: got {} bytes, expected at most {}", text.size(),
                limits.grammar_bytes);
  }
  auto json = Json::parse(text, limits.json_depth);
  if (!json) return fail(ErrorCode::invalid_argument, "schema: {}", json.error().message);
  return json;
}

Result<Grammar> named_as_schema(Result<Grammar> grammar) {
  if (!grammar && !grammar.error().message.starts_with("schema")) grammar.error().message.insert(0, "schema, #: ");
  return grammar;
}

}  // namespace

Result<Grammar> Grammar::from_parsed_schema(const Json& schema, const Limits& limits) {
  return named_as_schema(compile([&](GrammarSource& source) { return parse_json_schema(schema, source); }, limits));
}

Result<Grammar> Grammar::from_json_schema(std::string_view schema, const Limits& limits) {
  TAMIS_TRY(const Json json, read_schema(schema, limits));
  return from_parsed_schema(json, limits);
}

Result<Grammar> Grammar::from_json_row(std::string_view schema, const JsonRow& row, const Limits& limits) {
  TAMIS_TRY(const Json json, read_schema(schema, limits));
  const auto parse = [&](GrammarSource& source) -> Result<RuleId> {
    TAMIS_TRY(const RuleId value, parse_json_schema(json, source));
    const PartId next = source.sequence({source.literal(row.between), source.reference(value)});
    const RuleId root = source.add_rule("a row of values");
    source.define(root, source.sequence({source.literal(row.before), source.reference(value),
                                         source.repeat(next, 0, kUnbounded), source.literal(row.after)}));
    return root;
  };
  return named_as_schema(compile(parse, limits));
}

Result<Grammar> Grammar::json_object() {
  return compile(
      [](GrammarSource& source) -> Result<RuleId> {
        JsonParts json(source);
        const RuleId root = source.add_rule("a JSON object");
        source.define(root, json.any_object());
        return root;
      },
      {});
}

size_t Grammar::size_bytes() const { return automaton_->size_bytes(); }
bool Grammar::matches(std::string_view text) const { return matches_text(*automaton_, text); }

struct GrammarCache::Entries {
  struct Entry {
    GrammarSpec spec;
    std::shared_ptr<const TokenMasks> masks;
  };
  mutable std::mutex mutex;
  std::list<Entry> by_use;  // the last used first; few enough to look through

  std::shared_ptr<const TokenMasks> find(const GrammarSpec& spec) {
    for (auto it = by_use.begin(); it != by_use.end(); ++it) {
      if (!(it->spec == spec)) continue;
      by_use.splice(by_use.begin(), by_use, it);
      return by_use.front().masks;
    }
    return nullptr;
  }
  size_t size_bytes() const {
    size_t sum = 0;
    for (const Entry& entry : by_use) sum += entry.spec.text.size() + entry.masks->size_bytes();
    return sum;
  }
};

GrammarCache::GrammarCache(std::shared_ptr<const TokenTrie> trie, size_t max_bytes, const Limits& limits)
    : trie_(std::move(trie)), limits_(limits), max_bytes_(max_bytes), entries_(std::make_unique<Entries>()) {}
GrammarCache::~GrammarCache() = default;

Result<std::shared_ptr<const TokenMasks>> GrammarCache::get(const GrammarSpec& spec) {
  constexpr size_t kMostEntries = 256;
  {
    const std::scoped_lock lock(entries_->mutex);
    if (auto known = entries_->find(spec)) return known;
  }
  // Compiled without the lock: others go on, and two may compile the same.
  const auto compiled = [&]() -> Result<Grammar> {
    switch (spec.kind) {
      case GrammarSpec::Kind::gbnf: return Grammar::from_gbnf(spec.text, limits_);
      case GrammarSpec::Kind::regex: return Grammar::from_regex(spec.text, limits_);
      case GrammarSpec::Kind::json_schema:
        return spec.row ? Grammar::from_json_row(spec.text, *spec.row, limits_)
                        : Grammar::from_json_schema(spec.text, limits_);
      case GrammarSpec::Kind::json_object: break;
    }
    return Grammar::json_object();
  }();
  if (!compiled) return tl::unexpected<Error>(compiled.error());
  auto masks = std::make_shared<const TokenMasks>(*compiled, trie_, max_bytes_ / 4);
  const std::scoped_lock lock(entries_->mutex);
  if (auto known = entries_->find(spec)) return known;
  entries_->by_use.push_front({spec, masks});
  while (entries_->by_use.size() > 1 && (entries_->by_use.size() > kMostEntries || entries_->size_bytes() > max_bytes_))
    entries_->by_use.pop_back();
  return masks;
}

size_t GrammarCache::n_entries() const {
  const std::scoped_lock lock(entries_->mutex);
  return entries_->by_use.size();
}

size_t GrammarCache::size_bytes() const {
  const std::scoped_lock lock(entries_->mutex);
  return entries_->size_bytes();
}

}  // namespace tamis
