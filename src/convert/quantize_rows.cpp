// Slabs: as many rows as fit a few dozen MB, cut into chunks that the threads take.
#include "convert/quantize_rows.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <vector>

#include "convert/exact_grid.h"

namespace tamis {
namespace {

constexpr uint64_t kSlabBytes = uint64_t{32} << 20;  // of blocks
constexpr uint64_t kChunkValues = 1 << 15;           // that one thread takes at once
constexpr uint64_t kFeedbackRows = 32;               // with error feedback, which shares what it reads among them
constexpr uint64_t kProbeRows = 8;                   // that tell whether the tensor lies on a grid
// Above it a product of scale and code may overflow f16 scales: the blocks are then decoded and looked at.
constexpr float kSafeMagnitude = 32768.0f;

// The first thing wrong in a slab, by row: the same whatever thread found what first.
class FirstError {
 public:
  void add(uint64_t row, Error error) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (is_set_ && row >= row_) return;
    is_set_ = true;
    row_ = row;
    error_ = std::move(error);
  }
  Status status() const {
    if (!is_set_) return {};
    return tl::unexpected<Error>(error_);
  }

 private:
  std::mutex mutex_;
  bool is_set_ = false;
  uint64_t row_ = 0;
  Error error_;
};

class TensorEncoder {
 public:
  TensorEncoder(const EncodeJob& job, ThreadPool& pool)
      : job_(job),
        pool_(pool),
        row_len_(job.shape.row_len()),
        row_bytes_(row_bytes(job.target, job.shape)),
        rows_per_matrix_(std::max<uint64_t>(1, job.shape.n_rows() / std::max<uint64_t>(1, job.shape.n_matrices()))),
        values_(pool.n_threads()) {}

  // Whether the first rows lie on a grid of the target: only then is every row tried.
  Status probe() {
    if (!has_exact_grid(job_.target)) return {};
    const uint64_t n_rows = std::min(kProbeRows, job_.shape.n_rows());
    std::vector<float> values(row_len_);
    std::vector<std::byte> blocks(row_bytes_);
    bool is_exact = n_rows > 0, is_zero = true;
    for (uint64_t row = 0; row < n_rows && is_exact; ++row) {
      TAMIS_TRY_STATUS(job_.read(row, 1, values));
      is_exact = exact_blocks(job_.target, job_.source, values, blocks);
      is_zero = is_zero && std::all_of(values.begin(), values.end(), [](float x) { return x == 0; });
    }
    may_be_exact_ = is_exact && !is_zero;
    return {};
  }

  Status encode(uint64_t first_row, uint64_t n_rows, std::span<std::byte> blocks) {
    const uint64_t grain = job_.hessian != nullptr ? kFeedbackRows : std::max<uint64_t>(1, kChunkValues / row_len_);
    FirstError error;
    TAMIS_TRY_STATUS(pool_.parallel_for(n_rows, grain, [&](size_t begin, size_t end, uint32_t thread_idx) {
      for (uint64_t at = begin; at < end;) {  // a chunk never crosses two matrices
        const uint64_t left = rows_per_matrix_ - (first_row + at) % rows_per_matrix_;
        const uint64_t n = std::min({left, uint64_t{end} - at, grain});
        auto done = encode_chunk(first_row + at, n, blocks.subspan(at * row_bytes_, n * row_bytes_), thread_idx);
        if (!done) return error.add(first_row + at, std::move(done).error());
        at += n;
      }
    }));
    return error.status();
  }

  uint64_t n_exact_rows() const { return n_exact_rows_; }

 private:
  Status encode_chunk(uint64_t row, uint64_t n_rows, std::span<std::byte> blocks, uint32_t thread_idx) {
    std::vector<float>& values = values_[thread_idx];
    values.resize(n_rows * row_len_);
    TAMIS_TRY_STATUS(job_.read(row, n_rows, values));
    TAMIS_TRY(const float magnitude, check_finite(row, values));
    std::span<const float> importance;
    if (!job_.importance.empty()) importance = job_.importance[row / rows_per_matrix_].values;
    if (may_be_exact_) return encode_by_row(row, values, importance, blocks);
    TAMIS_TRY_STATUS(encode_values(values, importance, blocks));
    return magnitude > kSafeMagnitude ? check_decoded(row, values, blocks) : Status();
  }

  Status encode_values(std::span<const float> values, std::span<const float> importance,
                       std::span<std::byte> blocks) const {
    if (job_.hessian == nullptr) return encode_rows(job_.target, job_.method, values, row_len_, importance, blocks);
    return encode_rows_with_feedback(job_.target, values, *job_.hessian, {}, blocks);
  }

  // Without loss where the row lies on the grid.
  Status encode_by_row(uint64_t row, std::span<const float> values, std::span<const float> importance,
                       std::span<std::byte> blocks) {
    for (uint64_t i = 0; i * row_len_ < values.size(); ++i) {
      const auto x = values.subspan(i * row_len_, row_len_);
      const auto out = blocks.subspan(i * row_bytes_, row_bytes_);
      if (exact_blocks(job_.target, job_.source, x, out)) {
        ++n_exact_rows_;
        continue;
      }
      TAMIS_TRY_STATUS(encode_values(x, importance, out));
      TAMIS_TRY_STATUS(check_decoded(row + i, x, out));
    }
    return {};
  }

  // The largest magnitude. Errors: format for a value that is not finite.
  Result<float> check_finite(uint64_t row, std::span<const float> values) const {
    float largest = 0;
    uint32_t all_bits = 0;
    for (const float x : values) {
      const float magnitude = std::fabs(x);
      largest = largest < magnitude ? magnitude : largest;
      all_bits |= std::isfinite(x) ? 0 : 1;
    }
    if (all_bits == 0) return largest;
    const auto bad = std::find_if(values.begin(), values.end(), [](float x) { return !std::isfinite(x); });
    return wrong_value(row, static_cast<uint64_t>(bad - values.begin()), *bad, "a finite weight");
  }

  Status check_decoded(uint64_t row, std::span<const float> values, std::span<const std::byte> blocks) const {
    std::vector<float> decoded(values.size());
    decode(job_.target, blocks.data(), decoded);
    const auto bad = std::find_if(decoded.begin(), decoded.end(), [](float x) { return !std::isfinite(x); });
    if (bad == decoded.end()) return {};
    const auto at = static_cast<uint64_t>(bad - decoded.begin());
    return wrong_value(row, at, values[at], fmt::format("a weight that {} can hold", dtype_name(job_.target)));
  }

  tl::unexpected<Error> wrong_value(uint64_t row, uint64_t at, float value, std::string_view expected) const {
    return fail(ErrorCode::format, "{}: row {}, column {} (element {}): got {}, expected {}",
                escape_for_display(job_.name), row + at / row_len_, at % row_len_, row * row_len_ + at, value,
                expected);
  }

  const EncodeJob& job_;
  ThreadPool& pool_;
  const uint64_t row_len_, row_bytes_, rows_per_matrix_;
  std::vector<std::vector<float>> values_;  // a thread
  bool may_be_exact_ = false;
  std::atomic<uint64_t> n_exact_rows_{0};
};

}  // namespace

uint64_t row_bytes(DType dtype, const Shape& shape) {
  return shape.row_len() / dtype_info(dtype).block_len * dtype_info(dtype).block_bytes;
}

bool has_encoder(DType dtype) {
  const QuantType& type = quant_type(dtype);
  return type.encode_plain != nullptr || type.encode_fast != nullptr;
}

ReadRows rows_of(const GgufFile& file, const GgufTensor& tensor) {
  const uint64_t n_bytes = row_bytes(tensor.dtype, tensor.shape);
  return [file, &tensor, n_bytes](uint64_t first_row, uint64_t n_rows, std::span<float> values) {
    return decode_checked(tensor.dtype, file.data(tensor).subspan(first_row * n_bytes, n_rows * n_bytes), values);
  };
}

Result<EncodeReport> encode_tensor(const EncodeJob& job, uint64_t first_row, ThreadPool& pool, const TakeRows& take,
                                   const std::atomic<bool>* stop) {
  TensorEncoder encoder(job, pool);
  TAMIS_TRY_STATUS(encoder.probe());
  const uint64_t n_rows = job.shape.n_rows(), n_bytes = row_bytes(job.target, job.shape);
  const uint64_t per_slab = std::clamp<uint64_t>(kSlabBytes / std::max<uint64_t>(1, n_bytes), 1, n_rows);
  std::vector<std::byte> blocks(std::min(per_slab, n_rows - first_row) * n_bytes);
  for (uint64_t row = first_row; row < n_rows; row += per_slab) {
    if (stop != nullptr && *stop) return fail(ErrorCode::cancelled, "stopped");
    const uint64_t n = std::min(per_slab, n_rows - row);
    const std::span<std::byte> out(blocks.data(), n * n_bytes);
    TAMIS_TRY_STATUS(encoder.encode(row, n, out));
    TAMIS_TRY_STATUS(take(row, n, out));
  }
  return EncodeReport{encoder.n_exact_rows()};
}

}  // namespace tamis
