// `tamis run [-m MODEL] [PROMPT]`: answers and exits, or chats on a terminal.
#include "cli/run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "api/seam.h"
#include "base/file.h"
#include "base/log.h"
#include "base/utf8.h"
#include "cli/interrupt.h"
#include "cli/load_engine.h"
#include "cli/model_path.h"
#include "formats/json.h"

namespace tamis::cli {
namespace {

constexpr size_t kMaxPromptBytes = size_t{256} << 20;

Result<std::string> read_stdin() {
  std::string text;
  for (;;) {
    char chunk[65536];
    const ssize_t n = ::read(STDIN_FILENO, chunk, sizeof chunk);
    if (n < 0 && errno == EINTR && !stop_flag().load()) continue;
    if (n < 0) return fail(ErrorCode::io, "stdin: cannot be read");
    if (n == 0) break;
    text.append(chunk, static_cast<size_t>(n));
    if (text.size() > kMaxPromptBytes)
      return fail(ErrorCode::invalid_argument, "stdin: holds more than {} bytes", kMaxPromptBytes);
  }
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

// The prompt's words joined by spaces, -p, -f or piped stdin; nothing when a chat is meant.
Result<std::optional<std::string>> prompt_of(const Args& args) {
  const std::vector<std::string> words = args.texts("PROMPT");
  if (!words.empty()) {
    std::string prompt = words.front();
    for (size_t i = 1; i < words.size(); ++i) prompt += " " + words[i];
    return prompt;
  }
  if (args.has("-p")) return args.text("-p");
  if (args.has("-f")) {
    TAMIS_TRY(std::string text, read_text_file(args.text("-f"), kMaxPromptBytes));
    if (text.ends_with('\n')) text.pop_back();
    return text;
  }
  if (::isatty(STDIN_FILENO) != 0) return std::optional<std::string>();
  TAMIS_TRY(std::string text, read_stdin());
  return text;
}

Result<api::LanguageModel> load_model_of(const Args& args) {
  TAMIS_TRY_STATUS(check_unused_options(args));
  apply_huge_pages(args);
  api::ModelOptions options;
  options.backend = args.text("--backend");
  options.activations = args.text("--activations");
  options.layout = args.text("--layout");
  TAMIS_TRY(options.ram_budget_bytes, ram_budget(args));
  if (args.has("-ctk")) options.cache_type_k = args.text("-ctk");
  if (args.has("-ctv")) options.cache_type_v = args.text("-ctv");
  options.pre = args.text("--pre");
  options.trace_dir = args.text("--trace-tensors");
  options.parse_content_special = args.flag("--hf-special");
  TAMIS_TRY(options.n_threads, integer_option(args, "--threads", 0));
  TAMIS_TRY(options.n_ctx, integer_option(args, "-c", 0, 0));
  options.n_batch = static_cast<uint32_t>(args.integer("-b"));
  TAMIS_TRY(const std::string path, resolve_model(args.text("-m")));
  TAMIS_TRY(api::LanguageModel model, api::to_private(api::LanguageModel::load(path, options)));
  const api::ModelInfo info = model.info();
  for (const std::string& warning : info.warnings) log_warning("{}", warning);
  log_info("{} ({}, {} layers), context {}, {} threads", info.name.empty() ? path : info.name, info.architecture,
           info.n_layers, info.n_ctx, info.n_threads);
  return model;
}

std::string answer_json(const api::Answer& answer, const api::ModelInfo& info) {
  Json out = Json::object();
  out.set("schema", 1);
  out.set("model", info.path);
  out.set("text", answer.text);
  out.set("finish_reason", std::string(api::finish_reason_name(answer.finish)));
  out.set("context_full", answer.finish == api::FinishReason::context_full);
  out.set("n_prompt", uint64_t{answer.n_prompt});
  out.set("n_generated", uint64_t{answer.tokens.size()});
  out.set("n_drafted", uint64_t{answer.n_drafted});
  out.set("n_accepted", uint64_t{answer.n_accepted});
  out.set("seed", answer.seed);
  out.set("prompt_seconds", answer.prompt_seconds);
  out.set("first_token_seconds", answer.first_token_seconds);
  out.set("generate_seconds", answer.generate_seconds);
  return out.dump() + "\n";
}

Result<api::Answer> answer_once(const api::LanguageModel& model, const Args& args, const std::string& prompt,
                                const api::GenerateOptions& options, const api::OnText& on_text) {
  if (args.flag("--raw")) return api::to_private(model.complete(prompt, options, on_text));
  if (!model.info().has_chat_template) {
    log_warning(
        "this model has no chat template: the prompt is continued as it stands (--raw says so without this line)");
    return api::to_private(model.complete(prompt, options, on_text));
  }
  TAMIS_TRY(api::Chat chat, api::to_private(api::Chat::start(model, args.text("-sys"))));
  return api::to_private(chat.send(prompt, options, on_text));
}

Result<int> run_once(const api::LanguageModel& model, const Args& args, const std::string& prompt,
                     const api::GenerateOptions& options) {
  const bool as_json = args.flag("--json");
  TAMIS_TRY(const api::Answer answer,
            answer_once(model, args, prompt, options, as_json ? api::OnText() : api::OnText(print_piece)));
  TAMIS_TRY_STATUS(print_out(as_json ? answer_json(answer, model.info()) : "\n"));
  if (answer.finish == api::FinishReason::context_full)
    log_warning("the context of {} tokens is full; -c makes it larger", model.info().n_ctx);
  print_timings(answer);
  if (answer.finish == api::FinishReason::cancelled) return fail(ErrorCode::cancelled, "stopped");
  return 0;
}

Result<int> run_run(const Args& args) {
  TAMIS_TRY(const std::optional<std::string> prompt, prompt_of(args));
  TAMIS_TRY(api::GenerateOptions options, generate_options(args, prompt ? 0.0f : 0.8f));
  TAMIS_TRY(const api::LanguageModel model, load_model_of(args));
  options.cancel = &stop_flag();
  if (prompt) return run_once(model, args, *prompt, options);
  if (args.flag("--raw") || !model.info().has_chat_template)
    return fail(ErrorCode::invalid_argument, "{}: a PROMPT is needed{}", model.info().path,
                args.flag("--raw") ? " with --raw" : ": the model has no chat template");
  return run_chat(model, options, args.text("-sys"));
}

// What a model writes must not steer the terminal: control characters but tab and newline become U+FFFD. `text` is
// well-formed.
std::string without_controls(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t length = std::max<size_t>(1, utf8_sequence_length(text, i));
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool is_c0 = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f;
    const bool is_c1 = length == 2 && utf8_code_point(text, i, 2) < 0xa0;
    out += is_c0 || is_c1 ? std::string_view("\xef\xbf\xbd") : text.substr(i, length);
    i += length;
  }
  return out;
}

}  // namespace

api::Status print_piece(std::string_view text) {
  static const bool is_terminal = ::isatty(STDOUT_FILENO) != 0;
  return api::to_public(print_out(is_terminal ? without_controls(text) : std::string(text)));
}

void print_timings(const api::Answer& answer) {
  const auto rate = [](size_t n, double seconds) { return seconds > 0 ? static_cast<double>(n) / seconds : 0.0; };
  log_info(
      "prompt {} tokens ({} reused), {:.1f} tokens/s; first token after {:.2f} s; generated {} tokens, {:.1f} "
      "tokens/s ({} of {} guessed); seed {}",
      answer.n_prompt, answer.n_cached, rate(answer.n_prompt - answer.n_cached, answer.prompt_seconds),
      answer.first_token_seconds, answer.tokens.size(), rate(answer.tokens.size(), answer.generate_seconds),
      answer.n_accepted, answer.n_drafted, answer.seed);
}

Verb run_verb() {
  return {
      .name = "run",
      .summary = "answer a prompt, or chat",
      .details =
          "With a PROMPT (or -p, -f, or text piped in) the model answers it and the program exits. Without one, on a "
          "terminal, it is a "
          "chat; /help lists its commands, and Ctrl-C stops an answer.\n\n"
          "The prompt is a user's message under the model's chat template, unless --raw is given or the model has "
          "none: then the "
          "text is continued as it stands. When the context is full the answer ends (finish reason \"length\"); "
          "nothing is shifted "
          "out. An empty prompt is an empty message, or with --raw the BOS token alone.",
      .positionals = {{.name = "PROMPT",
                       .help = "what to answer; several words are joined",
                       .is_required = false,
                       .is_repeatable = true}},
      .options = model_options() +
                 std::vector<OptionSpec>{
                     {.names = "-p,--prompt", .kind = OptionKind::text, .value_name = "TEXT", .help = "the prompt"},
                     {.names = "-f,--file",
                      .kind = OptionKind::text,
                      .value_name = "FILE",
                      .help = "a file that holds the prompt"},
                     {.names = "-sys,--system-prompt",
                      .kind = OptionKind::text,
                      .value_name = "TEXT",
                      .help = "the system message"},
                     {.names = "--raw", .help = "no chat template: continue the prompt as it stands"},
                     context_option("context, tokens; default: what the model was trained for, at most 4096"),
                     batch_option()} +
                 generate_option_specs(),
      .run = run_run,
  };
}

}  // namespace tamis::cli
