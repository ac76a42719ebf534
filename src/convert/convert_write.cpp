// Writing: a slab of rows at a time is read, encoded by all threads, measured where the source is packed, and written
// to a file; or whole tensors into memory (checkpoint.h).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <unordered_map>

#include "base/sparse_memory.h"
#include "convert/checkpoint.h"
#include "convert/convert_state.h"

namespace tamis {
namespace {

constexpr uint64_t kSlabElements = uint64_t{8} << 20;  // 32 MiB of float32
constexpr uint64_t kChunkElements = uint64_t{1} << 16;

// Importance of each matrix of a tensor, or nothing.
struct TensorImportance {
  std::vector<std::vector<float>> of_matrix;
  std::span<const float> values(uint64_t matrix) const {
    return of_matrix.empty() ? std::span<const float>() : std::span<const float>(of_matrix[matrix]);
  }
};

class TensorWriter {
 public:
  TensorWriter(ConvertPlan::State& state, size_t i, ThreadPool& pool)
      : state_(state), tensor_(state.tensors[i]), rows_(*state.rows[i]), entry_(state.importance[i]), pool_(pool) {
    row_bytes_ = tensor_.size_bytes / rows_.n_rows();
    rows_per_matrix_ = tensor_.shape.n_dims > 2 ? rows_.n_rows() / tensor_.shape[0] : rows_.n_rows();
    is_native_ = rows_.native_type() == tensor_.type;
    is_measured_ = rows_.native_type().has_value();
  }

  Status prepare() {
    if (entry_ == nullptr) return {};
    const uint64_t n_mat = rows_.n_rows() / rows_per_matrix_;
    for (uint64_t m = 0; m < n_mat; ++m) {
      TAMIS_TRY(Importance importance, imatrix_importance(*entry_, tensor_.name, n_mat, rows_.row_len(), m));
      importance_.of_matrix.push_back(std::move(importance.values));
    }
    return {};
  }

  // Rows [first, first + n) into slab.
  Status encode(uint64_t first, uint64_t n, std::span<std::byte> slab) {
    const uint64_t chunk = std::clamp<uint64_t>(kChunkElements / rows_.row_len(), 1, n);
    const uint64_t n_chunks = (n + chunk - 1) / chunk;
    std::vector<Status> results(pool_.n_threads());
    std::vector<double> squares(2 * pool_.n_threads(), 0.0);
    TAMIS_TRY_STATUS(pool_.parallel_for(n_chunks, 1, [&](size_t begin, size_t end, uint32_t thread_idx) {
      for (size_t c = begin; c < end && results[thread_idx]; ++c) {
        const uint64_t at = c * chunk, count = std::min(chunk, n - at);
        results[thread_idx] = encode_chunk(first + at, count, slab.subspan(at * row_bytes_, count * row_bytes_),
                                           squares.data() + 2 * thread_idx);
      }
    }));
    for (Status& result : results) TAMIS_TRY_STATUS(std::move(result));
    for (size_t i = 0; i < squares.size(); i += 2) difference_ += squares[i], total_ += squares[i + 1];
    return {};
  }

  void finish() {
    if (is_measured_) tensor_.error = total_ > 0 ? std::sqrt(difference_ / total_) : std::sqrt(difference_);
    rows_.give_back();
  }
  uint64_t row_bytes() const { return row_bytes_; }

 private:
  Status encode_chunk(uint64_t first, uint64_t n, std::span<std::byte> out, double* squares) const {
    std::vector<float> values;
    if (!is_native_ || is_measured_) {
      values.resize(n * rows_.row_len());
      TAMIS_TRY_STATUS(rows_.read(first, n, values));
    }
    if (is_native_) {
      TAMIS_TRY_STATUS(rows_.write_native(first, n, out));
    } else {
      TAMIS_TRY_STATUS(encode_values(first, n, values, out));
    }
    if (is_measured_) {
      std::vector<float> decoded(values.size());
      TAMIS_TRY_STATUS(decode_checked(tensor_.type, out, decoded));
      for (size_t i = 0; i < values.size(); ++i) {
        const double d = static_cast<double>(decoded[i]) - values[i];
        squares[0] += d * d;
        squares[1] += static_cast<double>(values[i]) * values[i];
      }
    }
    return {};
  }

  // Chunks may span matrices of a stack, whose importance differs.
  Status encode_values(uint64_t first, uint64_t n, std::span<const float> values, std::span<std::byte> out) const {
    for (uint64_t done = 0; done < n;) {
      const uint64_t row = first + done;
      const uint64_t count = std::min(n - done, rows_per_matrix_ - row % rows_per_matrix_);
      TAMIS_TRY_STATUS(encode_rows(tensor_.type, state_.options.method,
                                   values.subspan(done * rows_.row_len(), count * rows_.row_len()), rows_.row_len(),
                                   importance_.values(row / rows_per_matrix_),
                                   out.subspan(done * row_bytes_, count * row_bytes_)));
      done += count;
    }
    return {};
  }

  ConvertPlan::State& state_;
  ConvertedTensor& tensor_;
  const RowSource& rows_;
  const ImatrixEntry* entry_;
  ThreadPool& pool_;
  TensorImportance importance_;
  uint64_t row_bytes_ = 0, rows_per_matrix_ = 1;
  bool is_native_ = false, is_measured_ = false;
  double difference_ = 0, total_ = 0;
};

}  // namespace

bool is_checkpoint(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error) && file_exists(path + "/config.json");
}

namespace {

// Every matrix of the tensor as codes.
bool is_affine(const ConvertedTensor& tensor, const RowSource& rows) {
  for (uint64_t i = 0; i < tensor.shape.n_matrices(); ++i)
    if (rows.affine(i) == nullptr) return false;
  return true;
}

// Tensors as the checkpoint has them, in memory laid out as a file.
Result<std::shared_ptr<SparseMemory>> fill_memory(ConvertPlan::State& state, ThreadPool& pool,
                                                  const std::unordered_map<std::string, size_t>& affine) {
  GgufWriter writer;
  TAMIS_TRY_STATUS(add_all_keys(state, writer));
  for (const ConvertedTensor& tensor : state.tensors)
    TAMIS_TRY_STATUS(writer.add_tensor(tensor.name, tensor.type, tensor.shape));
  const std::string head = writer.header();
  TAMIS_TRY(auto memory, SparseMemory::create(head.size() + writer.data_bytes()));
  std::memcpy(memory->bytes().data(), head.data(), head.size());
  for (size_t i = 0; i < state.tensors.size(); ++i) {
    if (affine.contains(state.tensors[i].name)) continue;
    TensorWriter tensor(state, i, pool);
    const std::span<std::byte> bytes =
        memory->bytes().subspan(head.size() + writer.tensor_offset(i), state.tensors[i].size_bytes);
    TAMIS_TRY_STATUS(state.set.check_unchanged());
    TAMIS_TRY_STATUS(tensor.encode(0, state.rows[i]->n_rows(), bytes));
    tensor.finish();
  }
  return memory;
}

}  // namespace

Result<OpenCheckpoint> open_checkpoint(const std::string& folder, ThreadPool& pool, const ConvertOptions& options) {
  TAMIS_TRY(ConvertPlan plan, ConvertPlan::make(folder, options));
  const std::shared_ptr<ConvertPlan::State> state = std::move(plan).take_state();
  std::unordered_map<std::string, size_t> affine;
  for (size_t i = 0; i < state->tensors.size(); ++i) {
    ConvertedTensor& tensor = state->tensors[i];
    const RowSource& rows = *state->rows[i];
    const bool is_codes = tensor.name != "token_embd.weight" && is_affine(tensor, rows);
    if (is_codes) affine.emplace(tensor.name, i);
    if (tensor.shape.n_dims > 1) tensor.type = is_codes || rows.is_packed() ? DType::f32 : rows.float_type();
    tensor.size_bytes = *dtype_bytes(tensor.type, tensor.shape.n_elements());
  }
  TAMIS_TRY(auto memory, fill_memory(*state, pool, affine));
  TAMIS_TRY(GgufFile file, GgufFile::open(memory));
  return OpenCheckpoint{std::move(file),
                        [state, affine = std::move(affine)](std::string_view name, uint32_t matrix_idx) {
                          const auto found = affine.find(std::string(name));
                          return found == affine.end() ? nullptr : state->rows[found->second]->affine(matrix_idx);
                        },
                        [memory](const GgufTensor& tensor) { memory->forget(tensor.file_offset, tensor.size_bytes); },
                        state->warnings};
}

Status ConvertPlan::write(const std::string& path, ThreadPool& pool, const std::function<void(uint64_t)>& progress,
                          const std::atomic<bool>* stop) {
  GgufWriter writer;
  TAMIS_TRY_STATUS(add_all_keys(*state_, writer));
  for (const ConvertedTensor& tensor : state_->tensors)
    TAMIS_TRY_STATUS(writer.add_tensor(tensor.name, tensor.type, tensor.shape));
  TAMIS_TRY_STATUS(writer.begin(path, state_->options.is_overwriting));
  std::vector<std::byte> slab;
  for (size_t i = 0; i < state_->tensors.size(); ++i) {
    TensorWriter tensor(*state_, i, pool);
    TAMIS_TRY_STATUS(tensor.prepare());
    const uint64_t n_rows = state_->rows[i]->n_rows();
    const uint64_t step = std::clamp<uint64_t>(kSlabElements / state_->rows[i]->row_len(), 1, n_rows);
    for (uint64_t row = 0; row < n_rows; row += step) {
      if (stop != nullptr && *stop) return fail(ErrorCode::cancelled, "stopped");
      TAMIS_TRY_STATUS(state_->set.check_unchanged());
      const uint64_t n = std::min(step, n_rows - row);
      slab.resize(n * tensor.row_bytes());
      TAMIS_TRY_STATUS(tensor.encode(row, n, slab));
      TAMIS_TRY_STATUS(writer.write(slab));
      if (progress) progress(slab.size());
    }
    tensor.finish();
  }
  return writer.finish();
}

}  // namespace tamis
