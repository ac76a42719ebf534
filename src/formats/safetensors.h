// Safetensors checkpoints: reading (one file, or all shards of a folder), wholly validated at open, nothing of the
// tensor data touched or copied; and writing. First stop of a Hugging Face model on its way to a GGUF file.
// Format: github.com/huggingface/safetensors (8 bytes of header length, a JSON object, the tensors without gaps).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/file.h"
#include "base/result.h"

namespace tamis {

enum class SafeType : uint8_t {
  f64,
  f32,
  f16,
  bf16,
  f8_e4m3,
  f8_e5m2,
  f8_e8m0,
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean,
};

std::string_view safe_type_name(SafeType type);  // "F32", "F8_E4M3", "BOOL"
uint32_t safe_type_bytes(SafeType type);         // of one element
bool is_float_type(SafeType type);

struct SafeTensor {
  std::string name;
  SafeType type = SafeType::f32;
  uint32_t file_idx = 0;
  std::vector<uint64_t> shape;  // row-major, slowest first; empty for a single number
  uint64_t offset = 0;          // absolute, in its file
  uint64_t size_bytes = 0;

  uint64_t n_elements() const { return size_bytes / safe_type_bytes(type); }
  std::string shape_text() const;  // "[2048, 256]"
};

// What is in one file's header. Checks: header length within the file and the format's 100,000,000 bytes; JSON; every
// tensor's type, shape and range; ranges that follow each other without hole or overlap to the file's end.
// Errors: format with byte offset and tensor; unsupported for an element type tamis does not know.
Result<std::vector<SafeTensor>> read_safetensors_header(ByteSource& source, std::string_view path);

class SafetensorsSet {
 public:
  // `path`: a .safetensors file; an index (*.safetensors.index.json); or a folder with model.safetensors.index.json,
  // model.safetensors or model-0000N-of-0000M.safetensors. Errors: not_found (folder without weights, shard or
  // tensor the index names), io, format.
  static Result<SafetensorsSet> open(const std::string& path);
  // One file's bytes, from anywhere (tests, fuzzers). Keeps `source` alive. Requires: source->mapped().
  static Result<SafetensorsSet> open(std::shared_ptr<ByteSource> source, const std::string& name);

  const std::vector<SafeTensor>& tensors() const { return tensors_; }
  const SafeTensor* find(std::string_view name) const;  // null when absent
  std::span<const std::byte> data(const SafeTensor& tensor) const;
  // The tensor's pages leave this process's memory; touched again, they come again from the file.
  void give_back(const SafeTensor& tensor) const;
  // Errors: io, naming the shard that changed its size since it was opened: its data must not be touched.
  Status check_unchanged() const;
  const std::string& path(uint32_t file_idx) const { return files_[file_idx].path; }
  size_t n_files() const { return files_.size(); }
  const std::vector<std::string>& warnings() const { return warnings_; }

  // "FILE: tensor NAME: got …, expected …".
  tl::unexpected<Error> error_at(const SafeTensor& tensor, std::string got, std::string expected,
                                 ErrorCode code = ErrorCode::format) const;

 private:
  struct File {
    std::string path;
    std::shared_ptr<ByteSource> source;
    std::shared_ptr<MappedFile> on_disk;  // the source, where it is a file
  };
  Status add_file(const std::string& path);
  Status add(File file);
  static Result<SafetensorsSet> open_index(const std::string& index_path);
  static Result<SafetensorsSet> open_folder(const std::string& path);

  std::vector<File> files_;
  std::vector<SafeTensor> tensors_;
  std::unordered_map<std::string, size_t> by_name_;
  std::vector<std::string> warnings_;
};

// Widens or narrows `out.size()` elements to float32: float types only (f64 rounds to nearest). Errors: unsupported
// for integers. Requires: bytes.size() == out.size() * safe_type_bytes(type).
Status decode_safe_values(SafeType type, std::span<const std::byte> bytes, std::span<float> out);

// Declares tensors in order, then takes their bytes in that order. The file appears under its name only when complete.
class SafetensorsWriter {
 public:
  // Errors: invalid_argument for a name that is empty or there already, and sizes past 64 bits.
  Status add_tensor(std::string_view name, SafeType type, std::span<const uint64_t> shape);
  Status begin(const std::string& path, bool overwrite);
  Status write(std::span<const std::byte> bytes);  // the next bytes, of any number of tensors
  Status finish();
  uint64_t data_bytes() const { return data_bytes_; }

 private:
  std::string header_ = R"({"__metadata__":{"format":"pt"})";
  std::unordered_map<std::string, bool> names_;
  uint64_t data_bytes_ = 0, written_bytes_ = 0;
  std::optional<AtomicFile> file_;
};

}  // namespace tamis
