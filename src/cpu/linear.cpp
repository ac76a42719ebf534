// Weights as the file holds them, and y = scale · W x + bias: rows outside, tokens inside, so that each block is
// decoded once a step whatever the number of tokens.
#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "cpu/cpu_backend.h"
#include "cpu/plane_weight.h"
#include "quants/registry.h"

namespace tamis::cpu {
namespace {

const CpuWeight& cpu_weight(const WeightStorage& weight) { return static_cast<const CpuWeight&>(weight); }

}  // namespace

CpuWeight::CpuWeight(DType dtype, const Shape& shape, const std::byte* bytes, size_t row_bytes,
                     const KernelTable& kernels)
    : WeightStorage(dtype, shape.n_rows(), shape.row_len()),
      bytes_(bytes),
      row_bytes_(row_bytes),
      block_len_(dtype_info(dtype).block_len),
      block_bytes_(dtype_info(dtype).block_bytes) {
  // The targets' decoders read blocks in place. Files align tensors to 8 bytes or more; bytes from elsewhere may lie
  // anywhere.
  const bool is_aligned = reinterpret_cast<uintptr_t>(bytes) % alignof(float) == 0;
  for (size_t i = 0; is_aligned && i < kernels.n_decoders; ++i)
    if (kernels.decoders[i].dtype == static_cast<uint32_t>(dtype)) decode_ = kernels.decoders[i].decode;
  if (dtype == DType::f32 && is_aligned) floats_ = reinterpret_cast<const float*>(bytes);
}

void CpuWeight::decode(size_t i, size_t first, size_t n, float* out) const {
  const std::byte* const blocks = bytes_ + i * row_bytes_ + first / block_len_ * block_bytes_;
  if (decode_ != nullptr) {
    decode_(reinterpret_cast<const uint8_t*>(blocks), out, n / block_len_);
  } else {
    tamis::decode(dtype(), blocks, {out, n});
  }
}

Result<std::unique_ptr<WeightStorage>> CpuBackend::load_weight(std::string_view name, DType dtype, const Shape& shape,
                                                               std::span<const std::byte> bytes) {
  const std::optional<uint64_t> row_bytes = dtype_bytes(dtype, shape.row_len());
  const std::optional<uint64_t> all_bytes = row_bytes ? checked_mul(*row_bytes, shape.n_rows()) : std::nullopt;
  if (!all_bytes || *all_bytes != bytes.size()) {
    return fail(ErrorCode::shape, "{}: {} bytes for shape {} of {}", escape_for_display(name), bytes.size(),
                shape.to_string(), dtype_name(dtype));
  }
  if (activations_ == CpuActivations::q8 && plane_type(dtype) != nullptr) {
    auto packed = PlaneWeight::pack(dtype, shape, bytes.data(), *row_bytes, kernels_, pool_);
    if (!packed) return tl::unexpected<Error>(packed.error());
    return std::unique_ptr<WeightStorage>(std::move(*packed));
  }
  return std::make_unique<CpuWeight>(dtype, shape, bytes.data(), *row_bytes, kernels_);
}

void CpuBackend::embed_rows(const WeightStorage& table, std::span<const int32_t> ids, float scale, TensorView out) {
  const CpuWeight& weight = cpu_weight(table);
  for (size_t i = 0; i < ids.size(); ++i) {
    float* const row = out.row(i);
    weight.decode(static_cast<size_t>(ids[i]), 0, out.n_cols, row);
    for (size_t k = 0; k < out.n_cols; ++k) row[k] *= scale;
  }
}

void CpuBackend::multiply_rows(TensorView x, const LinearJob& job, size_t first, size_t n, Scratch& scratch) const {
  const CpuWeight& weight = cpu_weight(*job.linear->weight);
  const float* const floats = weight.as_floats();
  const size_t n_in = weight.n_in();
  MultiplyTask task{};
  task.n_rows = n;
  task.x_stride = x.n_cols;
  task.n_tokens = x.n_rows;
  task.out = job.out.data + first;
  task.out_stride = job.out.n_cols;
  for (size_t k = 0; k < n_in; k += kChunk) {
    task.k = std::min(kChunk, n_in - k);
    task.x = x.data + k;
    task.is_added = k != 0;
    if (floats != nullptr) {
      task.w = floats + first * n_in + k;
      task.w_stride = n_in;
    } else {
      for (size_t r = 0; r < n; ++r) weight.decode(first + r, k, task.k, scratch.rows + r * kScratchStride);
      task.w = scratch.rows;
      task.w_stride = kScratchStride;
    }
    kernels_.multiply(task);
  }
  if (job.linear->bias == nullptr && job.linear->scale == 1.0f) return;
  for (size_t t = 0; t < x.n_rows; ++t) {
    float* const out = job.out.row(t) + first;
    for (size_t r = 0; r < n; ++r) {
      out[r] *= job.linear->scale;
      if (job.linear->bias != nullptr) out[r] += job.linear->bias[first + r];
    }
  }
}

bool CpuBackend::are_planes(std::span<const LinearJob> jobs) const {
  return activations_ == CpuActivations::q8 && std::ranges::all_of(jobs, [](const LinearJob& job) {
           return plane_type(job.linear->weight->dtype()) != nullptr;
         });
}

void CpuBackend::pack_columns(TensorView x, size_t block_len) {
  std::vector<int8_t>& columns = block_len == 256 ? columns_256_ : columns_32_;
  const size_t n_blocks = x.n_cols / block_len;
  const size_t needed = x.n_rows * n_blocks * (block_len == 256 ? kActs256Bytes : kActs32Bytes);
  if (columns.size() < needed) columns.resize(needed);
  const PackTask task{x.data, x.n_cols, x.n_rows, n_blocks, block_len, columns.data()};
  for_ranges(n_blocks, 0, x.n_rows * block_len * 4,
             [&](size_t begin, size_t end, uint32_t) { kernels_.pack_columns(task, begin, end - begin); });
}

void CpuBackend::multiply_panel(TensorView x, const LinearJob& job, size_t panel_idx, Scratch& scratch) {
  const auto& weight = static_cast<const PlaneWeight&>(*job.linear->weight);
  if (scratch.tile.size() < x.n_rows * kPanelRows) scratch.tile.resize(x.n_rows * kPanelRows);
  const std::vector<int8_t>& columns = weight.type().block_len == 256 ? columns_256_ : columns_32_;
  kernels_.multiply_panel[weight.type().kind]({.planes = weight.panel(panel_idx),
                                               .acts = columns.data(),
                                               .n_columns = x.n_rows,
                                               .n_blocks = weight.n_blocks(),
                                               .panel = scratch.codes,
                                               .acc = scratch.tile.data()});
  const size_t first = panel_idx * kPanelRows;
  const size_t n_rows = std::min<size_t>(kPanelRows, weight.n_out() - first);
  for (size_t t = 0; t < x.n_rows; ++t) {
    const float* const from = scratch.tile.data() + t * kPanelRows;
    float* const out = job.out.row(t) + first;
    for (size_t r = 0; r < n_rows; ++r) {
      out[r] = from[r] * job.linear->scale;
      if (job.linear->bias != nullptr) out[r] += job.linear->bias[first + r];
    }
  }
}

void CpuBackend::run_planes(TensorView x, std::span<const LinearJob> jobs, const Activation* activation) {
  for (const size_t block_len : {32, 256})
    if (std::ranges::any_of(jobs, [=](const LinearJob& job) {
          return plane_type(job.linear->weight->dtype())->block_len == block_len;
        }))
      pack_columns(x, block_len);
  auto n_panels = [](const LinearJob& job) { return (job.out.n_cols + kPanelRows - 1) / kPanelRows; };
  size_t n_items = 0;
  for (const LinearJob& job : jobs) n_items += n_panels(job);
  if (activation != nullptr) n_items = n_panels(jobs[0]);  // gate and up go together
  const size_t cost = kPanelRows * x.n_cols * x.n_rows / 4;
  for_ranges(n_items, std::clamp<size_t>(n_items / 64, 1, 16), cost,
             [&](size_t begin, size_t end, uint32_t thread_idx) {
               for (size_t item = begin; item < end; ++item) {
                 if (activation == nullptr) {
                   size_t j = 0, local = item;
                   for (; local >= n_panels(jobs[j]); ++j) local -= n_panels(jobs[j]);
                   multiply_panel(x, jobs[j], local, scratch_[thread_idx]);
                   continue;
                 }
                 for (const LinearJob& job : jobs) multiply_panel(x, job, item, scratch_[thread_idx]);
                 const size_t first = item * kPanelRows, n = std::min<size_t>(kPanelRows, jobs[0].out.n_cols - first);
                 for (size_t t = 0; t < x.n_rows; ++t)
                   activate_range(jobs[0].out.row(t) + first, jobs[1].out.row(t) + first, n, *activation);
               }
             });
}

void CpuBackend::run_linears(TensorView x, std::span<const LinearJob> jobs, const Activation* activation) {
  if (are_planes(jobs)) return run_planes(x, jobs, activation);
  if (jobs.size() > 1 && activation == nullptr) {  // of mixed kinds: one by one
    for (const LinearJob& job : jobs) run_linears(x, {&job, 1}, nullptr);
    return;
  }
  // Few tokens: a few rows at a time, so that decoded weights never leave the nearest cache.
  const size_t n_together = x.n_rows < 4 ? 4 : kRowsTogether;
  const size_t n_fused = activation != nullptr ? jobs.size() : 1;  // with an activation, the jobs' rows go in pairs
  size_t n_groups = 0;
  for (size_t j = 0; j < jobs.size(); j += n_fused)
    n_groups += (jobs[j].out.n_cols + kRowsTogether - 1) / kRowsTogether;
  const size_t cost = kRowsTogether * x.n_cols * x.n_rows * n_fused;
  const size_t grain = std::clamp<size_t>(2 * kSharedCost / std::max<size_t>(cost, 1), 1, 16);
  for_ranges(n_groups, grain, cost, [&](size_t begin, size_t end, uint32_t thread_idx) {
    for (size_t group = begin; group < end; ++group) {
      size_t j = 0, local = group;
      for (size_t n_here; local >= (n_here = (jobs[j].out.n_cols + kRowsTogether - 1) / kRowsTogether); j += n_fused)
        local -= n_here;
      const size_t first = local * kRowsTogether;
      const size_t last = std::min(first + kRowsTogether, jobs[j].out.n_cols);
      for (size_t fused = j; fused < j + n_fused; ++fused)
        for (size_t row = first; row < last; row += n_together)
          multiply_rows(x, jobs[fused], row, std::min(n_together, last - row), scratch_[thread_idx]);
      if (activation == nullptr) continue;
      for (size_t t = 0; t < x.n_rows; ++t)
        activate_range(jobs[0].out.row(t) + first, jobs[1].out.row(t) + first, last - first, *activation);
    }
  });
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
                         TensorView scratch) {
  const LinearJob jobs[] = {{&gate, out}, {&up, scratch}};
  run_linears(x, jobs, &activation);
}

}  // namespace tamis::cpu
