// Two-dimensional float32 arrays in NumPy's .npy format, version 1.0, little-endian, C order: what `tamis logits`
// writes and `tamis compare` reads.  Source: numpy.lib.format, "NPY format, version 1.0".
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"

namespace tamis {

struct NpyMatrix {
  uint64_t n_rows = 0;
  uint64_t n_cols = 0;
  std::vector<float> values;  // [n_rows, n_cols], row-major
};

// A one-dimensional array is read as one row. Errors: io; format, with the byte, for another magic, version, dtype,
// order or dimension count, and when the bytes after the header are not exactly the array.
Result<NpyMatrix> read_npy(ByteSource& source);
Result<NpyMatrix> read_npy(const std::string& path);

// A matrix written row by row, for results larger than memory should hold. The header's row count is fixed at creation.
class NpyWriter {
 public:
  // Errors: io; invalid_argument when `path` exists and !overwrite, or the size does not fit.
  static Result<NpyWriter> create(const std::string& path, uint64_t n_rows, uint64_t n_cols, bool overwrite);
  // Appends whole rows. Requires: values.size() is a multiple of n_cols.
  Status write_rows(std::span<const float> values);
  // Errors: io; internal when fewer or more rows were written than announced.
  Status commit();

 private:
  NpyWriter(AtomicFile file, uint64_t n_values) : file_(std::move(file)), n_values_left_(n_values) {}
  AtomicFile file_;
  uint64_t n_values_left_;
};

}  // namespace tamis
