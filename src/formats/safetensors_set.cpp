// Which files a checkpoint is made of, and their tensors under one roof.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>

#include "formats/json.h"
#include "formats/safetensors.h"

namespace tamis {
namespace {

namespace fs = std::filesystem;
constexpr uint64_t kMaxIndexBytes = uint64_t{64} << 20;
constexpr std::string_view kIndexEnd = ".safetensors.index.json";

tl::unexpected<Error> at(ErrorCode code, const std::string& path, std::string message) {
  return tl::unexpected<Error>(with_file(Error{code, std::move(message), nullptr}, path));
}

// The number after "-of-" in model-00001-of-00003.safetensors; 0 when the name has another form.
unsigned shard_count(const std::string& name) {
  const std::string prefix = "model-", middle = "-of-", end = ".safetensors";
  if (!name.starts_with(prefix) || !name.ends_with(end)) return 0;
  const size_t of = name.find(middle);
  if (of == std::string::npos) return 0;
  unsigned n = 0;
  for (size_t i = of + middle.size(); i < name.size() - end.size(); ++i) {
    if (name[i] < '0' || name[i] > '9' || n > 100000) return 0;
    n = n * 10 + static_cast<unsigned>(name[i] - '0');
  }
  return n;
}

}  // namespace

Status SafetensorsSet::add_file(const std::string& path) {
  TAMIS_TRY(auto file, MappedFile::open(path));
  return add({path, file, file});
}

Status SafetensorsSet::add(File file) {
  TAMIS_TRY(auto tensors, read_safetensors_header(*file.source, file.path));
  const auto file_idx = static_cast<uint32_t>(files_.size());
  files_.push_back(std::move(file));
  for (SafeTensor& tensor : tensors) {
    tensor.file_idx = file_idx;
    if (!by_name_.emplace(tensor.name, tensors_.size()).second)
      return error_at(tensor, "a second one of that name (the first is in another shard)", "each tensor once");
    tensors_.push_back(std::move(tensor));
  }
  return {};
}

Result<SafetensorsSet> SafetensorsSet::open_index(const std::string& index_path) {
  TAMIS_TRY(const std::string text, read_text_file(index_path, kMaxIndexBytes));
  const Result<Json> index = Json::parse(text, 8);
  if (!index) return tl::unexpected<Error>(with_file(index.error(), index_path));
  const Json* map = index->find("weight_map");
  if (map == nullptr || !map->is_object()) return at(ErrorCode::format, index_path, "weight_map: expected an object");
  std::set<std::string> names;
  for (const auto& [tensor, file] : map->as_object()) {
    if (!file.is_string() || file.as_string().empty() || file.as_string().find('/') != std::string::npos ||
        file.as_string() == "..")
      return at(ErrorCode::format, index_path,
                fmt::format("weight_map of tensor \"{}\": expected the name of a file beside the index",
                            escape_for_display(tensor)));
    names.insert(file.as_string());
  }
  SafetensorsSet set;
  for (const std::string& name : names)
    TAMIS_TRY_STATUS(set.add_file((fs::path(index_path).parent_path() / name).string()));
  std::vector<std::string> missing;
  for (const auto& [tensor, file] : map->as_object()) {
    const SafeTensor* found = set.find(tensor);
    if (found == nullptr || fs::path(set.path(found->file_idx)).filename() != file.as_string())
      missing.push_back(tensor);
  }
  if (!missing.empty())
    return at(ErrorCode::not_found, index_path,
              fmt::format("tensor \"{}\"{} is not in the shard the index names ({})", escape_for_display(missing[0]),
                          missing.size() > 1 ? fmt::format(" and {} more", missing.size() - 1) : "",
                          escape_for_display(map->find(missing[0])->as_string())));
  if (set.tensors_.size() > map->as_object().size())
    set.warnings_.push_back(
        fmt::format("{} tensors of the shards are not in the index", set.tensors_.size() - map->as_object().size()));
  return set;
}

Result<SafetensorsSet> SafetensorsSet::open_folder(const std::string& path) {
  const fs::path folder(path);
  if (file_exists(folder / "model.safetensors.index.json"))
    return open_index((folder / "model.safetensors.index.json").string());
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (it->path().extension() == ".safetensors") names.push_back(it->path().filename().string());
  if (error) return at(ErrorCode::io, path, "cannot list: " + error.message());
  std::sort(names.begin(), names.end());
  SafetensorsSet set;
  std::vector<std::string> wanted;
  for (const std::string& name : names)
    if (name == "model.safetensors" || shard_count(name) > 0) wanted.push_back(name);
  if (wanted.empty() && names.size() == 1) wanted = names;
  if (names.empty())
    return at(ErrorCode::not_found, path,
              "no .safetensors files in this folder (PyTorch .bin checkpoints are not read)");
  if (wanted.empty())
    return at(ErrorCode::not_found, path,
              fmt::format("{} .safetensors files and none named model.safetensors or model-00001-of-…", names.size()));
  if (const unsigned n = shard_count(wanted[0]); n > 0 && n != wanted.size())
    return at(ErrorCode::not_found, path, fmt::format("{} of {} shards are here", wanted.size(), n));
  for (const std::string& name : wanted) TAMIS_TRY_STATUS(set.add_file((folder / name).string()));
  return set;
}

Result<SafetensorsSet> SafetensorsSet::open(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return open_folder(path);
  if (path.ends_with(kIndexEnd)) return open_index(path);
  SafetensorsSet set;
  TAMIS_TRY_STATUS(set.add_file(path));
  return set;
}

Result<SafetensorsSet> SafetensorsSet::open(std::shared_ptr<ByteSource> source, const std::string& name) {
  SafetensorsSet set;
  TAMIS_TRY_STATUS(set.add({name, std::move(source), nullptr}));
  return set;
}

const SafeTensor* SafetensorsSet::find(std::string_view name) const {
  const auto it = by_name_.find(std::string(name));
  return it == by_name_.end() ? nullptr : &tensors_[it->second];
}

std::span<const std::byte> SafetensorsSet::data(const SafeTensor& tensor) const {
  return files_[tensor.file_idx].source->mapped().subspan(tensor.offset, tensor.size_bytes);
}

void SafetensorsSet::give_back(const SafeTensor& tensor) const {
  const File& file = files_[tensor.file_idx];
  if (file.on_disk != nullptr) file.on_disk->give_back(tensor.offset, tensor.size_bytes);
}

Status SafetensorsSet::check_unchanged() const {
  for (const File& file : files_)
    if (file.on_disk != nullptr && file.on_disk->size_changed())
      return at(ErrorCode::io, file.path, "the file changed its size while it was read");
  return {};
}

tl::unexpected<Error> SafetensorsSet::error_at(const SafeTensor& tensor, std::string got, std::string expected,
                                               ErrorCode code) const {
  ErrorSite site;
  site.file = path(tensor.file_idx);
  site.byte_offset = tensor.offset;
  site.has_offset = true;
  site.section = "tensor";
  site.subject = escape_for_display(tensor.name);
  site.got = std::move(got);
  site.expected = std::move(expected);
  site.tag = "E_CHECKPOINT";
  return fail_at(code, std::move(site));
}

}  // namespace tamis
