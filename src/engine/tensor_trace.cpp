// Values are copied to host memory first: they may live on a device.
#include "engine/tensor_trace.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "formats/npy.h"

namespace tamis {

Result<std::shared_ptr<TensorTrace>> TensorTrace::create(const std::string& dir) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  const bool is_empty = !error && std::filesystem::is_empty(dir, error);
  if (error) return fail(ErrorCode::io, "{}: {}", escape_for_display(dir), error.message());
  if (!is_empty) return fail(ErrorCode::invalid_argument, "{} is not empty: a trace needs a directory of its own", dir);
  return std::shared_ptr<TensorTrace>(new TensorTrace(dir));
}

void TensorTrace::add(std::string_view name, int32_t layer_idx, TensorView value, Backend& backend) {
  if (status_) status_ = write(name, layer_idx, value, backend);
  ++n_values_;
}

Status TensorTrace::finish_step() {
  ++step_idx_;
  n_values_ = 0;
  return std::exchange(status_, Status{});
}

Status TensorTrace::write(std::string_view name, int32_t layer_idx, TensorView value, Backend& backend) {
  const std::string layer = layer_idx < 0 ? std::string() : fmt::format("blk.{}.", layer_idx);
  const std::string path = fmt::format("{}/{:04}-{:04}-{}{}.npy", dir_, step_idx_, n_values_, layer, name);
  values_.resize(value.size());
  backend.download(value, values_);
  TAMIS_TRY(NpyWriter writer, NpyWriter::create(path, value.n_rows, value.n_cols, false));
  TAMIS_TRY_STATUS(writer.write_rows(values_));
  return writer.commit();
}

}  // namespace tamis
