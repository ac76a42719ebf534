// The two forms.
//
// GGUF: general.type = "imatrix"; imatrix.datasets (strings), imatrix.chunk_count, imatrix.chunk_size (u32); for each
// weight W the tensors "W.in_sum2" f32 [n_mat, n_cols] and "W.counts" f32 [n_mat, 1]. Other tensors are left alone.
// Ours, which other readers pass over: "W.in_correlation" i16 [n_cols (n_cols − 1) / 2] for the first of the weights
// that share inputs, and which weight uses which, tamis.correlation.weights and tamis.correlation.tensors (strings, in
// pairs).
//
// .dat, little-endian: i32 number of entries; each: i32 length, name, i32 calls, i32 n, n × f32 (mean square · calls).
// Then, in newer files, i32 chunks, i32 length, data set. A call is one chunk.
//
// Source: llama.cpp, tools/imatrix (documented behaviour of llama-imatrix and what gguf-py reads in its files).
#include "formats/imatrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "base/bytes.h"
#include "base/checked.h"
#include "formats/gguf_writer.h"

namespace tamis {
namespace {

constexpr std::string_view kSums = ".in_sum2", kCounts = ".counts", kCorrelation = ".in_correlation";
constexpr std::string_view kCorrelationWeights = "tamis.correlation.weights",
                           kCorrelationTensors = "tamis.correlation.tensors";
constexpr std::string_view kTag = "E_IMATRIX";
constexpr double kMaxFloat = std::numeric_limits<float>::max();
constexpr uint64_t kMinDatEntryBytes = 4 + 1 + 4 + 4 + 4;

// What is wrong with the numbers of an entry; nothing when they are sound.
std::optional<std::string> fault_of(const ImatrixEntry& entry) {
  const uint64_t n_cols = entry.n_cols();
  for (uint64_t i = 0; i < entry.n_mat(); ++i) {
    const double count = entry.counts[i];
    if (!std::isfinite(count) || count < 0) return fmt::format("count {} of matrix {}", count, i);
    for (uint64_t k = 0; k < n_cols; ++k) {
      const double sum = entry.sums[i * n_cols + k];
      if (!std::isfinite(sum) || sum < 0) return fmt::format("sum {} in column {} of matrix {}", sum, k, i);
      if (sum > 0 && !(sum / count <= kMaxFloat))
        return fmt::format("sum {} of {} tokens in column {} of matrix {}", sum, count, k, i);
    }
  }
  return std::nullopt;
}

constexpr std::string_view kSound = "finite sums ≥ 0 of at least one token";

// ---- GGUF

std::vector<double> float_values(const GgufFile& file, const GgufTensor& tensor) {
  const std::span<const std::byte> bytes = file.data(tensor);
  std::vector<double> values(bytes.size() / sizeof(float));
  for (size_t i = 0; i < values.size(); ++i) {
    float value = 0;
    std::memcpy(&value, bytes.data() + i * sizeof(float), sizeof(float));
    values[i] = static_cast<double>(value);
  }
  return values;
}

Result<uint32_t> small_uint(const GgufFile& file, std::string_view key) {
  TAMIS_TRY(const uint64_t value, file.get_uint(key));
  if (value > std::numeric_limits<uint32_t>::max())
    return file.error_at_key(key, std::to_string(value), "a number below 2^32", std::string(kTag));
  return static_cast<uint32_t>(value);
}

Result<ImatrixEntry> read_entry(const GgufFile& file, const GgufTensor& sums, std::string_view weight) {
  const GgufTensor* const counts = file.find_tensor(fmt::format("{}{}", weight, kCounts));
  if (counts == nullptr)
    return file.error_at_tensor(sums, "no counts", fmt::format("a tensor {}{}", weight, kCounts), std::string(kTag));
  for (const GgufTensor* tensor : {&sums, counts}) {
    if (tensor->dtype != DType::f32)
      return file.error_at_tensor(*tensor, std::string(dtype_name(tensor->dtype)), "f32", std::string(kTag));
  }
  const uint64_t n_sums = sums.shape.n_elements(), n_counts = counts->shape.n_elements();
  if (n_sums == 0 || n_counts == 0 || n_sums % n_counts != 0) {
    return file.error_at_tensor(sums, fmt::format("{} sums and {} counts", n_sums, n_counts),
                                "as many sums for each count", std::string(kTag));
  }
  ImatrixEntry entry{float_values(file, sums), float_values(file, *counts)};
  if (auto fault = fault_of(entry))
    return file.error_at_tensor(sums, *std::move(fault), std::string(kSound), std::string(kTag));
  return entry;
}

// Which weight uses which correlations; entries are read already.
Status read_correlations(const GgufFile& file, Imatrix& imatrix) {
  if (file.find(kCorrelationWeights) == nullptr) return {};
  TAMIS_TRY(const GgufArray weights, file.get_array(kCorrelationWeights, GgufType::string));
  TAMIS_TRY(const GgufArray tensors, file.get_array(kCorrelationTensors, GgufType::string));
  if (weights.size() != tensors.size())
    return file.error_at_key(kCorrelationTensors, fmt::format("{} names", tensors.size()),
                             fmt::format("{}, one for each weight", weights.size()), std::string(kTag));
  const auto weight_names = weights.strings(), tensor_names = tensors.strings();
  std::map<std::string_view, std::shared_ptr<const Correlations>> shared;
  for (size_t i = 0; weight_names && tensor_names && i < weight_names->size(); ++i) {
    const std::string_view weight = (*weight_names)[i], name = (*tensor_names)[i];
    const auto entry = imatrix.entries.find(weight);
    const GgufTensor* const tensor = file.find_tensor(name);
    if (entry == imatrix.entries.end() || tensor == nullptr)
      return file.error_at_key(tensor == nullptr ? kCorrelationTensors : kCorrelationWeights,
                               fmt::format("\"{}\"", escape_for_display(tensor == nullptr ? name : weight)),
                               "the name of a tensor with sums, and of one of this file", std::string(kTag));
    const uint64_t n_cols = entry->second.n_cols();
    if (tensor->dtype != DType::i16 || entry->second.n_mat() != 1 || tensor->shape.n_elements() != n_pairs(n_cols))
      return file.error_at_tensor(*tensor, fmt::format("{} {}", tensor->shape.n_elements(), dtype_name(tensor->dtype)),
                                  fmt::format("the {} i16 below the diagonal of {} columns", n_pairs(n_cols), n_cols),
                                  std::string(kTag));
    auto& one = shared[name];
    if (one == nullptr) one = correlations_in_file(file, static_cast<size_t>(tensor - file.tensors().data()), n_cols);
    imatrix.correlations.emplace(weight, one);
  }
  return {};
}

Result<Imatrix> read_gguf(const GgufFile& file) {
  TAMIS_TRY(const std::string_view type, file.get_string("general.type"));
  if (type != "imatrix")
    return file.error_at_key("general.type", fmt::format("\"{}\"", escape_for_display(type)), "\"imatrix\"",
                             std::string(kTag));
  Imatrix imatrix;
  TAMIS_TRY(const GgufArray datasets, file.get_array("imatrix.datasets", GgufType::string));
  const auto names = datasets.strings();
  if (names) imatrix.datasets.assign(names->begin(), names->end());
  TAMIS_TRY(imatrix.n_chunks, small_uint(file, "imatrix.chunk_count"));
  TAMIS_TRY(imatrix.chunk_size, small_uint(file, "imatrix.chunk_size"));
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.name.ends_with(kCounts)) {
      const std::string_view weight = tensor.name.substr(0, tensor.name.size() - kCounts.size());
      if (file.find_tensor(fmt::format("{}{}", weight, kSums)) == nullptr)
        return file.error_at_tensor(tensor, "no sums", fmt::format("a tensor {}{}", weight, kSums), std::string(kTag));
    }
    if (!tensor.name.ends_with(kSums)) continue;
    const std::string_view weight = tensor.name.substr(0, tensor.name.size() - kSums.size());
    TAMIS_TRY(ImatrixEntry entry, read_entry(file, tensor, weight));
    imatrix.entries.emplace(weight, std::move(entry));
  }
  TAMIS_TRY_STATUS(read_correlations(file, imatrix));
  return imatrix;
}

// Names of the correlations as metadata and, behind the tensors of `imatrix.entries`, as tensors in the order of
// `shared`.
Status declare_correlations(const Imatrix& imatrix, GgufWriter& writer, std::vector<std::string>& tensor_names,
                            std::vector<const Correlations*>& shared) {
  if (imatrix.correlations.empty()) return {};
  std::vector<std::string> weights, tensors;
  std::map<const Correlations*, std::string> names;
  for (const auto& [weight, correlations] : imatrix.correlations) {
    const auto [it, is_new] = names.try_emplace(correlations.get(), weight + std::string(kCorrelation));
    if (is_new) {
      shared.push_back(correlations.get());
      tensor_names.push_back(it->second);
    }
    weights.push_back(weight);
    tensors.push_back(it->second);
  }
  TAMIS_TRY_STATUS(writer.add_strings(std::string(kCorrelationWeights), weights));
  return writer.add_strings(std::string(kCorrelationTensors), tensors);
}

Status write_gguf(const Imatrix& imatrix, const std::string& path, bool overwrite) {
  GgufWriter writer;
  TAMIS_TRY_STATUS(writer.add_string("general.type", "imatrix"));
  TAMIS_TRY_STATUS(writer.add_strings("imatrix.datasets", imatrix.datasets));
  TAMIS_TRY_STATUS(writer.add_u32("imatrix.chunk_count", imatrix.n_chunks));
  TAMIS_TRY_STATUS(writer.add_u32("imatrix.chunk_size", imatrix.chunk_size));
  std::vector<std::string> correlation_names;
  std::vector<const Correlations*> shared;
  TAMIS_TRY_STATUS(declare_correlations(imatrix, writer, correlation_names, shared));
  for (const auto& [name, entry] : imatrix.entries) {
    TAMIS_TRY_STATUS(writer.add_tensor(name + std::string(kSums), DType::f32, {entry.n_mat(), entry.n_cols()}));
    TAMIS_TRY_STATUS(writer.add_tensor(name + std::string(kCounts), DType::f32, {entry.n_mat(), 1}));
  }
  for (size_t i = 0; i < shared.size(); ++i)
    TAMIS_TRY_STATUS(writer.add_tensor(correlation_names[i], DType::i16, {n_pairs(shared[i]->n_cols())}));
  TAMIS_TRY_STATUS(writer.begin(path, overwrite));
  std::vector<float> values;
  for (const auto& [name, entry] : imatrix.entries) {
    values.assign(entry.sums.begin(), entry.sums.end());
    TAMIS_TRY_STATUS(writer.write(std::as_bytes(std::span(values))));
    values.assign(entry.counts.begin(), entry.counts.end());
    TAMIS_TRY_STATUS(writer.write(std::as_bytes(std::span(values))));
  }
  for (const Correlations* one : shared) {
    TAMIS_TRY(const std::vector<int16_t> lower, one->read());
    TAMIS_TRY_STATUS(writer.write(std::as_bytes(std::span(lower))));
  }
  return writer.finish();
}

// ---- .dat

tl::unexpected<Error> bad_dat(uint64_t offset, std::string_view name, std::string got, std::string_view expected) {
  ErrorSite site =
      site_at_byte(offset, name.empty() ? "header" : "tensor", std::move(got), std::string(expected), kTag);
  site.subject = escape_for_display(name);
  return fail_at(ErrorCode::format, std::move(site));
}

// A count that at least `bytes_each` bytes must back.
Result<uint64_t> read_size(ByteReader& reader, std::string_view name, uint64_t bytes_each) {
  const uint64_t offset = reader.offset();
  TAMIS_TRY(const int32_t n, reader.read<int32_t>());
  const uint64_t most = reader.bytes_left() / bytes_each;
  if (n < 1 || static_cast<uint64_t>(n) > most)
    return bad_dat(offset, name, fmt::format("a count of {}", n),
                   fmt::format("1 to {}, what the bytes left hold", most));
  return static_cast<uint64_t>(n);
}

Status read_dat_entry(ByteReader& reader, uint32_t chunk_size, Imatrix& imatrix) {
  const uint64_t offset = reader.offset();
  TAMIS_TRY(const uint64_t name_bytes, read_size(reader, "", 1));
  TAMIS_TRY(const std::string_view name, reader.take_text(name_bytes));
  TAMIS_TRY(const int32_t n_calls, reader.read<int32_t>());
  if (n_calls < 0) return bad_dat(offset, name, fmt::format("{} calls", n_calls), "0 or more");
  TAMIS_TRY(const uint64_t n, read_size(reader, name, sizeof(float)));
  TAMIS_TRY(const std::span<const std::byte> bytes, reader.take(n * sizeof(float)));
  ImatrixEntry entry{std::vector<double>(n), {static_cast<double>(n_calls) * chunk_size}};
  for (uint64_t i = 0; i < n; ++i) {
    float value = 0;
    std::memcpy(&value, bytes.data() + i * sizeof(float), sizeof(float));
    entry.sums[i] = static_cast<double>(value) * chunk_size;
  }
  if (auto fault = fault_of(entry)) return bad_dat(offset, name, *std::move(fault), kSound);
  if (!imatrix.entries.emplace(name, std::move(entry)).second)
    return bad_dat(offset, name, "a second entry of this name", "one");
  return {};
}

Result<Imatrix> read_dat(std::span<const std::byte> bytes, uint32_t chunk_size) {
  ByteReader reader(bytes);
  Imatrix imatrix;
  imatrix.chunk_size = chunk_size;
  TAMIS_TRY(const uint64_t n_entries, read_size(reader, "", kMinDatEntryBytes));
  for (uint64_t i = 0; i < n_entries; ++i) TAMIS_TRY_STATUS(read_dat_entry(reader, chunk_size, imatrix));
  if (reader.bytes_left() == 0) return imatrix;
  const uint64_t offset = reader.offset();
  TAMIS_TRY(const int32_t n_chunks, reader.read<int32_t>());
  if (n_chunks < 0) return bad_dat(offset, "", fmt::format("{} chunks", n_chunks), "0 or more");
  imatrix.n_chunks = static_cast<uint32_t>(n_chunks);
  TAMIS_TRY(const int32_t name_bytes, reader.read<int32_t>());
  if (name_bytes < 0 || static_cast<uint64_t>(name_bytes) != reader.bytes_left()) {
    return bad_dat(reader.offset(), "", fmt::format("a data set's name of {} bytes", name_bytes),
                   fmt::format("{}, what is left", reader.bytes_left()));
  }
  TAMIS_TRY(const std::string_view dataset, reader.take_text(static_cast<uint64_t>(name_bytes)));
  if (!dataset.empty()) imatrix.datasets.emplace_back(dataset);
  return imatrix;
}

template <class T>
Status put(AtomicFile& file, T value) {
  return file.write(std::as_bytes(std::span(&value, 1)));
}

Status put_text(AtomicFile& file, std::string_view text) {
  TAMIS_TRY_STATUS(put(file, static_cast<int32_t>(text.size())));
  return file.write(text);
}

// Calls of an entry, rounded up: as many as hold the tokens of its busiest matrix.
int32_t n_calls_of(const ImatrixEntry& entry, uint32_t chunk_size) {
  const double most = *std::max_element(entry.counts.begin(), entry.counts.end());
  const double calls = std::ceil(most / std::max<uint32_t>(chunk_size, 1));
  return static_cast<int32_t>(std::min(calls, double{std::numeric_limits<int32_t>::max()}));
}

Status write_dat_entry(AtomicFile& file, const std::string& name, const ImatrixEntry& entry, int32_t n_calls) {
  TAMIS_TRY_STATUS(put_text(file, name));
  TAMIS_TRY_STATUS(put(file, n_calls));
  TAMIS_TRY_STATUS(put(file, static_cast<int32_t>(entry.sums.size())));
  const uint64_t n_cols = entry.n_cols();
  std::vector<float> values(entry.sums.size());
  for (uint64_t i = 0; i < values.size(); ++i) {
    const double count = entry.counts[i / n_cols];
    values[i] = static_cast<float>((count > 0 ? entry.sums[i] / count : 1.0) * n_calls);
    if (!std::isfinite(values[i])) return fail(ErrorCode::invalid_argument, "{}: a sum too large for float32", name);
  }
  return file.write(std::as_bytes(std::span(values)));
}

Status write_dat(const Imatrix& imatrix, const std::string& path, bool overwrite) {
  TAMIS_TRY(AtomicFile file, AtomicFile::create(path, overwrite));
  const auto is_seen = [](const auto& entry) {
    return std::ranges::any_of(entry.second.counts, [](double count) { return count > 0; });
  };
  TAMIS_TRY_STATUS(put(file, static_cast<int32_t>(std::ranges::count_if(imatrix.entries, is_seen))));
  int32_t last_chunk = static_cast<int32_t>(std::min<uint32_t>(imatrix.n_chunks, std::numeric_limits<int32_t>::max()));
  for (const auto& item : imatrix.entries) {
    if (is_seen(item))
      TAMIS_TRY_STATUS(write_dat_entry(file, item.first, item.second, n_calls_of(item.second, imatrix.chunk_size)));
  }
  TAMIS_TRY_STATUS(put(file, last_chunk));
  TAMIS_TRY_STATUS(put_text(file, imatrix.datasets.empty() ? std::string() : imatrix.datasets.front()));
  return file.commit();
}

// The whole source, mapped or copied.
Result<std::vector<std::byte>> read_all(ByteSource& source) {
  std::vector<std::byte> bytes(source.size_bytes());
  TAMIS_TRY(const size_t n_read, source.read_at(0, bytes));
  bytes.resize(n_read);
  return bytes;
}

}  // namespace

bool ImatrixEntry::is_partial() const {
  const auto n_unseen = std::ranges::count(counts, 0.0);
  return n_unseen != 0 && static_cast<size_t>(n_unseen) != counts.size();
}

Result<Imatrix> read_imatrix(std::shared_ptr<ByteSource> source, uint32_t dat_chunk_size) {
  char magic[4] = {};
  TAMIS_TRY(const size_t n_read, source->read_at(0, std::as_writable_bytes(std::span(magic))));
  if (std::string_view(magic, n_read) == "GGUF") {
    TAMIS_TRY(const GgufFile file, GgufFile::open(std::move(source)));
    return read_gguf(file);
  }
  TAMIS_TRY(const std::vector<std::byte> bytes, read_all(*source));
  return read_dat(bytes, std::max<uint32_t>(dat_chunk_size, 1));
}

Result<Imatrix> read_imatrix(const std::string& path, uint32_t dat_chunk_size) {
  TAMIS_TRY(const std::shared_ptr<MappedFile> file, MappedFile::open(path));
  auto imatrix = read_imatrix(std::shared_ptr<ByteSource>(file), dat_chunk_size);
  if (imatrix) return imatrix;
  Error error = with_file(std::move(imatrix).error(), path);
  // A key that is missing makes a bad file; the file itself is there.
  if (error.code == ErrorCode::not_found) error.code = ErrorCode::format;
  return tl::unexpected<Error>(std::move(error));
}

Status write_imatrix(const Imatrix& imatrix, const std::string& path, ImatrixFormat format, bool overwrite) {
  for (const auto& [name, entry] : imatrix.entries) {
    for (const double sum : entry.sums) {
      if (!(sum <= kMaxFloat)) return fail(ErrorCode::invalid_argument, "{}: sum {} does not fit float32", name, sum);
    }
  }
  return format == ImatrixFormat::gguf ? write_gguf(imatrix, path, overwrite) : write_dat(imatrix, path, overwrite);
}

namespace {

// Of both texts together. Weights that share correlations in both share the sum, too.
Status merge_correlations(Imatrix& into, const Imatrix& other) {
  std::map<std::pair<const Correlations*, const Correlations*>, std::shared_ptr<const Correlations>> sums;
  for (const auto& [name, theirs] : other.correlations) {
    auto& ours = into.correlations[name];
    if (ours == nullptr) {
      ours = theirs;
      continue;
    }
    auto& sum = sums[{ours.get(), theirs.get()}];
    if (sum == nullptr) {
      TAMIS_TRY(sum,
                add_correlations({*ours, into.entries[name].sums}, {*theirs, other.entries.find(name)->second.sums}));
    }
    ours = sum;
  }
  return {};
}

}  // namespace

Result<std::vector<float>> input_products(const ImatrixEntry& entry, const Correlations& correlations) {
  TAMIS_CHECK(entry.n_mat() == 1);
  return products_of({correlations, entry.sums}, std::max(entry.counts[0], 1.0));
}

Status merge_imatrix(Imatrix& into, const Imatrix& other) {
  for (const auto& [name, entry] : other.entries) {
    const auto it = into.entries.find(name);
    if (it == into.entries.end()) continue;
    if (it->second.n_mat() == entry.n_mat() && it->second.n_cols() == entry.n_cols()) continue;
    return fail(ErrorCode::shape, "{}: got {} matrices of {} columns, expected {} of {} as in the other file", name,
                entry.n_mat(), entry.n_cols(), it->second.n_mat(), it->second.n_cols());
  }
  for (const auto& [name, correlations] : other.correlations) {
    const auto it = into.correlations.find(name);
    if (it == into.correlations.end()) continue;
    if (it->second->n_cols() != correlations->n_cols())
      return fail(ErrorCode::shape, "{}: correlations of {} columns, expected {} as in the other file", name,
                  correlations->n_cols(), it->second->n_cols());
  }
  TAMIS_TRY_STATUS(merge_correlations(into, other));
  for (const auto& [name, entry] : other.entries) {
    const auto [it, is_new] = into.entries.try_emplace(name, entry);
    if (is_new) continue;
    for (size_t i = 0; i < entry.sums.size(); ++i) it->second.sums[i] += entry.sums[i];
    for (size_t i = 0; i < entry.counts.size(); ++i) it->second.counts[i] += entry.counts[i];
  }
  for (const std::string& dataset : other.datasets) {
    if (std::ranges::find(into.datasets, dataset) == into.datasets.end()) into.datasets.push_back(dataset);
  }
  const uint64_t n_chunks = uint64_t{into.n_chunks} + other.n_chunks;
  into.n_chunks = static_cast<uint32_t>(std::min<uint64_t>(n_chunks, std::numeric_limits<uint32_t>::max()));
  into.chunk_size = std::max(into.chunk_size, other.chunk_size);
  return {};
}

Result<std::string> check_imatrix_names(const Imatrix& imatrix,
                                        const std::function<bool(std::string_view name)>& has_tensor) {
  size_t n_foreign = 0;
  std::string_view first;
  for (const auto& [name, entry] : imatrix.entries)
    if (!has_tensor(name) && ++n_foreign == 1) first = name;
  if (n_foreign == 0) return std::string();
  if (n_foreign == imatrix.entries.size())
    return fail(ErrorCode::shape,
                "an importance matrix of another model: none of its {} entries (\"{}\", …) names a tensor of this one",
                n_foreign, escape_for_display(first));
  return fmt::format("the imatrix has {} entries for tensors that the model lacks, such as {}", n_foreign,
                     escape_for_display(first));
}

Result<Importance> imatrix_importance(const ImatrixEntry& entry, std::string_view name, uint64_t n_mat, uint64_t n_cols,
                                      uint64_t mat_idx) {
  const auto n_wanted = checked_mul(n_mat, n_cols);
  const bool is_one_row = entry.n_mat() == 1;  // .dat does not tell matrices apart
  if (!n_wanted || entry.sums.size() != *n_wanted || (!is_one_row && entry.n_mat() != n_mat) || mat_idx >= n_mat) {
    return fail(ErrorCode::shape, "{}: importance of {} matrices of {} columns, expected {} of {}", name, entry.n_mat(),
                entry.n_cols(), n_mat, n_cols);
  }
  Importance importance{std::vector<float>(n_cols, 1.0f), true};
  const double count = entry.counts[is_one_row ? 0 : mat_idx];
  importance.is_seen = count > 0;
  if (!importance.is_seen) return importance;
  const double* const sums = entry.sums.data() + mat_idx * n_cols;
  for (uint64_t k = 0; k < n_cols; ++k) importance.values[k] = static_cast<float>(sums[k] / count);
  return importance;
}

}  // namespace tamis
