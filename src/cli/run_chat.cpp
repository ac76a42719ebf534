// The chat of `tamis run` on a terminal: reads lines, obeys commands, streams answers.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "api/seam.h"
#include "base/file.h"
#include "cli/interrupt.h"
#include "cli/run.h"

namespace tamis::cli {
namespace {

constexpr uint64_t kMaxChatBytes = uint64_t{64} << 20;

constexpr std::string_view kHelp =
    "  /help             this list\n"
    "  /set [NAME VALUE] show or change a setting: /set temp 0.5\n"
    "  /system [TEXT]    show or change the system message\n"
    "  /save FILE        write the conversation as JSON\n"
    "  /load FILE        read one back\n"
    "  /clear            forget the conversation\n"
    "  /bye              leave (or Ctrl-D)\n"
    "  \"\"\"               begins and ends a message of several lines\n"
    "Ctrl-C stops an answer; at the prompt, twice, it leaves.\n";

enum class Input { line, interrupted, end };

// Lines from the terminal, by poll(2) and read(2): iostreams would not let a signal end the wait.
class LineReader {
 public:
  Input read(std::string& line) {
    for (;;) {
      if (const size_t newline = held_.find('\n'); newline != std::string::npos) {
        line = held_.substr(0, newline);
        held_.erase(0, newline + 1);
        if (line.ends_with('\r')) line.pop_back();
        return Input::line;
      }
      if (!wait_for_input()) {
        held_.clear();
        return Input::interrupted;
      }
      char chunk[4096];
      const ssize_t n = ::read(STDIN_FILENO, chunk, sizeof chunk);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        line = std::exchange(held_, {});
        return line.empty() ? Input::end : Input::line;
      }
      held_.append(chunk, static_cast<size_t>(n));
    }
  }

 private:
  // False when the user pressed Ctrl-C. Looks at the flag every so often: a signal that comes just before the wait does
  // not end it.
  static bool wait_for_input() {
    constexpr int kLookMs = 100;
    for (;;) {
      if (stop_flag().load()) return false;
      pollfd entry{STDIN_FILENO, POLLIN, 0};
      if (::poll(&entry, 1, kLookMs) > 0) return true;
    }
  }

  std::string held_;
};

class ChatLoop {
 public:
  ChatLoop(api::Chat chat, const api::LanguageModel& model, api::GenerateOptions options)
      : chat_(std::move(chat)), model_(model), options_(std::move(options)) {}

  Result<int> run() {
    TAMIS_TRY_STATUS(print_out(fmt::format("{}: /help for commands, /bye to leave\n", title())));
    bool was_interrupted = false;
    for (;;) {
      TAMIS_TRY_STATUS(print_out("> "));
      std::string text;
      const Input input = read_message(text);
      if (input == Input::end) {
        TAMIS_TRY_STATUS(print_out("\n"));
        return 0;
      }
      if (input == Input::interrupted) {
        if (was_interrupted) return fail(ErrorCode::cancelled, "interrupted");
        was_interrupted = true;
        clear_stop_flag();
        TAMIS_TRY_STATUS(print_out("\n(Ctrl-C again, /bye or Ctrl-D leaves)\n"));
        continue;
      }
      was_interrupted = false;
      if (text.empty()) continue;
      if (text == "/bye" || text == "/exit" || text == "/quit") return 0;
      TAMIS_TRY_STATUS(text.front() == '/' ? command(text) : answer(text));
    }
  }

 private:
  std::string title() const {
    const api::ModelInfo info = model_.info();
    return info.name.empty() ? info.path : info.name;
  }

  // One line, or everything between two """.
  Input read_message(std::string& text) {
    const Input input = reader_.read(text);
    if (input != Input::line || !text.starts_with("\"\"\"")) return input;
    text.erase(0, 3);
    while (!text.ends_with("\"\"\"")) {
      if (const Status printed = print_out(". "); !printed) return Input::end;
      std::string line;
      if (const Input more = reader_.read(line); more != Input::line) return more;
      text += (text.empty() ? "" : "\n") + line;
    }
    text.resize(text.size() - 3);
    return Input::line;
  }

  // Errors of one turn are told and the chat goes on; only a broken stdout ends it.
  Status answer(const std::string& text) {
    api::Status printed;
    const auto print = [&](std::string_view piece) {
      printed = print_piece(piece);
      return printed;
    };
    const api::Result<api::Answer> result = chat_.send(text, options_, print);
    TAMIS_TRY_STATUS(api::to_private(std::move(printed)));
    if (!result) return print_out(fmt::format("\n({})\n", result.error().to_string()));
    clear_stop_flag();
    std::string_view note;
    if (result->finish == api::FinishReason::cancelled) note = " (stopped)";
    if (result->finish == api::FinishReason::context_full)
      note = " (the context is full: /clear, or start with a larger -c)";
    TAMIS_TRY_STATUS(print_out(fmt::format("{}\n\n", note)));
    print_timings(*result);
    return {};
  }

  Status command(std::string_view text) {
    const size_t space = std::min(text.find(' '), text.size());
    const std::string_view name = text.substr(0, space);
    std::string_view rest = text.substr(space);
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    const Status done = obey(name, std::string(rest));
    if (!done && done.error().code == ErrorCode::io && done.error().site && done.error().site->file == "stdout")
      return done;
    return done ? Status{} : print_out(fmt::format("({})\n", done.error().to_string()));
  }

  Status obey(std::string_view name, const std::string& rest) {
    if (name == "/help" || name == "/?") return print_out(kHelp);
    if (name == "/clear") {
      chat_.clear();
      return print_out("(forgotten)\n");
    }
    if (name == "/set") return set(rest);
    if (name == "/system") return system(rest);
    if (name == "/save" || name == "/load") {
      if (rest.empty()) return fail(ErrorCode::invalid_argument, "{} needs a file name", name);
      return name == "/save" ? save(rest) : load(rest);
    }
    return fail(ErrorCode::invalid_argument, "unknown command {}; /help lists them", escape_for_display(name));
  }

  Status set(const std::string& rest) {
    if (rest.empty()) return print_out(option_list(options_));
    const size_t space = rest.find(' ');
    if (space == std::string::npos) return fail(ErrorCode::invalid_argument, "/set NAME VALUE");
    return set_option(options_, rest.substr(0, space), rest.substr(rest.find_first_not_of(' ', space)));
  }

  Status system(const std::string& rest) {
    if (!rest.empty()) {
      chat_.set_system(rest);
      return {};
    }
    const std::vector<api::Message>& messages = chat_.messages();
    const bool has_system = !messages.empty() && messages.front().role == "system";
    return print_out(has_system ? messages.front().content + "\n" : "(none of yours; the template may have its own)\n");
  }

  Status save(const std::string& path) {
    TAMIS_TRY_STATUS(write_text_file(path, chat_.to_json(), false));
    return print_out(fmt::format("({} messages written to {})\n", chat_.messages().size(), path));
  }

  Status load(const std::string& path) {
    TAMIS_TRY(const std::string text, read_text_file(path, kMaxChatBytes));
    TAMIS_TRY_STATUS(api::to_private(chat_.from_json(text)));
    return print_out(fmt::format("({} messages)\n", chat_.messages().size()));
  }

  api::Chat chat_;
  const api::LanguageModel& model_;
  api::GenerateOptions options_;
  LineReader reader_;
};

}  // namespace

Result<int> run_chat(const api::LanguageModel& model, api::GenerateOptions options, std::string_view system) {
  TAMIS_TRY(api::Chat chat, api::to_private(api::Chat::start(model, system)));
  return ChatLoop(std::move(chat), model, std::move(options)).run();
}

}  // namespace tamis::cli
