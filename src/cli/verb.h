// A verb of the program is data: its name, its option table and a function. Parsing, help, man pages, shell completion
// and docs/cli.md all come from the same table; the command-line library sits behind cli/parse.cpp alone.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tamis::cli {

enum class OptionKind : uint8_t { flag, text, integer, real };

struct OptionSpec {
  std::string_view names;  // "-m,--model": first the shortest, all mean the same
  OptionKind kind = OptionKind::flag;
  std::string_view value_name;  // "FILE"; "" for flags
  std::string_view help;
  std::string_view default_text;  // parsed like a given value; "" = none
  bool is_repeatable = false;
  std::vector<std::string_view> choices;  // allowed values; empty = any
  // Numbers outside [minimum, maximum] are a usage error; NaN and infinities always are.
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  // The value may be left out: the next word is the value only if it is no option and the verb's required positionals
  // do not need it. text() is "" then.
  bool is_value_optional = false;
};

struct PositionalSpec {
  std::string_view name;  // "FILE"
  std::string_view help;
  bool is_required = true;
  bool is_repeatable = false;             // the last one may take the rest
  std::vector<std::string_view> choices;  // allowed values; empty = any
};

// The parsed command line of one verb. Asking for a name that is not in the verb's table is a programmer's error.
class Args {
 public:
  bool has(std::string_view name) const;  // given on the command line (defaults do not count)
  bool flag(std::string_view name) const;
  std::string text(std::string_view name) const;  // "" when absent without default
  int64_t integer(std::string_view name) const;   // Requires: given or has a default
  double real(std::string_view name) const;
  std::vector<std::string> texts(std::string_view name) const;  // every value of a repeatable option or positional

 private:
  friend class ArgsBuilder;
  struct Entry {
    const OptionSpec* option = nullptr;  // null for positionals
    std::string_view name;
    std::vector<std::string> values;
    bool is_given = false;
  };
  const Entry& entry(std::string_view name) const;
  std::vector<Entry> entries_;
};

struct Verb {
  std::string_view name;
  std::string_view summary;  // one line
  std::string_view details;  // paragraphs for help and man page; may be ""
  std::vector<PositionalSpec> positionals;
  std::vector<OptionSpec> options;  // its own; the common ones (--json -q -v --color --threads --no-progress) are added
  Result<int> (*run)(const Args& args);  // the exit code, or an error that is printed and mapped to one
};

// Options of every verb that loads a model: -m --backend --activations --layout -ctk -ctv --ram-budget --pre
// --hf-special …
std::vector<OptionSpec> model_options();
std::vector<OptionSpec> operator+(std::vector<OptionSpec> a, const std::vector<OptionSpec>& b);

// One function a verb, defined in cli/NAME.cpp; cli/verbs.cpp lists them.
Verb bench_serve_verb();
Verb bench_verb();
Verb completion_verb();
Verb compare_verb();
Verb convert_verb();
Verb doctor_verb();
Verb edit_verb();
Verb fit_verb();
Verb help_verb();
Verb imatrix_verb();
Verb inspect_verb();
Verb logits_verb();
Verb ls_verb();
Verb merge_verb();
Verb perplexity_verb();
Verb pull_verb();
Verb quantize_verb();
Verb rm_verb();
Verb run_verb();
Verb selfcheck_verb();
Verb serve_verb();
Verb split_verb();
Verb template_verb();
Verb tokenize_verb();
Verb verify_verb();

// Every verb, by name, each with the common options appended to its own.
const std::vector<Verb>& all_verbs();

// Writes to stdout, where results go. Errors: io (a closed pipe ends the program quietly).
Status print_out(std::string_view text);

}  // namespace tamis::cli
