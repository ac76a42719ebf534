// `tamis inspect FILE`: what is in a GGUF file. Reads the header only, except for --hash and --diff.
#include "cli/inspect.h"

#include "base/file.h"
#include "base/log.h"
#include "cli/model_path.h"

namespace tamis::cli {
namespace {

Result<GgufFile> open_model(const std::string& name) {
  TAMIS_TRY(const std::string path, resolve_model(name));
  return GgufFile::open(path);
}

Result<int> run_diff(const Args& args) {
  const auto names = args.texts("FILE");
  if (names.size() != 2)
    return fail(ErrorCode::invalid_argument, "inspect --diff: got {} files, expected 2", names.size());
  TAMIS_TRY(const GgufFile a, open_model(names[0]));
  TAMIS_TRY(const GgufFile b, open_model(names[1]));
  TAMIS_TRY(const Difference difference, diff_files(a, b, Style::from_args(args)));
  TAMIS_TRY_STATUS(print_out(args.flag("--json") ? difference.json.dump() + "\n" : difference.text));
  return difference.n_kv + difference.n_tensors == 0 ? 0 : exit_code(ErrorCode::check_failed);
}

Result<std::string> template_text(const GgufFile& file) {
  TAMIS_TRY(const std::string_view source, file.get_string("tokenizer.chat_template"));
  return std::string(source) + (source.ends_with('\n') ? "" : "\n");
}

// What was asked for about one file, as text or as JSON.
Result<std::string> describe(const Args& args, const GgufFile& file, const Style& style) {
  const bool as_json = args.flag("--json");
  if (args.flag("--tensors")) return as_json ? tensors_json(file).dump() + "\n" : tensors_text(file, style);
  if (args.has("--kv")) {
    const std::string key = args.text("--kv");
    if (!as_json) return kv_text(file, key, style);
    TAMIS_TRY(const Json json, kv_json(file, key));
    return json.dump() + "\n";
  }
  if (args.flag("--template")) {
    if (!as_json) return template_text(file);
    TAMIS_TRY(const std::string_view source, file.get_string("tokenizer.chat_template"));
    Json out = Json::object();
    return out.set("schema", 1).set("template", source).dump() + "\n";
  }
  const ModelFacts facts = gather_facts(file);
  if (args.has("--html")) {
    TAMIS_TRY_STATUS(write_text_file(args.text("--html"), html_page(file, facts), args.flag("--force")));
    return std::string();
  }
  Hashes hashes;
  if (args.flag("--hash")) {
    TAMIS_TRY(hashes, hash_file(file));
  }
  const Hashes* shown = args.flag("--hash") ? &hashes : nullptr;
  return as_json ? summary_json(file, facts, shown).dump() + "\n" : summary_text(file, facts, shown, style);
}

Result<int> run_inspect(const Args& args) {
  if (args.flag("--diff")) return run_diff(args);
  const Style style = Style::from_args(args);
  const auto names = args.texts("FILE");
  if (args.has("--html") && names.size() != 1)
    return fail(ErrorCode::invalid_argument, "inspect --html: got {} files, expected 1", names.size());
  bool is_first = true;
  for (const std::string& name : names) {
    TAMIS_TRY(const GgufFile file, open_model(name));
    TAMIS_TRY(const std::string text, describe(args, file, style));
    if (!is_first && !args.flag("--json")) TAMIS_TRY_STATUS(print_out("\n"));
    TAMIS_TRY_STATUS(print_out(text));
    is_first = false;
  }
  return 0;
}

}  // namespace

Verb inspect_verb() {
  return {.name = "inspect",
          .summary = "shows what is in a GGUF file",
          .details =
              "Without options: identity, architecture, parameters (and those active for a token), bits per weight, "
              "types by "
              "tensor group, tokenizer and chat template. Only the header is read.\n\n"
              "Shapes are row-major, slowest first: a matrix of n_out rows and n_in columns is [n_out, n_in]. Offsets "
              "are bytes from the "
              "start of the file. Bits a weight count scales and padding of blocks; those of the whole file count its "
              "metadata too. "
              "The label is what general.file_type says; the types below it are what the tensors are.\n\n"
              "--diff compares two files: metadata by key, tensors by name, and the bytes of tensors that agree in "
              "type and shape; "
              "exit 6 when anything differs.",
          .positionals = {{.name = "FILE",
                           .help = "a GGUF file (of several shards, the first), or a model as -m takes it",
                           .is_repeatable = true}},
          .options = {{.names = "--tensors", .help = "list the tensors: name, shape, type, offset, bytes"},
                      {.names = "--kv",
                       .kind = OptionKind::text,
                       .value_name = "KEY",
                       .help = "list the metadata, or print the value of one key",
                       .is_value_optional = true},
                      {.names = "--template", .help = "print the chat template"},
                      {.names = "--hash", .help = "add SHA-256 of the file, and of the tensors alone"},
                      {.names = "--html",
                       .kind = OptionKind::text,
                       .value_name = "OUT",
                       .help = "write a page with plots, which needs nothing else"},
                      {.names = "--force", .help = "overwrite OUT"},
                      {.names = "--diff", .help = "compare two files"}},
          .run = run_inspect};
}

}  // namespace tamis::cli
