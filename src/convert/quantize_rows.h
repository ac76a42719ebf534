// One tensor from floats to blocks: slabs of rows, encoded by all threads, handed on in order. What `tamis quantize`
// and `tamis convert` do with every tensor; memory is one slab, whatever the tensor.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "base/result.h"
#include "base/shape.h"
#include "base/thread_pool.h"
#include "formats/gguf.h"
#include "formats/imatrix.h"
#include "quants/hessian_rows.h"
#include "quants/registry.h"

namespace tamis {

// Rows [first_row, first_row + n_rows) of the tensor as floats. Called from several threads at once.
using ReadRows = std::function<Status(uint64_t first_row, uint64_t n_rows, std::span<float> values)>;

struct EncodeJob {
  std::string name;           // for messages
  Shape shape;                // the slowest of three or more extents counts matrices, each with its own importance
  DType source = DType::f32;  // the type the values were stored in: what "without loss" means
  DType target = DType::f32;
  EncodeMethod method = EncodeMethod::fast;
  std::span<const Importance> importance;  // one a matrix, or none at all
  const InputHessian* hessian = nullptr;   // of the one matrix: rows are then encoded with error feedback
  ReadRows read;
};

struct EncodeReport {
  uint64_t n_exact_rows = 0;  // of a grid that the target holds: encoded without loss
};

// Where slabs go: the blocks of whole rows from `first_row` on, in order.
using TakeRows = std::function<Status(uint64_t first_row, uint64_t n_rows, std::span<const std::byte> blocks)>;

// Encodes rows from `first_row` to the last. Bytes are the same for every number of threads and every first row.
// Errors: format for a weight that is NaN or infinite, or too large for the target, naming tensor, row and column;
// unsupported without an encoder; cancelled; what `read` and `take` return.
Result<EncodeReport> encode_tensor(const EncodeJob& job, uint64_t first_row, ThreadPool& pool, const TakeRows& take,
                                   const std::atomic<bool>* stop);

// Rows of a tensor of a file.
ReadRows rows_of(const GgufFile& file, const GgufTensor& tensor);

// Bytes of one row.
uint64_t row_bytes(DType dtype, const Shape& shape);

bool has_encoder(DType dtype);

}  // namespace tamis
