// Where correlations lie, and what they are with their scales.
#include "formats/correlations.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tamis {
namespace {

class InMemory : public Correlations {
 public:
  InMemory(uint64_t n_cols, std::vector<int16_t> lower) : n_cols_(n_cols), lower_(std::move(lower)) {}
  uint64_t n_cols() const override { return n_cols_; }
  Result<std::vector<int16_t>> read() const override { return lower_; }

 private:
  uint64_t n_cols_;
  std::vector<int16_t> lower_;
};

class InFile : public Correlations {
 public:
  InFile(GgufFile file, size_t tensor_idx, uint64_t n_cols)
      : file_(std::move(file)), tensor_idx_(tensor_idx), n_cols_(n_cols) {}
  uint64_t n_cols() const override { return n_cols_; }
  Result<std::vector<int16_t>> read() const override {
    if (file_.size_changed()) return fail(ErrorCode::io, "the file changed its size while it was read");
    const std::span<const std::byte> bytes = file_.data(file_.tensors()[tensor_idx_]);
    std::vector<int16_t> lower(bytes.size() / sizeof(int16_t));
    if (!lower.empty()) std::memcpy(lower.data(), bytes.data(), lower.size() * sizeof(int16_t));
    return lower;
  }

 private:
  GgufFile file_;
  size_t tensor_idx_;
  uint64_t n_cols_;
};

// What turns a correlation into a sum of products: √Σx² of each column.
std::vector<double> roots_of(std::span<const double> sums) {
  std::vector<double> roots(sums.size());
  std::ranges::transform(sums, roots.begin(), [](double sum) { return std::sqrt(sum); });
  return roots;
}

}  // namespace

std::shared_ptr<const Correlations> correlations_in_memory(uint64_t n_cols, std::vector<int16_t> lower) {
  TAMIS_CHECK(lower.size() == n_pairs(n_cols));
  return std::make_shared<InMemory>(n_cols, std::move(lower));
}

std::shared_ptr<const Correlations> correlations_in_file(GgufFile file, size_t tensor_idx, uint64_t n_cols) {
  return std::make_shared<InFile>(std::move(file), tensor_idx, n_cols);
}

Result<std::vector<float>> products_of(const ScaledCorrelations& of, double n_tokens) {
  const uint64_t n = of.correlations.n_cols();
  TAMIS_CHECK(of.sums.size() == n);
  TAMIS_TRY(const std::vector<int16_t> lower, of.correlations.read());
  std::vector<double> roots = roots_of(of.sums);
  for (double& root : roots) root /= std::sqrt(n_tokens);
  std::vector<float> out(n * n);
  size_t at = 0;
  for (uint64_t i = 0; i < n; ++i) {
    for (uint64_t j = 0; j < i; ++j, ++at) {
      const double correlation = std::max(lower[at] / Correlations::kUnit, -1.0);
      out[i * n + j] = out[j * n + i] = static_cast<float>(correlation * roots[i] * roots[j]);
    }
    out[i * n + i] = static_cast<float>(roots[i] * roots[i]);
  }
  return out;
}

Result<std::shared_ptr<const Correlations>> add_correlations(const ScaledCorrelations& a, const ScaledCorrelations& b) {
  const uint64_t n = a.correlations.n_cols();
  TAMIS_CHECK(b.correlations.n_cols() == n && a.sums.size() == n && b.sums.size() == n);
  TAMIS_TRY(std::vector<int16_t> lower, a.correlations.read());
  TAMIS_TRY(const std::vector<int16_t> added, b.correlations.read());
  const std::vector<double> u = roots_of(a.sums), v = roots_of(b.sums);
  size_t at = 0;
  for (uint64_t i = 0; i < n; ++i) {
    for (uint64_t j = 0; j < i; ++j, ++at) {
      const double product = lower[at] * u[i] * u[j] + added[at] * v[i] * v[j];
      const double norm = std::hypot(u[i], v[i]) * std::hypot(u[j], v[j]);
      lower[at] = static_cast<int16_t>(norm > 0 ? std::lrint(product / norm) : 0);
    }
  }
  return correlations_in_memory(n, std::move(lower));
}

}  // namespace tamis
