// Help texts and docs/cli.md.
#include "cli/help.h"

#include <algorithm>

#include "cli/parse.h"

namespace tamis::cli {
namespace {

constexpr size_t kHelpColumns = 100;

std::string option_rows(const std::vector<OptionSpec>& options, bool want_common, const Style& style) {
  size_t widest = 0;
  for (const OptionSpec& option : options)
    if (is_common_option(option) == want_common) widest = std::max(widest, option_heading(option).size());
  widest = std::min<size_t>(widest, 30);
  std::string out;
  for (const OptionSpec& option : options) {
    if (is_common_option(option) != want_common) continue;
    const std::string heading = option_heading(option);
    out += "  " + style.paint(Color::cyan, heading);
    out +=
        heading.size() > widest ? "\n" + std::string(widest + 4, ' ') : std::string(widest - heading.size() + 2, ' ');
    out += wrap(full_help(option), kHelpColumns, widest + 4) + "\n";
  }
  return out;
}

std::string positional_rows(const Verb& verb, const Style& style) {
  size_t widest = 0;
  for (const PositionalSpec& positional : verb.positionals) widest = std::max(widest, positional.name.size());
  std::string out;
  for (const PositionalSpec& positional : verb.positionals) {
    out += "  " + style.paint(Color::cyan, positional.name) + std::string(widest - positional.name.size() + 2, ' ');
    out += wrap(positional.help, kHelpColumns, widest + 4) + "\n";
  }
  return out;
}

std::string markdown_cell(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '|') out += '\\';
    if (c == '<') {
      out += "&lt;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string markdown_options(const std::vector<OptionSpec>& options, bool want_common) {
  std::string out = "| option | meaning |\n|---|---|\n";
  for (const OptionSpec& option : options)
    if (is_common_option(option) == want_common)
      out += fmt::format("| `{}` | {} |\n", markdown_cell(option_heading(option)), markdown_cell(full_help(option)));
  return out;
}

bool has_own_options(const Verb& verb) {
  return std::any_of(verb.options.begin(), verb.options.end(),
                     [](const OptionSpec& option) { return !is_common_option(option); });
}

}  // namespace

std::vector<std::string> paragraphs(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const size_t end = text.find("\n\n");
    std::string paragraph(text.substr(0, end));
    while (!paragraph.empty() && paragraph.back() == '\n') paragraph.pop_back();
    if (!paragraph.empty()) out.push_back(std::move(paragraph));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 2);
  }
  return out;
}

std::string full_help(const OptionSpec& option) {
  std::string notes;
  auto note = [&](std::string text) { notes += (notes.empty() ? "" : "; ") + std::move(text); };
  if (!option.default_text.empty()) note(fmt::format("default: {}", option.default_text));
  if (!option.choices.empty()) {
    std::string list;
    for (std::string_view choice : option.choices) list += fmt::format("{}{}", list.empty() ? "one of " : ", ", choice);
    note(std::move(list));
  }
  if (option.is_repeatable && option.kind != OptionKind::flag) note("may be given several times");
  return notes.empty() ? std::string(option.help) : fmt::format("{} ({})", option.help, notes);
}

std::string option_heading(const OptionSpec& option) {
  std::string out;
  for (std::string_view name : option_names(option)) out += fmt::format("{}{}", out.empty() ? "" : ", ", name);
  if (option.kind != OptionKind::flag)
    out += option.is_value_optional ? fmt::format(" [{}]", option.value_name) : fmt::format(" {}", option.value_name);
  return out;
}

const std::vector<ExitCodeRow>& exit_codes() {
  static const std::vector<ExitCodeRow> rows = {
      {"0", "all went well"},
      {"1", "an error while running"},
      {"2", "the command line is wrong"},
      {"3", "a file is bad, corrupt or not supported"},
      {"4", "it does not fit into memory or onto the disk"},
      {"5", "the network or an authentication failed"},
      {"6", "a check failed: a comparison or a threshold"},
      {"130, 143", "stopped by Ctrl-C or by a request to end"},
      {"141", "whoever read the output closed it"},
  };
  return rows;
}

std::string usage_line(const Verb& verb) {
  std::string out = fmt::format("tamis {} [options]", verb.name);
  for (const PositionalSpec& positional : verb.positionals) {
    const std::string name = fmt::format("{}{}", positional.name, positional.is_repeatable ? "..." : "");
    out += positional.is_required ? " " + name : " [" + name + "]";
  }
  return out;
}

std::string verb_help(const Verb& verb, const Style& style) {
  std::string out = fmt::format("{}: {}\n\n{} {}\n", style.bold(fmt::format("tamis {}", verb.name)), verb.summary,
                                style.bold("Usage:"), usage_line(verb));
  for (const std::string& paragraph : paragraphs(verb.details)) {
    const bool is_verbatim = paragraph.starts_with("  ");
    out += "\n" + (is_verbatim ? paragraph : wrap(paragraph, kHelpColumns, 0)) + "\n";
  }
  if (!verb.positionals.empty()) out += "\n" + style.bold("Arguments:") + "\n" + positional_rows(verb, style);
  if (has_own_options(verb)) out += "\n" + style.bold("Options:") + "\n" + option_rows(verb.options, false, style);
  out += "\n" + style.bold("Common options:") + "\n" + option_rows(verb.options, true, style);
  return out;
}

std::string overview(const std::vector<Verb>& verbs, const Style& style) {
  std::string out = style.bold("tamis") + ": inspects, verifies and runs GGUF models\n\n" + style.bold("Usage:") +
                    " tamis VERB [options] ...\n\n" + style.bold("Verbs:") + "\n";
  Table table({Align::left, Align::left});
  for (const Verb& verb : verbs) table.add({style.paint(Color::cyan, verb.name), std::string(verb.summary)});
  out += table.text();
  out += "\n" + style.bold("Exit codes:") + "\n";
  Table codes({Align::left, Align::left});
  for (const ExitCodeRow& row : exit_codes()) codes.add({std::string(row.code), std::string(row.meaning)});
  out += codes.text();
  out += "\nMore: tamis VERB --help, tamis help --man VERB. A first question: tamis run \"What is a drum sieve?\"\n";
  return out;
}

std::string markdown(const std::vector<Verb>& verbs) {
  std::string out =
      "# The command line\n\nWritten by `tamis help --markdown` from the verbs' option tables; a test fails when it "
      "drifts.\n\n"
      "stdout carries the result only; logs and progress go to stderr. An error is one line there, "
      "`tamis: FILE: byte N (0x…): what: got …, expected … [CODE]`, or one JSON object under `--json`.\n"
      "Files are written under a temporary name, synced and renamed; nothing is overwritten without `--force`.\n"
      "The names `llama-cli`, `llama-perplexity`, `llama-tokenize` and `llama-gguf-split` work as links to the "
      "program.\n\n"
      "| exit code | meaning |\n|---|---|\n";
  for (const ExitCodeRow& row : exit_codes()) out += fmt::format("| {} | {} |\n", row.code, row.meaning);
  out += "\n## Options of every verb\n\n" + markdown_options(common_options(), true);
  for (const Verb& verb : verbs) {
    out += fmt::format("\n## {}\n\n{}.\n\n```\n{}\n```\n", verb.name, verb.summary, usage_line(verb));
    for (const std::string& paragraph : paragraphs(verb.details))
      out += paragraph.starts_with("  ") ? "\n```\n" + paragraph + "\n```\n" : "\n" + paragraph + "\n";
    if (!verb.positionals.empty()) {
      out += "\n| argument | meaning |\n|---|---|\n";
      for (const PositionalSpec& positional : verb.positionals)
        out += fmt::format("| `{}` | {} |\n", positional.name, markdown_cell(positional.help));
    }
    if (has_own_options(verb)) out += "\n" + markdown_options(verb.options, false);
  }
  return out;
}

}  // namespace tamis::cli
