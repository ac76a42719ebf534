// `tamis logits -m M --ids 1,2,3 -o F.npy`: next-token logits after every token, as float32 [n_ids, n_vocab]. For tests
// and comparisons: nothing is added to the ids.
#include <fmt/format.h>

#include <charconv>

#include "base/file.h"
#include "base/progress.h"
#include "cli/load_engine.h"
#include "engine/session.h"
#include "formats/json.h"
#include "formats/npy.h"

namespace tamis::cli {
namespace {

Result<std::vector<TokenId>> parse_ids(std::string_view text) {
  std::vector<TokenId> ids;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find_first_of(", \n", begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    begin = end + 1;
    if (word.empty()) continue;
    TokenId id = 0;
    const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || rest != word.data() + word.size() || id < 0)
      return fail(ErrorCode::invalid_argument, "--ids: got \"{}\", expected token ids separated by commas",
                  escape_for_display(word));
    ids.push_back(id);
  }
  if (ids.empty()) return fail(ErrorCode::invalid_argument, "--ids: got no ids, expected at least one");
  return ids;
}

Result<int> run_logits(const Args& args) {
  TAMIS_TRY(const std::vector<TokenId> ids, parse_ids(args.text("--ids")));
  const std::string out_path = args.text("-o");
  if (file_exists(out_path) && !args.flag("--force"))
    return fail(ErrorCode::invalid_argument, "{} exists; --force overwrites it", out_path);
  EngineOptions options;
  options.n_ctx = static_cast<uint32_t>(ids.size());
  options.n_batch = static_cast<uint32_t>(args.integer("-b"));
  options.has_tokenizer = false;
  TAMIS_TRY(const LoadedEngine loaded, load_engine(args, options));
  const uint32_t n_vocab = loaded.engine->model().n_vocab();
  TAMIS_TRY(NpyWriter writer, NpyWriter::create(out_path, ids.size(), n_vocab, args.flag("--force")));
  Session session(loaded.engine);
  Progress progress("logits", ProgressUnit::tokens, ids.size());
  TAMIS_TRY_STATUS(session.append_all(ids, 0, [&](size_t first_token, std::span<const float> rows) {
    progress.set(first_token + rows.size() / n_vocab);
    return writer.write_rows(rows);
  }));
  TAMIS_TRY_STATUS(writer.commit());
  if (args.flag("--json")) {
    Json out = Json::object();
    out.set("schema", 1);
    out.set("file", out_path);
    out.set("n_ids", uint64_t{ids.size()});
    out.set("n_vocab", n_vocab);
    out.set("backend", std::string(loaded.engine->backend_name()));
    TAMIS_TRY_STATUS(print_out(out.dump() + "\n"));
  }
  return 0;
}

}  // namespace

Verb logits_verb() {
  return {
      .name = "logits",
      .summary = "write the next-token logits after every given token",
      .details =
          "The output is a float32 .npy array [n_ids, n_vocab]; row i holds the logits after ids[0 … i]. No BOS is "
          "added.",
      .positionals = {},
      .options = model_options() + std::vector<OptionSpec>{{.names = "--ids",
                                                            .kind = OptionKind::text,
                                                            .value_name = "IDS",
                                                            .help = "token ids, separated by commas"},
                                                           {.names = "-o,--output",
                                                            .kind = OptionKind::text,
                                                            .value_name = "FILE",
                                                            .help = "the .npy file to write",
                                                            .default_text = "logits.npy"},
                                                           batch_option(),
                                                           {.names = "--force", .help = "overwrite FILE"}},
      .run = run_logits,
  };
}

}  // namespace tamis::cli
