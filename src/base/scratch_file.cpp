// A nameless file behind Result.
#include "base/scratch_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace tamis {
namespace {

Error file_error(ErrorCode code, std::string message, const std::string& dir) {
  ErrorSite site;
  site.file = dir;
  return {code, std::move(message), std::make_shared<const ErrorSite>(std::move(site))};
}

tl::unexpected<Error> io_error(std::string_view what, const std::string& dir) {
  const int saved = errno;
  const bool is_full = saved == ENOSPC || saved == EDQUOT || saved == EFBIG;
  const ErrorCode code = saved == ENOENT ? ErrorCode::not_found : is_full ? ErrorCode::out_of_memory : ErrorCode::io;
  return tl::unexpected(file_error(code, fmt::format("cannot {} a scratch file: {}", what, std::strerror(saved)), dir));
}

}  // namespace

Result<ScratchFile> ScratchFile::create(const std::string& dir) {
  ScratchFile file;
  file.dir_ = dir;
  file.fd_ = ::open(dir.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file.fd_ >= 0) return file;
  // File systems without O_TMPFILE: a name that is taken away at once.
  std::string name = dir + "/tamis-XXXXXX";
  file.fd_ = ::mkostemp(name.data(), O_CLOEXEC);
  if (file.fd_ < 0) return io_error("write", dir);
  ::unlink(name.c_str());
  return file;
}

ScratchFile& ScratchFile::operator=(ScratchFile&& other) noexcept {
  std::swap(dir_, other.dir_);
  std::swap(fd_, other.fd_);
  return *this;
}

ScratchFile::~ScratchFile() {
  if (fd_ >= 0) ::close(fd_);
}

Status ScratchFile::write_at(uint64_t offset, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error("write", dir_);
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return {};
}

Status ScratchFile::read_at(uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t n = ::pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error("read", dir_);
    if (n == 0) return tl::unexpected(file_error(ErrorCode::io, "a scratch file ends too early", dir_));
    out = out.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return {};
}

}  // namespace tamis
