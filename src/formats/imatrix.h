// Importance matrices: for every weight the sums of its squared inputs, column by column, over the tokens of a
// calibration text. Calibration writes them, quantization weighs its rounding errors with their means. Two forms, both
// llama-imatrix's: GGUF, and the older .dat.  Format: imatrix.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "formats/correlations.h"
#include "formats/gguf.h"

namespace tamis {

// One weight: one matrix, or one for each expert.
struct ImatrixEntry {
  std::vector<double> sums;    // [n_mat, n_cols]: Σ x² of each input column, all finite and ≥ 0
  std::vector<double> counts;  // [n_mat]: tokens in the sums; 0: this expert was never chosen, its sums are 0

  uint64_t n_mat() const { return counts.size(); }
  uint64_t n_cols() const { return sums.size() / counts.size(); }
  bool is_partial() const;  // some but not all experts were seen
};

// The entries of the names of tensors ("blk.0.attn_q.weight"), each with at least one matrix of at least one column.
struct Imatrix {
  std::map<std::string, ImatrixEntry, std::less<>> entries;
  // Of those weights of `entries` that have one matrix and whose inputs were looked at in pairs, too; weights with the
  // same inputs share one.
  std::map<std::string, std::shared_ptr<const Correlations>, std::less<>> correlations;
  std::vector<std::string> datasets;  // where the text came from, for the record
  uint32_t n_chunks = 0;              // windows of text taken in
  uint32_t chunk_size = 0;            // tokens a window
};

enum class ImatrixFormat : uint8_t { gguf, dat };

// The .dat form has no chunk size: its means count as chunk_size tokens a call, and its experts are not told apart
// (n_mat is 1, one long row).
inline constexpr uint32_t kImatrixChunkSize = 512;

// Either form, told by the first bytes. Errors: io; format, naming the tensor, for a sum or count that is NaN, infinite
// or negative, for sums without a count and sizes that do not agree.
Result<Imatrix> read_imatrix(const std::string& path, uint32_t dat_chunk_size = kImatrixChunkSize);
Result<Imatrix> read_imatrix(std::shared_ptr<ByteSource> source, uint32_t dat_chunk_size = kImatrixChunkSize);

// Through AtomicFile; sums and counts become float32. The .dat form keeps means only, no correlations, leaves out
// weights never seen and gives experts never seen the mean 1, as llama-imatrix does. Errors: io; invalid_argument when
// `path` exists and !overwrite, or a sum does not fit float32.
Status write_imatrix(const Imatrix& imatrix, const std::string& path, ImatrixFormat format, bool overwrite);

// Adds the sums, counts and chunks of `other`; the order of several merges changes nothing but rounding in the last
// place of a double and the order of the data sets. Errors: shape, naming the tensor, when the columns or the experts
// differ.
Status merge_imatrix(Imatrix& into, const Imatrix& other);

// A warning of entries that name no tensor of a model; empty when each names one. Errors: shape when none does: an
// importance matrix of another model.
Result<std::string> check_imatrix_names(const Imatrix& imatrix,
                                        const std::function<bool(std::string_view name)>& has_tensor);

// The importance of the columns of one matrix: mean squares, [n_cols].
struct Importance {
  std::vector<float> values;
  bool is_seen = true;  // false: an expert never chosen; the values are then 1
};

// Of matrix `mat_idx` of the weight `name`, which has n_mat matrices of n_cols columns. Errors: shape, naming the
// tensor, when the entry is of another size (an importance matrix of another model).
Result<Importance> imatrix_importance(const ImatrixEntry& entry, std::string_view name, uint64_t n_mat, uint64_t n_cols,
                                      uint64_t mat_idx);

// E[x xᵀ] of a weight of one matrix: [n_cols, n_cols], symmetric. Errors: those of Correlations::read().
// Requires: entry.n_mat() == 1 and as many columns as the correlations.
Result<std::vector<float>> input_products(const ImatrixEntry& entry, const Correlations& correlations);

}  // namespace tamis
