// `tamis rm MODEL`: takes models out of the caches. Only GGUF files go; what other tools keep in a repository's folder
// stays.
#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#include "base/env.h"
#include "base/file.h"
#include "base/progress.h"
#include "cli/hub.h"
#include "cli/verb.h"
#include "formats/json.h"

namespace tamis::cli {
namespace {

namespace fs = std::filesystem;

Status remove_path(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) return fail(ErrorCode::io, "{}: cannot remove: {}", path.string(), error.message());
  return {};
}

// The blobs that links of any snapshot of this repository point to.
std::set<std::string> linked_blobs(const fs::path& repo_dir) {
  std::set<std::string> out;
  std::error_code error;
  fs::recursive_directory_iterator it(repo_dir / "snapshots", fs::directory_options::skip_permission_denied, error),
      end;
  for (; !error && it != end; it.increment(error)) {
    std::error_code link_error;
    if (it->is_symlink(link_error)) out.insert(fs::read_symlink(it->path(), link_error).filename().string());
  }
  return out;
}

// Removes empty directories upwards from `folder`, up to and without `top`.
void prune(fs::path folder, const fs::path& top) {
  std::error_code error;
  while (folder != top && folder.has_parent_path() && fs::is_empty(folder, error) && !error) {
    fs::remove(folder, error);
    folder = folder.parent_path();
  }
}

Status remove_hub_model(const CachedModel& model) {
  TAMIS_TRY(const HubName name, parse_hub_name(model.repo));
  const fs::path hub = env::hugging_face_hub();
  const fs::path repo_dir = hub / name.folder();
  std::set<std::string> blobs;
  for (const std::string& file : model.files) {
    std::error_code error;
    const fs::path target = fs::read_symlink(file, error);
    if (!error) blobs.insert(target.filename().string());
    TAMIS_TRY_STATUS(remove_path(file));
    prune(fs::path(file).parent_path(), repo_dir);
  }
  const std::set<std::string> still_linked = linked_blobs(repo_dir);
  for (const std::string& blob : blobs)
    if (!still_linked.contains(blob) && (is_hex(blob, 64) || is_hex(blob, 40)))
      TAMIS_TRY_STATUS(remove_path(repo_dir / "blobs" / blob));
  prune(repo_dir / "blobs", repo_dir);
  std::error_code error;
  if (!file_exists((repo_dir / "snapshots").string())) fs::remove_all(repo_dir / "refs", error);
  prune(repo_dir, hub);
  return {};
}

std::vector<CachedModel> matching(const std::string& text, const std::vector<CachedModel>& models) {
  std::vector<CachedModel> out;
  for (const CachedModel& model : models) {
    const std::string& path = model.files.front();
    if (model.name == text || model.repo == text || path.substr(path.rfind('/') + 1) == text) out.push_back(model);
  }
  return out;
}

Result<int> run_rm(const Args& args) {
  const std::vector<CachedModel> models = list_cached_models();
  std::vector<CachedModel> doomed;
  for (const std::string& text : args.texts("MODEL")) {
    const auto found = matching(text, models);
    if (found.empty())
      return fail(ErrorCode::not_found, "model \"{}\" is not in a cache; see tamis ls", escape_for_display(text));
    for (const CachedModel& model : found)
      if (std::none_of(doomed.begin(), doomed.end(),
                       [&](const CachedModel& other) { return other.files == model.files; }))
        doomed.push_back(model);
  }
  const bool is_dry = args.flag("--dry-run");
  Json rows = Json::array();
  std::string lines;
  for (const CachedModel& model : doomed) {
    if (!is_dry && model.repo.empty())
      for (const std::string& file : model.files) TAMIS_TRY_STATUS(remove_path(file));
    if (!is_dry && !model.repo.empty()) TAMIS_TRY_STATUS(remove_hub_model(model));
    lines += fmt::format("{} {}  {}\n", is_dry ? "would remove" : "removed", model.name, human_bytes(model.size_bytes));
    Json row = Json::object();
    rows.push_back(row.set("name", model.name).set("size_bytes", Json(model.size_bytes)));
  }
  Json object = Json::object();
  object.set("schema", 1).set("dry_run", is_dry).set("removed", std::move(rows));
  TAMIS_TRY_STATUS(print_out(args.flag("--json") ? object.dump() + "\n" : lines));
  return 0;
}

}  // namespace

Verb rm_verb() {
  return {.name = "rm",
          .summary = "removes models from the caches",
          .details =
              "Takes names as tamis ls shows them; USER/REPO stands for every GGUF model of it. Other files of a "
              "repository stay, "
              "and so do blobs that another snapshot uses.",
          .positionals = {{.name = "MODEL",
                           .help = "USER/REPO, USER/REPO:QUANT, or a file of tamis's own cache",
                           .is_repeatable = true}},
          .options = {{.names = "--dry-run", .help = "say what would be removed"}},
          .run = run_rm};
}

}  // namespace tamis::cli
