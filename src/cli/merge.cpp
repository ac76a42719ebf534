// `tamis merge FIRST_SHARD OUT`: the shards of one model into one file.
#include <fmt/format.h>

#include "base/progress.h"
#include "cli/interrupt.h"
#include "cli/verb.h"
#include "convert/split.h"
#include "formats/json.h"

namespace tamis::cli {
namespace {

Result<int> run_merge(const Args& args) {
  TAMIS_TRY(const GgufFile file, GgufFile::open(args.text("FIRST_SHARD")));
  const std::string out_path = args.text("OUT");
  const bool is_dry = args.flag("--dry-run");
  uint64_t total = 0;
  for (const GgufTensor& tensor : file.tensors()) total += tensor.size_bytes;
  if (!is_dry) {
    Progress progress("merge", ProgressUnit::bytes, total);
    TAMIS_TRY_STATUS(merge_shards(
        file, out_path, args.flag("--force"), [&](uint64_t n_bytes) { progress.advance(n_bytes); }, &stop_flag()));
  }
  if (args.flag("--json")) {
    Json out = Json::object();
    out.set("schema", 1).set("dry_run", is_dry).set("path", out_path).set("n_shards", Json(uint64_t{file.n_shards()}));
    out.set("n_tensors", Json(uint64_t{file.tensors().size()})).set("data_bytes", Json(total));
    TAMIS_TRY_STATUS(print_out(out.dump() + "\n"));
    return 0;
  }
  TAMIS_TRY_STATUS(print_out(fmt::format("{}{}: {} tensors of {} shards, {}\n", is_dry ? "would write " : "", out_path,
                                         file.tensors().size(), file.n_shards(), human_bytes(total))));
  return 0;
}

}  // namespace

Verb merge_verb() {
  return {
      .name = "merge",
      .summary = "puts the shards of one GGUF model into one file",
      .details =
          "Any shard names the set; all must lie in its directory. The result holds the metadata of the first shard "
          "without its split.* keys, and every "
          "tensor byte for byte.",
      .positionals = {{.name = "FIRST_SHARD", .help = "any shard of the set"},
                      {.name = "OUT", .help = "the file to write"}},
      .options = {{.names = "--force", .help = "overwrite a file that exists"},
                  {.names = "--dry-run", .help = "say what would be written"}},
      .run = run_merge,
  };
}

}  // namespace tamis::cli
