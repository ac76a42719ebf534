// Files: read by memory map or by pread, written to a temporary name, synced and renamed. No half-written output is
// ever left under its final name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace tamis {

// A source of bytes at offsets: a file, or (in tests and fuzzers) memory that may deliver short reads or fail.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual uint64_t size_bytes() const = 0;
  // Reads up to out.size() bytes at `offset`; fewer only at the end of the source. Errors: io.
  virtual Result<size_t> read_at(uint64_t offset, std::span<std::byte> out) = 0;
  // The whole source as one view when it is mapped or in memory; empty otherwise.
  virtual std::span<const std::byte> mapped() const { return {}; }
};

// A file opened for reading, mapped read-only; pages are touched only when read. Regular files only (a FIFO or device
// is refused). If the file shrinks while open, mapped pages beyond its end raise SIGBUS; `size_changed` tells.
class MappedFile final : public ByteSource {
 public:
  static Result<std::shared_ptr<MappedFile>> open(const std::string& path);
  ~MappedFile() override;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  uint64_t size_bytes() const override { return size_; }
  Result<size_t> read_at(uint64_t offset, std::span<std::byte> out) override;
  std::span<const std::byte> mapped() const override { return {data_, size_}; }
  bool size_changed() const;  // the file's size differs now from when it was opened
  // The pages wholly inside [offset, offset + n_bytes) leave this process's memory. They stay readable: touched again,
  // they come again from the file.
  void give_back(uint64_t offset, uint64_t n_bytes) const;
  const std::string& path() const { return path_; }

 private:
  MappedFile() = default;
  std::string path_;
  int fd_ = -1;
  const std::byte* data_ = nullptr;
  uint64_t size_ = 0;
};

// Bytes in memory as a source. Does not own them.
class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::span<const std::byte> bytes) : bytes_(bytes) {}
  uint64_t size_bytes() const override { return bytes_.size(); }
  Result<size_t> read_at(uint64_t offset, std::span<std::byte> out) override;
  std::span<const std::byte> mapped() const override { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

// A file being written under a temporary name in the target's directory. commit() syncs and renames; without it the
// destructor removes the temporary.
class AtomicFile {
 public:
  // Errors: io when the directory cannot be written; invalid_argument when `path` exists and !overwrite.
  static Result<AtomicFile> create(const std::string& path, bool overwrite);
  // The same under the fixed temporary name PATH.partial, after the first keep_bytes bytes that it holds already
  // (longer ones are cut, missing ones are zeros). Errors: io too when another process is writing it.
  static Result<AtomicFile> create_partial(const std::string& path, bool overwrite, uint64_t keep_bytes);
  static std::string partial_name(const std::string& path) { return path + ".partial"; }
  // Whether the temporary stays when this is destroyed without commit().
  void keep_temporary(bool is_kept) { is_kept_ = is_kept; }
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept;
  ~AtomicFile();

  Status write(std::span<const std::byte> bytes);
  Status write(std::string_view text);
  Status write_at(uint64_t offset, std::span<const std::byte> bytes);  // patches bytes already written
  uint64_t offset() const { return offset_; }                          // bytes appended so far
  Status commit();

 private:
  AtomicFile() = default;
  Status flush();
  void discard() noexcept;

  std::string path_, temporary_;
  int fd_ = -1;
  bool overwrite_ = false;
  bool is_kept_ = false;
  uint64_t offset_ = 0;
  std::string buffer_;
};

// A file that only grows, written in place at once: a log of what was done, of which a kill may cut the last line.
class AppendFile {
 public:
  // Creates the file, or empties one that is there. Errors: io.
  static Result<AppendFile> create(const std::string& path);
  AppendFile(AppendFile&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}
  AppendFile& operator=(AppendFile&& other) noexcept;
  ~AppendFile();
  Status write(std::string_view text);

 private:
  AppendFile() = default;
  std::string path_;
  int fd_ = -1;
};

// The whole file as a string. Errors: io; invalid_argument when it holds more than max_bytes.
Result<std::string> read_text_file(const std::string& path, uint64_t max_bytes);
// Writes through AtomicFile.
Status write_text_file(const std::string& path, std::string_view text, bool overwrite);
bool file_exists(const std::string& path);

}  // namespace tamis
