#include "formats/gguf_parser.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "base/bytes.h"
#include "base/checked.h"
#include "base/fault.h"
#include "base/utf8.h"

namespace tamis {
namespace {

constexpr uint64_t kHeaderBytes = 24;
constexpr uint64_t kMinKvBytes = 14;      // a one-byte key with a one-byte value
constexpr uint64_t kMinTensorBytes = 33;  // a one-byte name and one dimension
constexpr uint64_t kMaxWarnings = 32;
constexpr uint32_t kMaxArrayDepth = 8;  // what Limits::array_depth may be raised to
constexpr uint64_t kMaxExtent = std::numeric_limits<int64_t>::max();

bool is_ascii(std::string_view text) {
  unsigned char seen = 0;
  for (const char c : text) seen |= static_cast<unsigned char>(c);
  return seen < 0x80;
}

uint64_t min_element_bytes(GgufType type) {
  return type == GgufType::string ? 8 : type == GgufType::array ? 12 : gguf_type_bytes(type);
}

}  // namespace

GgufParser::GgufParser(std::shared_ptr<ByteSource> source, const GgufOptions& options)
    : options_(options), window_(*source, options.limits.metadata_bytes), state_(std::make_shared<GgufFile::State>()) {
  GgufShard shard;
  shard.source = std::move(source);
  shard.file = std::dynamic_pointer_cast<MappedFile>(shard.source);
  if (shard.file) shard.path = shard.file->path();
  state_->shards.push_back(std::move(shard));
}

Result<std::shared_ptr<GgufFile::State>> GgufParser::parse() {
  TAMIS_TRY_STATUS(read_header());
  TAMIS_TRY_STATUS(scan_kvs());
  TAMIS_TRY_STATUS(scan_tensors());
  GgufShard& shard = state_->shards[0];
  shard.metadata_bytes = window_.position();
  const auto data_offset = checked_pad(window_.position(), state_->alignment);
  shard.data_offset =
      data_offset.value_or(0);  // metadata is below 4 GiB and alignment below 1 MiB unless limits were raised
  if (!data_offset) return bad(0, "metadata that cannot be padded", "less", "E_DATA_OFFSET");
  TAMIS_TRY_STATUS(check_padding());
  shard.metadata = window_.release();
  subject_bytes_ = 0;
  build_kvs();
  TAMIS_TRY_STATUS(index_kvs());
  build_tensors();
  TAMIS_TRY_STATUS(index_tensors(*state_));
  TAMIS_TRY_STATUS(check_layout());
  return state_;
}

// ---------------------------------------------------------------- header

Status GgufParser::read_header() {
  field_ = "magic";
  TAMIS_TRY_STATUS(need(4));
  const std::string_view magic = window_.text(0, 4);
  if (magic == "FUGG") return bad(0, "\"FUGG\"", "\"GGUF\" (the bytes are swapped)", "E_MAGIC");
  if (magic != "GGUF") return bad(0, fmt::format("\"{}\"", escape_for_display(magic)), "\"GGUF\"", "E_MAGIC");
  window_.advance(4);

  field_ = "version";
  TAMIS_TRY_STATUS(need(4));
  const auto version = window_.load<uint32_t>();
  const uint32_t swapped = __builtin_bswap32(version);
  if (swapped >= 1 && swapped <= 3 && version > 3)
    return bad(4, fmt::format("0x{:08x}, a big-endian file", version), "a little-endian file", "E_BIG_ENDIAN",
               ErrorCode::unsupported);
  if (version < 2 || version > 3)
    return bad(4, fmt::format("{}", version), "2 or 3", "E_VERSION", ErrorCode::unsupported);
  state_->version = version;
  window_.advance(4);

  field_ = "n_tensors";
  TAMIS_TRY_STATUS(need(8));
  counts_.n_tensors = window_.load<uint64_t>();
  window_.advance(8);
  field_ = "n_kv";
  TAMIS_TRY_STATUS(need(8));
  counts_.n_kv = window_.load<uint64_t>();
  window_.advance(8);
  return check_counts();
}

// A count is believed only when the bytes left could hold that many of the smallest entries.
Status GgufParser::check_counts() {
  const uint64_t left = window_.bytes_left();
  field_ = "n_tensors";
  if (counts_.n_tensors > left / kMinTensorBytes)
    return bad(8, fmt::format("{}", counts_.n_tensors),
               fmt::format("at most {}: {} bytes are left", left / kMinTensorBytes, left), "E_COUNT");
  if (counts_.n_tensors > options_.limits.n_tensors)
    return bad(8, fmt::format("{}", counts_.n_tensors), fmt::format("at most {} (limit)", options_.limits.n_tensors),
               "E_LIMIT");
  field_ = "n_kv";
  if (counts_.n_kv > left / kMinKvBytes)
    return bad(16, fmt::format("{}", counts_.n_kv),
               fmt::format("at most {}: {} bytes are left", left / kMinKvBytes, left), "E_COUNT");
  if (counts_.n_kv > options_.limits.n_kv)
    return bad(16, fmt::format("{}", counts_.n_kv), fmt::format("at most {} (limit)", options_.limits.n_kv), "E_LIMIT");
  field_ = {};
  return {};
}

// ---------------------------------------------------------------- keys and values

Status GgufParser::scan_kvs() {
  section_ = "kv";
  for (uint64_t i = 0; i < counts_.n_kv; ++i) {
    index_ = static_cast<int64_t>(i);
    subject_bytes_ = 0;
    has_text_warning_ = false;
    TAMIS_TRY_STATUS(scan_key());
    const uint64_t type_offset = window_.position();
    TAMIS_TRY(const GgufType type, scan_type());
    if (window_.text(subject_offset_, subject_bytes_) == "general.alignment")
      TAMIS_TRY_STATUS(note_alignment(type_offset, type));
    TAMIS_TRY_STATUS(scan_value(type));
    value_ends_.push_back(static_cast<uint32_t>(window_.position()));
  }
  kvs_end_ = window_.position();
  return {};
}

Status GgufParser::scan_key() {
  const uint64_t at = window_.position();
  TAMIS_TRY_STATUS(need(8));
  const auto length = window_.load<uint64_t>();
  if (length == 0) return bad(at, "an empty key", "1 to 65535 bytes", "E_KEY_LENGTH");
  if (length > window_.bytes_left() - 8)
    return bad(at, fmt::format("key length {}", length),
               fmt::format("at most the {} bytes left", window_.bytes_left() - 8), "E_TRUNCATED");
  if (length > options_.limits.key_bytes)
    return bad(at, fmt::format("key length {}", length), fmt::format("1 to {} bytes", options_.limits.key_bytes),
               "E_KEY_LENGTH");
  window_.advance(8);
  TAMIS_TRY_STATUS(need(length));
  subject_offset_ = at + 8;
  subject_bytes_ = length;
  const std::string_view key = window_.text(at + 8, length);
  if (const size_t nul = key.find('\0'); nul != key.npos)
    return bad(at + 8, fmt::format("a NUL at position {} of the key", nul), "ASCII text", "E_KEY_TEXT");
  if (!is_ascii(key))
    TAMIS_TRY_STATUS(oddity(at + 8, "a key with bytes that are not ASCII", "ASCII text", "E_KEY_TEXT"));
  window_.advance(length);
  return {};
}

Result<GgufType> GgufParser::scan_type() {
  TAMIS_TRY_STATUS(need(4));
  const auto type = window_.load<uint32_t>();
  if (type > static_cast<uint32_t>(GgufType::f64))
    return bad(window_.position(), fmt::format("value type {}", type), "0 to 12", "E_VALUE_TYPE");
  window_.advance(4);
  return static_cast<GgufType>(type);
}

// At the value of general.alignment: it decides where tensor data lies, so a wrong type or value is never passed over.
Status GgufParser::note_alignment(uint64_t type_offset, GgufType type) {
  if (type != GgufType::u32)
    return bad(type_offset, fmt::format("type {}", gguf_type_name(type)), "u32", "E_ALIGNMENT");
  TAMIS_TRY_STATUS(need(4));
  const uint64_t value = window_.load<uint32_t>();
  const std::string expected = fmt::format("a power of two from 8 to {}", options_.limits.alignment);
  const bool is_usable = value <= options_.limits.alignment && std::has_single_bit(value);
  if (TAMIS_CHECKED(8, !is_usable)) return bad(window_.position(), fmt::format("{}", value), expected, "E_ALIGNMENT");
  if (value < 8) TAMIS_TRY_STATUS(oddity(window_.position(), fmt::format("{}", value), expected, "E_ALIGNMENT"));
  state_->alignment = value;
  return {};
}

Status GgufParser::scan_value(GgufType type) {
  if (type == GgufType::string) return scan_string(-1);
  if (type == GgufType::array) return scan_array();
  return scan_elements(type, 1);
}

Status GgufParser::scan_string(int64_t element_idx) {
  const uint64_t at = window_.position();
  const auto what = [&] { return element_idx < 0 ? std::string("string") : fmt::format("string #{}", element_idx); };
  TAMIS_TRY_STATUS(need(8));
  const auto length = window_.load<uint64_t>();
  if (length > window_.bytes_left() - 8)
    return bad(at, fmt::format("{} of length {}", what(), length),
               fmt::format("at most the {} bytes left", window_.bytes_left() - 8), "E_TRUNCATED");
  if (length > options_.limits.string_bytes)
    return bad(at, fmt::format("{} of length {}", what(), length),
               fmt::format("at most {} bytes (limit)", options_.limits.string_bytes), "E_LIMIT");
  window_.advance(8);
  TAMIS_TRY_STATUS(need(length));
  const std::string_view text = window_.text(at + 8, length);
  if (!is_ascii(text) && utf8_first_invalid(text) != text.size()) TAMIS_TRY_STATUS(check_text(text, at + 8, what()));
  window_.advance(length);
  return {};
}

// n values of a fixed size, or n strings.
Status GgufParser::scan_elements(GgufType type, uint64_t n) {
  if (type == GgufType::string) {
    for (uint64_t i = 0; i < n; ++i) TAMIS_TRY_STATUS(scan_string(static_cast<int64_t>(i)));
    return {};
  }
  const uint64_t size = n * gguf_type_bytes(type);  // the caller has compared n with the bytes left
  TAMIS_TRY_STATUS(need(size));
  if (type == GgufType::boolean) {
    const std::string_view values = window_.text(window_.position(), n);
    for (uint64_t i = 0; i < n; ++i)
      if (static_cast<unsigned char>(values[i]) > 1)
        return bad(window_.position() + i, fmt::format("bool byte {}", static_cast<unsigned char>(values[i])), "0 or 1",
                   "E_BOOL");
  }
  window_.advance(size);
  return {};
}

Status GgufParser::scan_array_header(GgufType& element, uint64_t& n) {
  TAMIS_TRY(element, scan_type());
  TAMIS_TRY_STATUS(need(8));
  n = window_.load<uint64_t>();
  const uint64_t at = window_.position();
  const uint64_t most = (window_.bytes_left() - 8) / min_element_bytes(element);
  if (TAMIS_CHECKED(2, n > most))
    return bad(at, fmt::format("{} elements of type {}", n, gguf_type_name(element)),
               fmt::format("at most {}: {} bytes are left", most, window_.bytes_left() - 8), "E_TRUNCATED");
  if (n > options_.limits.array_items)
    return bad(at, fmt::format("{} elements", n), fmt::format("at most {} (limit)", options_.limits.array_items),
               "E_LIMIT");
  window_.advance(8);
  return {};
}

// Arrays in arrays are walked on a fixed stack of counters: data never makes the program recurse.
Status GgufParser::scan_array() {
  const uint32_t max_depth = std::min(options_.limits.array_depth, kMaxArrayDepth);
  uint64_t left[kMaxArrayDepth] = {1};
  uint32_t depth = 1;
  while (depth > 0) {
    if (left[depth - 1] == 0) {
      --depth;
      continue;
    }
    --left[depth - 1];
    GgufType element;
    uint64_t n = 0;
    const uint64_t at = window_.position();
    TAMIS_TRY_STATUS(scan_array_header(element, n));
    if (element != GgufType::array) {
      TAMIS_TRY_STATUS(scan_elements(element, n));
      continue;
    }
    if (TAMIS_CHECKED(5, depth >= max_depth))
      return bad(at, fmt::format("arrays nested deeper than {}", max_depth),
                 fmt::format("at most {} levels", max_depth), "E_NESTING");
    left[depth++] = n;
  }
  return {};
}

// ---------------------------------------------------------------- tensor table

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
    return bad(window_.position(), fmt::format("tensor type {}", type), "a known type", "E_TENSOR_TYPE",
               ErrorCode::unsupported);
  if (TAMIS_CHECKED(6, row_len % info->block_len != 0))
    return bad(dims_at, fmt::format("rows of {} elements", row_len),
               fmt::format("a multiple of {}, the block of {}", info->block_len, info->name), "E_TENSOR_ROW");
  if (!dtype_bytes(info->dtype, n_elements))
    return bad(dims_at, fmt::format("{} elements of {}", n_elements, info->name), "fewer than 2^64 bytes",
               "E_TENSOR_SIZE");
  window_.advance(4);
  return {};
}

// ---------------------------------------------------------------- building the tables

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

// ---------------------------------------------------------------- errors

Status GgufParser::need(uint64_t n) {
  if (window_.ensure(n)) [[likely]]
    return {};
  if (window_.failure()) return tl::unexpected<Error>(*window_.failure());
  if (window_.is_over_limit())
    return bad(window_.position(), "more metadata",
               fmt::format("at most {} bytes (limit)", options_.limits.metadata_bytes), "E_LIMIT");
  return bad(window_.position(), fmt::format("{} bytes left", window_.bytes_left()), fmt::format("{} more", n),
             "E_TRUNCATED");
}

Status GgufParser::check_text(std::string_view text, uint64_t offset, std::string_view what) {
  const size_t invalid = utf8_first_invalid(text);
  if (invalid == text.size() || has_text_warning_) return {};
  has_text_warning_ = true;
  return oddity(offset, fmt::format("{} with an invalid byte at position {}", what, invalid), "UTF-8", "E_UTF8");
}

ErrorSite GgufParser::site(uint64_t offset, std::string got, std::string expected, std::string_view tag) const {
  ErrorSite out;
  out.file = state_->shards[0].path;
  out.byte_offset = offset;
  out.has_offset = true;
  out.section = section_;
  out.index = index_;
  out.subject =
      subject_bytes_ > 0 ? escape_for_display(window_.text(subject_offset_, subject_bytes_)) : std::string(field_);
  out.got = std::move(got);
  out.expected = std::move(expected);
  out.tag = tag;
  return out;
}

tl::unexpected<Error> GgufParser::bad(uint64_t offset, std::string got, std::string expected, std::string_view tag,
                                      ErrorCode code) const {
  return fail_at(code, site(offset, std::move(got), std::move(expected), tag));
}

Status GgufParser::oddity(uint64_t offset, std::string got, std::string expected, std::string_view tag) {
  if (is_strict()) return bad(offset, std::move(got), std::move(expected), tag);
  warn(offset, std::move(got), std::move(expected), tag);
  return {};
}

void GgufParser::warn(uint64_t offset, std::string got, std::string expected, std::string_view tag) {
  if (state_->warnings.size() > kMaxWarnings) return;
  if (state_->warnings.size() == kMaxWarnings) {
    state_->warnings.push_back("further warnings are left out");
    return;
  }
  state_->warnings.push_back(bad(offset, std::move(got), std::move(expected), tag).value().to_string());
}

}  // namespace tamis
