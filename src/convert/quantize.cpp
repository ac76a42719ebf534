// The work of a plan, file by file and tensor by tensor.
#include "convert/quantize.h"

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "convert/quantize_journal.h"

namespace tamis {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{4} << 20;

// Input and options: everything that decides a byte of the output.
uint64_t fingerprint_of(const QuantizePlan& plan) {
  Fingerprint all;
  for (uint32_t i = 0; i < plan.source.n_shards(); ++i) {
    std::error_code error;
    all.add(plan.source.path(i));
    all.add(std::filesystem::file_size(plan.source.path(i), error));
    const auto time = std::filesystem::last_write_time(plan.source.path(i), error);
    all.add(static_cast<uint64_t>(time.time_since_epoch().count()));
  }
  for (const QuantizedTensor& tensor : plan.tensors) {
    all.add(tensor.source);
    if (tensor.importance == nullptr) continue;
    all.add(std::as_bytes(std::span(tensor.importance->sums)));
    all.add(std::as_bytes(std::span(tensor.importance->counts)));
    all.add(uint64_t{tensor.correlations != nullptr});
  }
  for (const QuantizedFile& file : plan.files) all.add(file.writer.header());
  all.add(static_cast<uint64_t>(plan.options.method));
  return all.value();
}

class Quantizer {
 public:
  Quantizer(QuantizePlan& plan, const QuantizeRun& run) : plan_(plan), run_(run), fingerprint_(fingerprint_of(plan)) {}

  Result<QuantizeReport> all() {
    TAMIS_TRY_STATUS(check_room());
    Status done;
    for (size_t i = 0; i < plan_.files.size() && done; ++i) done = write_file(plan_.files[i]);
    if (!done && !run_.resumes)
      for (const std::string& path : finished_) std::remove(path.c_str());
    if (done || !run_.resumes)
      for (const QuantizedFile& file : plan_.files) std::remove(QuantizeJournal::name_of(file.path).c_str());
    if (!done) return tl::unexpected<Error>(std::move(done).error());
    return std::move(report_);
  }

 private:
  // Errors: out_of_memory, when the directory's disk holds less than what is to be written.
  Status check_room() const {
    uint64_t needed = 0;
    for (const QuantizedFile& file : plan_.files) needed += file.size_bytes;
    const std::string& path = plan_.files.front().path;
    std::error_code error;
    for (const QuantizedFile& file : plan_.files) {
      const uint64_t there = std::filesystem::file_size(AtomicFile::partial_name(file.path), error);
      if (!error) needed -= std::min(needed, there);
    }
    const auto directory = std::filesystem::absolute(path, error).parent_path();
    const auto space = std::filesystem::space(directory, error);
    if (error || space.available >= needed) return {};
    return tl::unexpected<Error>(
        with_file(Error{ErrorCode::out_of_memory,
                        fmt::format("needs {} bytes of disk, {} are free", needed, space.available), nullptr},
                  path));
  }

  // How far an earlier run came, and whether it finished the file.
  struct Start {
    WrittenUpTo at;
    bool is_complete = false;
  };
  Start find_start(const QuantizedFile& file) const {
    if (!run_.resumes) return {};
    const std::string partial = AtomicFile::partial_name(file.path);
    const bool is_partial = file_exists(partial);
    const auto proven = QuantizeJournal::proven(file.path, is_partial ? partial : file.path, file.writer, fingerprint_);
    if (!proven) return {};
    if (is_partial) return {*proven, false};
    return {*proven, proven->tensor == file.writer.n_tensors()};
  }

  Status write_file(QuantizedFile& file) {
    const Start start = find_start(file);
    if (start.is_complete) {
      skip(file, {file.tensors.size(), 0});
      return {};
    }
    if (!run_.overwrites && file_exists(file.path))
      return tl::unexpected<Error>(with_file(
          Error{ErrorCode::invalid_argument, "exists already (use --force to overwrite)", nullptr}, file.path));
    TAMIS_TRY_STATUS(file.writer.begin_partial(file.path, run_.overwrites, start.at.tensor, start.at.written_bytes));
    // From here on the partial file belongs to this run.
    auto written = write_tensors(file, start.at);
    if (!written) {
      file.writer.keep_partial(run_.resumes);
      return written;
    }
    TAMIS_TRY_STATUS(file.writer.finish());
    finished_.push_back(file.path);
    return {};
  }

  Status write_tensors(QuantizedFile& file, WrittenUpTo start) {
    TAMIS_TRY(QuantizeJournal journal, QuantizeJournal::begin(file.path, fingerprint_, start));
    skip(file, start);
    for (size_t i = start.tensor; i < file.tensors.size(); ++i) {
      const QuantizedTensor& tensor = plan_.tensors[file.tensors[i]];
      if (run_.on_tensor) run_.on_tensor(file.tensors[i]);
      uint64_t done = i == start.tensor ? start.written_bytes : 0;
      const auto take = [&](std::span<const std::byte> bytes) -> Status {
        done += bytes.size();
        TAMIS_TRY_STATUS(file.writer.write(bytes));
        return journal.add(i, done, bytes);
      };
      const auto written = tensor.from == tensor.choice.type ? copy(tensor, done, take) : encode(tensor, done, take);
      if (!written) return with_source(tensor, written.error());
    }
    return {};
  }

  // Counts what an earlier run did as done.
  void skip(const QuantizedFile& file, WrittenUpTo end) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < end.tensor; ++i) {
      report_.kept_bytes += file.writer.tensor_bytes(i);
      bytes += source_of(plan_.tensors[file.tensors[i]]).size_bytes;
    }
    report_.kept_bytes += end.written_bytes;
    if (end.written_bytes > 0)
      bytes += static_cast<uint64_t>(
          static_cast<double>(end.written_bytes) / static_cast<double>(file.writer.tensor_bytes(end.tensor)) *
          static_cast<double>(source_of(plan_.tensors[file.tensors[end.tensor]]).size_bytes));
    if (run_.on_bytes && bytes > 0) run_.on_bytes(bytes);
  }

  const GgufTensor& source_of(const QuantizedTensor& tensor) const { return plan_.source.tensors()[tensor.source]; }

  Status check_source(const QuantizedTensor& tensor) const {
    if (run_.stop != nullptr && *run_.stop) return fail(ErrorCode::cancelled, "stopped");
    if (plan_.source.size_changed())
      return fail(ErrorCode::io, "the file changed its size while {} was read", escape_for_display(tensor.name));
    return {};
  }

  template <class Take>
  Status copy(const QuantizedTensor& tensor, uint64_t begin, const Take& take) {
    const auto bytes = plan_.source.data(source_of(tensor));
    for (uint64_t at = begin; at < bytes.size(); at += kPieceBytes) {
      TAMIS_TRY_STATUS(check_source(tensor));
      const auto piece = bytes.subspan(at, std::min<uint64_t>(kPieceBytes, bytes.size() - at));
      TAMIS_TRY_STATUS(take(piece));
      plan_.source.give_back(piece);
      if (run_.on_bytes) run_.on_bytes(piece.size());
    }
    return {};
  }

  template <class Take>
  Status encode(const QuantizedTensor& tensor, uint64_t begin, const Take& take) {
    const GgufTensor& source = source_of(tensor);
    std::vector<Importance> importance;
    if (tensor.importance != nullptr) {
      const uint64_t n = tensor.shape.n_matrices();
      for (uint64_t mat = 0; mat < n; ++mat) {
        TAMIS_TRY(Importance one, imatrix_importance(*tensor.importance, tensor.name, n, tensor.shape.row_len(), mat));
        importance.push_back(std::move(one));
      }
    }
    TAMIS_TRY_STATUS(check_source(tensor));
    TAMIS_TRY(const InputHessian* const hessian, hessian_of(tensor));
    const uint64_t in_row = row_bytes(tensor.from, tensor.shape), out_row = row_bytes(tensor.choice.type, tensor.shape);
    const EncodeJob job{.name = tensor.name,
                        .shape = tensor.shape,
                        .source = tensor.from,
                        .target = tensor.choice.type,
                        .method = plan_.options.method,
                        .importance = importance,
                        .hessian = hessian,
                        .read = rows_of(plan_.source, source)};
    const auto done = encode_tensor(
        job, begin / out_row, *run_.pool,
        [&](uint64_t first_row, uint64_t n_rows, std::span<const std::byte> blocks) -> Status {
          TAMIS_TRY_STATUS(take(blocks));
          plan_.source.give_back(plan_.source.data(source).subspan(first_row * in_row, n_rows * in_row));
          if (run_.on_bytes) run_.on_bytes(n_rows * in_row);
          return check_source(tensor);
        },
        run_.stop);
    if (!done) return tl::unexpected<Error>(done.error());
    if (done->n_exact_rows + begin / out_row == tensor.shape.n_rows() && done->n_exact_rows > 0)
      report_.exact.push_back(tensor.name);
    return {};
  }

  // Null without correlations. Weights that share inputs mostly stand together in a file, so the last one is kept.
  Result<const InputHessian*> hessian_of(const QuantizedTensor& tensor) {
    if (tensor.correlations == nullptr) return nullptr;
    if (hessian_ && hessian_source_ == tensor.correlations) return &*hessian_;
    hessian_.reset();
    TAMIS_TRY(std::vector<float> products, input_products(*tensor.importance, *tensor.correlations));
    auto made = InputHessian::create(std::move(products), tensor.shape.row_len(), {}, *run_.pool);
    if (!made)
      return fail(ErrorCode::format, "{}: {}: the correlations of its inputs: {}", plan_.options.imatrix_path,
                  escape_for_display(tensor.name), made.error().message);
    hessian_ = std::move(*made);
    hessian_source_ = tensor.correlations;
    return &*hessian_;
  }

  // Faults of the data are the source's; others name their own file or none.
  tl::unexpected<Error> with_source(const QuantizedTensor& tensor, const Error& error) const {
    const bool is_named = error.site && !error.site->file.empty();
    if (is_named || error.code == ErrorCode::cancelled) return tl::unexpected<Error>(error);
    return tl::unexpected<Error>(with_file(error, plan_.source.path(source_of(tensor).shard_idx)));
  }

  QuantizePlan& plan_;
  const QuantizeRun& run_;
  const uint64_t fingerprint_;
  std::vector<std::string> finished_;
  std::optional<InputHessian> hessian_;
  std::shared_ptr<const Correlations> hessian_source_;
  QuantizeReport report_;
};

}  // namespace

Result<QuantizeReport> run_quantize(QuantizePlan& plan, const QuantizeRun& run) {
  if (plan.refusal) return tl::unexpected<Error>(with_file(*plan.refusal, plan.source.path()));
  if (!plan.missing_imatrix.empty())
    return fail(ErrorCode::invalid_argument, "{}: so few bits need an imatrix (--imatrix F)", plan.missing_imatrix);
  return Quantizer(plan, run).all();
}

}  // namespace tamis
