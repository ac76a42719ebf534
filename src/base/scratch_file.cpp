// A nameless file behind Result.
#include "base/scratch_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "base/file_error.h"

namespace tamis {

Result<ScratchFile> ScratchFile::create(const std::string& dir) {
  ScratchFile file;
  file.dir_ = dir;
  file.fd_ = ::open(dir.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file.fd_ >= 0) return file;
  // File systems without O_TMPFILE: a name that is taken away at once.
  std::string name = dir + "/tamis-XXXXXX";
  file.fd_ = ::mkostemp(name.data(), O_CLOEXEC);
  if (file.fd_ < 0) return io_error("write a scratch file", dir);
  ::unlink(name.c_str());
  return file;
}

ScratchFile::~ScratchFile() {
  if (fd_ >= 0) ::close(fd_);
}

Status ScratchFile::write_at(uint64_t offset, std::span<const std::byte> bytes) const {
  return pwrite_all(fd_, offset, bytes, "write a scratch file", dir_);
}

Status ScratchFile::read_at(uint64_t offset, std::span<std::byte> out) const {
  TAMIS_TRY(const size_t n, pread_all(fd_, offset, out, "read a scratch file", dir_));
  if (n < out.size()) return file_error(ErrorCode::io, "a scratch file ends too early", dir_);
  return {};
}

}  // namespace tamis
