// Completion scripts for bash, zsh and fish.
#include "cli/help.h"
#include "cli/parse.h"

namespace tamis::cli {
namespace {

std::string joined_names(const Verb& verb) {
  std::string out;
  for (const OptionSpec& option : verb.options)
    for (std::string_view name : option_names(option)) out += fmt::format("{}{}", out.empty() ? "" : " ", name);
  return out;
}

std::string joined(const std::vector<std::string_view>& words) {
  std::string out;
  for (std::string_view word : words) out += fmt::format("{}{}", out.empty() ? "" : " ", word);
  return out;
}

// Text inside single quotes of a POSIX shell.
std::string quoted(std::string_view text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// Text inside a zsh _arguments description: brackets and colons are its syntax.
std::string zsh_text(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string bash_value_cases(const Verb& verb) {
  std::string out;
  for (const OptionSpec& option : verb.options) {
    if (option.choices.empty()) continue;
    std::string pattern;
    for (std::string_view name : option_names(option))
      pattern += fmt::format("{}{}:{}", pattern.empty() ? "" : "|", verb.name, name);
    out += fmt::format("    {}) COMPREPLY=($(compgen -W {} -- \"$word\")); return ;;\n", pattern,
                       quoted(joined(option.choices)));
  }
  return out;
}

std::string zsh_spec(const OptionSpec& option) {
  std::string out;
  for (std::string_view name : option_names(option)) {
    std::string spec = fmt::format("{}[{}]", name, zsh_text(option.help));
    if (option.kind != OptionKind::flag) {
      spec += fmt::format(":{}:", zsh_text(option.value_name));
      spec += option.choices.empty() ? std::string("_files") : fmt::format("({})", joined(option.choices));
    }
    out += fmt::format("        {} \\\n", quoted((option.is_repeatable ? "*" : "") + spec));
  }
  return out;
}

}  // namespace

std::string bash_completion(const std::vector<Verb>& verbs) {
  std::string names, cases, values, firsts;
  for (const Verb& verb : verbs) {
    names += fmt::format("{}{}", names.empty() ? "" : " ", verb.name);
    cases += fmt::format("    {}) names={} ;;\n", verb.name, quoted(joined_names(verb)));
    values += bash_value_cases(verb);
    const std::string first = verb.name == "help"        ? "$verbs"
                              : verb.positionals.empty() ? std::string()
                                                         : joined(verb.positionals[0].choices);
    if (!first.empty())
      firsts += fmt::format("    {}) COMPREPLY=($(compgen -W \"{}\" -- \"$word\")); return ;;\n", verb.name, first);
  }
  return "# bash completion for tamis; write it to ~/.local/share/bash-completion/completions/tamis\n"
         "_tamis() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]} names=\n"
         "  local verbs=" +
         quoted(names) +
         "\n"
         "  if [ \"$COMP_CWORD\" -eq 1 ]; then COMPREPLY=($(compgen -W \"$verbs\" -- \"$word\")); return; fi\n"
         "  case \"$verb:$previous\" in\n    :) ;;\n" +
         values +
         "  esac\n"
         "  case \"$verb\" in\n" +
         cases +
         "  esac\n"
         "  case \"$word\" in -*) COMPREPLY=($(compgen -W \"$names\" -- \"$word\")); return ;; esac\n"
         "  if [ \"$COMP_CWORD\" -eq 2 ]; then case \"$verb\" in\n    '') ;;\n" +
         firsts +
         "  esac; fi\n"
         "  COMPREPLY=($(compgen -f -- \"$word\"))\n"
         "}\n"
         "complete -o filenames -F _tamis tamis\n";
}

std::string zsh_completion(const std::vector<Verb>& verbs) {
  std::string list, cases;
  for (const Verb& verb : verbs) {
    list += fmt::format("    {}\n", quoted(fmt::format("{}:{}", verb.name, zsh_text(verb.summary))));
    cases += fmt::format("    {})\n      _arguments \\\n", verb.name);
    for (const OptionSpec& option : verb.options) cases += zsh_spec(option);
    const bool has_choices = !verb.positionals.empty() && !verb.positionals[0].choices.empty();
    if (has_choices)
      cases += fmt::format("        {} \\\n", quoted(fmt::format("2:what:({})", joined(verb.positionals[0].choices))));
    cases += "        '*:file:_files'\n      ;;\n";
  }
  return "#compdef tamis\n"
         "# zsh completion for tamis; write it to a directory of $fpath as _tamis\n"
         "_tamis() {\n  local -a verbs=(\n" +
         list +
         "  )\n"
         "  if (( CURRENT == 2 )); then _describe verb verbs; return; fi\n"
         "  case $words[2] in\n" +
         cases +
         "  esac\n}\n"
         "_tamis \"$@\"\n";
}

std::string fish_completion(const std::vector<Verb>& verbs) {
  std::string out = "# fish completion for tamis; write it to ~/.config/fish/completions/tamis.fish\n";
  for (const Verb& verb : verbs)
    out += fmt::format("complete -c tamis -n __fish_use_subcommand -a {} -d {}\n", verb.name, quoted(verb.summary));
  for (const Verb& verb : verbs) {
    for (const OptionSpec& option : verb.options) {
      std::string line = fmt::format("complete -c tamis -n '__fish_seen_subcommand_from {}'", verb.name);
      for (std::string_view name : option_names(option)) {
        const std::string_view kind = name.starts_with("--") ? "-l" : name.size() == 2 ? "-s" : "-o";
        line += fmt::format(" {} {}", kind, name.substr(name.find_first_not_of('-')));
      }
      if (option.kind != OptionKind::flag) line += " -r";
      if (!option.choices.empty()) line += " -f -a " + quoted(joined(option.choices));
      out += line + " -d " + quoted(option.help) + "\n";
    }
  }
  return out;
}

}  // namespace tamis::cli
