// .npy: magic "\x93NUMPY", version bytes 1 0, header length (u16), a Python dict literal padded with spaces to a
// multiple of 64 and ended by a newline, then the values. Only the dict NumPy itself writes is understood: keys in any
// order, simple values.
#include "formats/npy.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "base/checked.h"

namespace tamis {
namespace {

static_assert(std::endian::native == std::endian::little, "values are written as they lie in memory");
constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr uint64_t kPrefixBytes = 10;  // magic, version, header length

tl::unexpected<Error> bad(uint64_t offset, std::string got, std::string expected) {
  return fail_at(ErrorCode::format, site_at_byte(offset, "header", std::move(got), std::move(expected), "E_NPY"));
}

// The text after `'key':` in the dict, leading blanks removed; nothing when the key is absent.
std::optional<std::string_view> dict_value(std::string_view dict, std::string_view key) {
  const std::string quoted = fmt::format("'{}':", key);
  const size_t at = dict.find(quoted);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view value = dict.substr(at + quoted.size());
  value.remove_prefix(std::min(value.size(), value.find_first_not_of(' ')));
  return value;
}

// The numbers of a tuple "(2, 3)" or "(2,)"; nothing when it is none, or has more than two.
std::optional<std::vector<uint64_t>> parse_tuple(std::string_view text) {
  if (!text.starts_with('(')) return std::nullopt;
  const size_t close = text.find(')');
  if (close == std::string_view::npos) return std::nullopt;
  text = text.substr(1, close - 1);
  std::vector<uint64_t> extents;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    std::string_view item = text.substr(0, comma);
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
    item.remove_prefix(std::min(item.size(), item.find_first_not_of(' ')));
    uint64_t extent = 0;
    const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), extent);
    if (error != std::errc() || end != item.data() + item.size() || extents.size() == 2) return std::nullopt;
    extents.push_back(extent);
  }
  return extents;
}

struct Header {
  uint64_t n_rows, n_cols, data_offset;
};

Result<Header> parse_header(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  TAMIS_TRY(const std::string_view magic, reader.take_text(kMagic.size()));
  if (magic != kMagic) return bad(0, "other bytes", "the .npy magic");
  TAMIS_TRY(const uint8_t major, reader.read<uint8_t>());
  TAMIS_TRY(const uint8_t minor, reader.read<uint8_t>());
  if (major != 1 || minor != 0) return bad(6, fmt::format("version {}.{}", major, minor), "version 1.0");
  TAMIS_TRY(const uint16_t n_bytes, reader.read<uint16_t>());
  TAMIS_TRY(const std::string_view dict, reader.take_text(n_bytes));
  const auto descr = dict_value(dict, "descr");
  if (!descr || !descr->starts_with("'<f4'")) {
    return bad(kPrefixBytes, fmt::format("descr {}", escape_for_display(descr.value_or("(none)").substr(0, 12))),
               "'<f4' (float32)");
  }
  const auto order = dict_value(dict, "fortran_order");
  if (!order || !order->starts_with("False")) return bad(kPrefixBytes, "another fortran_order", "False");
  const auto shape = dict_value(dict, "shape");
  const auto extents = shape ? parse_tuple(*shape) : std::nullopt;
  if (!extents || extents->empty()) return bad(kPrefixBytes, "another shape", "one or two extents");
  if (extents->size() == 1) return Header{1, (*extents)[0], reader.offset()};
  return Header{(*extents)[0], (*extents)[1], reader.offset()};
}

}  // namespace

Result<NpyMatrix> read_npy(ByteSource& source) {
  std::vector<std::byte> head(std::min<uint64_t>(source.size_bytes(), kPrefixBytes + 65535));
  TAMIS_TRY(const size_t n_read, source.read_at(0, head));
  head.resize(n_read);
  TAMIS_TRY(const Header header, parse_header(head));
  const auto n_values = checked_mul(header.n_rows, header.n_cols);
  const auto n_bytes = n_values ? checked_mul(*n_values, sizeof(float)) : std::nullopt;
  const uint64_t bytes_left = source.size_bytes() - header.data_offset;
  if (!n_bytes || *n_bytes != bytes_left) {
    return bad(header.data_offset, fmt::format("{} bytes of values", bytes_left),
               fmt::format("float32[{}, {}]", header.n_rows, header.n_cols));
  }
  NpyMatrix matrix{header.n_rows, header.n_cols, std::vector<float>(*n_values)};
  TAMIS_TRY(const size_t n_data, source.read_at(header.data_offset, std::as_writable_bytes(std::span(matrix.values))));
  if (n_data != *n_bytes) return bad(header.data_offset + n_data, "end of file", "more values");
  return matrix;
}

Result<NpyMatrix> read_npy(const std::string& path) {
  TAMIS_TRY(const std::shared_ptr<MappedFile> file, MappedFile::open(path));
  auto matrix = read_npy(*file);
  if (!matrix) return tl::unexpected<Error>(with_file(std::move(matrix).error(), path));
  return matrix;
}

Result<NpyWriter> NpyWriter::create(const std::string& path, uint64_t n_rows, uint64_t n_cols, bool overwrite) {
  const auto n_values = checked_mul(n_rows, n_cols);
  if (!n_values || !checked_mul(*n_values, sizeof(float)))
    return fail(ErrorCode::invalid_argument, "{}: an array of [{}, {}] is too large", path, n_rows, n_cols);
  std::string dict = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", n_rows, n_cols);
  dict.append(63 - (kPrefixBytes + dict.size()) % 64, ' ');
  dict.push_back('\n');
  std::string head(kMagic);
  head += {'\1', '\0', static_cast<char>(dict.size() & 0xff), static_cast<char>(dict.size() >> 8)};
  head += dict;
  TAMIS_TRY(AtomicFile file, AtomicFile::create(path, overwrite));
  TAMIS_TRY_STATUS(file.write(head));
  return NpyWriter(std::move(file), *n_values);
}

Status NpyWriter::write_rows(std::span<const float> values) {
  if (values.size() > n_values_left_) return fail(ErrorCode::internal, "more rows than the .npy header announces");
  n_values_left_ -= values.size();
  return file_.write(std::as_bytes(values));
}

Status NpyWriter::commit() {
  if (n_values_left_ != 0) return fail(ErrorCode::internal, "fewer rows than the .npy header announces");
  return file_.commit();
}

}  // namespace tamis
