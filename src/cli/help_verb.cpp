// `tamis help`: the list of verbs, one verb's help or manual page, and the text of docs/cli.md.
#include "cli/help.h"
#include "cli/parse.h"
#include "formats/json.h"

namespace tamis::cli {
namespace {

std::string_view kind_name(OptionKind kind) {
  static constexpr std::string_view kNames[] = {"flag", "text", "integer", "real"};
  return kNames[static_cast<size_t>(kind)];
}

Json verb_json(const Verb& verb) {
  Json options = Json::array();
  for (const OptionSpec& option : verb.options) {
    Json names = Json::array(), choices = Json::array();
    for (std::string_view name : option_names(option)) names.push_back(name);
    for (std::string_view choice : option.choices) choices.push_back(choice);
    Json row = Json::object();
    row.set("names", std::move(names)).set("kind", kind_name(option.kind)).set("help", option.help);
    row.set("default", option.default_text).set("choices", std::move(choices)).set("repeatable", option.is_repeatable);
    options.push_back(std::move(row));
  }
  Json positionals = Json::array();
  for (const PositionalSpec& positional : verb.positionals) {
    Json row = Json::object();
    row.set("name", positional.name).set("help", positional.help);
    row.set("required", positional.is_required).set("repeatable", positional.is_repeatable);
    positionals.push_back(std::move(row));
  }
  Json out = Json::object();
  out.set("name", verb.name).set("summary", verb.summary).set("positionals", std::move(positionals));
  out.set("options", std::move(options));
  return out;
}

Result<int> run_help(const Args& args) {
  const Style style = Style::from_args(args);
  if (args.flag("--markdown")) {
    TAMIS_TRY_STATUS(print_out(markdown(all_verbs())));
    return 0;
  }
  const std::string name = args.has("VERB") ? args.text("VERB") : args.flag("--man") ? "help" : "";
  Json list = Json::array();
  const Verb* found = nullptr;
  std::vector<std::string_view> names;
  for (const Verb& verb : all_verbs()) {
    if (verb.name == name) found = &verb;
    names.push_back(verb.name);
    if (name.empty() || verb.name == name) list.push_back(verb_json(verb));
  }
  if (!name.empty() && found == nullptr) {
    const std::string_view near = nearest(name, names);
    return fail(ErrorCode::invalid_argument, "help: unknown verb \"{}\"{}", escape_for_display(name),
                near.empty() ? std::string() : fmt::format("; did you mean {}?", near));
  }
  std::string text;
  if (args.flag("--json")) {
    Json object = Json::object();
    object.set("schema", 1).set("verbs", std::move(list));
    text = object.dump() + "\n";
  } else {
    text = found == nullptr     ? overview(all_verbs(), style)
           : args.flag("--man") ? man_page(*found)
                                : verb_help(*found, style);
  }
  TAMIS_TRY_STATUS(print_out(text));
  return 0;
}

}  // namespace

Verb help_verb() {
  return {.name = "help",
          .summary = "lists the verbs, or explains one",
          .details = "",
          .positionals = {{.name = "VERB", .help = "the verb to explain", .is_required = false}},
          .options = {{.names = "--man", .help = "print the verb's manual page (roff), for man -l"},
                      {.names = "--markdown", .help = "print docs/cli.md"}},
          .run = run_help};
}

}  // namespace tamis::cli
