// fuzz: rooms=formats,base
// Any bytes as an .npy file: an error, or a matrix whose values are exactly the bytes after the header.
#include <cstdlib>
#include <cstring>
#include <span>

#include "formats/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tamis::MemorySource source(std::as_bytes(std::span(data, size)));
  const auto matrix = tamis::read_npy(source);
  if (!matrix) return 0;
  const size_t n_bytes = matrix->values.size() * sizeof(float);
  if (matrix->values.size() != matrix->n_rows * matrix->n_cols || n_bytes > size) std::abort();
  if (n_bytes != 0 && std::memcmp(matrix->values.data(), data + size - n_bytes, n_bytes) != 0) std::abort();
  return 0;
}
