// H = E[x xᵀ] of a matrix's inputs, prepared for rounding: a row w decoded as ŵ adds (ŵ − w)ᵀ H (ŵ − w) to the mean
// squared error of the layer's outputs.
//
// H is regularised first, H ← (1 − r) H + r·diag(H) + ε·mean(diag H)·I, so that few tokens and dead columns do no harm,
// then factored as U D Uᵀ with U unit upper triangular:
//
//   eᵀ H e = Σ_k D_k (e_k + Σ_{i<k} U_ik e_i)²
//
// so a column rounded after the columns before it aims at w_k − Σ_{i<k} U_ik e_i ("LDLQ", Chee et al. 2023; GPTQ is the
// same thing). D_k is what of column k's energy its predecessors cannot stand in for: the geometric mean of D_k / H_kk
// is about the error that full rounding leaves of what the diagonal alone can reach.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"

namespace tamis {

struct HessianOptions {
  double shrink = 0.03;        // r; more helps below 10 tokens a column only (quantization-measured.md B8)
  double dead_column = 0.001;  // ε
};

class InputHessian {
 public:
  // Columns of one step of the row encoder, whose diagonal blocks of H are factored on their own, too.
  static constexpr uint64_t kTile = 256;

  // `h`: E[x xᵀ] [n, n], row by row, symmetric; its lower triangle is read. Errors: invalid_argument when a number is
  // not finite, or the matrix is not that of any inputs (not positive definite even when regularised).
  static Result<InputHessian> create(std::vector<float> h, uint64_t n, const HessianOptions& options, ThreadPool& pool);

  uint64_t n_cols() const { return n_; }
  const float* row(uint64_t i) const { return h_.data() + i * n_; }     // [n] of H
  const float* factor(uint64_t i) const { return u_.data() + i * n_; }  // [n]: U_ik at k > i, 0 elsewhere
  float diagonal(uint64_t k) const { return h_[k * n_ + k]; }
  float conditional(uint64_t k) const { return d_[k]; }  // D_k, > 0

  // The same of the diagonal block of the tile that holds column k: [first, first + kTile) or what is left of it.
  const float* tile_factor(uint64_t k) const { return tile_u_.data() + k * kTile; }  // [tile]: from its first column on
  const float* tile_conditionals(uint64_t k) const { return tile_d_.data() + k; }    // [tile], D_k first

  // The geometric mean of D_k / H_kk.
  double room() const;

 private:
  InputHessian() = default;
  uint64_t n_ = 0;
  std::vector<float> h_, u_, d_, tile_u_, tile_d_;
};

// a = U D Uᵀ, in place: `a` [n, n] with rows `stride` apart, its lower triangle read; U without its unit diagonal above
// the diagonal, zeros elsewhere; D to `d` [n]. False when a D_k is not > 0.
bool factor_udu(float* a, uint64_t n, uint64_t stride, float* d, ThreadPool* pool);

}  // namespace tamis
