// Splitting and merging: plans which tensor goes to which shard, then streams the bytes.
#include "convert/split.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <system_error>

#include "base/checked.h"
#include "formats/gguf_writer.h"
#include "formats/shards.h"

namespace tamis {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{4} << 20;

bool is_split_key(std::string_view key) { return key == kSplitNo || key == kSplitCount || key == kSplitTensors; }

// One copying of tensors: from where, and who watches.
struct Copy {
  const GgufFile& file;
  const CopyProgress& progress;
  const std::atomic<bool>* stop;
  bool is_overwriting;
};

Status copy_tensor(const Copy& copy, const GgufTensor& tensor, GgufWriter& writer) {
  const auto bytes = copy.file.data(tensor);
  for (uint64_t at = 0; at < bytes.size(); at += kPieceBytes) {
    if (copy.stop != nullptr && *copy.stop) return fail(ErrorCode::cancelled, "stopped");
    if (copy.file.size_changed())
      return fail(ErrorCode::io, "{}: the file changed its size while it was copied", copy.file.path(tensor.shard_idx));
    const auto piece = bytes.subspan(at, std::min<uint64_t>(kPieceBytes, bytes.size() - at));
    TAMIS_TRY_STATUS(writer.write(piece));
    if (copy.progress) copy.progress(piece.size());
  }
  return {};
}

// Declares and copies the given tensors into `path`.
Status write_tensors(const Copy& copy, const std::vector<size_t>& tensors, GgufWriter& writer,
                     const std::string& path) {
  for (const size_t i : tensors) {
    const GgufTensor& tensor = copy.file.tensors()[i];
    TAMIS_TRY_STATUS(writer.add_tensor(tensor.name, tensor.dtype, tensor.shape));
  }
  TAMIS_TRY_STATUS(writer.begin(path, copy.is_overwriting));
  for (const size_t i : tensors) TAMIS_TRY_STATUS(copy_tensor(copy, copy.file.tensors()[i], writer));
  return writer.finish();
}

Status write_shard(const Copy& copy, const std::vector<ShardPlan>& plan, size_t idx) {
  const GgufFile& file = copy.file;
  GgufWriter writer;
  // Every shard aligns its data as the model does.
  if (idx == 0) TAMIS_TRY_STATUS(writer.add_all(file, [](std::string_view key) { return !is_split_key(key); }));
  if (idx > 0) TAMIS_TRY_STATUS(writer.add_all(file, [](std::string_view key) { return key == "general.alignment"; }));
  TAMIS_TRY_STATUS(writer.add(kSplitNo, GgufEncoded::number(static_cast<uint16_t>(idx))));
  TAMIS_TRY_STATUS(writer.add(kSplitCount, GgufEncoded::number(static_cast<uint16_t>(plan.size()))));
  TAMIS_TRY_STATUS(writer.add_i32(kSplitTensors, static_cast<int32_t>(file.tensors().size())));
  return write_tensors(copy, plan[idx].tensors, writer, plan[idx].path);
}

bool is_shard_of(const GgufFile& file, const std::string& path) {
  std::error_code error;
  for (uint32_t i = 0; i < file.n_shards(); ++i)
    if (std::filesystem::equivalent(file.path(i), path, error)) return true;
  return false;
}

}  // namespace

Result<std::vector<ShardPlan>> plan_split(const GgufFile& file, std::string_view prefix, const SplitOptions& options) {
  if (options.max_tensors == 0 && options.max_data_bytes == 0)
    return fail(ErrorCode::invalid_argument, "splitting needs a bound on the tensors or the bytes of a shard");
  std::vector<ShardPlan> plan(1);
  bool is_open = !options.is_first_without_tensors;  // whether the last shard may take a tensor more
  for (size_t i = 0; i < file.tensors().size(); ++i) {
    const uint64_t bytes =
        checked_pad(file.tensors()[i].size_bytes, file.alignment()).value_or(std::numeric_limits<uint64_t>::max());
    const ShardPlan& last = plan.back();
    const bool is_full = (options.max_tensors > 0 && last.tensors.size() >= options.max_tensors) ||
                         (options.max_data_bytes > 0 && !last.tensors.empty() &&
                          bytes > options.max_data_bytes - std::min(last.data_bytes, options.max_data_bytes));
    if (is_full || !is_open) plan.emplace_back();
    is_open = true;
    plan.back().tensors.push_back(i);
    plan.back().data_bytes += bytes;
  }
  const Limits limits;
  if (plan.size() > limits.n_shards)
    return fail(ErrorCode::invalid_argument, "{} shards would be needed, expected at most {}", plan.size(),
                limits.n_shards);
  for (uint32_t i = 0; i < plan.size(); ++i) plan[i].path = shard_path(prefix, i, static_cast<uint32_t>(plan.size()));
  return plan;
}

Status write_split(const GgufFile& file, const std::vector<ShardPlan>& plan, const SplitOptions& options,
                   const CopyProgress& progress, const std::atomic<bool>* stop) {
  for (const ShardPlan& shard : plan) {
    if (is_shard_of(file, shard.path))
      return fail(ErrorCode::invalid_argument, "{} would be written over the model it is made from", shard.path);
    if (!options.is_overwriting && file_exists(shard.path))
      return fail(ErrorCode::invalid_argument, "{} exists already (use --force to overwrite)", shard.path);
  }
  for (size_t idx = 0; idx < plan.size(); ++idx) {
    auto written = write_shard({file, progress, stop, options.is_overwriting}, plan, idx);
    if (written) continue;
    for (size_t done = 0; done < idx; ++done) std::remove(plan[done].path.c_str());
    return written;
  }
  return {};
}

Status merge_shards(const GgufFile& file, const std::string& out_path, bool is_overwriting,
                    const CopyProgress& progress, const std::atomic<bool>* stop) {
  if (is_shard_of(file, out_path))
    return fail(ErrorCode::invalid_argument, "{} would be written over one of its own shards", out_path);
  GgufWriter writer;
  TAMIS_TRY_STATUS(writer.add_all(file, [](std::string_view key) { return !is_split_key(key); }));
  std::vector<size_t> all(file.tensors().size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  return write_tensors({file, progress, stop, is_overwriting}, all, writer, out_path);
}

Result<uint64_t> parse_size(std::string_view text) {
  const std::string_view given = text;
  uint64_t unit = 1;
  if (!text.empty()) {
    const char last = text.back();
    unit = last == 'K' || last == 'k'   ? 1000
           : last == 'M' || last == 'm' ? 1000000
           : last == 'G' || last == 'g' ? 1000000000
                                        : 1;
    if (unit > 1) text.remove_suffix(1);
  }
  std::optional<uint64_t> value = text.empty() ? std::nullopt : std::optional<uint64_t>(0);
  for (const char c : text) {
    if (c < '0' || c > '9') value = std::nullopt;
    if (value) value = checked_mul(*value, 10);
    if (value) value = checked_add(*value, static_cast<uint64_t>(c - '0'));
  }
  if (value) value = checked_mul(*value, unit);
  if (!value || *value == 0)
    return fail(ErrorCode::invalid_argument,
                "size \"{}\": expected a number above 0, with K, M or G for powers of 1000", escape_for_display(given));
  return *value;
}

}  // namespace tamis
