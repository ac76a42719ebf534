// Which name of tokenizer.ggml.pre a tokenizer.json means: its normalizer, pre-tokenizer and merge rule compared with
// the table of src/text, pattern by pattern.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "formats/json.h"

namespace tamis {

// A regular expression in one spelling: characters outside ASCII and \uXXXX as \x{HEX}, needless backslashes and
// brackets around one property removed.
std::string canonical_pattern(std::string_view pattern);

// The row of the table that splits as this tokenizer.json does (a byte-level BPE). Errors: unsupported, printing the
// normalizer, the patterns and the merge rule when no row does.
Result<std::string> find_pre_name(const Json& tokenizer);

// The reverse: "normalizer" and "pre_tokenizer" of a tokenizer.json for a name of the table. Errors: not_found.
Result<Json> pre_tokenizer_json(std::string_view pre_name);
// "ignore_merges" of its model.
bool ignores_merges(std::string_view pre_name);

}  // namespace tamis
