// Header of one file; element types.
#include "formats/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/checked.h"
#include "base/float16.h"
#include "base/limits.h"
#include "formats/json.h"

namespace tamis {
namespace {

constexpr uint64_t kMaxHeaderBytes = 100000000;  // the format's own bound
constexpr uint32_t kHeaderDepth = 4;             // file, tensor, shape; and one to spare for a precise error
constexpr size_t kMaxDims = 8;
constexpr std::string_view kMetadata = "__metadata__";

struct TypeRow {
  SafeType type;
  std::string_view name;
  uint32_t n_bytes;
  bool is_float;
};

constexpr std::array<TypeRow, 16> kTypes = {{
    {SafeType::f64, "F64", 8, true},
    {SafeType::f32, "F32", 4, true},
    {SafeType::f16, "F16", 2, true},
    {SafeType::bf16, "BF16", 2, true},
    {SafeType::f8_e4m3, "F8_E4M3", 1, true},
    {SafeType::f8_e5m2, "F8_E5M2", 1, true},
    {SafeType::f8_e8m0, "F8_E8M0", 1, true},
    {SafeType::i64, "I64", 8, false},
    {SafeType::i32, "I32", 4, false},
    {SafeType::i16, "I16", 2, false},
    {SafeType::i8, "I8", 1, false},
    {SafeType::u64, "U64", 8, false},
    {SafeType::u32, "U32", 4, false},
    {SafeType::u16, "U16", 2, false},
    {SafeType::u8, "U8", 1, false},
    {SafeType::boolean, "BOOL", 1, false},
}};

const TypeRow& row_of(SafeType type) { return kTypes[static_cast<size_t>(type)]; }

ErrorSite site_at(std::string_view path, std::string got, std::string expected) {
  ErrorSite site;
  site.file = std::string(path);
  site.section = "header";
  site.got = std::move(got);
  site.expected = std::move(expected);
  site.tag = "E_SAFETENSORS";
  return site;
}

class HeaderReader {
 public:
  HeaderReader(std::string_view path, uint64_t data_begin, uint64_t file_bytes)
      : path_(path), data_begin_(data_begin), data_bytes_(file_bytes - data_begin) {}

  Result<std::vector<SafeTensor>> read(const Json& header) {
    if (!header.is_object()) return bad("", "no object", "a JSON object");
    std::vector<SafeTensor> tensors;
    for (const auto& [name, entry] : header.as_object()) {
      if (name == kMetadata) {
        TAMIS_TRY_STATUS(check_metadata(entry));
        continue;
      }
      TAMIS_TRY(SafeTensor tensor, read_tensor(name, entry));
      tensors.push_back(std::move(tensor));
    }
    TAMIS_TRY_STATUS(check_ranges(tensors));
    return tensors;
  }

 private:
  tl::unexpected<Error> bad(std::string_view tensor, std::string got, std::string expected,
                            ErrorCode code = ErrorCode::format) const {
    ErrorSite site = site_at(path_, std::move(got), std::move(expected));
    site.section = tensor.empty() ? "header" : "tensor";
    site.subject = escape_for_display(tensor);
    return fail_at(code, std::move(site));
  }

  Status check_metadata(const Json& entry) const {
    if (!entry.is_object()) return bad(kMetadata, "no object", "an object of strings");
    for (const auto& [key, value] : entry.as_object())
      if (!value.is_string()) return bad(kMetadata, "\"" + escape_for_display(key) + "\" is no string", "strings only");
    return {};
  }

  Result<uint64_t> number(std::string_view tensor, const Json& value, std::string_view what) const {
    if (value.is_int() && value.as_int() >= 0) return static_cast<uint64_t>(value.as_int());
    if (value.is_uint()) return value.as_uint();
    return bad(tensor, fmt::format("{} {}", what, escape_for_display(value.dump(), 40)), "integers of at least 0");
  }

  Result<SafeTensor> read_tensor(const std::string& name, const Json& entry) const {
    const Json* type = entry.find("dtype");
    const Json* shape = entry.find("shape");
    const Json* range = entry.find("data_offsets");
    if (name.empty()) return bad("(a tensor)", "an empty name", "a name");
    if (type == nullptr || shape == nullptr || range == nullptr || !type->is_string() || !shape->is_array() ||
        !range->is_array() || range->as_array().size() != 2)
      return bad(name, "an incomplete entry", "dtype, shape and two data_offsets");
    SafeTensor tensor;
    tensor.name = name;
    const auto row = std::find_if(kTypes.begin(), kTypes.end(), [&](auto& r) { return r.name == type->as_string(); });
    if (row == kTypes.end())
      return bad(name, "element type \"" + escape_for_display(type->as_string(), 40) + "\"",
                 "F64, F32, F16, BF16, F8_E4M3, F8_E5M2, F8_E8M0, an integer type or BOOL", ErrorCode::unsupported);
    tensor.type = row->type;
    if (shape->as_array().size() > kMaxDims)
      return bad(name, fmt::format("{} dimensions", shape->as_array().size()), fmt::format("at most {}", kMaxDims));
    std::optional<uint64_t> n_bytes = row->n_bytes;
    for (const Json& extent : shape->as_array()) {
      TAMIS_TRY(const uint64_t n, number(name, extent, "extent"));
      tensor.shape.push_back(n);
      if (n_bytes) n_bytes = checked_mul(*n_bytes, n);
    }
    TAMIS_TRY(const uint64_t begin, number(name, range->as_array()[0], "offset"));
    TAMIS_TRY(const uint64_t end, number(name, range->as_array()[1], "offset"));
    if (begin > end || end > data_bytes_)
      return bad(name, fmt::format("bytes {} to {}", begin, end), fmt::format("a range within {} bytes", data_bytes_));
    if (!n_bytes || *n_bytes != end - begin)
      return bad(name, fmt::format("{} bytes for {} of shape {}", end - begin, row->name, tensor.shape_text()),
                 n_bytes ? fmt::format("{}", *n_bytes) : "a size that fits 64 bits");
    tensor.offset = data_begin_ + begin;
    tensor.size_bytes = end - begin;
    return tensor;
  }

  Status check_ranges(const std::vector<SafeTensor>& tensors) const {
    std::vector<const SafeTensor*> sorted;
    for (const SafeTensor& tensor : tensors) sorted.push_back(&tensor);
    std::sort(sorted.begin(), sorted.end(), [](const SafeTensor* a, const SafeTensor* b) {
      return a->offset != b->offset ? a->offset < b->offset : a->size_bytes < b->size_bytes;
    });
    uint64_t next = data_begin_;
    for (const SafeTensor* tensor : sorted) {
      if (tensor->offset != next)
        return bad(tensor->name, fmt::format("data at byte {}", tensor->offset),
                   fmt::format("it at {}, where the one before it ends (no hole, no overlap)", next));
      next += tensor->size_bytes;
    }
    if (next != data_begin_ + data_bytes_)
      return bad("", fmt::format("{} bytes after the last tensor", data_begin_ + data_bytes_ - next), "none");
    return {};
  }

  std::string_view path_;
  uint64_t data_begin_, data_bytes_;
};

float decode_e4m3(uint8_t bits) {
  const uint32_t exponent = (bits >> 3) & 15u, mantissa = bits & 7u;
  if (exponent == 15 && mantissa == 7)
    return std::bit_cast<float>(0x7fc00000u | static_cast<uint32_t>(bits & 0x80u) << 24);
  const float magnitude = exponent == 0 ? static_cast<float>(mantissa) * 0x1p-9f
                                        : std::bit_cast<float>((exponent + 120) << 23 | mantissa << 20);
  return (bits & 0x80u) != 0 ? -magnitude : magnitude;
}

// 2^(bits − 127); 255 is NaN.
float decode_e8m0(uint8_t bits) {
  if (bits == 255) return std::bit_cast<float>(0x7fc00000u);
  return bits == 0 ? 0x1p-127f : std::bit_cast<float>(static_cast<uint32_t>(bits) << 23);
}

template <class T, class Fn>
void convert_all(std::span<const std::byte> bytes, std::span<float> out, Fn&& convert) {
  for (size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    out[i] = convert(value);
  }
}

}  // namespace

std::string_view safe_type_name(SafeType type) { return row_of(type).name; }
uint32_t safe_type_bytes(SafeType type) { return row_of(type).n_bytes; }
bool is_float_type(SafeType type) { return row_of(type).is_float; }

std::string SafeTensor::shape_text() const {
  std::string text;
  for (const uint64_t extent : shape) text += (text.empty() ? "" : ", ") + std::to_string(extent);
  return "[" + text + "]";
}

Result<std::vector<SafeTensor>> read_safetensors_header(ByteSource& source, std::string_view path) {
  const uint64_t file_bytes = source.size_bytes();
  uint64_t header_bytes = 0;
  TAMIS_TRY(const size_t n_read, source.read_at(0, std::as_writable_bytes(std::span(&header_bytes, 1))));
  if (n_read != sizeof header_bytes)
    return fail_at(ErrorCode::format, site_at(path, fmt::format("{} bytes", file_bytes), "a header length of 8"));
  const uint64_t left = file_bytes - sizeof header_bytes;
  if (header_bytes < 2 || header_bytes > std::min(left, kMaxHeaderBytes))
    return fail_at(ErrorCode::format, site_at(path, fmt::format("a header of {} bytes", header_bytes),
                                              fmt::format("2 to {}", std::min(left, kMaxHeaderBytes))));
  std::string text(header_bytes, '\0');
  TAMIS_TRY(const size_t n_text, source.read_at(sizeof header_bytes, std::as_writable_bytes(std::span(text))));
  if (n_text != header_bytes || text[0] != '{')
    return fail_at(ErrorCode::format, site_at(path, "another first byte", "a header that begins with {"));
  Result<Json> header = Json::parse(text, kHeaderDepth);
  if (!header) return tl::unexpected<Error>(with_file(header.error(), path));
  return HeaderReader(path, sizeof header_bytes + header_bytes, file_bytes).read(*header);
}

Status decode_safe_values(SafeType type, std::span<const std::byte> bytes, std::span<float> out) {
  TAMIS_CHECK(bytes.size() == out.size() * safe_type_bytes(type));
  switch (type) {
    case SafeType::f32: std::memcpy(out.data(), bytes.data(), bytes.size()); return {};
    case SafeType::f64: convert_all<double>(bytes, out, [](double x) { return static_cast<float>(x); }); return {};
    case SafeType::f16: convert_all<uint16_t>(bytes, out, f16_to_f32); return {};
    case SafeType::bf16: convert_all<uint16_t>(bytes, out, bf16_to_f32); return {};
    case SafeType::f8_e4m3: convert_all<uint8_t>(bytes, out, decode_e4m3); return {};
    case SafeType::f8_e5m2:
      convert_all<uint8_t>(bytes, out, [](uint8_t b) { return f16_to_f32(static_cast<uint16_t>(b << 8)); });
      return {};
    case SafeType::f8_e8m0: convert_all<uint8_t>(bytes, out, decode_e8m0); return {};
    default: return fail(ErrorCode::unsupported, "elements of type {} are no weights", safe_type_name(type));
  }
}

}  // namespace tamis
