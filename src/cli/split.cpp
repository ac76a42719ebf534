// `tamis split IN OUT_PREFIX`: one GGUF file into shards, tensors copied byte for byte.
#include "convert/split.h"

#include <fmt/format.h>

#include "base/progress.h"
#include "cli/interrupt.h"
#include "cli/verb.h"
#include "formats/json.h"

namespace tamis::cli {
namespace {

constexpr int64_t kDefaultMaxTensors = 128;  // gguf-split's

Result<SplitOptions> split_options(const Args& args) {
  SplitOptions options;
  options.is_overwriting = args.flag("--force");
  options.is_first_without_tensors = args.flag("--no-tensor-first-split");
  if (args.has("--max-size")) {
    TAMIS_TRY(options.max_data_bytes, parse_size(args.text("--max-size")));
  }
  if (args.has("--max-tensors")) options.max_tensors = static_cast<uint64_t>(args.integer("--max-tensors"));
  if (!args.has("--max-size") && !args.has("--max-tensors")) options.max_tensors = kDefaultMaxTensors;
  return options;
}

std::string as_text(const std::vector<ShardPlan>& plan, bool is_dry) {
  std::string out;
  for (const ShardPlan& shard : plan)
    out += fmt::format("{}{}: {} tensors, {}\n", is_dry ? "would write " : "", shard.path, shard.tensors.size(),
                       human_bytes(shard.data_bytes));
  return out;
}

std::string as_json(const std::vector<ShardPlan>& plan, bool is_dry) {
  Json shards = Json::array();
  for (const ShardPlan& shard : plan) {
    Json row = Json::object();
    shards.push_back(row.set("path", shard.path)
                         .set("n_tensors", Json(uint64_t{shard.tensors.size()}))
                         .set("data_bytes", Json(shard.data_bytes)));
  }
  Json out = Json::object();
  out.set("schema", 1).set("dry_run", is_dry).set("shards", std::move(shards));
  return out.dump() + "\n";
}

Result<int> run_split(const Args& args) {
  TAMIS_TRY(const SplitOptions options, split_options(args));
  TAMIS_TRY(const GgufFile file, GgufFile::open(args.text("IN")));
  TAMIS_TRY(const auto plan, plan_split(file, args.text("OUT_PREFIX"), options));
  const bool is_dry = args.flag("--dry-run");
  if (!is_dry) {
    uint64_t total = 0;
    for (const GgufTensor& tensor : file.tensors()) total += tensor.size_bytes;
    Progress progress("split", ProgressUnit::bytes, total);
    TAMIS_TRY_STATUS(write_split(
        file, plan, options, [&](uint64_t n_bytes) { progress.advance(n_bytes); }, &stop_flag()));
  }
  TAMIS_TRY_STATUS(print_out(args.flag("--json") ? as_json(plan, is_dry) : as_text(plan, is_dry)));
  return 0;
}

}  // namespace

Verb split_verb() {
  return {
      .name = "split",
      .summary = "cuts a GGUF file into shards",
      .details =
          "Writes OUT_PREFIX-00001-of-0000N.gguf and so on. The first shard holds all metadata; tensors keep their "
          "order and their bytes. A "
          "tensor larger than the bound has a shard of its own. Given a shard, the whole set is split anew. tamis "
          "merge undoes it.",
      .positionals = {{.name = "IN", .help = "a GGUF file, or any shard of a set"},
                      {.name = "OUT_PREFIX", .help = "path of the shards up to -00001-of-"}},
      .options = {{.names = "--max-tensors,--split-max-tensors",
                   .kind = OptionKind::integer,
                   .value_name = "N",
                   .help = "most tensors of one shard; 128 when no bound is given",
                   .minimum = 1},
                  {.names = "--max-size,--split-max-size",
                   .kind = OptionKind::text,
                   .value_name = "SIZE",
                   .help = "most bytes of tensor data in one shard: 300M, 2G (powers of 1000)"},
                  {.names = "--no-tensor-first-split", .help = "a first shard with metadata only"},
                  {.names = "--force", .help = "overwrite files that exist"},
                  {.names = "--dry-run", .help = "say what would be written"}},
      .run = run_split,
  };
}

}  // namespace tamis::cli
