// Manual pages in man(7) macros.
#include "cli/help.h"
#include "cli/parse.h"

namespace tamis::cli {
namespace {

// Escapes what roff would read as a request or an escape.
std::string roff(std::string_view text) {
  std::string out;
  bool is_line_start = true;
  for (char c : text) {
    if (is_line_start && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
    is_line_start = c == '\n';
  }
  return out;
}

std::string heading(const OptionSpec& option) {
  std::string out;
  for (std::string_view name : option_names(option))
    out += fmt::format("{}\\fB{}\\fR", out.empty() ? "" : ", ", roff(name));
  if (option.kind != OptionKind::flag) out += fmt::format(" \\fI{}\\fR", roff(option.value_name));
  return out;
}

}  // namespace

std::string man_page(const Verb& verb) {
  std::string name(verb.name), upper;
  for (char c : name) upper += static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
  std::string out = fmt::format(".TH TAMIS\\-{} 1 \"\" \"tamis\" \"tamis manual\"\n.SH NAME\ntamis\\-{} \\- {}\n",
                                roff(upper), roff(name), roff(verb.summary));
  out += fmt::format(".SH SYNOPSIS\n\\fB{}\\fR\n.SH DESCRIPTION\n{}.\n", roff(usage_line(verb)), roff(verb.summary));
  for (const std::string& paragraph : paragraphs(verb.details))
    out += paragraph.starts_with("  ") ? ".PP\n.nf\n" + roff(paragraph) + "\n.fi\n" : ".PP\n" + roff(paragraph) + "\n";
  if (!verb.positionals.empty()) out += ".SH ARGUMENTS\n";
  for (const PositionalSpec& positional : verb.positionals)
    out += fmt::format(".TP\n\\fI{}\\fR\n{}\n", roff(positional.name), roff(positional.help));
  out += ".SH OPTIONS\n";
  for (const OptionSpec& option : verb.options)
    out += fmt::format(".TP\n{}\n{}\n", heading(option), roff(full_help(option)));
  out += ".SH EXIT STATUS\n";
  for (const ExitCodeRow& row : exit_codes()) out += fmt::format(".TP\n\\fB{}\\fR\n{}\n", row.code, roff(row.meaning));
  out +=
      ".SH ENVIRONMENT\n.TP\n\\fBNO_COLOR\\fR\nno colours unless \\-\\-color always\n"
      ".TP\n\\fBTAMIS_CPU_TARGET\\fR\nforces one CPU target; the only variable that changes results\n"
      ".TP\n\\fBHF_HOME, HF_HUB_CACHE, HF_ENDPOINT, HF_TOKEN\\fR\nwhere models are cached, fetched from, and with "
      "which token\n";
  return out;
}

}  // namespace tamis::cli
