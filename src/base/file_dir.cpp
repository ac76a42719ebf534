// Files by descriptors of their directory, so that no name is ever looked up from the root.
#include "base/file_dir.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/file_error.h"

namespace tamis {
namespace {

constexpr std::string_view kHalfWritten = ".writing.";  // before the name; no name begins so

bool is_letter_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

// A plain file by its descriptor.
class OpenFile final : public ByteSource {
 public:
  OpenFile(std::string dir, int fd, uint64_t size) : dir_(std::move(dir)), fd_(fd), size_(size) {}
  ~OpenFile() override { ::close(fd_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  uint64_t size_bytes() const override { return size_; }
  Result<size_t> read_at(uint64_t offset, std::span<std::byte> out) override {
    return pread_all(fd_, offset, out, "read", dir_);
  }

 private:
  std::string dir_;
  int fd_;
  uint64_t size_;
};

}  // namespace

bool FileDir::is_name(std::string_view name) {
  const auto is_good = [](char c) { return is_letter_or_digit(c) || c == '-' || c == '_' || c == '.'; };
  return !name.empty() && name.size() <= kMaxNameBytes && name.front() != '.' && std::ranges::all_of(name, is_good);
}

Result<FileDir> FileDir::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return io_error("open", path);
  FileDir dir(path, fd);  // whose end gives the lock back, too
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return file_error(ErrorCode::io, "is used by another process", path);
    return io_error("lock", path);
  }
  TAMIS_TRY_STATUS(dir.visit([&](const char* name, const struct stat&) {
    if (std::string_view(name).starts_with(kHalfWritten)) ::unlinkat(fd, name, 0);
  }));
  return dir;
}

FileDir::~FileDir() {
  if (fd_ >= 0) ::close(fd_);
}

// Calls `visit` with name and facts of each plain file.
template <class Visit>
Status FileDir::visit(const Visit& visit) const {
  const int own = ::openat(fd_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const list = own < 0 ? nullptr : ::fdopendir(own);
  if (list == nullptr) {
    auto error = io_error("list", path_);
    if (own >= 0) ::close(own);
    return error;
  }
  while (const dirent* const entry = ::readdir(list)) {
    struct stat info {};
    const bool is_there = ::fstatat(fd_, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0;
    if (is_there && S_ISREG(info.st_mode)) visit(entry->d_name, info);
  }
  ::closedir(list);
  return {};
}

Status FileDir::sync() const {
  if (::fsync(fd_) != 0) return io_error("sync", path_);
  return {};
}

Result<FileDir::Writer> FileDir::create(const std::string& name) const {
  const std::string half = std::string(kHalfWritten) + name;
  ::unlinkat(fd_, half.c_str(), 0);
  const int fd = ::openat(fd_, half.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return io_error("create a file", path_);
  return Writer(*this, name, fd);
}

FileDir::Writer::~Writer() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlinkat(dir_->fd_, (std::string(kHalfWritten) + name_).c_str(), 0);
}

Status FileDir::Writer::write_at(uint64_t offset, std::span<const std::byte> bytes) {
  return pwrite_all(fd_, offset, bytes, "write", dir_->path_);
}

Status FileDir::Writer::commit() {
  if (::fsync(fd_) != 0) return io_error("sync", dir_->path_);
  const std::string half = std::string(kHalfWritten) + name_;
  if (::renameat(dir_->fd_, half.c_str(), dir_->fd_, name_.c_str()) != 0) return io_error("rename", dir_->path_);
  ::close(std::exchange(fd_, -1));
  return dir_->sync();
}

Result<std::shared_ptr<ByteSource>> FileDir::read(const std::string& name) const {
  const int fd = ::openat(fd_, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0 && errno == ELOOP) return file_error(ErrorCode::invalid_argument, "a link is no plain file", path_);
  if (fd < 0) return io_error("open a file", path_);
  struct stat info {};
  const bool is_known = ::fstat(fd, &info) == 0;
  auto file = std::make_shared<OpenFile>(path_, fd, static_cast<uint64_t>(info.st_size));
  if (!is_known || !S_ISREG(info.st_mode))
    return file_error(ErrorCode::invalid_argument, "what has this name is no plain file", path_);
  return file;
}

Status FileDir::remove(const std::string& name) const {
  if (::unlinkat(fd_, name.c_str(), 0) != 0) return io_error("remove a file", path_);
  return sync();
}

Result<uint64_t> FileDir::bytes_but(std::string_view name) const {
  uint64_t n = 0;
  TAMIS_TRY_STATUS(visit([&](const char* each, const struct stat& info) {
    if (each != name) n += static_cast<uint64_t>(info.st_size);
  }));
  return n;
}

}  // namespace tamis
