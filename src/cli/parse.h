// argv → Args, by a verb's tables. Our own 200 lines: see docs/decisions/0003-own-argument-parser.md.
//
// Grammar: an argument that begins with '-' is an option, unless it is "-" alone or a number that is no option's name;
// "--" ends the options. Names are whole words ("-ngl" is one option, never -n -g -l). Values follow after a space or,
// for any name, '='.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/verb.h"

namespace tamis::cli {

// Errors: invalid_argument for anything the tables do not allow, with a suggestion for a misspelt option.
Result<Args> parse_args(const Verb& verb, std::span<const std::string> arguments);

// The options every verb has: --json -q -v --color --threads --no-progress -h.
const std::vector<OptionSpec>& common_options();
bool is_common_option(const OptionSpec& option);

// "-m,--model" → {"-m", "--model"}
std::vector<std::string_view> option_names(const OptionSpec& option);

// The candidate nearest to `word` (edit distance with transpositions at most 2, or it is a prefix), "" when none is
// near.
std::string_view nearest(std::string_view word, const std::vector<std::string_view>& candidates);

}  // namespace tamis::cli
