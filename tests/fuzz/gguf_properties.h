// What must hold of every GGUF file that was accepted, whatever it was made of. A violation traps.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf.h"

namespace tamis::fuzzing {

inline void require(bool condition) {
  if (!condition) __builtin_trap();
}

// FNV-1a by words over everything read, so that no read is optimised away and two files can be compared.
class Digest {
 public:
  void add(std::span<const std::byte> bytes) {
    for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
      uint64_t word = 0;
      std::memcpy(&word, bytes.data(), 8);
      add(word);
    }
    for (const std::byte b : bytes) add(static_cast<uint64_t>(b));
  }
  void add(std::string_view text) { add({reinterpret_cast<const std::byte*>(text.data()), text.size()}); }
  void add(uint64_t n) { value_ = (value_ ^ n) * kPrime; }
  uint64_t value() const { return value_; }

 private:
  static constexpr uint64_t kPrime = 0x100000001b3u;
  uint64_t value_ = 0xcbf29ce484222325u;
};

// Walks a value by every getter, nested arrays too (depth is what the reader allows: 4).
inline void visit(const GgufValue& value, Digest& digest, uint64_t metadata_bytes, int depth = 0) {
  require(depth <= 4);
  require(value.offset() + value.raw().size() <= metadata_bytes);
  digest.add(static_cast<uint64_t>(value.type()));
  digest.add(value.raw());
  (void)value.as_uint(), (void)value.as_int(), (void)value.as_float(), (void)value.as_bool();
  if (const auto text = value.as_string()) digest.add(*text);
  const auto array = value.as_array();
  require(array.has_value() == (value.type() == GgufType::array));
  if (!array) return;
  const uint64_t n = array->size();
  for (const uint64_t i : {uint64_t{0}, n / 2, n - (n > 0), n}) {
    if (gguf_type_bytes(array->element_type()) == 0) continue;
    (void)array->uint_at(i), (void)array->int_at(i), (void)array->float_at(i);
  }
  if (const auto strings = array->strings()) require(strings->size() == n);
  if (array->element_type() != GgufType::array && n > 64) return;  // plain elements beyond the first are all alike
  const auto values = array->values();
  require(values.size() == n);
  for (const GgufValue& element : values) visit(element, digest, metadata_bytes, depth + 1);
}

// Checks an accepted file against the promises of GgufFile and returns a digest of all its metadata and of its tensors'
// ends.
inline uint64_t check_accepted(const GgufFile& file) {
  using Wide = unsigned __int128;
  Digest digest;
  digest.add(file.alignment());
  for (const GgufKv& kv : file.kvs()) {
    require(!kv.key.empty() && kv.key.find('\0') == kv.key.npos);
    require(file.find(kv.key) == &kv.value);
    digest.add(kv.key);
    visit(kv.value, digest, file.metadata_bytes());
  }
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const GgufTensor& tensor : file.tensors()) {
    require(file.find_tensor(tensor.name) == &tensor);
    require(tensor.shape.n_dims >= 1 && tensor.shape.n_dims <= 4);
    Wide n_elements = 1;
    for (uint32_t i = 0; i < tensor.shape.n_dims; ++i) {
      require(tensor.shape[i] > 0);
      n_elements *= tensor.shape[i];
      require(n_elements < Wide{1} << 63);
    }
    const DTypeInfo& info = dtype_info(tensor.dtype);
    require(tensor.shape.row_len() % info.block_len == 0);
    require(n_elements / info.block_len * info.block_bytes == tensor.size_bytes);
    require(tensor.file_offset >= file.data_offset() &&
            (tensor.file_offset - file.data_offset()) % file.alignment() == 0);
    require(Wide{tensor.file_offset} + tensor.size_bytes <= file.size_bytes());
    ranges.emplace_back(tensor.file_offset, tensor.file_offset + tensor.size_bytes);
    digest.add(tensor.name);
    digest.add(static_cast<uint64_t>(tensor.dtype));
    for (uint32_t i = 0; i < tensor.shape.n_dims; ++i) digest.add(tensor.shape[i]);
    const auto data = file.data(tensor);
    if (data.empty()) continue;  // a source that is not mapped
    require(data.size() == tensor.size_bytes);
    digest.add(data.first(1));
    digest.add(data.last(1));
  }
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i) require(ranges[i].first >= ranges[i - 1].second);
  return digest.value();
}

// A refusal must say where and what.
inline void check_refused(const Error& error) {
  require(!error.message.empty());
  require(error.site != nullptr && !error.site->tag.empty());
  require(error.site->has_offset || error.site->subject.starts_with("split."));
}

}  // namespace tamis::fuzzing
