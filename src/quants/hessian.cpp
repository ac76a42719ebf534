// The factorisation, from the last column to the first, in blocks: a panel of columns by itself, then what is left of
// the matrix less the panel's share, by all threads.
#include "quants/hessian.h"

#include <algorithm>
#include <cmath>

#include "base/cpu_clones.h"

namespace tamis {
namespace {

constexpr uint64_t kPanel = 64;

// out[j] -= Σ_k u[k] · v[k][j] for j < n, k < n_panel; every j sums in the same order, whatever n.
TAMIS_WIDE void subtract_products(const float* u, const float* v, uint64_t v_stride, uint64_t n_panel, float* out,
                                  uint64_t n) {
  for (uint64_t k = 0; k < n_panel; ++k) {
    const float factor = u[k];
    const float* const row = v + k * v_stride;
    for (uint64_t j = 0; j < n; ++j) out[j] -= factor * row[j];
  }
}

// Works on A = lower triangle by rows: A[i][j], j ≤ i. Column `k` of U is A[k][i] / D_k for i < k, which row k holds.
class Factorisation {
 public:
  Factorisation(float* a, uint64_t n, uint64_t stride, float* d, ThreadPool* pool)
      : a_(a), n_(n), stride_(stride), d_(d), pool_(pool), scaled_(kPanel * n) {}

  bool run() {
    for (uint64_t end = n_; end > 0;) {
      const uint64_t begin = (end - 1) / kPanel * kPanel;
      if (!panel(begin, end)) return false;
      if (begin > 0) update(begin, end);
      end = begin;
    }
    transpose();
    return true;
  }

 private:
  float* row(uint64_t i) { return a_ + i * stride_; }

  // Columns [begin, end), their shares of each other taken away. Row k then holds U_ik at i < k.
  bool panel(uint64_t begin, uint64_t end) {
    for (uint64_t k = end; k-- > begin;) {
      float* const at = row(k);
      d_[k] = at[k];
      if (!(d_[k] > 0.0f) || !std::isfinite(d_[k])) return false;
      float* const scaled = scaled_.data() + (k - begin) * n_;
      for (uint64_t i = 0; i < k; ++i) {
        scaled[i] = at[i];  // U_ik · D_k
        at[i] /= d_[k];
      }
      for (uint64_t i = begin; i < k; ++i) subtract_products(&at[i], scaled, n_, 1, row(i), i + 1);
    }
    return true;
  }

  // A[i][0 … i] -= Σ_k U_ik · (U_jk D_k) for the rows above the panel.
  void update(uint64_t begin, uint64_t end) {
    const auto rows = [&](size_t first, size_t last, uint32_t) {
      float u[kPanel];
      for (uint64_t i = first; i < last; ++i) {
        for (uint64_t k = begin; k < end; ++k) u[k - begin] = row(k)[i];
        subtract_products(u, scaled_.data(), n_, end - begin, row(i), i + 1);
      }
    };
    if (pool_ == nullptr)
      rows(0, begin, 0);
    else
      TAMIS_CHECK(pool_->parallel_for(begin, 16, rows).has_value());
  }

  void transpose() {
    for (uint64_t i = 0; i < n_; ++i) {
      row(i)[i] = 0;
      for (uint64_t k = i + 1; k < n_; ++k) {
        row(i)[k] = row(k)[i];
        row(k)[i] = 0;
      }
    }
  }

  float* const a_;
  const uint64_t n_, stride_;
  float* const d_;
  ThreadPool* const pool_;
  std::vector<float> scaled_;  // [panel, n]
};

}  // namespace

bool factor_udu(float* a, uint64_t n, uint64_t stride, float* d, ThreadPool* pool) {
  return Factorisation(a, n, stride, d, pool).run();
}

Result<InputHessian> InputHessian::create(std::vector<float> h, uint64_t n, const HessianOptions& options,
                                          ThreadPool& pool) {
  TAMIS_CHECK(h.size() == n * n && n > 0);
  double mean = 0;
  for (uint64_t k = 0; k < n; ++k) mean += static_cast<double>(h[k * n + k]) / static_cast<double>(n);
  if (!std::isfinite(mean) || mean < 0) return fail(ErrorCode::invalid_argument, "a mean square of {}", mean);
  if (mean == 0) mean = 1;  // no input but zeros: any rounding will do
  InputHessian out;
  out.n_ = n;
  for (uint64_t i = 0; i < n; ++i) {
    for (uint64_t j = 0; j < i; ++j) {
      const auto value = static_cast<float>((1 - options.shrink) * static_cast<double>(h[i * n + j]));
      if (!std::isfinite(value)) return fail(ErrorCode::invalid_argument, "row {}, column {}: got {}", i, j, value);
      h[i * n + j] = h[j * n + i] = value;
    }
    h[i * n + i] += static_cast<float>(options.dead_column * mean);
  }
  out.h_ = std::move(h);
  out.u_ = out.h_;
  out.d_.resize(n);
  if (!factor_udu(out.u_.data(), n, n, out.d_.data(), &pool))
    return fail(ErrorCode::invalid_argument, "not positive definite");
  out.tile_u_.resize(n * kTile);
  out.tile_d_.resize(n);
  for (uint64_t first = 0; first < n; first += kTile) {
    const uint64_t len = std::min(kTile, n - first);
    for (uint64_t i = 0; i < len; ++i)
      std::copy_n(out.row(first + i) + first, len, out.tile_u_.data() + (first + i) * kTile);
    if (!factor_udu(out.tile_u_.data() + first * kTile, len, kTile, out.tile_d_.data() + first, nullptr))
      return fail(ErrorCode::invalid_argument, "not positive definite");
  }
  return out;
}

double InputHessian::room() const {
  double sum = 0;
  for (uint64_t k = 0; k < n_; ++k) sum += std::log(static_cast<double>(d_[k]) / static_cast<double>(diagonal(k)));
  return std::exp(sum / static_cast<double>(n_));
}

}  // namespace tamis
