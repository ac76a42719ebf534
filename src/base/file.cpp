// POSIX files behind Result.
#include "base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/file_error.h"

namespace tamis {
namespace {

constexpr size_t kWriteBufferBytes = size_t{1} << 20;

Status write_all(int fd, const char* data, size_t n, const std::string& path) {
  while (n > 0) {
    const ssize_t written = ::write(fd, data, n);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return io_error("write", path);
    data += written;
    n -= static_cast<size_t>(written);
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<MappedFile>> MappedFile::open(const std::string& path) {
  std::shared_ptr<MappedFile> file(new MappedFile());
  file->path_ = path;
  file->fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file->fd_ < 0) return io_error("open", path);
  struct stat info {};
  if (::fstat(file->fd_, &info) != 0) return io_error("stat", path);
  if (S_ISDIR(info.st_mode)) return file_error(ErrorCode::io, "is a directory, expected a file", path);
  if (!S_ISREG(info.st_mode)) return file_error(ErrorCode::io, "is not a regular file", path);
  file->size_ = static_cast<uint64_t>(info.st_size);
  if (file->size_ == 0) return file;
  void* map = ::mmap(nullptr, file->size_, PROT_READ, MAP_SHARED, file->fd_, 0);
  if (map == MAP_FAILED) return io_error("map", path);
  file->data_ = static_cast<const std::byte*>(map);
  return file;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
  if (fd_ >= 0) ::close(fd_);
}

Result<size_t> MappedFile::read_at(uint64_t offset, std::span<std::byte> out) {
  return pread_all(fd_, offset, out, "read", path_);
}

void MappedFile::give_back(uint64_t offset, uint64_t n_bytes) const {
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  if (data_ == nullptr || offset > size_ || n_bytes > size_ - offset) return;
  const uint64_t begin = (offset + page - 1) / page * page, end = (offset + n_bytes) / page * page;
  if (begin < end) ::madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
}

bool MappedFile::size_changed() const {
  struct stat info {};
  return ::fstat(fd_, &info) != 0 || static_cast<uint64_t>(info.st_size) != size_;
}

Result<size_t> MemorySource::read_at(uint64_t offset, std::span<std::byte> out) {
  if (offset >= bytes_.size()) return size_t{0};
  const size_t n = std::min<size_t>(out.size(), bytes_.size() - offset);
  std::memcpy(out.data(), bytes_.data() + offset, n);
  return n;
}

Result<AtomicFile> AtomicFile::create(const std::string& path, bool overwrite) {
  if (!overwrite && file_exists(path))
    return file_error(ErrorCode::invalid_argument, "exists already (use --force to overwrite)", path);
  AtomicFile file;
  file.path_ = path;
  file.overwrite_ = overwrite;
  file.temporary_ = path + ".XXXXXX.tmp";
  file.fd_ = ::mkostemps(file.temporary_.data(), 4, O_CLOEXEC);
  if (file.fd_ < 0) {
    file.temporary_.clear();
    return io_error("create", path);
  }
  const mode_t mask = ::umask(0);
  ::umask(mask);
  if (::fchmod(file.fd_, 0666 & ~mask) != 0) return io_error("set permissions of", path);
  return file;
}

Result<AtomicFile> AtomicFile::create_partial(const std::string& path, bool overwrite, uint64_t keep_bytes) {
  if (!overwrite && file_exists(path))
    return file_error(ErrorCode::invalid_argument, "exists already (use --force to overwrite)", path);
  AtomicFile file;
  file.path_ = path;
  file.overwrite_ = overwrite;
  const std::string name = partial_name(path);
  file.fd_ = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (file.fd_ < 0) return io_error("create", name);
  if (::flock(file.fd_, LOCK_EX | LOCK_NB) != 0)
    return file_error(ErrorCode::io, "is being written by another process", name);
  file.temporary_ = name;
  if (::ftruncate(file.fd_, static_cast<off_t>(keep_bytes)) != 0) {
    file.is_kept_ = true;
    return io_error("cut", name);
  }
  if (::lseek(file.fd_, 0, SEEK_END) < 0) return io_error("seek in", name);
  file.offset_ = keep_bytes;
  return file;
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept { *this = std::move(other); }

AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
  if (this == &other) return *this;
  discard();
  path_ = std::move(other.path_);
  temporary_ = std::exchange(other.temporary_, {});
  fd_ = std::exchange(other.fd_, -1);
  overwrite_ = other.overwrite_;
  is_kept_ = other.is_kept_;
  offset_ = other.offset_;
  buffer_ = std::move(other.buffer_);
  return *this;
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() noexcept {
  if (fd_ >= 0 && is_kept_) [[maybe_unused]]
    const Status flushed = flush();
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  if (!temporary_.empty() && !is_kept_) ::unlink(temporary_.c_str());
  temporary_.clear();
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
  return write(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

Status AtomicFile::write(std::string_view text) {
  offset_ += text.size();
  if (buffer_.size() + text.size() < kWriteBufferBytes) {
    buffer_ += text;
    return {};
  }
  TAMIS_TRY_STATUS(flush());
  return write_all(fd_, text.data(), text.size(), path_);
}

Status AtomicFile::flush() {
  TAMIS_TRY_STATUS(write_all(fd_, buffer_.data(), buffer_.size(), path_));
  buffer_.clear();
  return {};
}

Status AtomicFile::write_at(uint64_t offset, std::span<const std::byte> bytes) {
  TAMIS_TRY_STATUS(flush());
  return pwrite_all(fd_, offset, bytes, "write", path_);
}

Status AtomicFile::commit() {
  TAMIS_TRY_STATUS(flush());
  if (::fsync(fd_) != 0) return io_error("sync", path_);
  if (::close(std::exchange(fd_, -1)) != 0) return io_error("close", path_);
  if (!overwrite_) {
    // link() fails when the name appeared meanwhile, where rename() would replace it.
    if (::link(temporary_.c_str(), path_.c_str()) == 0) {
      ::unlink(temporary_.c_str());
      temporary_.clear();
      return {};
    }
    if (errno == EEXIST) return io_error("create", path_);
  }
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return io_error("rename to", path_);
  temporary_.clear();
  return {};
}

Result<AppendFile> AppendFile::create(const std::string& path) {
  AppendFile file;
  file.path_ = path;
  file.fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (file.fd_ < 0) return io_error("create", path);
  return file;
}

AppendFile& AppendFile::operator=(AppendFile&& other) noexcept {
  if (this == &other) return *this;
  if (fd_ >= 0) ::close(fd_);
  path_ = std::move(other.path_);
  fd_ = std::exchange(other.fd_, -1);
  return *this;
}

AppendFile::~AppendFile() {
  if (fd_ >= 0) ::close(fd_);
}

Status AppendFile::write(std::string_view text) { return write_all(fd_, text.data(), text.size(), path_); }

Result<std::string> read_text_file(const std::string& path, uint64_t max_bytes) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return io_error("open", path);
  std::string out;
  for (;;) {
    char chunk[65536];
    const ssize_t n = ::read(fd, chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      auto error = io_error("read", path);
      ::close(fd);
      return error;
    }
    if (n == 0) break;
    if (out.size() + static_cast<size_t>(n) > max_bytes) {
      ::close(fd);
      return file_error(ErrorCode::invalid_argument, fmt::format("holds more than {} bytes", max_bytes), path);
    }
    out.append(chunk, static_cast<size_t>(n));
  }
  ::close(fd);
  return out;
}

Status write_text_file(const std::string& path, std::string_view text, bool overwrite) {
  TAMIS_TRY(AtomicFile file, AtomicFile::create(path, overwrite));
  TAMIS_TRY_STATUS(file.write(text));
  return file.commit();
}

bool file_exists(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0;
}

}  // namespace tamis
