// GGUF files: reading (one file or all shards of one model), wholly validated at open, nothing of the tensor data
// touched. First stop of a file on its way to a token.  Format: ggml's docs/gguf.md; what must be refused: security.md
// §1A, §2.
//
// GGUF lists dimensions innermost first; that order ends here: Shape is row-major, slowest first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/result.h"
#include "base/shape.h"

namespace tamis {

inline constexpr uint32_t kGgufDefaultAlignment = 32;

// Value types of metadata, with GGUF's numbers.
enum class GgufType : uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};
std::string_view gguf_type_name(GgufType type);  // "u8" … "f64", "bool", "str", "arr"
uint32_t gguf_type_bytes(GgufType type);         // of one value; 0 for strings and arrays, whose size varies

class GgufArray;

// One metadata value: a typed view of the bytes read from the file, which stay owned by the GgufFile. Getters never
// convert between kinds unless they say so; a wrong type is an error value, never an abort.
class GgufValue {
 public:
  GgufType type() const { return type_; }
  uint64_t offset() const { return offset_; }                        // file offset of the value's first byte
  std::span<const std::byte> raw() const { return {data_, size_}; }  // the encoded bytes (without key and type)

  std::optional<uint64_t> as_uint() const;  // any integer type holding a value ≥ 0
  std::optional<int64_t> as_int() const;    // any integer type whose value fits
  std::optional<double> as_float() const;   // f32 or f64
  std::optional<bool> as_bool() const;
  std::optional<std::string_view> as_string() const;
  std::optional<GgufArray> as_array() const;

 private:
  friend class GgufParser;
  friend class GgufArray;
  // Metadata is capped below 4 GiB, so 32 bits hold sizes and offsets: a table of 65,536 one-byte values must stay
  // within four times its bytes in the file.
  const std::byte* data_ = nullptr;
  uint32_t size_ = 0;
  uint32_t offset_ = 0;
  GgufType type_ = GgufType::u8;
};

// A typed array. Fixed-size elements are addressed directly; strings and nested arrays are walked from the front.
class GgufArray {
 public:
  GgufType element_type() const { return element_type_; }
  uint64_t size() const { return n_; }
  // Element i of a fixed-size type, converted as GgufValue's getters convert; nothing when out of range or of another
  // kind.
  std::optional<uint64_t> uint_at(uint64_t i) const;
  std::optional<int64_t> int_at(uint64_t i) const;
  std::optional<double> float_at(uint64_t i) const;
  // All strings, as views into the file's bytes; nothing when the elements are not strings.
  std::optional<std::vector<std::string_view>> strings() const;
  // All elements as values (any type, nested arrays too).
  std::vector<GgufValue> values() const;

 private:
  friend class GgufValue;
  GgufType element_type_ = GgufType::u8;
  uint64_t n_ = 0;
  uint64_t offset_ = 0;
  std::span<const std::byte> bytes_;
};

struct GgufKv {
  std::string_view key;
  GgufValue value;

  // File offset of the key's length field: before the value lie the key's length (8 bytes), its text and the value's
  // type (4).
  uint64_t key_offset() const { return value.offset() - 4 - key.size() - 8; }
};

struct GgufTensor {
  std::string_view name;
  DType dtype = DType::f32;
  uint32_t shard_idx = 0;
  Shape shape;  // row-major, slowest first
  uint64_t size_bytes = 0;
  uint64_t file_offset = 0;  // absolute, in its shard
  uint64_t info_offset = 0;  // file offset of its entry in the tensor table
};

enum class GgufMode {
  load,    // accept what can be used, and say so in `warnings`
  strict,  // one meaning only: refuse every oddity (tamis verify)
};

struct GgufOptions {
  GgufMode mode = GgufMode::load;
  Limits limits;
  bool follow_shards = true;  // `-00001-of-0000N` names open the whole set
};

class GgufFile {
 public:
  struct State;  // what the parser fills; gguf_parser.h

  // Opens and validates a file, or all shards when the name and metadata say it is one of several. Reads the header
  // region only. Errors: io, not_found; format with byte offset and key or tensor; unsupported (version, big-endian,
  // removed types).
  static Result<GgufFile> open(const std::string& path, const GgufOptions& options = {});
  // The same over any one source (tests, fuzzers). Keeps `source` alive; reads through read_at only while parsing.
  static Result<GgufFile> open(std::shared_ptr<ByteSource> source, const GgufOptions& options = {});

  uint32_t version() const;
  uint64_t alignment() const;
  const std::vector<GgufKv>& kvs() const;          // of the first shard, in file order
  const std::vector<GgufTensor>& tensors() const;  // of all shards, in file order
  const std::vector<std::string>& warnings() const;
  uint32_t n_shards() const;
  const std::string& path(uint32_t shard_idx = 0) const;  // "" for a source without a name
  uint64_t size_bytes() const;                            // all shards together
  uint64_t data_offset(uint32_t shard_idx = 0) const;     // where tensor data begins
  uint64_t metadata_bytes() const;                        // bytes of header, metadata and tensor table read

  const GgufValue* find(std::string_view key) const;           // null when absent
  const GgufTensor* find_tensor(std::string_view name) const;  // null when absent

  // Typed lookups. Errors: not_found when absent; format, naming the key's offset, when the value is of another type.
  Result<uint64_t> get_uint(std::string_view key) const;
  Result<double> get_float(std::string_view key) const;
  Result<bool> get_bool(std::string_view key) const;
  Result<std::string_view> get_string(std::string_view key) const;
  Result<GgufArray> get_array(std::string_view key, GgufType element_type) const;

  // The tensor's bytes in the mapped file (or memory source).
  std::span<const std::byte> data(const GgufTensor& tensor) const;
  // The tensor's pages leave this process's memory, if it is a mapped file's; touched again, they come again.
  void give_back(const GgufTensor& tensor) const;
  // The same for bytes of one tensor.
  void give_back(std::span<const std::byte> bytes) const;
  // The file changed size since it was opened: mapped data beyond its end must not be touched.
  bool size_changed() const;

  // An error located at a key of this file: `got`, `expected`, tag; at the value's offset, or without one when the key
  // is absent.
  tl::unexpected<Error> error_at_key(std::string_view key, std::string got, std::string expected,
                                     std::string tag) const;
  tl::unexpected<Error> error_at_tensor(const GgufTensor& tensor, std::string got, std::string expected,
                                        std::string tag) const;

 private:
  std::shared_ptr<const State> state_;  // immutable once opened: a GgufFile is a cheap handle
};

}  // namespace tamis
