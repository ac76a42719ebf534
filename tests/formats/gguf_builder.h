// Builds GGUF bytes field by field, right or wrong on purpose, and remembers where each field stands. Independent of
// the library under test: nothing here is shared with GgufWriter.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf.h"
#include "tests/base/temporary_dir.h"

namespace tamis::testing {

using test::TemporaryDir;

template <class T>
std::string le(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(T)};
}
inline std::string u32(uint64_t v) { return le(static_cast<uint32_t>(v)); }
inline std::string u64(uint64_t v) { return le(v); }
inline std::string str(std::string_view text) { return u64(text.size()) + std::string(text); }

struct RawKv {
  std::string key;
  uint32_t type = 0;
  std::string value;
};
inline RawKv kv_u32(std::string key, uint64_t v) { return {std::move(key), 4, u32(v)}; }
inline RawKv kv_u16(std::string key, uint16_t v) { return {std::move(key), 2, le(v)}; }
inline RawKv kv_i32(std::string key, int32_t v) { return {std::move(key), 5, le(v)}; }
inline RawKv kv_bool(std::string key, bool v) { return {std::move(key), 7, std::string(1, static_cast<char>(v))}; }
inline RawKv kv_f64(std::string key, double v) { return {std::move(key), 12, le(v)}; }
inline RawKv kv_str(std::string key, std::string_view v) { return {std::move(key), 8, str(v)}; }
RawKv kv_strs(std::string key, const std::vector<std::string>& values);
RawKv kv_arr(std::string key, uint32_t element_type, uint64_t n, std::string elements);

struct RawTensor {
  std::string name;
  uint32_t type = 0;
  std::vector<uint64_t> dims;  // innermost first, as GGUF has them
};

struct RawGguf {
  std::string bytes;
  std::map<std::string, uint64_t> at;  // "magic" "version" "n_tensors" "n_kv" "key:K" "type:K" "val:K" (arrays:
                                       // "etype:K" "n:K" too) "tname:T" "nd:T" "ne0:T" … "tt:T" "off:T" "pad" "data"
  void put(const std::string& field, std::string_view content);
  // A copy with `content` written over the bytes at `field` (+ shift).
  std::string with(const std::string& field, std::string_view content, uint64_t shift = 0) const;
};

struct RawOptions {
  uint64_t alignment = 32;
  uint32_t version = 3;
  bool has_data = true;
};
RawGguf build_gguf(const std::vector<RawKv>& kvs, const std::vector<RawTensor>& tensors,
                   const RawOptions& options = {});

// The file the mutants are made from: 6 keys, 3 tensors, 512 bytes.
std::vector<RawKv> base_kvs();
std::vector<RawTensor> base_tensors();

// Bytes that own themselves; optionally delivered in short pieces, failing at the n-th read, or ending early.
class TestSource final : public ByteSource {
 public:
  explicit TestSource(std::string bytes) : bytes_(std::move(bytes)) {}
  uint64_t size_bytes() const override { return bytes_.size() + hidden_growth; }
  Result<size_t> read_at(uint64_t offset, std::span<std::byte> out) override;
  std::span<const std::byte> mapped() const override {
    return {reinterpret_cast<const std::byte*>(bytes_.data()), is_mapped ? bytes_.size() : 0};
  }

  size_t max_read_bytes = ~size_t{0};
  int64_t fail_at_read = -1;   // the number of the read that fails, from 0
  uint64_t hidden_growth = 0;  // the size claims so many bytes more than can be read
  bool is_mapped = true;
  int64_t n_reads = 0;
  uint64_t bytes_read = 0;

 private:
  std::string bytes_;
};

Result<GgufFile> open_bytes(std::string bytes, GgufMode mode = GgufMode::strict);

void write_bytes(const std::string& path, std::string_view bytes);
std::string read_bytes(const std::string& path);

}  // namespace tamis::testing
