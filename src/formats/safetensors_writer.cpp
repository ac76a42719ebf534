// Header text, then the tensors' bytes end to end.
#include "base/checked.h"
#include "formats/json.h"
#include "formats/safetensors.h"

namespace tamis {

Status SafetensorsWriter::add_tensor(std::string_view name, SafeType type, std::span<const uint64_t> shape) {
  TAMIS_CHECK(!file_);
  if (name.empty() || !names_.emplace(std::string(name), true).second)
    return fail(ErrorCode::invalid_argument, "tensor \"{}\": expected a name of its own", escape_for_display(name));
  std::optional<uint64_t> n_bytes = safe_type_bytes(type);
  for (const uint64_t extent : shape)
    if (n_bytes) n_bytes = checked_mul(*n_bytes, extent);
  const auto end = n_bytes ? checked_add(data_bytes_, *n_bytes) : std::nullopt;
  if (!end) return fail(ErrorCode::invalid_argument, "tensor \"{}\": its size does not fit", escape_for_display(name));
  Json extents = Json::array();
  for (const uint64_t extent : shape) extents.push_back(Json(extent));
  Json entry = Json::object();
  entry.set("dtype", safe_type_name(type)).set("shape", std::move(extents));
  entry.set("data_offsets", Json(Json::Array{Json(data_bytes_), Json(*end)}));
  header_ += "," + Json(name).dump() + ":" + entry.dump();
  data_bytes_ = *end;
  return {};
}

Status SafetensorsWriter::begin(const std::string& path, bool overwrite) {
  TAMIS_CHECK(!file_);
  header_ += '}';
  header_.resize((header_.size() + 7) / 8 * 8, ' ');  // the data begin at a multiple of 8
  const uint64_t n = header_.size();
  TAMIS_TRY(file_, AtomicFile::create(path, overwrite));
  TAMIS_TRY_STATUS(file_->write(std::as_bytes(std::span(&n, 1))));
  return file_->write(header_);
}

Status SafetensorsWriter::write(std::span<const std::byte> bytes) {
  TAMIS_CHECK(file_);
  if (bytes.size() > data_bytes_ - written_bytes_)
    return fail(ErrorCode::invalid_argument, "{} bytes beyond the last tensor's",
                bytes.size() - (data_bytes_ - written_bytes_));
  written_bytes_ += bytes.size();
  return file_->write(bytes);
}

Status SafetensorsWriter::finish() {
  TAMIS_CHECK(file_);
  if (written_bytes_ != data_bytes_)
    return fail(ErrorCode::invalid_argument, "{} of {} bytes written", written_bytes_, data_bytes_);
  return file_->commit();
}

}  // namespace tamis
