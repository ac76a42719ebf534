// Model names to paths: files first, then the Hugging Face cache, then words that fit.
#include "cli/model_path.h"

#include <algorithm>
#include <vector>

#include "base/file.h"
#include "cli/hub.h"

namespace tamis::cli {
namespace {

constexpr std::string_view kDefaultModel = "SmolLM2-135M-Instruct";

// Lower case without the marks that names vary in; the parts that "-", "_", " ", "/" and ":" separate.
std::vector<std::string> parts_of(std::string_view text) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == '-' || c == '_' || c == ' ' || c == '/' || c == ':') {
      if (!parts.back().empty()) parts.emplace_back();
    } else if (c != '.') {
      parts.back() += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    }
  }
  if (parts.back().empty()) parts.pop_back();
  return parts;
}

bool has_parts_in_order(std::string_view name, const std::vector<std::string>& parts) {
  std::string flat;
  for (const std::string& part : parts_of(name)) flat += part;
  size_t at = 0;
  for (const std::string& part : parts) {
    at = flat.find(part, at);
    if (at == std::string::npos) return false;
    at += part.size();
  }
  return !parts.empty();
}

Result<std::string> path_of(const CachedModel& model) {
  if (model.files.size() != model.n_shards)
    return fail(ErrorCode::not_found, "{}: {} of {} shards are in the cache; tamis pull it again", model.name,
                model.files.size(), model.n_shards);
  return model.files.front();
}

Result<std::string> only_one(std::string_view name, const std::vector<const CachedModel*>& found) {
  if (found.size() == 1) return path_of(*found[0]);
  std::string list;
  for (const CachedModel* model : found) list += fmt::format("{}{}", list.empty() ? "" : ", ", model->name);
  return fail(ErrorCode::invalid_argument, "model \"{}\" fits several: {}", escape_for_display(name), list);
}

Result<std::string> resolve_hub_name(std::string_view text) {
  TAMIS_TRY(const HubName name, parse_hub_name(text));
  std::vector<CachedModel> models = list_cached_models();
  std::erase_if(models, [&](const CachedModel& model) { return model.repo != name.id(); });
  std::vector<const CachedModel*> found;
  for (const CachedModel& model : models)
    if (name.quant.empty() || parts_of(model.quant) == parts_of(name.quant)) found.push_back(&model);
  // Without a quant, the one that `pull` would have taken.
  for (const CachedModel& model : models)
    if (name.quant.empty() && found.size() > 1 && model.quant == "Q4_K_M") found = {&model};
  if (found.empty())
    return fail(ErrorCode::not_found, "model {} is not in the cache; tamis pull {} fetches it", text, text);
  return only_one(text, found);
}

}  // namespace

Result<std::string> resolve_model(std::string_view name) {
  if (!name.empty() && file_exists(std::string(name))) return std::string(name);
  if (looks_like_hub_name(name) && !name.ends_with(".gguf")) return resolve_hub_name(name);
  const bool is_path = name.find('/') != std::string_view::npos || name.ends_with(".gguf");
  const std::string_view wanted = name.empty() ? kDefaultModel : name;
  const std::vector<CachedModel> models = list_cached_models();
  std::vector<const CachedModel*> found;
  for (const CachedModel& model : models)
    if (model.name == wanted || model.files.front().substr(model.files.front().rfind('/') + 1) == wanted)
      found.push_back(&model);
  if (found.empty() && !is_path) {
    const auto parts = parts_of(wanted);
    for (const CachedModel& model : models)
      if (has_parts_in_order(model.name, parts)) found.push_back(&model);
  }
  if (!found.empty()) return only_one(wanted, found);
  if (name.empty())
    return fail(ErrorCode::not_found,
                "the default model, {}, is not in {}; scripts/get-models fetches it, or give -m MODEL", kDefaultModel,
                models_dir());
  if (is_path) return tl::unexpected<Error>(with_file(Error{ErrorCode::not_found, "no such file", nullptr}, name));
  return fail(ErrorCode::not_found,
              "model \"{}\": no such file, and no cached model fits; see tamis ls, or tamis pull USER/REPO",
              escape_for_display(name));
}

}  // namespace tamis::cli
