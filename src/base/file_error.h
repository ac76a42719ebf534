// What the system says about a file, as an Error. For the files of this room.
#pragma once

#include <cerrno>
#include <cstring>
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

}  // namespace tamis
