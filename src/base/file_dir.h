// A directory of files whose names come from outside: plain names only, links are not followed, each file is there as a
// whole or not at all. Below what a server keeps for its clients.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "base/result.h"

namespace tamis {

// Each directory is used by one of these at a time, whatever process it is in. Errors name the directory, never what a
// file in it is called.
class FileDir {
 public:
  static constexpr size_t kMaxNameBytes = 200;
  // 1 to kMaxNameBytes letters, digits, '-', '_' and '.', the first no '.'.
  static bool is_name(std::string_view name);

  // Removes what a killed program left half written. Errors: not_found; io, also while another one uses it.
  static Result<FileDir> open(const std::string& path);
  FileDir(FileDir&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}
  ~FileDir();

  // A file that is being written. commit() makes it survive an end of the program or of power, then takes it under its
  // name, in place of whatever has that name. Without it nothing of it stays.
  class Writer {
   public:
    Writer(Writer&& other) noexcept
        : dir_(other.dir_), name_(std::move(other.name_)), fd_(std::exchange(other.fd_, -1)) {}
    ~Writer();
    // Errors of all: out_of_memory when the disk is full; io.
    Status write_at(uint64_t offset, std::span<const std::byte> bytes);
    Status commit();

   private:
    friend class FileDir;
    Writer(const FileDir& dir, std::string name, int fd) : dir_(&dir), name_(std::move(name)), fd_(fd) {}
    const FileDir* dir_;
    std::string name_;
    int fd_;
  };
  // Requires for all: is_name(name); the directory outlives the writer, in which one file of a name is written at a
  // time. Errors: out_of_memory when the disk is full; io.
  Result<Writer> create(const std::string& name) const;
  // Errors: not_found; invalid_argument for what is no plain file; io.
  Result<std::shared_ptr<ByteSource>> read(const std::string& name) const;
  // The name is free afterwards, also after an end of power. Errors: not_found; io.
  Status remove(const std::string& name) const;
  // Of all files but `name`. Errors: io.
  Result<uint64_t> bytes_but(std::string_view name) const;

 private:
  FileDir(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  template <class Visit>
  Status visit(const Visit& visit) const;
  Status sync() const;

  std::string path_;
  int fd_;
};

}  // namespace tamis
