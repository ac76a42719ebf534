// Collects an importance matrix: runs windows of text through the model and sums, for every weight, the squares of its
// inputs column by column, before any rounding to 8 bits. What formats/imatrix writes and quantization reads.
//
// Sums are taken in double, token by token in order, so the matrix depends on the windows alone: not on the number of
// threads, nor on how many tokens are computed together.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "engine/engine.h"
#include "engine/perplexity.h"
#include "engine/session.h"
#include "formats/imatrix.h"

namespace tamis {

struct CalibrationOptions {
  uint32_t n_ctx = 512;           // tokens a window
  bool has_output = false;        // the output matrix too, or the embedding that serves as one
  bool has_correlations = false;  // the inputs of weights in pairs, too; n_cols² numbers for every input of a layer
  bool has_perplexity = true;     // score each window's second half on the way; costs the output matrix
  ThreadPool* pool = nullptr;     // for the sums
};

class Calibrator {
 public:
  // Requires: the engine computes in host memory, has a tokenizer and a context of options.n_ctx.
  // Errors: invalid_argument for n_ctx < 4; those of plan_model.
  static Result<Calibrator> create(std::shared_ptr<const Engine> engine, const CalibrationOptions& options);

  // Bytes that the pairs of all inputs take; 0 without options.has_correlations.
  uint64_t pair_bytes() const;

  // One window of n_ctx tokens; the first is replaced by BOS when the vocabulary adds one, as llama-imatrix does.
  // Errors: those of the forward pass; internal, naming the tensor, when an input is not finite.
  Status add(std::span<const TokenId> window);

  uint32_t n_windows() const { return n_windows_; }
  const PerplexitySums& perplexity() const { return perplexity_; }
  // What was collected so far; data sets are the caller's to add.
  Imatrix imatrix() const;

 private:
  // The sums of one input, which several weights may share: [n_mat, n_cols], n_mat experts or 1.
  struct Site {
    uint64_t n_cols = 0;
    std::vector<double> sums, counts;
    std::vector<float> products;  // [n_cols, n_cols], lower triangle: Σ x_i x_j, token by token; may be empty
  };
  struct WatchedWeight {
    std::string name;
    size_t site_idx = 0;
    int32_t expert_idx = -1;  // ≥ 0: one expert, stored apart in the file
  };

  Calibrator(std::shared_ptr<const Engine> engine, const CalibrationOptions& options);
  void plan(const PlannedTensor& tensor, bool is_tied);
  void see(size_t site_idx, TensorView x);
  void see_pairs(Site& site, TensorView x);
  void see_experts(size_t site_idx, TensorView x, std::span<const ExpertRows> rows);
  void show(std::string_view name, int32_t layer_idx, TensorView value);
  // fn(begin, end, thread_idx) must not throw: then the loop cannot fail.
  template <class Fn>
  void on_all_threads(size_t n_items, Fn&& fn) {
    if (options_.pool == nullptr)
      fn(size_t{0}, n_items, uint32_t{0});
    else
      TAMIS_CHECK(options_.pool->parallel_for(n_items, 1, fn).has_value());
  }
  Status check_sums() const;

  std::shared_ptr<const Engine> engine_;
  CalibrationOptions options_;
  std::vector<Site> sites_;  // [n_layers · inputs of a layer + 1]
  std::vector<WatchedWeight> weights_;
  uint32_t n_windows_ = 0;
  PerplexitySums perplexity_;
};

}  // namespace tamis
