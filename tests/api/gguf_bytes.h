// Builds small GGUF files byte by byte, wrong ones included: what the writer of the library would refuse to write.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tamis::testing {

// A metadata value as it stands in the file: its type number and encoded bytes.
struct RawValue {
  uint32_t type = 0;
  std::string bytes;
};

RawValue u8(uint8_t value);
RawValue u32(uint32_t value);
RawValue i32(int32_t value);
RawValue u64(uint64_t value);
RawValue f32(float value);
RawValue boolean(bool value);
RawValue text(std::string_view value);
RawValue u8s(const std::vector<uint8_t>& values);
RawValue i8s(const std::vector<int8_t>& values);
RawValue u32s(const std::vector<uint32_t>& values);
RawValue i32s(const std::vector<int32_t>& values);
RawValue f32s(const std::vector<float>& values);
RawValue texts(const std::vector<std::string>& values);

struct RawTensor {
  std::string name;
  uint32_t type = 0;           // GGUF's number; 0 = F32
  std::vector<uint64_t> dims;  // innermost first, as in the file
  std::string bytes;           // its data
};

// The tensor's data by type and element count: small values that differ; quantized types get finite scales.
RawTensor tensor(std::string name, std::vector<uint64_t> dims, uint32_t type = 0);

class GgufBytes {
 public:
  GgufBytes& set(std::string_view key, RawValue value);  // replaces or appends
  GgufBytes& erase(std::string_view key);
  GgufBytes& add(RawTensor tensor);
  GgufBytes& replace(RawTensor tensor);  // the tensor of that name
  GgufBytes& erase_tensor(std::string_view name);
  const RawValue* find(std::string_view key) const;

  std::string build() const;  // version 3, alignment 32

 private:
  struct Kv {
    std::string key;
    RawValue value;
  };
  std::vector<Kv> kvs_;
  std::vector<RawTensor> tensors_;
};

}  // namespace tamis::testing
