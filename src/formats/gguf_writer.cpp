// Encoding of values and tensor table, and streaming of tensor data.
#include "formats/gguf_writer.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "base/checked.h"
#include "base/limits.h"

namespace tamis {
namespace {

constexpr Limits kLimits;
constexpr std::string_view kAlignmentKey = "general.alignment";

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

void put_text(std::string& out, std::string_view text) {
  put<uint64_t>(out, text.size());
  out += text;
}

template <class Texts>
std::string encode_texts(const Texts& values) {
  std::string out;
  for (const auto& value : values) put_text(out, value);
  return out;
}

Status check_key(std::string_view key) {
  const bool is_text = std::all_of(key.begin(), key.end(), [](char c) { return c > 0; });  // ASCII without NUL
  if (key.empty() || key.size() > kLimits.key_bytes || !is_text)
    return fail(ErrorCode::invalid_argument, "metadata key \"{}\": expected 1 to {} bytes of ASCII",
                escape_for_display(key), kLimits.key_bytes);
  return {};
}

}  // namespace

GgufEncoded GgufEncoded::text(std::string_view value) {
  std::string out;
  put_text(out, value);
  return {GgufType::string, std::move(out)};
}

GgufEncoded GgufEncoded::array_of(GgufType element_type, uint64_t n, std::string_view elements) {
  std::string out;
  out.reserve(12 + elements.size());
  put(out, static_cast<uint32_t>(element_type));
  put(out, n);
  out += elements;
  return {GgufType::array, std::move(out)};
}

GgufEncoded GgufEncoded::texts(std::span<const std::string_view> values) {
  return array_of(GgufType::string, values.size(), encode_texts(values));
}
GgufEncoded GgufEncoded::texts(std::span<const std::string> values) {
  return array_of(GgufType::string, values.size(), encode_texts(values));
}

GgufEncoded GgufEncoded::array(GgufType element_type, std::span<const GgufEncoded> values) {
  std::string elements;
  for (const GgufEncoded& value : values) {
    TAMIS_CHECK(value.type() == element_type);
    elements += value.bytes();
  }
  return array_of(element_type, values.size(), elements);
}

GgufEncoded GgufEncoded::copy(const GgufValue& value) {
  const auto raw = value.raw();
  return {value.type(), std::string(reinterpret_cast<const char*>(raw.data()), raw.size())};
}

Status GgufWriter::add(std::string_view key, const GgufEncoded& value) {
  TAMIS_CHECK(!file_);
  TAMIS_TRY_STATUS(check_key(key));
  if (keys_.contains(std::string(key)))
    return fail(ErrorCode::invalid_argument, "metadata key \"{}\" is added twice", escape_for_display(key));
  if (key == kAlignmentKey) TAMIS_TRY_STATUS(set_alignment(value));
  keys_.emplace(key);
  put_text(kvs_, key);
  put(kvs_, static_cast<uint32_t>(value.type()));
  kvs_ += value.bytes();
  return {};
}

Status GgufWriter::set_alignment(const GgufEncoded& value) {
  uint32_t alignment = 0;
  if (value.type() != GgufType::u32)
    return fail(ErrorCode::invalid_argument, "{} has type {}, expected u32", kAlignmentKey,
                gguf_type_name(value.type()));
  std::memcpy(&alignment, value.bytes().data(), sizeof alignment);
  if (!std::has_single_bit(alignment) || alignment < 8 || alignment > kLimits.alignment)
    return fail(ErrorCode::invalid_argument, "{} is {}, expected a power of two from 8 to {}", kAlignmentKey, alignment,
                kLimits.alignment);
  if (!tensors_.empty())
    return fail(ErrorCode::invalid_argument, "{} must be added before the first tensor", kAlignmentKey);
  alignment_ = alignment;
  return {};
}

Status GgufWriter::add_all(const GgufFile& file, const std::function<bool(std::string_view key)>& keep) {
  for (const GgufKv& kv : file.kvs())
    if (!keep || keep(kv.key)) TAMIS_TRY_STATUS(add(kv.key, GgufEncoded::copy(kv.value)));
  return {};
}

Status GgufWriter::add_tensor(std::string_view name, DType dtype, const Shape& shape) {
  TAMIS_CHECK(!file_);
  const std::string shown = escape_for_display(name);
  if (name.empty() || name.size() > kLimits.tensor_name_bytes || name.find('\0') != name.npos)
    return fail(ErrorCode::invalid_argument, "tensor name \"{}\": expected 1 to {} bytes without NUL", shown,
                kLimits.tensor_name_bytes);
  if (names_.contains(std::string(name)))
    return fail(ErrorCode::invalid_argument, "tensor \"{}\" is added twice", shown);
  if (shape.n_dims < 1)
    return fail(ErrorCode::invalid_argument, "tensor \"{}\" has no dimensions, expected 1 to 4", shown);
  std::optional<uint64_t> n_elements = 1;
  for (uint32_t i = 0; i < shape.n_dims && n_elements; ++i)
    n_elements = shape[i] == 0 ? std::nullopt : checked_mul(*n_elements, shape[i]);
  const DTypeInfo& info = dtype_info(dtype);
  const auto bytes =
      n_elements && shape.row_len() % info.block_len == 0 ? dtype_bytes(dtype, *n_elements) : std::nullopt;
  const auto padded = bytes ? checked_pad(*bytes, alignment_) : std::nullopt;
  const auto end = padded ? checked_add(data_bytes_, *padded) : std::nullopt;
  if (!end || *n_elements > uint64_t{std::numeric_limits<int64_t>::max()})
    return fail(ErrorCode::invalid_argument,
                "tensor \"{}\": shape {} is not possible for {}, whose rows are multiples of {}", shown,
                shape.to_string(), info.name, info.block_len);

  names_.emplace(name);
  put_text(infos_, name);
  put(infos_, shape.n_dims);
  for (uint32_t i = 1; i <= shape.n_dims; ++i) put(infos_, shape[shape.n_dims - i]);  // GGUF lists the innermost first
  put(infos_, static_cast<uint32_t>(dtype));
  put(infos_, data_bytes_);
  tensors_.push_back({*bytes, data_bytes_});
  data_bytes_ = *end;
  return {};
}

std::string GgufWriter::header() const {
  std::string out = "GGUF";
  put<uint32_t>(out, 3);
  put<uint64_t>(out, tensors_.size());
  put<uint64_t>(out, keys_.size());
  out += kvs_;
  out += infos_;
  out.resize(checked_pad(out.size(), alignment_).value_or(out.size()), '\0');
  return out;
}

Status GgufWriter::begin(const std::string& path, bool overwrite) {
  TAMIS_CHECK(!file_);
  TAMIS_TRY(file_, AtomicFile::create(path, overwrite));
  return file_->write(header());
}

Status GgufWriter::begin_partial(const std::string& path, bool overwrite, size_t tensor, uint64_t written_bytes) {
  TAMIS_CHECK(!file_);
  TAMIS_CHECK(tensor < tensors_.size() ? written_bytes < tensors_[tensor].size_bytes : written_bytes == 0);
  const std::string head = header();
  current_ = tensor;
  written_bytes_ = written_bytes;
  const bool is_new = tensor == 0 && written_bytes == 0;
  const uint64_t before = tensor < tensors_.size() ? tensors_[tensor].offset + written_bytes : data_bytes_;
  TAMIS_TRY(file_, AtomicFile::create_partial(path, overwrite, is_new ? 0 : head.size() + before));
  return is_new ? file_->write(head) : Status();
}

Status GgufWriter::pad(uint64_t n) {
  static constexpr std::byte kZeros[4096] = {};
  while (n > 0) {
    const uint64_t step = std::min<uint64_t>(n, sizeof kZeros);
    TAMIS_TRY_STATUS(file_->write({kZeros, step}));
    n -= step;
  }
  return {};
}

Status GgufWriter::write(std::span<const std::byte> bytes) {
  TAMIS_CHECK(file_);
  if (bytes.empty()) return {};
  if (current_ == tensors_.size())
    return fail(ErrorCode::invalid_argument, "{} bytes beyond the last tensor's", bytes.size());
  const uint64_t size = tensors_[current_].size_bytes;
  if (bytes.size() > size - written_bytes_)
    return fail(ErrorCode::invalid_argument, "tensor {}: {} bytes, expected at most {} more", current_, bytes.size(),
                size - written_bytes_);
  TAMIS_TRY_STATUS(file_->write(bytes));
  written_bytes_ += bytes.size();
  if (written_bytes_ < size) return {};
  ++current_;
  written_bytes_ = 0;
  return pad(checked_pad(size, alignment_).value_or(size) - size);
}

Status GgufWriter::finish() {
  TAMIS_CHECK(file_);
  if (current_ != tensors_.size())
    return fail(ErrorCode::invalid_argument, "tensor {}: {} of {} bytes written", current_, written_bytes_,
                tensors_[current_].size_bytes);
  return file_->commit();
}

}  // namespace tamis
