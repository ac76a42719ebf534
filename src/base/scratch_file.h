// A nameless file for what does not fit memory. Below the spilling of keys and values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "base/result.h"

namespace tamis {

// A file without a name, for what does not fit memory: gone with the process, whatever ends it, and readable to nobody
// else. Its functions may be called from several threads at once.
class ScratchFile {
 public:
  // On the disk of directory `dir`. Errors: not_found, io.
  static Result<ScratchFile> create(const std::string& dir);
  ScratchFile(ScratchFile&& other) noexcept : dir_(std::move(other.dir_)), fd_(std::exchange(other.fd_, -1)) {}
  ~ScratchFile();

  // Errors: out_of_memory when the disk is full; io.
  Status write_at(uint64_t offset, std::span<const std::byte> bytes) const;
  // Errors: io, also when less was ever written.
  Status read_at(uint64_t offset, std::span<std::byte> out) const;

 private:
  ScratchFile() = default;
  std::string dir_;
  int fd_ = -1;
};

}  // namespace tamis
