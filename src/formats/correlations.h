// The correlations of a matrix's input columns, E[x_i x_j] / √(E[x_i²] E[x_j²]): with the mean squares that an
// importance matrix holds they are all of E[x xᵀ], which rounding with error feedback needs. A part of formats/imatrix.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "formats/gguf.h"

namespace tamis {

// In memory, or still in the file they came from.
class Correlations {
 public:
  static constexpr double kUnit = 32767;  // an int16 of so much is a correlation of 1

  virtual ~Correlations() = default;
  virtual uint64_t n_cols() const = 0;
  // The lower triangle without its diagonal, row by row: (i, j < i) at i (i − 1) / 2 + j. Errors: io.
  virtual Result<std::vector<int16_t>> read() const = 0;
};

// Numbers below the diagonal of n_cols ≥ 1 columns.
inline uint64_t n_pairs(uint64_t n_cols) { return n_cols * (n_cols - 1) / 2; }

// Requires: n_pairs(n_cols) numbers.
std::shared_ptr<const Correlations> correlations_in_memory(uint64_t n_cols, std::vector<int16_t> lower);
// Of an i16 tensor of n_pairs(n_cols) elements.
std::shared_ptr<const Correlations> correlations_in_file(GgufFile file, size_t tensor_idx, uint64_t n_cols);

// Correlations with what scales them: Σ x² of each column.
struct ScaledCorrelations {
  const Correlations& correlations;
  std::span<const double> sums;  // [n_cols]
};

// E[x xᵀ] over n_tokens: [n_cols, n_cols], symmetric. Errors: those of Correlations::read().
Result<std::vector<float>> products_of(const ScaledCorrelations& of, double n_tokens);

// Those of both texts together. Errors: those of Correlations::read(). Requires: as many columns in both.
Result<std::shared_ptr<const Correlations>> add_correlations(const ScaledCorrelations& a, const ScaledCorrelations& b);

}  // namespace tamis
