// Memory, norms and the element-by-element ops of the CPU backend.
#include "cpu/backend.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>
#include <numbers>

#include "base/checked.h"
#include "compute/routing.h"
#include "cpu/cpu_backend.h"
#include "cpu/dispatch.h"

namespace tamis {
namespace cpu {

CpuBackend::CpuBackend(ThreadPool* pool, const KernelTable& kernels, CpuActivations activations, CpuLayout layout)
    : pool_(pool),
      kernels_(kernels),
      activations_(activations),
      layout_(layout),
      buffers_(std::make_shared<BufferPool>()),
      scratch_(pool != nullptr ? pool->n_threads() : 1) {}

Result<Buffer> CpuBackend::alloc(size_t n) { return BufferPool::take(buffers_, n); }

void CpuBackend::upload(std::span<const float> from, TensorView to) {
  if (!from.empty()) std::memcpy(to.data, from.data(), from.size_bytes());
}

void CpuBackend::download(TensorView from, std::span<float> to) {
  if (!to.empty()) std::memcpy(to.data(), from.data, to.size_bytes());
}

Status CpuBackend::finish() { return std::exchange(status_, Status{}); }

void CpuBackend::gather_rows(TensorView x, std::span<const uint32_t> rows, TensorView out) {
  for_ranges(rows.size(), 0, x.n_cols, [=](size_t begin, size_t end, uint32_t) {
    for (size_t i = begin; i < end; ++i) std::memcpy(out.row(i), x.row(rows[i]), x.n_cols * sizeof(float));
  });
}

void CpuBackend::rms_norm(TensorView x, const float* weight, float eps, TensorView out) {
  for_ranges(x.n_rows, 0, 4 * x.n_cols, [=, this](size_t begin, size_t end, uint32_t) {
    for (size_t i = begin; i < end; ++i) {
      const float* const in = x.row(i);
      float* const to = out.row(i);
      const double mean_square = static_cast<double>(kernels_.dot(in, in, x.n_cols)) / static_cast<double>(x.n_cols);
      const auto factor = static_cast<float>(1.0 / std::sqrt(mean_square + static_cast<double>(eps)));
      if (weight != nullptr) {
        for (size_t k = 0; k < x.n_cols; ++k) to[k] = in[k] * factor * weight[k];
      } else {
        for (size_t k = 0; k < x.n_cols; ++k) to[k] = in[k] * factor;
      }
    }
  });
}

void CpuBackend::layer_norm(TensorView x, const float* weight, const float* bias, float eps, TensorView out) {
  for_ranges(x.n_rows, 0, 8 * x.n_cols, [=](size_t begin, size_t end, uint32_t) {
    const auto n = static_cast<double>(x.n_cols);
    for (size_t i = begin; i < end; ++i) {
      const float* const in = x.row(i);
      float* const to = out.row(i);
      double sum = 0, squares = 0;
      for (size_t k = 0; k < x.n_cols; ++k) sum += in[k];
      const double mean = sum / n;
      for (size_t k = 0; k < x.n_cols; ++k) squares += (in[k] - mean) * (in[k] - mean);
      const double factor = 1.0 / std::sqrt(squares / n + static_cast<double>(eps));
      for (size_t k = 0; k < x.n_cols; ++k) {
        const double gain = weight != nullptr ? weight[k] : 1.0f;
        to[k] = static_cast<float>((in[k] - mean) * factor * gain + (bias != nullptr ? bias[k] : 0.0f));
      }
    }
  });
}

void CpuBackend::activate_range(float* x, const float* factor, size_t n, Activation activation) const {
  switch (activation) {
    case Activation::silu: return kernels_.silu(x, factor, n);
    case Activation::gelu_tanh: return kernels_.gelu_tanh(x, factor, n);
    case Activation::gelu_erf:
      for (size_t i = 0; i < n; ++i) {
        const double value = x[i];
        x[i] = static_cast<float>(0.5 * value * (1.0 + std::erf(value / std::numbers::sqrt2)));
      }
      break;
    case Activation::relu:
      for (size_t i = 0; i < n; ++i) x[i] = x[i] > 0.0f ? x[i] : 0.0f;
      break;
  }
  for (size_t i = 0; factor != nullptr && i < n; ++i) x[i] *= factor[i];
}

void CpuBackend::activate(TensorView x, Activation activation, TensorView factor) {
  for_ranges(x.n_rows, 0, 16 * x.n_cols, [=, this](size_t begin, size_t end, uint32_t) {
    for (size_t i = begin; i < end; ++i)
      activate_range(x.row(i), factor.data != nullptr ? factor.row(i) : nullptr, x.n_cols, activation);
  });
}

void CpuBackend::add(TensorView x, TensorView y) {
  for_ranges(x.n_rows, 0, x.n_cols, [=](size_t begin, size_t end, uint32_t) {
    for (size_t i = begin * x.n_cols; i < end * x.n_cols; ++i) x.data[i] += y.data[i];
  });
}

void CpuBackend::scale(TensorView x, float factor) {
  for_ranges(x.n_rows, 0, x.n_cols, [=](size_t begin, size_t end, uint32_t) {
    for (size_t i = begin * x.n_cols; i < end * x.n_cols; ++i) x.data[i] *= factor;
  });
}

void CpuBackend::softcap_range(float* x, size_t n, float cap) {
  for (size_t i = 0; i < n; ++i) x[i] = static_cast<float>(cap * std::tanh(static_cast<double>(x[i]) / cap));
}

void CpuBackend::softcap(TensorView x, float cap) {
  // By elements, not rows: the logits of one token are one long row.
  for_ranges(x.size(), 4096, 32,
             [=](size_t begin, size_t end, uint32_t) { softcap_range(x.data + begin, end - begin, cap); });
}

Routing CpuBackend::route(TensorView logits, const RouterParams& params) { return choose_experts(logits, params); }

void CpuBackend::add_scaled_rows(TensorView x, std::span<const uint32_t> rows, std::span<const float> factor,
                                 bool is_first, TensorView out) {
  for_ranges(rows.size(), 0, 2 * out.n_cols, [=](size_t begin, size_t end, uint32_t) {
    for (size_t i = begin; i < end; ++i) {
      const float* const from = x.row(rows[i]);
      float* const to = out.row(i);
      for (size_t k = 0; k < out.n_cols; ++k) to[k] = is_first ? factor[i] * from[k] : to[k] + factor[i] * from[k];
    }
  });
}

}  // namespace cpu

Result<std::unique_ptr<Backend>> make_cpu_backend(ThreadPool* pool, std::string_view target, CpuActivations activations,
                                                  CpuLayout layout) {
  TAMIS_TRY(const cpu::KernelTable* const kernels, cpu::find_target(target));
  return std::make_unique<cpu::CpuBackend>(pool, *kernels, activations, layout);
}

}  // namespace tamis
