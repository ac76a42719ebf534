// Typed views of metadata values. Everything here walks bytes the parser has already validated; ByteReader keeps it
// bounded anyway.
#include <cstring>
#include <limits>

#include "base/bytes.h"
#include "base/checked.h"
#include "base/fault.h"
#include "formats/gguf.h"

namespace tamis {
namespace {

struct TypeRow {
  std::string_view name;
  uint32_t size_bytes;
};

constexpr TypeRow kTypes[] = {{"u8", 1},   {"i8", 1},  {"u16", 2}, {"i16", 2}, {"u32", 4}, {"i32", 4}, {"f32", 4},
                              {"bool", 1}, {"str", 0}, {"arr", 0}, {"u64", 8}, {"i64", 8}, {"f64", 8}};

const TypeRow& row_of(GgufType type) {
  const auto i = static_cast<uint32_t>(type);
  return kTypes[i < std::size(kTypes) ? i : 0];
}

template <class T>
T load(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

template <class To>
std::optional<To> integer_as(GgufType type, const std::byte* bytes) {
  switch (type) {
    case GgufType::u8: return checked_cast<To>(load<uint8_t>(bytes));
    case GgufType::i8: return checked_cast<To>(load<int8_t>(bytes));
    case GgufType::u16: return checked_cast<To>(load<uint16_t>(bytes));
    case GgufType::i16: return checked_cast<To>(load<int16_t>(bytes));
    case GgufType::u32: return checked_cast<To>(load<uint32_t>(bytes));
    case GgufType::i32: return checked_cast<To>(load<int32_t>(bytes));
    case GgufType::u64: return checked_cast<To>(load<uint64_t>(bytes));
    case GgufType::i64: return checked_cast<To>(load<int64_t>(bytes));
    default: return std::nullopt;
  }
}

std::optional<double> float_as(GgufType type, const std::byte* bytes) {
  if (type == GgufType::f32) return load<float>(bytes);
  if (type == GgufType::f64) return load<double>(bytes);
  return std::nullopt;
}

constexpr uint64_t kArrayHeaderBytes = 12;  // element type u32, count u64

}  // namespace

std::string_view gguf_type_name(GgufType type) { return row_of(type).name; }
uint32_t gguf_type_bytes(GgufType type) { return row_of(type).size_bytes; }

std::optional<uint64_t> GgufValue::as_uint() const { return integer_as<uint64_t>(type_, data_); }
std::optional<int64_t> GgufValue::as_int() const { return integer_as<int64_t>(type_, data_); }
std::optional<double> GgufValue::as_float() const { return float_as(type_, data_); }

std::optional<bool> GgufValue::as_bool() const {
  if (type_ != GgufType::boolean) return std::nullopt;
  return load<uint8_t>(data_) != 0;
}

std::optional<std::string_view> GgufValue::as_string() const {
  if (type_ != GgufType::string) return std::nullopt;
  return std::string_view(reinterpret_cast<const char*>(data_) + 8, size_ - 8);
}

std::optional<GgufArray> GgufValue::as_array() const {
  if (type_ != GgufType::array) return std::nullopt;
  GgufArray array;
  array.element_type_ = static_cast<GgufType>(load<uint32_t>(data_));
  array.n_ = load<uint64_t>(data_ + 4);
  array.offset_ = offset_ + kArrayHeaderBytes;
  array.bytes_ = raw().subspan(kArrayHeaderBytes);
  return array;
}

std::optional<uint64_t> GgufArray::uint_at(uint64_t i) const {
  if (TAMIS_CHECKED(2, i >= n_)) return std::nullopt;
  return integer_as<uint64_t>(element_type_, bytes_.data() + i * gguf_type_bytes(element_type_));
}

std::optional<int64_t> GgufArray::int_at(uint64_t i) const {
  if (i >= n_) return std::nullopt;
  return integer_as<int64_t>(element_type_, bytes_.data() + i * gguf_type_bytes(element_type_));
}

std::optional<double> GgufArray::float_at(uint64_t i) const {
  if (i >= n_) return std::nullopt;
  return float_as(element_type_, bytes_.data() + i * gguf_type_bytes(element_type_));
}

std::optional<std::vector<std::string_view>> GgufArray::strings() const {
  if (element_type_ != GgufType::string) return std::nullopt;
  std::vector<std::string_view> out;
  out.reserve(n_);  // checked against the bytes when the file was opened
  ByteReader reader(bytes_, offset_);
  for (uint64_t i = 0; i < n_; ++i) {
    const auto length = reader.read<uint64_t>();
    if (!length) return std::nullopt;
    const auto text = reader.take_text(*length);
    if (!text) return std::nullopt;
    out.push_back(*text);
  }
  return out;
}

namespace {

// Bytes of one encoded value at the front of `bytes`, or nothing when it does not end inside. Arrays in arrays are
// walked on a fixed stack, one level more than the parser lets through.
std::optional<uint64_t> encoded_bytes(GgufType type, std::span<const std::byte> bytes) {
  constexpr uint32_t kMaxDepth = 10;
  struct Level {
    GgufType type;
    uint64_t left;
  };
  Level levels[kMaxDepth] = {{type, 1}};
  uint32_t depth = 1;
  ByteReader reader(bytes);
  while (depth > 0) {
    Level& level = levels[depth - 1];
    if (level.left == 0) {
      --depth;
      continue;
    }
    if (const uint64_t size = gguf_type_bytes(level.type); size > 0) {
      const auto all = checked_mul(size, level.left);
      if (!all || !reader.skip(*all)) return std::nullopt;
      level.left = 0;
      continue;
    }
    --level.left;
    if (level.type == GgufType::string) {
      const auto length = reader.read<uint64_t>();
      if (!length || !reader.skip(*length)) return std::nullopt;
      continue;
    }
    const auto element = reader.read<uint32_t>();
    const auto n = reader.read<uint64_t>();
    if (!element || !n || depth == kMaxDepth) return std::nullopt;
    levels[depth++] = {static_cast<GgufType>(*element), *n};
  }
  return bytes.size() - reader.bytes_left();
}

}  // namespace

std::vector<GgufValue> GgufArray::values() const {
  std::vector<GgufValue> out;
  uint64_t position = 0;
  for (uint64_t i = 0; i < n_; ++i) {
    const auto size = encoded_bytes(element_type_, bytes_.subspan(position));
    if (!size) break;
    GgufValue value;
    value.type_ = element_type_;
    value.offset_ = static_cast<uint32_t>(offset_ + position);
    value.data_ = bytes_.data() + position;
    value.size_ = static_cast<uint32_t>(*size);
    out.push_back(value);
    position += *size;
  }
  return out;
}

}  // namespace tamis
