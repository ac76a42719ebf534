// What the system says about a file, as an Error; whole reads and writes at an offset. For the files of this room.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tamis {

inline tl::unexpected<Error> file_error(ErrorCode code, std::string_view message, const std::string& path) {
  return tl::unexpected<Error>(with_file(Error{code, std::string(message), nullptr}, path));
}

// errno as an error of `path`: not_found; out_of_memory where a disk, a quota, or the largest size of a file that its
// format or this process's limit allows is used up; io for the rest. `what` could not be done: "write".
inline tl::unexpected<Error> io_error(std::string_view what, const std::string& path) {
  const int saved = errno;
  const bool is_full = saved == ENOSPC || saved == EDQUOT || saved == EFBIG;
  const ErrorCode code = saved == ENOENT ? ErrorCode::not_found : is_full ? ErrorCode::out_of_memory : ErrorCode::io;
  return file_error(code, fmt::format("cannot {}: {}", what, std::strerror(saved)), path);
}

// Reads up to out.size() bytes at `offset`; fewer only at the end of the file. Errors: io_error(what, path).
inline Result<size_t> pread_all(int fd, uint64_t offset, std::span<std::byte> out, std::string_view what,
                                const std::string& path) {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t n = ::pread(fd, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error(what, path);
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  return done;
}

// Writes all of `bytes` at `offset`. Errors: io_error(what, path).
inline Status pwrite_all(int fd, uint64_t offset, std::span<const std::byte> bytes, std::string_view what,
                         const std::string& path) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::pwrite(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error(what, path);
    done += static_cast<size_t>(n);
  }
  return {};
}

}  // namespace tamis
