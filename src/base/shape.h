// Up to four extents, row-major, slowest first: a matrix of n_out rows and n_in columns is {n_out, n_in}. GGUF's own
// order (innermost first) exists only inside formats/gguf.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace tamis {

struct Shape {
  static constexpr uint32_t kMaxDims = 4;

  uint32_t n_dims = 0;
  std::array<uint64_t, kMaxDims> extents{};  // extents[0 … n_dims-1]; the rest are 0

  Shape() = default;
  Shape(std::initializer_list<uint64_t> list);

  uint64_t operator[](uint32_t i) const { return extents[i]; }
  uint64_t row_len() const { return n_dims == 0 ? 1 : extents[n_dims - 1]; }  // innermost extent
  uint64_t n_elements() const;  // product; Requires: it fits (checked where the shape was read)
  uint64_t n_matrices() const;  // stacked ones: product of all extents but the innermost two
  uint64_t n_rows() const { return row_len() == 0 ? 0 : n_elements() / row_len(); }
  std::string to_string() const;  // "[2048, 1024]"

  friend bool operator==(const Shape&, const Shape&) = default;
};

}  // namespace tamis
