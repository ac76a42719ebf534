// `tamis tokenize`: text to token ids and back, with a model's own vocabulary.
#include <unistd.h>

#include <charconv>

#include "base/file.h"
#include "cli/model_path.h"
#include "cli/verb.h"
#include "formats/gguf.h"
#include "formats/json.h"
#include "text/tokenizer.h"

namespace tamis::cli {
namespace {

constexpr uint64_t kMaxTextBytes = uint64_t{1} << 30;
constexpr std::string_view kTextEnd = "\n__ggml_vocab_test__\n";

std::string ids_line(const std::vector<TokenId>& ids) {
  std::string out;
  for (TokenId id : ids) out += fmt::format("{}{}", out.empty() ? "" : " ", id);
  return out + "\n";
}

std::string ids_json(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  Json id_list = Json::array(), pieces = Json::array();
  for (TokenId id : ids) {
    id_list.push_back(int64_t{id});
    pieces.push_back(tokenizer.token_bytes(id, true));
  }
  Json out = Json::object();
  return out.set("schema", 1).set("ids", std::move(id_list)).set("pieces", std::move(pieces)).dump() + "\n";
}

std::string ids_text(const Args& args, const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  return args.flag("--json") ? ids_json(tokenizer, ids) : ids_line(ids);
}

// The texts of a file in which each ends by kTextEnd; an empty rest is no text.
std::vector<std::string_view> texts_of(std::string_view content) {
  std::vector<std::string_view> out;
  for (size_t end = content.find(kTextEnd); end != std::string_view::npos; end = content.find(kTextEnd)) {
    out.push_back(content.substr(0, end));
    content.remove_prefix(end + kTextEnd.size());
  }
  if (!content.empty()) out.push_back(content);
  return out;
}

// Numbers between any of space, comma, brackets and line ends.
Result<std::vector<TokenId>> parse_ids(std::string_view text, size_t n_vocab) {
  constexpr std::string_view kBetween = " \t\r\n,[]";
  std::vector<TokenId> out;
  for (size_t at = text.find_first_not_of(kBetween); at != std::string_view::npos;
       at = text.find_first_not_of(kBetween, at)) {
    const size_t end = std::min(text.find_first_of(kBetween, at), text.size());
    TokenId id = 0;
    const auto [stop, error] = std::from_chars(text.data() + at, text.data() + end, id);
    if (error != std::errc() || stop != text.data() + end || id < 0 || static_cast<size_t>(id) >= n_vocab)
      return fail(ErrorCode::invalid_argument, "tokenize --decode: got \"{}\", expected an id from 0 to {}",
                  escape_for_display(text.substr(at, end - at)), n_vocab == 0 ? 0 : n_vocab - 1);
    out.push_back(id);
    at = end;
  }
  return out;
}

Result<std::string> input_text(const Args& args) {
  if (args.has("TEXT")) return args.text("TEXT");
  if (args.has("--prompt")) return args.text("--prompt");
  if (args.has("--file")) return read_text_file(args.text("--file"), kMaxTextBytes);
  if (::isatty(STDIN_FILENO) == 1 && !args.flag("--stdin"))
    return fail(ErrorCode::invalid_argument, "tokenize: TEXT is missing (see tamis tokenize --help)");
  return read_text_file("/dev/stdin", kMaxTextBytes);
}

Status decode_ids(const Args& args, const Tokenizer& tokenizer) {
  TAMIS_TRY(const std::string text, input_text(args));
  TAMIS_TRY(const auto ids, parse_ids(text, tokenizer.n_vocab()));
  const std::string decoded = tokenizer.decode(ids, !args.flag("--hide-special"));
  if (!args.flag("--json")) return print_out(decoded + (::isatty(STDOUT_FILENO) == 1 ? "\n" : ""));
  Json out = Json::object();
  return print_out(out.set("schema", 1).set("text", decoded).dump() + "\n");
}

Status tokenize_texts(const Args& args, const Tokenizer& tokenizer) {
  TAMIS_TRY(const std::string content, read_text_file(args.text("--inp"), kMaxTextBytes));
  std::string out;
  for (std::string_view text : texts_of(content)) out += ids_text(args, tokenizer, tokenizer.encode(text));
  return print_out(out);
}

Result<int> run_tokenize(const Args& args) {
  TAMIS_TRY(const std::string path, resolve_model(args.text("--model")));
  TAMIS_TRY(const GgufFile file, GgufFile::open(path));
  auto tokenizer = Tokenizer::from_gguf(file, {.pre = args.text("--pre")});
  if (!tokenizer) return tl::unexpected<Error>(with_file(tokenizer.error(), path));
  if (args.flag("--decode")) {
    TAMIS_TRY_STATUS(decode_ids(args, **tokenizer));
  } else if (args.has("--inp")) {
    TAMIS_TRY_STATUS(tokenize_texts(args, **tokenizer));
  } else {
    TAMIS_TRY(const std::string text, input_text(args));
    const EncodeOptions options{.add_special = !args.flag("--no-bos"),
                                .parse_special = !args.flag("--no-parse-special")};
    TAMIS_TRY_STATUS(print_out(ids_text(args, **tokenizer, (*tokenizer)->encode(text, options))));
  }
  return 0;
}

}  // namespace

Verb tokenize_verb() {
  return {
      .name = "tokenize",
      .summary = "turns text into token ids, or ids into text",
      .details =
          "Prints the ids on one line. BOS and EOS are added as the model says, and special tokens spelled out in the "
          "text become those "
          "tokens, unless the options below say otherwise. Without TEXT, -p or -f it reads stdin.\n\n"
          "--decode takes ids (separated by spaces, commas or line ends) and prints exactly their bytes.\n\n"
          "--inp reads a file of texts, each ended by a line __ggml_vocab_test__, and prints one line of ids for each; "
          "nothing is "
          "added and nothing is parsed.",
      .positionals = {{.name = "TEXT", .help = "the text; with --decode, the ids", .is_required = false}},
      .options =
          {{.names = "-m,--model",
            .kind = OptionKind::text,
            .value_name = "MODEL",
            .help = "a GGUF file (a vocabulary will do), USER/REPO[:QUANT], or a cached model; default: "
                    "SmolLM2-135M-Instruct"},
           {.names = "-p,--prompt",
            .kind = OptionKind::text,
            .value_name = "TEXT",
            .help = "the text, as llama-tokenize takes it"},
           {.names = "-f,--file", .kind = OptionKind::text, .value_name = "FILE", .help = "read the text from FILE"},
           {.names = "--stdin", .help = "read the text from stdin, even from a terminal"},
           {.names = "--decode", .help = "ids to text"},
           {.names = "--hide-special", .help = "with --decode: leave control tokens out"},
           {.names = "--inp", .kind = OptionKind::text, .value_name = "FILE", .help = "tokenize each text of FILE"},
           {.names = "--no-bos", .help = "add no BOS and no EOS"},
           {.names = "--no-parse-special", .help = "special tokens in the text are plain text"},
           {.names = "--pre",
            .kind = OptionKind::text,
            .value_name = "NAME",
            .help = "pre-tokenizer to use in place of the one the file names"}},
      .run = run_tokenize};
}

}  // namespace tamis::cli
