// The languages a grammar can be written in, each turned into the rules of a GrammarSource. Between the caller's text
// and compile.cpp.
#pragma once

#include <string_view>

#include "formats/json.h"
#include "text/grammar/ir.h"

namespace tamis {

// GBNF, the dialect of llama.cpp's grammars (its grammars/README.md). Returns the rule `root`. Errors: invalid_argument
// naming line and column.
Result<RuleId> parse_gbnf(std::string_view text, GrammarSource& source);

// What a regular expression describes.
struct ParsedRegex {
  PartId part = 0;
  bool begins_at_begin = false, ends_at_end = false;  // ^ and $ that stood at the ends, and are not in `part`
  bool has_assertions = false;                        // others are: `part` must become an automaton as a whole
};
// Literals, . [ ] \d \w \s \D \W \S \p{…}, escapes, groups, | * + ? {m,n} (lazy forms, too: they describe the same
// texts), ^ $. Meanings are ECMA-262's with the flags u and v off: \d \w are ASCII, . does not match line ends. Errors:
// invalid_argument naming the byte; unsupported for look-around, back-references, \b and inline flags, by name.
Result<ParsedRegex> parse_regex(std::string_view pattern, CharForm form, GrammarSource& source);

// JSON Schema. Returns a rule for any JSON text the schema accepts. Errors: as Grammar::from_json_schema.
Result<RuleId> parse_json_schema(const Json& schema, GrammarSource& source);

}  // namespace tamis
