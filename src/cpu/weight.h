// What every matrix of the CPU backend can do: multiply panels of 16 rows with the columns (tokens) of an op. How it
// lies in memory is each class's own matter: the file's bytes (FileWeight), planes (plane_weight.h), the group-affine
// form (affine_weight.h), plain numbers (float_weight.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/thread_pool.h"
#include "compute/backend.h"
#include "cpu/kernels.h"
#include "cpu/panel_bytes.h"

namespace tamis::cpu {

// How a weight reads its columns: floats, or 8-bit codes with a scale per 32 or per 256 elements. It follows from the
// weight's type, never from the batch.
enum class ColumnForm : uint8_t { f32, q8_32, q8_256 };

// The elements of K that go together: what one unpacked panel of codes holds, and few enough that the columns' codes
// stay in the nearest cache while planes stream past them.
constexpr size_t kStepLen = kPanelBytes / kPanelRows;
// Panels whose steps lie together in memory, so that a step of all of them is one stream.
constexpr size_t kPanelsTogether = 4;

// All columns of one op in one form.
//   f32      row-major: column i at x + i · x_stride
//   q8_*     for each step of K the columns' tiles (kernels/planes.h), one step after another
struct Columns {
  const float* x = nullptr;
  size_t x_stride = 0;
  const int8_t* packed = nullptr;
  size_t n = 0;
  ColumnForm form = ColumnForm::f32;
  std::span<const uint32_t> order;  // element k of a column is element order[k] of the op's input; empty: element k

  // Few columns are one tile, and steps follow each other in it as if all of K were one.
  static size_t step_len(size_t n_columns, size_t n_in) { return n_columns <= 4 ? n_in : kStepLen; }
};

// Bytes of a block of one packed column, and its length.
constexpr size_t form_block_len(ColumnForm form) { return form == ColumnForm::q8_256 ? 256 : 32; }
constexpr size_t form_block_bytes(ColumnForm form) {
  return form == ColumnForm::q8_256 ? kActs256Bytes : form == ColumnForm::q8_32 ? kActs32Bytes : 0;
}

// A rectangle of an op's result.
struct PanelRange {
  size_t first_panel = 0, n_panels = 0;
  size_t first_column = 0, n_columns = 0;  // first_column: a multiple of 16
};

// A thread's own working memory.
struct alignas(64) PanelScratch {
  static constexpr size_t kRowStride = kFloatRun + 16;  // not a multiple of 4 KiB: rows must not share cache sets
  alignas(64) uint8_t codes[kPanelBytes];               // one panel's codes, unpacked
  float rows[kPanelRows * kRowStride];                  // one panel's rows, decoded

  // The place of `codes`, for a run of a panel as floats, [kFloatRun][16].
  float* floats() { return reinterpret_cast<float*>(codes); }
};

class CpuWeight : public WeightStorage {
 public:
  // `rows`: the file's bytes, n_out rows of row_bytes. Not owned.
  CpuWeight(DType dtype, const Shape& shape, const std::byte* rows, const KernelTable& kernels);

  size_t n_panels() const { return (n_out() + kPanelRows - 1) / kPanelRows; }
  size_t rows_of_panel(size_t i) const { return std::min<size_t>(kPanelRows, n_out() - i * kPanelRows); }

  virtual ColumnForm column_form() const = 0;
  // Which element of the input each weight of a row multiplies; empty: they go in order.
  virtual std::span<const uint32_t> input_order() const { return {}; }
  // tiles [n_panels][n_columns][16] = panels · columns; rows past n_out are undefined.
  virtual void multiply(const PanelRange& range, const Columns& columns, PanelScratch& scratch, float* tiles) const = 0;

  // What a product with few columns reads from panel i on, one stream; empty where that is not known.
  virtual std::span<const uint8_t> stream_from(size_t) const { return {}; }

  // Elements [first, first + n) of row i. Requires: both multiples of the type's block length.
  void decode(size_t i, size_t first, size_t n, float* out) const;

  // Tells of the file's rows whenever some more of them were looked up: a mapped file's pages come many at a time, and
  // would stay. Requires: no product reads them.
  void tell_of_lookups(Backend::OnTaken tell) { on_looked_up_ = std::move(tell); }
  void rows_were_looked_up(size_t n) const;
  static constexpr size_t kLookupsTogether = 4;  // rows, each with up to a megabyte around it

  // Of the file.
  const std::byte* row(size_t i) const { return rows_ + i * row_bytes_; }
  size_t row_bytes() const { return row_bytes_; }

 protected:
  const KernelTable& kernels() const { return kernels_; }

  // scratch.floats() [n][16] = elements [first, first + n) of a panel's rows; rows past n_out are zero. n ≤ kFloatRun.
  virtual void decode_panel(size_t panel_idx, size_t first, size_t n, PanelScratch& scratch) const;
  // multiply() for columns of floats, through decode_panel.
  void multiply_decoded(const PanelRange& range, const Columns& columns, PanelScratch& scratch, float* tiles) const;

 private:
  const KernelTable& kernels_;
  const std::byte* rows_;
  size_t row_bytes_;
  uint32_t block_len_, block_bytes_;
  Backend::OnTaken on_looked_up_;
  mutable size_t n_looked_up_ = 0;                                                // since it was told
  void (*decode_)(const uint8_t* blocks, float* out, size_t n_blocks) = nullptr;  // null: the registry's decoder
};

// A matrix left in the file's bytes: runs of a panel's rows are decoded to floats as they are needed.
class FileWeight final : public CpuWeight {
 public:
  using CpuWeight::CpuWeight;

  size_t resident_bytes() const override { return n_out() * row_bytes(); }
  ColumnForm column_form() const override { return ColumnForm::f32; }
  void multiply(const PanelRange& range, const Columns& columns, PanelScratch& scratch, float* tiles) const override {
    multiply_decoded(range, columns, scratch, tiles);
  }
};

// Where repacked matrices lie, what repacking runs on (null: this thread), and whom it tells of rows it is done with.
struct Packing {
  Packing(PanelMemory& room, ThreadPool* threads = nullptr, Backend::OnTaken tell = nullptr)
      : memory(room), pool(threads), on_taken(std::move(tell)) {}
  PanelMemory& memory;
  ThreadPool* pool;
  Backend::OnTaken on_taken;
};

// fn(i) for every panel of `weight`, some megabytes of its rows at a time. Errors: those of the pool.
template <class Fn>
Status for_panels(const Packing& packing, const CpuWeight& weight, Fn&& fn) {
  constexpr size_t kPartBytes = size_t{8} << 20;
  const size_t panel_bytes = kPanelRows * weight.row_bytes();
  const size_t n_together = packing.on_taken ? std::max<size_t>(kPartBytes / panel_bytes, 1) : weight.n_panels();
  for (size_t first = 0; first < weight.n_panels(); first += n_together) {
    const size_t n = std::min(n_together, weight.n_panels() - first);
    auto range = [&](size_t begin, size_t end, uint32_t) {
      for (size_t i = begin; i < end; ++i) fn(first + i);
    };
    if (packing.pool == nullptr) {
      range(0, n, 0);
    } else {
      TAMIS_TRY_STATUS(packing.pool->parallel_for(n, 8, range));
    }
    const size_t n_rows = std::min((first + n) * kPanelRows, weight.n_out()) - first * kPanelRows;
    if (packing.on_taken) packing.on_taken({weight.row(first * kPanelRows), n_rows * weight.row_bytes()});
  }
  return {};
}

}  // namespace tamis::cpu
