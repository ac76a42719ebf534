// `tamis pull USER/REPO[:QUANT]`: a model from the hub into the Hugging Face cache.
#include "base/env.h"
#include "base/log.h"
#include "base/progress.h"
#include "cli/hub.h"
#include "cli/verb.h"
#include "formats/json.h"

namespace tamis::cli {
namespace {

Status pull_one(const Args& args, const std::string& text) {
  TAMIS_TRY(const HubName name, parse_hub_name(text));
  const std::string revision = args.text("--revision");
  if (!is_safe_file_name(revision))
    return fail(ErrorCode::invalid_argument, "--revision: \"{}\" is no revision", escape_for_display(revision));
  TAMIS_TRY(const HubListing listing, fetch_listing(name, revision));
  TAMIS_TRY(const auto files, choose_files(listing, name, args.text("--file")));
  const bool is_dry = args.flag("--dry-run");
  Json rows = Json::array();
  std::string first_path, plan;
  for (const HubFile& file : files) {
    Json row = Json::object();
    row.set("file", file.name).set("size_bytes", Json(file.size_bytes)).set("digest", file.digest());
    plan += fmt::format("{}  {}\n", file.name, human_bytes(file.size_bytes));
    if (!is_dry) {
      log_info("{}: {}", file.name, human_bytes(file.size_bytes));
      TAMIS_TRY(const std::string path, fetch_file(name, listing, file));
      if (first_path.empty()) first_path = path;
      row.set("path", path);
    }
    rows.push_back(std::move(row));
  }
  if (!is_dry) TAMIS_TRY_STATUS(write_ref(name, revision, listing.commit));
  if (!args.flag("--json")) return print_out(is_dry ? plan : first_path + "\n");
  Json object = Json::object();
  object.set("schema", 1).set("model", text).set("commit", listing.commit).set("files", std::move(rows));
  return print_out(object.dump() + "\n");
}

Result<int> run_pull(const Args& args) {
  for (const std::string& name : args.texts("MODEL")) TAMIS_TRY_STATUS(pull_one(args, name));
  return 0;
}

}  // namespace

Verb pull_verb() {
  return {
      .name = "pull",
      .summary = "fetches models from the Hugging Face hub into its cache",
      .details =
          "Without :QUANT it takes the only GGUF file of the repository, else Q4_K_M, else Q4_0; all shards of it. A "
          "broken download goes "
          "on where it stopped; size and digest are checked before a file appears under its name. Prints the (first) "
          "file's path.\n\n"
          "The hub is HF_ENDPOINT, the cache HF_HUB_CACHE or HF_HOME/hub; HF_TOKEN is sent to that hub alone.",
      .positionals = {{.name = "MODEL", .help = "USER/REPO or USER/REPO:QUANT", .is_repeatable = true}},
      .options = {{.names = "--file",
                   .kind = OptionKind::text,
                   .value_name = "NAME",
                   .help = "take this file of the repository"},
                  {.names = "--revision",
                   .kind = OptionKind::text,
                   .value_name = "REV",
                   .help = "branch, tag or commit",
                   .default_text = "main"},
                  {.names = "--dry-run", .help = "say what would be fetched"}},
      .run = run_pull};
}

}  // namespace tamis::cli
