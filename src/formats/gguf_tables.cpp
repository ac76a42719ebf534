// The parser's second half: the tensor table, and the tables a GgufFile keeps once all has been checked.
#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/checked.h"
#include "base/fault.h"
#include "formats/gguf_parser.h"

namespace tamis {
namespace {

constexpr uint64_t kHeaderBytes = 24;
constexpr uint64_t kMaxExtent = std::numeric_limits<int64_t>::max();

// Numbers ggml once used and has withdrawn.
bool is_removed_type(uint32_t type) {
  return type == 4 || type == 5 || (type >= 31 && type <= 33) || (type >= 36 && type <= 38);
}

}  // namespace

Status GgufParser::scan_tensors() {
  section_ = "header";
  index_ = -1;
  subject_bytes_ = 0;
  field_ = "n_tensors";
  const uint64_t left = window_.bytes_left();
  if (counts_.n_tensors > left / kMinTensorBytes)
    return bad(8, fmt::format("{}", counts_.n_tensors),
               fmt::format("at most {}: {} bytes are left after the metadata", left / kMinTensorBytes, left),
               "E_COUNT");
  field_ = {};
  section_ = "tensor";
  for (uint64_t i = 0; i < counts_.n_tensors; ++i) {
    index_ = static_cast<int64_t>(i);
    subject_bytes_ = 0;
    TAMIS_TRY_STATUS(scan_tensor());
  }
  return {};
}

Status GgufParser::scan_tensor() {
  const uint64_t at = window_.position();
  TAMIS_TRY_STATUS(need(8));
  const auto length = window_.load<uint64_t>();
  if (length == 0)
    return bad(at, "an empty name", fmt::format("1 to {} bytes", options_.limits.tensor_name_bytes), "E_TENSOR_NAME");
  if (length > window_.bytes_left() - 8)
    return bad(at, fmt::format("name length {}", length),
               fmt::format("at most the {} bytes left", window_.bytes_left() - 8), "E_TRUNCATED");
  if (length > options_.limits.tensor_name_bytes)
    return bad(at, fmt::format("name length {}", length),
               fmt::format("1 to {} bytes", options_.limits.tensor_name_bytes), "E_TENSOR_NAME");
  window_.advance(8);
  TAMIS_TRY_STATUS(need(length));
  subject_offset_ = at + 8;
  subject_bytes_ = length;
  const std::string_view name = window_.text(at + 8, length);
  if (const size_t nul = name.find('\0'); nul != name.npos)
    return bad(at + 8, fmt::format("a NUL at position {} of the name", nul), "text", "E_TENSOR_NAME");
  has_text_warning_ = false;
  TAMIS_TRY_STATUS(check_text(name, at + 8, "name"));
  window_.advance(length);
  TAMIS_TRY_STATUS(scan_shape());

  TAMIS_TRY_STATUS(need(8));
  const auto offset = window_.load<uint64_t>();
  if (offset % state_->alignment != 0)
    return bad(window_.position(), fmt::format("data offset {}", offset),
               fmt::format("a multiple of the alignment {}", state_->alignment), "E_TENSOR_OFFSET");
  window_.advance(8);
  return {};
}

// Dimensions and type, which belong together: a row is a whole number of blocks, and neither elements nor bytes wrap 64
// bits.
Status GgufParser::scan_shape() {
  const uint64_t at = window_.position();
  TAMIS_TRY_STATUS(need(4));
  const auto n_dims = window_.load<uint32_t>();
  const uint32_t max_dims = std::min(options_.limits.n_dims, Shape::kMaxDims);
  if (n_dims == 0 || n_dims > max_dims)
    return bad(at, fmt::format("{} dimensions", n_dims), fmt::format("1 to {}", max_dims), "E_TENSOR_DIMS");
  window_.advance(4);
  TAMIS_TRY_STATUS(need(8 * n_dims));
  const uint64_t dims_at = window_.position();
  const auto row_len = window_.load<uint64_t>();
  uint64_t n_elements = 1;
  for (uint32_t i = 0; i < n_dims; ++i) {
    const auto extent = window_.load<uint64_t>(8 * i);
    if (extent == 0 || extent > kMaxExtent)
      return bad(dims_at + 8 * i, fmt::format("dimension {} of {}", i, extent), fmt::format("1 to {}", kMaxExtent),
                 "E_TENSOR_DIMS");
    const auto product = checked_mul(n_elements, extent);
    if (TAMIS_CHECKED(4, !product || *product > kMaxExtent))
      return bad(dims_at, "dimensions whose product exceeds 63 bits", fmt::format("at most {} elements", kMaxExtent),
                 "E_TENSOR_SIZE");
    n_elements *= extent;
  }
  window_.advance(8 * n_dims);
  TAMIS_TRY_STATUS(need(4));
  const auto type = window_.load<uint32_t>();
  const DTypeInfo* info = dtype_info(type);
  if (info == nullptr)
    return bad(window_.position(), fmt::format("tensor type {}{}", type, is_removed_type(type) ? " (removed)" : ""),
               "a known type", "E_TENSOR_TYPE", ErrorCode::unsupported);
  if (TAMIS_CHECKED(6, row_len % info->block_len != 0))
    return bad(dims_at, fmt::format("rows of {} elements", row_len),
               fmt::format("a multiple of {}, the block of {}", info->block_len, info->name), "E_TENSOR_ROW");
  if (!dtype_bytes(info->dtype, n_elements))
    return bad(dims_at, fmt::format("{} elements of {}", n_elements, info->name), "fewer than 2^64 bytes",
               "E_TENSOR_SIZE");
  window_.advance(4);
  return {};
}

// ---------------------------------------------------------------- building

void GgufParser::build_kvs() {
  const std::byte* bytes = state_->shards[0].metadata.get();
  state_->kvs.reserve(value_ends_.size());  // counted, not declared
  uint64_t at = kHeaderBytes;
  for (const uint32_t end : value_ends_) {
    uint64_t key_bytes = 0;
    std::memcpy(&key_bytes, bytes + at, 8);
    uint32_t type = 0;
    std::memcpy(&type, bytes + at + 8 + key_bytes, 4);
    GgufKv kv;
    kv.key = {reinterpret_cast<const char*>(bytes) + at + 8, key_bytes};
    const uint64_t value_at = at + 8 + key_bytes + 4;
    kv.value.type_ = static_cast<GgufType>(type);
    kv.value.offset_ = static_cast<uint32_t>(value_at);
    kv.value.data_ = bytes + value_at;
    kv.value.size_ = static_cast<uint32_t>(end - value_at);
    state_->kvs.push_back(kv);
    at = end;
  }
  std::deque<uint32_t>().swap(value_ends_);
}

Status GgufParser::index_kvs() {
  const auto& kvs = state_->kvs;
  auto& order = state_->kv_order;
  order.resize(kvs.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const int c = kvs[a].key.compare(kvs[b].key);
    return c != 0 ? c < 0 : a < b;
  });
  uint32_t first_repeat = std::numeric_limits<uint32_t>::max(), original = 0;
  for (size_t i = 1; i < order.size(); ++i) {
    if (kvs[order[i]].key != kvs[order[i - 1]].key || order[i] >= first_repeat) continue;
    first_repeat = order[i];
    original = order[i - 1];
  }
  if (first_repeat == std::numeric_limits<uint32_t>::max()) return {};
  ErrorSite where =
      site(kvs[first_repeat].key_offset(), "the key a second time",
           fmt::format("each key once (first at byte {})", kvs[original].key_offset()), "E_DUPLICATE_KEY");
  where.section = "kv";
  where.index = first_repeat;
  where.subject = escape_for_display(kvs[first_repeat].key);
  return fail_at(ErrorCode::format, std::move(where));
}

void GgufParser::build_tensors() {
  const GgufShard& shard = state_->shards[0];
  state_->tensors.reserve(counts_.n_tensors);  // so many have been parsed
  const std::byte* bytes = shard.metadata.get();
  uint64_t at = kvs_end_;
  const auto load_u64 = [&](uint64_t ahead) {
    uint64_t value = 0;
    std::memcpy(&value, bytes + at + ahead, 8);
    return value;
  };
  const auto load_u32 = [&](uint64_t ahead) { return static_cast<uint32_t>(load_u64(ahead)); };
  for (uint64_t i = 0; i < counts_.n_tensors; ++i) {
    GgufTensor tensor;
    tensor.info_offset = at;
    const uint64_t name_bytes = load_u64(0);
    tensor.name = {reinterpret_cast<const char*>(bytes) + at + 8, name_bytes};
    at += 8 + name_bytes;
    tensor.shape.n_dims = load_u32(0);
    at += 4;
    // GGUF's order ends here: its first extent is our last.
    for (uint32_t d = 0; d < tensor.shape.n_dims; ++d)
      tensor.shape.extents[tensor.shape.n_dims - 1 - d] = load_u64(8 * d);
    at += 8 * tensor.shape.n_dims;
    tensor.dtype = static_cast<DType>(load_u32(0));
    tensor.size_bytes = dtype_bytes(tensor.dtype, tensor.shape.n_elements()).value_or(0);
    tensor.file_offset = load_u64(4);  // relative still: check_layout makes it absolute once it is known to fit
    at += 12;
    state_->tensors.push_back(tensor);
  }
}

Status GgufParser::index_tensors(GgufFile::State& state) {
  const auto& tensors = state.tensors;
  auto& order = state.tensor_order;
  order.resize(tensors.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const int c = tensors[a].name.compare(tensors[b].name);
    return c != 0 ? c < 0 : a < b;
  });
  uint32_t first_repeat = std::numeric_limits<uint32_t>::max(), original = 0;
  for (size_t i = 1; i < order.size(); ++i) {
    if (tensors[order[i]].name != tensors[order[i - 1]].name || order[i] >= first_repeat) continue;
    first_repeat = order[i];
    original = order[i - 1];
  }
  if (first_repeat == std::numeric_limits<uint32_t>::max()) return {};
  const GgufTensor& tensor = tensors[first_repeat];
  const GgufTensor& other = tensors[original];
  ErrorSite where;
  where.file = state.shards[tensor.shard_idx].path;
  where.byte_offset = tensor.info_offset;
  where.has_offset = true;
  where.section = "tensor";
  where.index = first_repeat;
  where.subject = escape_for_display(tensor.name);
  where.got = "the name a second time";
  where.expected = tensor.shard_idx == other.shard_idx
                       ? fmt::format("each tensor once (first at byte {})", other.info_offset)
                       : fmt::format("each tensor once (first in {})", state.shards[other.shard_idx].path);
  where.tag = "E_DUPLICATE_TENSOR";
  return fail_at(ErrorCode::format, std::move(where));
}

}  // namespace tamis
