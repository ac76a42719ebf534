// Activations between two ops: f32 matrices, one row a token, contiguous, in the memory of the backend that made them.
// A view does not own; a Buffer does. Weights are not views: they are opaque handles (backend.h).
#pragma once

#include <cstddef>
#include <utility>

namespace tamis {

// A non-owning row-major f32 matrix. `data` belongs to the backend's memory (the host's, for the reference and CPU
// backends).
struct TensorView {
  float* data = nullptr;
  size_t n_rows = 0;
  size_t n_cols = 0;

  size_t size() const { return n_rows * n_cols; }
  float* row(size_t i) const { return data + i * n_cols; }
  TensorView rows(size_t first, size_t n) const { return {row(first), n, n_cols}; }
  // The same elements cut into rows of another length: [n_tokens, n_head·head_dim] as [n_tokens·n_head, head_dim].
  // Requires: n divides size().
  TensorView with_row_len(size_t n) const { return {data, size() / n, n}; }
};

// An owner of `size()` floats of one backend. Movable; empty after a move.
class Buffer {
 public:
  using Free = void (*)(float*);

  Buffer() = default;
  Buffer(float* data, size_t n, Free free) : data_(data), n_(n), free_(free) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer moved(std::move(other));
    swap(moved);
    return *this;
  }
  ~Buffer() {
    if (data_ != nullptr) free_(data_);
  }

  bool empty() const { return n_ == 0; }
  size_t size() const { return n_; }
  float* data() const { return data_; }
  // Requires: n_rows · n_cols ≤ size().
  TensorView view(size_t n_rows, size_t n_cols) const { return {data_, n_rows, n_cols}; }
  TensorView as_row() const { return {data_, 1, n_}; }

 private:
  void swap(Buffer& other) {
    std::swap(data_, other.data_);
    std::swap(n_, other.n_);
    std::swap(free_, other.free_);
  }

  float* data_ = nullptr;
  size_t n_ = 0;
  Free free_ = nullptr;
};

}  // namespace tamis
