// A matrix of a checkpoint as rows of float32, whatever it is stored as: floats, 8-bit floats with block scales, GPTQ
// or AWQ codes; and the rearrangements between Hugging Face's order of rows and GGUF's. Nothing is read before it is
// asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "base/shape.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "quants/affine_rows.h"

namespace tamis {

class RowSource {
 public:
  virtual ~RowSource() = default;
  uint64_t n_rows() const { return n_rows_; }
  uint64_t row_len() const { return row_len_; }

  // Rows [first, first + n) into out[n · row_len]. Requires: they are in range.
  virtual Status read(uint64_t first, uint64_t n, std::span<float> out) const = 0;

  // The block type that can take over this matrix's own codes and scales; nothing when none can. Decoding its blocks
  // gives what read() gives; if !is_native_exact(), but for a constant of each block that is rounded.
  virtual std::optional<DType> native_type() const { return std::nullopt; }
  virtual bool is_native_exact() const { return true; }
  // The same rows as blocks of native_type(). Requires: it has one.
  virtual Status write_native(uint64_t first, uint64_t n, std::span<std::byte> out) const;

  // The matrix (of a stack: matrix `matrix_idx`) as integer codes, rows in the order read() has; null where there are
  // none, or not all of it can be said so. Lives as long as this.
  virtual const AffineRows* affine(uint64_t /*matrix_idx*/) const { return nullptr; }
  // Whether it is stored as integer codes with scales.
  virtual bool is_packed() const { return false; }

  // The float type that holds every value: what `--type auto` writes.
  virtual DType float_type() const = 0;
  // What is stored, for reports: "F8_E4M3 with 128 x 128 scales".
  virtual std::string describe() const = 0;
  // The memory of what was read may leave this process.
  virtual void give_back() const = 0;

 protected:
  RowSource(uint64_t n_rows, uint64_t row_len) : n_rows_(n_rows), row_len_(row_len) {}

 private:
  uint64_t n_rows_, row_len_;
};

using Rows = std::unique_ptr<RowSource>;

// How a checkpoint's quantized modules are stored; from config.json's "quantization_config".
struct HfQuantization {
  std::string method;                       // "gptq", "awq", "fp8", "compressed-tensors"; "" = none
  uint32_t bits = 0;                        // of GPTQ and AWQ codes
  uint64_t group_size = 0;                  // columns that share a scale; 0 = a whole row
  bool has_zero_offset = true;              // stored zero points are one less than meant (GPTQ's first format)
  uint64_t block_rows = 0, block_cols = 0;  // of 8-bit floats' scales; 0 = from the shapes

  // Errors: format; unsupported for another method or packing, naming it.
  static Result<HfQuantization> read(const Json& config);
};

// The matrix or vector `name` ("model.norm.weight"; a module's bias too) of a checkpoint, with the names of all tensors
// it is made of added to `used`. A vector is one row. Null when the checkpoint has no such tensor.
// Errors: format, unsupported: naming the tensor.
Result<Rows> make_rows(const SafetensorsSet& set, const HfQuantization& quantization, const std::string& name,
                       std::vector<std::string>& used);

// Names under which a module's weight may be stored besides `name` itself: whether the checkpoint has it in any form.
bool has_rows(const SafetensorsSet& set, const std::string& name);

// ---- rearrangements. Each takes over its source.

// Of each head's rows (head_dim = n_rows / n_head): row 2j+s is the source's row s·head_dim/2 + j, so that the pairs
// RoPE turns lie side by side; `is_inverse` undoes it. Requires: n_rows is a multiple of 2·n_head.
Rows permute_heads(Rows rows, uint64_t n_head, bool is_inverse);
Rows add_offset(Rows rows, float offset);
// One after the other. Requires: not empty, equal row_len.
Rows stack_rows(std::vector<Rows> parts);
// The elements of a vector as rows of one, and back.
Rows as_column(Rows rows);
Rows as_row(Rows rows);
// A vector in memory.
Rows rows_of(std::vector<float> values);

}  // namespace tamis
