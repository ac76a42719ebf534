// y = scale · W x + bias: a matrix is cut into chunks of panels, one item of work each; a chunk meets all tokens, block
// of tokens by block, so that its codes are read and unpacked once and the tokens' codes stay in the second cache.
#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "cpu/cpu_backend.h"
#include "cpu/plane_weight.h"
#include "quants/registry.h"

namespace tamis::cpu {
namespace {

constexpr size_t kMostPanels = 8;         // of a chunk
constexpr size_t kColumnsTogether = 256;  // tokens of a block: with a chunk's result they fit the second cache

const CpuWeight& cpu_weight(const Linear& linear) { return static_cast<const CpuWeight&>(*linear.weight); }

size_t n_panels(const Linear& linear) { return cpu_weight(linear).n_panels(); }

// Panels of a chunk: several chunks for each thread, more and smaller ones when a token's reading time is at stake.
size_t chunk_panels(size_t n_panels_in_all, size_t n_columns, size_t n_threads) {
  return std::clamp<size_t>(n_panels_in_all / (n_threads * (n_columns <= 4 ? 16 : 4)), 1, kMostPanels);
}

}  // namespace

void CpuBackend::embed_rows(const WeightStorage& table, std::span<const int32_t> ids, float scale, TensorView out) {
  const auto& weight = static_cast<const CpuWeight&>(table);
  for_ranges(ids.size(), 0, 8 * out.n_cols, [&, scale](size_t begin, size_t end, uint32_t) {
    for (size_t i = begin; i < end; ++i) {
      float* const row = out.row(i);
      weight.decode(static_cast<size_t>(ids[i]), 0, out.n_cols, row);
      for (size_t k = 0; k < out.n_cols; ++k) row[k] *= scale;
    }
  });
}

Columns CpuBackend::pack_columns(TensorView x, ColumnForm form) {
  Columns columns{.x = x.data, .x_stride = x.n_cols, .n = x.n_rows};
  if (form == ColumnForm::f32) return columns;
  const size_t block_len = form_block_len(form), block_bytes = form_block_bytes(form);
  const size_t n_blocks = x.n_cols / block_len, step = Columns::step_len(x.n_rows, x.n_cols) / block_len;
  std::vector<int8_t>& packed = packed_[static_cast<size_t>(form)];
  if (packed.size() < x.n_rows * n_blocks * block_bytes) packed.resize(x.n_rows * n_blocks * block_bytes);
  for_ranges(n_blocks, 0, x.n_rows * block_len * 4, [&](size_t begin, size_t end, uint32_t) {
    while (begin < end) {
      const size_t first = begin / step * step, n_here = std::min(step, n_blocks - first);
      const size_t stop = std::min(end, first + n_here);
      kernels_.pack_columns({x.data + first * block_len, x.n_cols, x.n_rows, n_here, block_len,
                             packed.data() + first * x.n_rows * block_bytes},
                            begin - first, stop - begin);
      begin = stop;
    }
  });
  columns.packed = packed.data();
  return columns;
}

void CpuBackend::run_linears(TensorView x, std::span<const LinearJob> jobs, const Activation* activation) {
  std::array<Columns, kColumnForms> columns;
  for (const ColumnForm form : {ColumnForm::f32, ColumnForm::q8_32, ColumnForm::q8_256})
    if (std::ranges::any_of(jobs, [=](const LinearJob& job) { return cpu_weight(*job.linear).column_form() == form; }))
      columns[static_cast<size_t>(form)] = pack_columns(x, form);
  const size_t n_fused = activation != nullptr ? jobs.size() : 1;  // with an activation, the jobs' panels go in pairs
  size_t n_in_all = 0;
  for (size_t j = 0; j < jobs.size(); j += n_fused) n_in_all += n_panels(*jobs[j].linear);
  const size_t chunk = chunk_panels(n_in_all, x.n_rows, scratch_.size());
  const auto n_chunks = [=](const LinearJob& job) { return (n_panels(*job.linear) + chunk - 1) / chunk; };
  size_t n_items = 0;
  for (size_t j = 0; j < jobs.size(); j += n_fused) n_items += n_chunks(jobs[j]);
  for_ranges(n_items, 1, chunk * kPanelRows * x.n_cols * x.n_rows / 4, [&](size_t begin, size_t end, uint32_t thread) {
    for (size_t item = begin; item < end; ++item) {
      size_t j = 0, local = item;
      for (; local >= n_chunks(jobs[j]); j += n_fused) local -= n_chunks(jobs[j]);
      const size_t first = local * chunk;
      run_chunk(jobs.subspan(j, n_fused), {first, std::min(chunk, n_panels(*jobs[j].linear) - first), 0, x.n_rows},
                columns, activation, scratch_[thread]);
    }
  });
}

void CpuBackend::run_chunk(std::span<const LinearJob> jobs, PanelRange range,
                           const std::array<Columns, kColumnForms>& columns, const Activation* activation,
                           Scratch& scratch) const {
  const size_t n_columns = range.n_columns;
  const size_t tile_len = range.n_panels * std::min(n_columns, kColumnsTogether) * kPanelRows;
  if (scratch.tiles.size() < jobs.size() * tile_len) scratch.tiles.resize(jobs.size() * tile_len);
  for (size_t begin = 0; begin < n_columns; begin += kColumnsTogether) {
    range.first_column = begin;
    range.n_columns = std::min(kColumnsTogether, n_columns - begin);
    const size_t n = range.n_panels * range.n_columns * kPanelRows;
    for (size_t j = 0; j < jobs.size(); ++j) {
      const CpuWeight& weight = cpu_weight(*jobs[j].linear);
      float* const tiles = scratch.tiles.data() + j * n;
      weight.multiply(range, columns[static_cast<size_t>(weight.column_form())], scratch.panel, tiles);
      scale_and_shift(*jobs[j].linear, range, tiles);
    }
    if (activation != nullptr) activate_range(scratch.tiles.data(), scratch.tiles.data() + n, n, *activation);
    write_tiles(range, scratch.tiles.data(), jobs[0].out);
  }
}

void CpuBackend::scale_and_shift(const Linear& linear, const PanelRange& range, float* tiles) {
  if (linear.bias == nullptr && linear.scale == 1.0f) return;
  for (size_t p = 0; p < range.n_panels; ++p) {
    const size_t first = (range.first_panel + p) * kPanelRows;
    float bias[kPanelRows] = {};
    if (linear.bias != nullptr)
      std::copy_n(linear.bias + first, std::min<size_t>(kPanelRows, linear.weight->n_out() - first), bias);
    for (size_t t = 0; t < range.n_columns; ++t, tiles += kPanelRows)
      for (size_t r = 0; r < kPanelRows; ++r) tiles[r] = tiles[r] * linear.scale + bias[r];
  }
}

void CpuBackend::write_tiles(const PanelRange& range, const float* tiles, TensorView out) {
  for (size_t t = 0; t < range.n_columns; ++t) {
    float* const row = out.row(range.first_column + t);
    for (size_t p = 0; p < range.n_panels; ++p) {
      const size_t first = (range.first_panel + p) * kPanelRows;
      std::copy_n(tiles + (p * range.n_columns + t) * kPanelRows, std::min<size_t>(kPanelRows, out.n_cols - first),
                  row + first);
    }
  }
}

void CpuBackend::matmul(TensorView x, const Linear& linear, TensorView out) {
  const LinearJob job{&linear, out};
  run_linears(x, {&job, 1}, nullptr);
}

void CpuBackend::qkv(TensorView x, std::span<const Linear, 3> linears, std::span<const TensorView, 3> out) {
  const LinearJob jobs[] = {{&linears[0], out[0]}, {&linears[1], out[1]}, {&linears[2], out[2]}};
  run_linears(x, jobs, nullptr);
}

void CpuBackend::gate_up(TensorView x, const Linear& gate, const Linear& up, Activation activation, TensorView out,
                         TensorView) {
  const LinearJob jobs[] = {{&gate, out}, {&up, out}};
  run_linears(x, jobs, &activation);
}

}  // namespace tamis::cpu
