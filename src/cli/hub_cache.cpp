// What the caches hold.
#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>

#include "base/env.h"
#include "base/file.h"
#include "cli/hub.h"

namespace tamis::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxFolderDepth = 8;

bool is_model_file(const std::string& name) {
  return name.ends_with(".gguf") && is_safe_file_name(name) && name.find("mmproj") == std::string::npos;
}

int64_t modified_seconds(const fs::path& path) {
  std::error_code error;
  const auto time = fs::last_write_time(path, error);
  if (error) return 0;
  const auto system = std::chrono::file_clock::to_sys(time);
  return std::chrono::duration_cast<std::chrono::seconds>(system.time_since_epoch()).count();
}

// Model files below `root`, as names relative to it, sorted. Symbolic links to directories are not entered.
std::vector<std::string> model_files(const fs::path& root) {
  std::vector<std::string> names;
  std::error_code error;
  fs::recursive_directory_iterator it(root, fs::directory_options::skip_permission_denied, error), end;
  while (!error && it != end) {
    if (it.depth() >= kMaxFolderDepth) it.disable_recursion_pending();
    std::string name = it->path().lexically_relative(root).string();
    std::error_code is_file_error;
    if (is_model_file(name) && it->is_regular_file(is_file_error)) names.push_back(std::move(name));
    it.increment(error);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// One entry for each model: shards of one stem in one folder belong together.
std::vector<CachedModel> group_files(const fs::path& root) {
  std::map<std::string, CachedModel> models;
  for (const std::string& name : model_files(root)) {
    const ModelStem shard = stem_of_file_name(name);
    const std::string folder = fs::path(name).parent_path().string();
    CachedModel& model = models[folder + "/" + shard.stem + "/" + std::to_string(shard.n_shards)];
    model.name = shard.stem;
    model.quant = quant_of_file_name(name);
    model.n_shards = shard.n_shards;
    const fs::path path = root / name;
    std::error_code error;
    const uint64_t size_bytes = fs::file_size(path, error);
    if (!error) model.size_bytes += size_bytes;
    model.modified_s = std::max(model.modified_s, modified_seconds(path));
    model.files.push_back(path.string());
  }
  std::vector<CachedModel> out;
  for (auto& [key, model] : models) out.push_back(std::move(model));
  return out;
}

// The snapshot that refs/main names, else the newest.
std::string current_commit(const fs::path& repo_dir) {
  if (auto text = read_text_file((repo_dir / "refs" / "main").string(), 4096)) {
    std::string commit = text->substr(0, text->find_first_of("\r\n "));
    if (is_hex(commit, 40) && file_exists((repo_dir / "snapshots" / commit).string())) return commit;
  }
  std::string newest;
  int64_t newest_time = 0;
  std::error_code error;
  for (fs::directory_iterator it(repo_dir / "snapshots", error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    const int64_t time = modified_seconds(it->path());
    if (is_hex(name, 40) && (newest.empty() || time > newest_time)) {
      newest = name;
      newest_time = time;
    }
  }
  return newest;
}

void sort_by_name(std::vector<CachedModel>& models) {
  std::sort(models.begin(), models.end(), [](const CachedModel& a, const CachedModel& b) { return a.name < b.name; });
}

}  // namespace

std::string models_dir() { return env::cache_dir() + "/models"; }

std::vector<CachedModel> list_plain_models(const std::string& models_dir) {
  std::vector<CachedModel> out = group_files(models_dir);
  sort_by_name(out);
  return out;
}

std::vector<CachedModel> list_hub_models(const std::string& hub_dir) {
  std::vector<CachedModel> out;
  std::error_code error;
  for (fs::directory_iterator it(hub_dir, error), end; !error && it != end; it.increment(error)) {
    const std::string folder = it->path().filename().string();
    const size_t cut = folder.find("--", 8);
    if (!folder.starts_with("models--") || cut == std::string::npos) continue;
    const auto name = parse_hub_name(folder.substr(8, cut - 8) + "/" + folder.substr(cut + 2));
    const std::string commit = name ? current_commit(it->path()) : "";
    if (commit.empty()) continue;
    for (CachedModel& model : group_files(it->path() / "snapshots" / commit)) {
      model.repo = name->id();
      model.commit = commit;
      model.name = model.repo + (model.quant.empty() ? "" : ":" + model.quant);
      out.push_back(std::move(model));
    }
  }
  sort_by_name(out);
  return out;
}

std::vector<CachedModel> list_cached_models() {
  std::vector<CachedModel> out = list_plain_models(models_dir());
  std::vector<CachedModel> hub = list_hub_models(env::hugging_face_hub());
  out.insert(out.end(), std::make_move_iterator(hub.begin()), std::make_move_iterator(hub.end()));
  sort_by_name(out);
  return out;
}

}  // namespace tamis::cli
