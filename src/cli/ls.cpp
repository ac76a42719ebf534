// `tamis ls`: the models in the caches.
#include <ctime>

#include "base/env.h"
#include "base/progress.h"
#include "cli/hub.h"
#include "cli/style.h"
#include "formats/json.h"

namespace tamis::cli {
namespace {

std::string date_text(int64_t seconds) {
  const std::time_t time = seconds;
  std::tm parts{};
  char text[32] = "";
  if (::localtime_r(&time, &parts) != nullptr) std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts);
  return text;
}

Json as_json(const std::vector<CachedModel>& models) {
  Json rows = Json::array();
  for (const CachedModel& model : models) {
    Json files = Json::array();
    for (const std::string& file : model.files) files.push_back(file);
    Json row = Json::object();
    row.set("name", model.name).set("size_bytes", Json(model.size_bytes)).set("modified", model.modified_s);
    if (!model.repo.empty()) row.set("repo", model.repo).set("commit", model.commit);
    if (!model.quant.empty()) row.set("quant", model.quant);
    row.set("complete", model.files.size() == model.n_shards).set("files", std::move(files));
    rows.push_back(std::move(row));
  }
  Json object = Json::object();
  return object.set("schema", 1).set("models", std::move(rows));
}

std::string as_text(const std::vector<CachedModel>& models, const Style& style, bool with_paths) {
  if (models.empty()) return "no models yet; tamis pull USER/REPO fetches one\n";
  Table table({Align::left, Align::right, Align::left, Align::left}, "");
  table.add({style.dim("name"), style.dim("size"), style.dim("modified"), style.dim(with_paths ? "path" : "")});
  uint64_t total = 0;
  for (const CachedModel& model : models) {
    total += model.size_bytes;
    const bool is_complete = model.files.size() == model.n_shards;
    std::string note = with_paths ? style.dim(model.files.front()) : "";
    if (!is_complete)
      note = style.paint(Color::red, fmt::format("{} of {} shards", model.files.size(), model.n_shards));
    table.add({style.bold(model.name), human_bytes(model.size_bytes), date_text(model.modified_s), note});
  }
  return table.text() + style.dim(fmt::format("{} models, {}\n", models.size(), human_bytes(total)));
}

Result<int> run_ls(const Args& args) {
  std::vector<CachedModel> models = list_cached_models();
  if (args.has("FILTER")) {
    const std::string filter = args.text("FILTER");
    std::erase_if(models, [&](const CachedModel& model) { return model.name.find(filter) == std::string::npos; });
  }
  const Style style = Style::from_args(args);
  TAMIS_TRY_STATUS(
      print_out(args.flag("--json") ? as_json(models).dump() + "\n" : as_text(models, style, args.flag("--paths"))));
  return 0;
}

}  // namespace

Verb ls_verb() {
  return {.name = "ls",
          .summary = "lists the models in the caches",
          .details = "The Hugging Face cache, which other tools share, and tamis's own. Each name is what -m takes.",
          .positionals = {{.name = "FILTER", .help = "only names that contain this", .is_required = false}},
          .options = {{.names = "--paths", .help = "show where each file lies"}},
          .run = run_ls};
}

}  // namespace tamis::cli
