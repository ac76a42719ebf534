// The program around a verb: dispatch, common options, the exception seam, errors and exit codes.
#include "cli/program.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <new>
#include <vector>

#include "base/log.h"
#include "base/progress.h"
#include "cli/help.h"
#include "cli/interrupt.h"
#include "cli/parse.h"
#include "cli/verb.h"
#include "formats/json.h"

namespace tamis::cli {
namespace {

// The tag of the error for a reader that went away: ends the program without a word.
constexpr std::string_view kClosedPipe = "E_CLOSED_PIPE";
constexpr int kClosedPipeExit = 141;

// Names of llama.cpp's programs, and the verb each stands for.
constexpr std::pair<std::string_view, std::string_view> kProgramNames[] = {
    {"llama-cli", "run"},           {"llama-quantize", "quantize"},
    {"llama-imatrix", "imatrix"},   {"llama-perplexity", "perplexity"},
    {"llama-bench", "bench"},       {"llama-server", "serve"},
    {"llama-tokenize", "tokenize"}, {"llama-gguf-split", "split"},
};

const Verb* find_verb(std::string_view name) {
  for (const Verb& verb : all_verbs())
    if (verb.name == name) return &verb;
  return nullptr;
}

void write_stderr(std::string_view text) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
}

int report(const Error& error, bool as_json) {
  if (error.site && error.site->tag == kClosedPipe) return kClosedPipeExit;
  if (error.code == ErrorCode::cancelled && interrupted_exit_code() != 0) return interrupted_exit_code();
  print_error(error, as_json);
  return exit_code(error.code);
}

void apply_common_options(const Args& args) {
  const size_t n_verbose = args.texts("--verbose").size();
  set_log_level(args.flag("--quiet") ? LogLevel::quiet
                : n_verbose == 0     ? LogLevel::warning
                : n_verbose == 1     ? LogLevel::info
                                     : LogLevel::debug);
  set_progress_enabled(!args.flag("--quiet") && !args.flag("--no-progress"));
}

// The verb seam: the only exceptions that may arrive here are std::bad_alloc and what a foreign library threw past its
// own seam.
Result<int> run_verb(const Verb& verb, const Args& args) {
  try {
    return verb.run(args);
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::out_of_memory, "{}: an allocation failed", verb.name);
  } catch (const std::exception& exception) {
    return fail(ErrorCode::internal, "{}: {}", verb.name, exception.what());
  }
}

int run_parsed(const Verb& verb, const std::vector<std::string>& arguments, bool as_json) {
  const auto args = parse_args(verb, arguments);
  if (!args) return report(args.error(), as_json);
  apply_common_options(*args);
  if (args->flag("--help")) {
    const Status printed = print_out(verb_help(verb, Style::from_args(*args)));
    return printed ? 0 : report(printed.error(), as_json);
  }
  const Result<int> code = run_verb(verb, *args);
  if (!code) return report(code.error(), args->flag("--json"));
  return *code;
}

// `llama-gguf-split --merge IN OUT` and the like: a flag of theirs names the verb.
std::string take_gguf_split_mode(std::vector<std::string>& arguments) {
  std::string verb = "split";
  std::erase_if(arguments, [&](const std::string& word) {
    if (word == "--merge") verb = "merge";
    return word == "--merge" || word == "--split";
  });
  return verb;
}

int unknown_verb(std::string_view name, bool as_json) {
  std::vector<std::string_view> names;
  for (const Verb& verb : all_verbs()) names.push_back(verb.name);
  const std::string_view near = nearest(name, names);
  const std::string hint = near.empty() ? std::string() : fmt::format("; did you mean {}?", near);
  return report(
      Error{ErrorCode::invalid_argument,
            fmt::format("unknown verb \"{}\"{} (tamis help lists them)", escape_for_display(name), hint), nullptr},
      as_json);
}

int dispatch(std::string_view program, std::vector<std::string> arguments) {
  const bool as_json = std::find(arguments.begin(), arguments.end(), "--json") != arguments.end();
  program = program.substr(program.rfind('/') + 1);
  for (const auto& [name, verb] : kProgramNames) {
    if (program != name) continue;
    const std::string wanted = name == "llama-gguf-split" ? take_gguf_split_mode(arguments) : std::string(verb);
    if (name == "llama-quantize") arguments.insert(arguments.begin(), "--stock-name");
    const Verb* found = find_verb(wanted);
    return found == nullptr ? unknown_verb(wanted, as_json) : run_parsed(*found, arguments, as_json);
  }
  if (arguments.empty()) {
    write_stderr(overview(all_verbs(), Style(false)));
    return exit_code(ErrorCode::invalid_argument);
  }
  std::string name = arguments.front();
  arguments.erase(arguments.begin());
  if (name == "--version") {
    const Status printed = print_out(fmt::format("tamis {}\n", kVersion));
    return printed ? 0 : report(printed.error(), as_json);
  }
  if (name == "--help" || name == "-h") name = "help";
  // "bench serve" is the verb bench-serve.
  if (!arguments.empty() && find_verb(name + "-" + arguments.front()) != nullptr) {
    name += "-" + arguments.front();
    arguments.erase(arguments.begin());
  }
  const Verb* verb = find_verb(name);
  return verb == nullptr ? unknown_verb(name, as_json) : run_parsed(*verb, arguments, as_json);
}

}  // namespace

Status print_out(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      ErrorSite site;
      site.file = "stdout";
      site.got = std::strerror(errno);
      if (errno == EPIPE) site.tag = kClosedPipe;
      return fail_at(ErrorCode::io, std::move(site));
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

void print_error(const Error& error, bool as_json) {
  if (!as_json) {
    std::string line = "tamis: " + error.to_string();
    std::replace(line.begin(), line.end(), '\n', ' ');
    write_stderr(line + "\n");
    return;
  }
  Json details = Json::object();
  details.set("code", error_code_name(error.code))
      .set("exit_code", exit_code(error.code))
      .set("message", error.message);
  if (error.site) {
    const ErrorSite& site = *error.site;
    if (!site.file.empty()) details.set("file", site.file);
    if (site.has_offset) details.set("byte_offset", Json(site.byte_offset));
    if (!site.section.empty()) details.set("section", site.section);
    if (site.index >= 0) details.set("index", site.index);
    if (!site.subject.empty()) details.set("subject", site.subject);
    if (!site.got.empty()) details.set("got", site.got);
    if (!site.expected.empty()) details.set("expected", site.expected);
    if (!site.tag.empty()) details.set("tag", site.tag);
  }
  Json object = Json::object();
  object.set("schema", 1).set("error", std::move(details));
  write_stderr(object.dump() + "\n");
}

int run_program(int argc, char** argv) {
  install_signal_handlers();
  try {
    return dispatch(argc > 0 ? argv[0] : "tamis", std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
  } catch (const std::bad_alloc&) {
    write_stderr("tamis: an allocation failed [out_of_memory]\n");
    return exit_code(ErrorCode::out_of_memory);
  }
}

}  // namespace tamis::cli
