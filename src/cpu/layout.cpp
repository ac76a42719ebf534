// The choice of forms, and loading into them.
#include "cpu/layout.h"

#include "base/checked.h"
#include "cpu/cpu_backend.h"
#include "cpu/plane_weight.h"

namespace tamis::cpu {
namespace {

Status check_size(std::string_view name, DType dtype, const Shape& shape, size_t n_bytes) {
  const std::optional<uint64_t> all_bytes = matrix_bytes(dtype, shape, MatrixForm::file);
  if (all_bytes && *all_bytes == n_bytes) return {};
  return fail(ErrorCode::shape, "{}: {} bytes for shape {} of {}", escape_for_display(name), n_bytes, shape.to_string(),
              dtype_name(dtype));
}

std::optional<uint64_t> plane_bytes(DType dtype, const Shape& shape) {
  const PlaneType& type = *plane_type(dtype);
  const auto panel_bytes = checked_mul(shape.row_len() / type.block_len, type.plane_block_bytes);
  const auto n_rows = checked_pad(shape.n_rows(), kPanelRows);
  return panel_bytes && n_rows ? checked_mul(*panel_bytes, *n_rows / kPanelRows) : std::nullopt;
}

}  // namespace

MatrixForm matrix_form(DType dtype, CpuLayout, CpuActivations activations) {
  return activations == CpuActivations::q8 && plane_type(dtype) != nullptr ? MatrixForm::planes : MatrixForm::file;
}

std::optional<uint64_t> matrix_bytes(DType dtype, const Shape& shape, MatrixForm form) {
  const std::optional<uint64_t> row_bytes = dtype_bytes(dtype, shape.row_len());
  const std::optional<uint64_t> all_bytes = row_bytes ? checked_mul(*row_bytes, shape.n_rows()) : std::nullopt;
  if (!all_bytes || form == MatrixForm::file) return all_bytes;
  return plane_bytes(dtype, shape);
}

std::optional<uint64_t> CpuBackend::weight_bytes(DType dtype, const Shape& shape) const {
  return matrix_bytes(dtype, shape, matrix_form(dtype, layout_, activations_));
}

Result<std::unique_ptr<WeightStorage>> CpuBackend::load_weight(std::string_view name, DType dtype, const Shape& shape,
                                                               std::span<const std::byte> bytes) {
  TAMIS_TRY_STATUS(check_size(name, dtype, shape, bytes.size()));
  if (matrix_form(dtype, layout_, activations_) == MatrixForm::planes) {
    auto packed = PlaneWeight::pack(dtype, shape, bytes.data(), kernels_, pool_);
    if (!packed) return tl::unexpected<Error>(packed.error());
    return std::unique_ptr<WeightStorage>(std::move(*packed));
  }
  return std::make_unique<FileWeight>(dtype, shape, bytes.data(), kernels_);
}

Result<std::unique_ptr<WeightStorage>> CpuBackend::load_table(std::string_view name, DType dtype, const Shape& shape,
                                                              std::span<const std::byte> bytes) {
  TAMIS_TRY_STATUS(check_size(name, dtype, shape, bytes.size()));
  return std::make_unique<FileWeight>(dtype, shape, bytes.data(), kernels_);
}

}  // namespace tamis::cpu
