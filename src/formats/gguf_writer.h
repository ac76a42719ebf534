// Writes GGUF files (version 3): declare keys and tensors in the order they shall have, then stream the tensors' bytes
// in that order. The file appears under its name only when complete (AtomicFile).  Format: see gguf_parser.h.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_set>
#include <vector>

#include "base/dtype.h"
#include "base/file.h"
#include "base/result.h"
#include "base/shape.h"
#include "formats/gguf.h"

namespace tamis {

// A metadata value in its encoded form, ready to be written.
class GgufEncoded {
 public:
  // The GGUF type of exactly this C++ type: uint8_t is u8 … uint64_t is u64, float is f32, double is f64, bool is bool.
  template <class T>
  static GgufEncoded number(T value) {
    static_assert(std::is_arithmetic_v<T>);
    return {type_of<T>(), std::string(reinterpret_cast<const char*>(&value), sizeof(T))};
  }
  static GgufEncoded text(std::string_view value);
  template <class T>
  static GgufEncoded numbers(std::span<const T> values) {
    static_assert(std::is_arithmetic_v<T>);
    return array_of(type_of<T>(), values.size(), {reinterpret_cast<const char*>(values.data()), values.size_bytes()});
  }
  static GgufEncoded texts(std::span<const std::string_view> values);
  static GgufEncoded texts(std::span<const std::string> values);
  // An array of any values of one type, arrays too. Requires: each is of `element_type`.
  static GgufEncoded array(GgufType element_type, std::span<const GgufEncoded> values);
  static GgufEncoded copy(const GgufValue& value);

  GgufType type() const { return type_; }
  std::string_view bytes() const { return bytes_; }

 private:
  GgufEncoded(GgufType type, std::string bytes) : type_(type), bytes_(std::move(bytes)) {}
  static GgufEncoded array_of(GgufType element_type, uint64_t n, std::string_view elements);

  template <class T>
  static constexpr GgufType type_of() {
    if constexpr (std::is_same_v<T, bool>) return GgufType::boolean;
    if constexpr (std::is_floating_point_v<T>) return sizeof(T) == 4 ? GgufType::f32 : GgufType::f64;
    constexpr bool is_signed = std::is_signed_v<T>;
    switch (sizeof(T)) {
      case 1: return is_signed ? GgufType::i8 : GgufType::u8;
      case 2: return is_signed ? GgufType::i16 : GgufType::u16;
      case 4: return is_signed ? GgufType::i32 : GgufType::u32;
      default: return is_signed ? GgufType::i64 : GgufType::u64;
    }
  }

  GgufType type_;
  std::string bytes_;
};

class GgufWriter {
 public:
  // ---- metadata, in the order added. `general.alignment` (u32) also sets the alignment of tensor data; 32 without it.
  // Errors: invalid_argument for a key that is empty, too long, not ASCII or there already, and for an unusable
  // alignment.
  Status add(std::string_view key, const GgufEncoded& value);
  Status add_u32(std::string_view key, uint32_t value) { return add(key, GgufEncoded::number(value)); }
  Status add_i32(std::string_view key, int32_t value) { return add(key, GgufEncoded::number(value)); }
  Status add_u64(std::string_view key, uint64_t value) { return add(key, GgufEncoded::number(value)); }
  Status add_f32(std::string_view key, float value) { return add(key, GgufEncoded::number(value)); }
  Status add_bool(std::string_view key, bool value) { return add(key, GgufEncoded::number(value)); }
  Status add_string(std::string_view key, std::string_view value) { return add(key, GgufEncoded::text(value)); }
  Status add_strings(std::string_view key, std::span<const std::string> values) {
    return add(key, GgufEncoded::texts(values));
  }
  template <class T>
  Status add_numbers(std::string_view key, std::span<const T> values) {
    return add(key, GgufEncoded::numbers(values));
  }
  // All keys of a file that `keep` (if given) says yes to, with their exact bytes.
  Status add_all(const GgufFile& file, const std::function<bool(std::string_view key)>& keep = nullptr);

  // ---- tensors, in the order added. Shape is row-major, slowest first.
  // Errors: invalid_argument for a name that is empty, too long or there already, and for a shape the type cannot have.
  Status add_tensor(std::string_view name, DType dtype, const Shape& shape);
  size_t n_tensors() const { return tensors_.size(); }
  uint64_t tensor_bytes(size_t i) const { return tensors_[i].size_bytes; }
  uint64_t tensor_offset(size_t i) const { return tensors_[i].offset; }  // within the tensor data
  uint64_t alignment() const { return alignment_; }
  uint64_t data_bytes() const { return data_bytes_; }  // of all tensors, each padded

  // Header, metadata, tensor table and the padding after them: what comes before the tensor data.
  std::string header() const;

  // ---- the file. Nothing can be added after begin().
  // Errors: io, out_of_memory (disk full); invalid_argument when `path` exists and !overwrite.
  Status begin(const std::string& path, bool overwrite);
  // As begin(), on PATH.partial (AtomicFile::create_partial), of which everything before byte `written_bytes` of tensor
  // `tensor` is there already; tensor 0 and byte 0: nothing is. Requires: a place within the tensors.
  Status begin_partial(const std::string& path, bool overwrite, size_t tensor, uint64_t written_bytes);
  void keep_partial(bool is_kept) { file_->keep_temporary(is_kept); }
  // The next bytes of the tensor in turn (all of it or a piece; never across two); padding is added where one ends.
  // Errors: io; invalid_argument for more bytes than the tensors declared.
  Status write(std::span<const std::byte> bytes);
  // Errors: io; invalid_argument when bytes are missing.
  Status finish();

 private:
  struct Tensor {
    uint64_t size_bytes = 0;
    uint64_t offset = 0;
  };
  Status pad(uint64_t n);
  Status set_alignment(const GgufEncoded& value);

  std::string kvs_, infos_;
  std::unordered_set<std::string> keys_, names_;
  std::vector<Tensor> tensors_;
  uint64_t alignment_ = kGgufDefaultAlignment;
  uint64_t data_bytes_ = 0;

  std::optional<AtomicFile> file_;
  size_t current_ = 0;          // tensor being written
  uint64_t written_bytes_ = 0;  // of it
};

}  // namespace tamis
