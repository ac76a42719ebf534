// Encoding of GGUF values and files for tests. Format: ggml's docs/gguf.md.
#include "tests/api/gguf_bytes.h"

#include <algorithm>
#include <cstring>

#include "base/dtype.h"

namespace tamis::testing {
namespace {

template <class T>
std::string raw(T value) {
  std::string out(sizeof(T), '\0');
  std::memcpy(out.data(), &value, sizeof(T));
  return out;
}

std::string raw_text(std::string_view value) { return raw<uint64_t>(value.size()) + std::string(value); }

template <class T>
RawValue numbers(uint32_t element_type, const std::vector<T>& values) {
  std::string bytes = raw(element_type) + raw<uint64_t>(values.size());
  for (const T value : values) bytes += raw(value);
  return {9, std::move(bytes)};
}

void pad(std::string& bytes) { bytes.resize((bytes.size() + 31) / 32 * 32, '\0'); }

}  // namespace

RawValue u8(uint8_t value) { return {0, raw(value)}; }
RawValue u32(uint32_t value) { return {4, raw(value)}; }
RawValue i32(int32_t value) { return {5, raw(value)}; }
RawValue u64(uint64_t value) { return {10, raw(value)}; }
RawValue f32(float value) { return {6, raw(value)}; }
RawValue boolean(bool value) { return {7, raw<uint8_t>(value ? 1 : 0)}; }
RawValue text(std::string_view value) { return {8, raw_text(value)}; }
RawValue u8s(const std::vector<uint8_t>& values) { return numbers(0, values); }
RawValue i8s(const std::vector<int8_t>& values) { return numbers(1, values); }
RawValue u32s(const std::vector<uint32_t>& values) { return numbers(4, values); }
RawValue i32s(const std::vector<int32_t>& values) { return numbers(5, values); }
RawValue f32s(const std::vector<float>& values) { return numbers(6, values); }

RawValue texts(const std::vector<std::string>& values) {
  std::string bytes = raw<uint32_t>(8) + raw<uint64_t>(values.size());
  for (const std::string& value : values) bytes += raw_text(value);
  return {9, std::move(bytes)};
}

RawTensor tensor(std::string name, std::vector<uint64_t> dims, uint32_t type) {
  uint64_t n_elements = 1;
  for (const uint64_t extent : dims) n_elements *= extent;
  const auto n_bytes = dtype_bytes(static_cast<DType>(type), n_elements);
  RawTensor out{std::move(name), type, std::move(dims), std::string(n_bytes.value_or(0), '\0')};
  if (type != 0) return out;  // all-zero blocks of every type decode to finite numbers
  for (uint64_t i = 0; i < n_elements; ++i) {
    const float value = static_cast<float>(static_cast<int64_t>(i * 37 % 101) - 50) / 500.0f;
    std::memcpy(out.bytes.data() + i * sizeof(float), &value, sizeof(float));
  }
  return out;
}

GgufBytes& GgufBytes::set(std::string_view key, RawValue value) {
  for (Kv& kv : kvs_) {
    if (kv.key != key) continue;
    kv.value = std::move(value);
    return *this;
  }
  kvs_.push_back({std::string(key), std::move(value)});
  return *this;
}

GgufBytes& GgufBytes::erase(std::string_view key) {
  std::erase_if(kvs_, [&](const Kv& kv) { return kv.key == key; });
  return *this;
}

GgufBytes& GgufBytes::add(RawTensor added) {
  tensors_.push_back(std::move(added));
  return *this;
}

GgufBytes& GgufBytes::replace(RawTensor replacement) {
  for (RawTensor& tensor : tensors_)
    if (tensor.name == replacement.name) tensor = replacement;
  return *this;
}

GgufBytes& GgufBytes::erase_tensor(std::string_view name) {
  std::erase_if(tensors_, [&](const RawTensor& tensor) { return tensor.name == name; });
  return *this;
}

const RawValue* GgufBytes::find(std::string_view key) const {
  for (const Kv& kv : kvs_)
    if (kv.key == key) return &kv.value;
  return nullptr;
}

std::string GgufBytes::build() const {
  std::string out = "GGUF" + raw<uint32_t>(3) + raw<uint64_t>(tensors_.size()) + raw<uint64_t>(kvs_.size());
  for (const Kv& kv : kvs_) out += raw_text(kv.key) + raw(kv.value.type) + kv.value.bytes;
  uint64_t offset = 0;
  for (const RawTensor& tensor : tensors_) {
    out += raw_text(tensor.name) + raw<uint32_t>(static_cast<uint32_t>(tensor.dims.size()));
    for (const uint64_t extent : tensor.dims) out += raw(extent);
    out += raw(tensor.type) + raw(offset);
    offset += (tensor.bytes.size() + 31) / 32 * 32;
  }
  if (tensors_.empty()) return out;
  pad(out);
  for (const RawTensor& tensor : tensors_) {
    out += tensor.bytes;
    pad(out);
  }
  return out;
}

}  // namespace tamis::testing
