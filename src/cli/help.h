// Help, manual pages, shell completion and docs/cli.md, all from the verbs' tables.
#pragma once

#include <string>
#include <vector>

#include "cli/style.h"
#include "cli/verb.h"

namespace tamis::cli {

std::string usage_line(const Verb& verb);                                  // "tamis inspect [options] FILE"
std::string verb_help(const Verb& verb, const Style& style);               // tamis VERB --help
std::string overview(const std::vector<Verb>& verbs, const Style& style);  // tamis help
std::string man_page(const Verb& verb);                                    // roff, section 1
std::string markdown(const std::vector<Verb>& verbs);                      // docs/cli.md, whole

std::string bash_completion(const std::vector<Verb>& verbs);
std::string zsh_completion(const std::vector<Verb>& verbs);
std::string fish_completion(const std::vector<Verb>& verbs);

// The paragraphs of `text`, which blank lines separate.
std::vector<std::string> paragraphs(std::string_view text);
// "help text (default: 8; one of a, b)"
std::string full_help(const OptionSpec& option);
// "-m, --model NAME"
std::string option_heading(const OptionSpec& option);

// What an exit code means, in order: printed by help, man pages and docs/cli.md.
struct ExitCodeRow {
  std::string_view code, meaning;
};
const std::vector<ExitCodeRow>& exit_codes();

}  // namespace tamis::cli
