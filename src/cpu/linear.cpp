// Weights as the file holds them, and y = scale · W x + bias: rows outside, tokens inside, so that each block is
// decoded once a step whatever the number of tokens.
#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "cpu/cpu_backend.h"
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

void CpuBackend::run_linears(TensorView x, std::span<const LinearJob> jobs, const Activation* activation) {
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
