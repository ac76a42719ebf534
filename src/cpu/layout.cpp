// The choice of forms, and loading into them.
#include "cpu/layout.h"

#include "base/checked.h"
#include "cpu/affine_weight.h"
#include "cpu/cpu_backend.h"
#include "cpu/float_weight.h"
#include "cpu/plane_weight.h"

namespace tamis::cpu {
namespace {

Status check_size(std::string_view name, DType dtype, const Shape& shape, size_t n_bytes) {
  const std::optional<uint64_t> all_bytes = matrix_bytes(dtype, shape, MatrixForm::file);
  if (all_bytes && *all_bytes == n_bytes) return {};
  return fail(ErrorCode::shape, "{}: {} bytes for shape {} of {}", escape_for_display(name), n_bytes, shape.to_string(),
              dtype_name(dtype));
}

bool is_plain(DType dtype) { return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16; }

// Of 16 rows. Requires: whole blocks.
std::optional<uint64_t> panel_bytes(DType dtype, uint64_t n_in, MatrixForm form) {
  if (form == MatrixForm::floats) return checked_mul(n_in, kPanelRows * float_bytes(float_kind(dtype)));
  if (form == MatrixForm::affine) {
    const AffineFormat& format = *affine_format(dtype);
    return checked_mul(n_in / format.group_len, affine_group_bytes(format));
  }
  const PlaneType& type = *plane_type(dtype);
  return checked_mul(n_in / type.block_len, type.plane_block_bytes);
}

}  // namespace

MatrixForm matrix_form(DType dtype, CpuLayout layout, CpuActivations activations) {
  if (layout == CpuLayout::dense || is_plain(dtype)) return MatrixForm::floats;
  if (layout == CpuLayout::affine && affine_format(dtype) != nullptr) return MatrixForm::affine;
  return activations == CpuActivations::q8 && plane_type(dtype) != nullptr ? MatrixForm::planes : MatrixForm::file;
}

std::optional<uint64_t> matrix_bytes(DType dtype, const Shape& shape, MatrixForm form) {
  const std::optional<uint64_t> row_bytes = dtype_bytes(dtype, shape.row_len());
  const std::optional<uint64_t> all_bytes = row_bytes ? checked_mul(*row_bytes, shape.n_rows()) : std::nullopt;
  if (!all_bytes || form == MatrixForm::file) return all_bytes;
  const auto n_rows = checked_pad(shape.n_rows(), kPanelRows);
  const auto of_panel = panel_bytes(dtype, shape.row_len(), form);
  return n_rows && of_panel ? checked_mul(*of_panel, *n_rows / kPanelRows) : std::nullopt;
}

std::optional<uint64_t> CpuBackend::weight_bytes(DType dtype, const Shape& shape) const {
  return matrix_bytes(dtype, shape, matrix_form(dtype, layout_, activations_));
}

Result<std::unique_ptr<WeightStorage>> CpuBackend::load_weight(std::string_view name, DType dtype, const Shape& shape,
                                                               std::span<const std::byte> bytes) {
  TAMIS_TRY_STATUS(check_size(name, dtype, shape, bytes.size()));
  const auto as_storage = [this](auto packed) -> Result<std::unique_ptr<WeightStorage>> {
    if (!packed) return tl::unexpected<Error>(std::move(packed).error());
    (*packed)->tell_of_lookups(on_taken_);
    return std::unique_ptr<WeightStorage>(*std::move(packed));
  };
  const MatrixForm form = matrix_form(dtype, layout_, activations_);
  switch (form) {
    case MatrixForm::planes:
      return as_storage(PlaneWeight::pack(dtype, shape, bytes.data(), kernels_, {panel_memory_, pool_, on_taken_}));
    case MatrixForm::floats:
      return as_storage(FloatWeight::pack(dtype, shape, bytes.data(), kernels_, {panel_memory_, pool_, on_taken_}));
    case MatrixForm::affine: {
      const bool is_exact = activations_ == CpuActivations::f32;
      return as_storage(
          AffineWeight::pack(dtype, shape, bytes.data(), kernels_, {panel_memory_, pool_, on_taken_}, is_exact));
    }
    case MatrixForm::file: break;
  }
  return std::make_unique<FileWeight>(dtype, shape, bytes.data(), kernels_);
}

Result<std::unique_ptr<WeightStorage>> CpuBackend::load_affine(std::string_view, const AffineRows& rows,
                                                               uint64_t first_row, uint64_t n_rows) {
  TAMIS_TRY(auto packed, AffineWeight::pack(rows, first_row, n_rows, kernels_, {panel_memory_, pool_},
                                            activations_ == CpuActivations::f32));
  return std::unique_ptr<WeightStorage>(std::move(packed));
}

std::optional<uint64_t> CpuBackend::affine_bytes(const AffineShape& shape, uint64_t n_rows) const {
  const auto n_panels = checked_pad(n_rows, kPanelRows);
  if (!n_panels) return std::nullopt;
  return checked_mul(*n_panels / kPanelRows, affine_panel_bytes(packed_format(shape), shape.n_in));
}

Result<std::unique_ptr<WeightStorage>> CpuBackend::load_table(std::string_view name, DType dtype, const Shape& shape,
                                                              std::span<const std::byte> bytes) {
  TAMIS_TRY_STATUS(check_size(name, dtype, shape, bytes.size()));
  auto table = std::make_unique<FileWeight>(dtype, shape, bytes.data(), kernels_);
  table->tell_of_lookups(on_taken_);
  return table;
}

}  // namespace tamis::cpu
