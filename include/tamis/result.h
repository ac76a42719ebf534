// How tamis reports failure: Result<T> is a value or an Error. Nothing in tamis throws.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <tl/expected.hpp>

namespace tamis {
struct ErrorSite;  // private: where in a file an error lies
}

namespace tamis::api {

enum class ErrorCode : uint8_t {
  io,                // the operating system refused (open, read, write)
  format,            // the bytes of a file are not what its format allows
  unsupported,       // well-formed, but not something tamis does
  shape,             // tensor shapes disagree with the configuration
  not_found,         // a named thing does not exist
  out_of_memory,     // memory or disk would not suffice
  device,            // a backend or its driver failed
  network,           // a remote did not answer, or refused
  cancelled,         // the caller asked to stop
  invalid_argument,  // the caller's own request is wrong
  check_failed,      // a comparison or threshold did not hold
  internal,          // a fault of tamis, or a model that computes NaN
};

struct Error {
  ErrorCode code = ErrorCode::internal;
  std::string message;                    // what was expected, what was found
  std::shared_ptr<const ErrorSite> site;  // for tamis itself; null when no file is involved

  // One line: file and byte offset when known, message, code.
  std::string to_string() const;
};

template <class T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

}  // namespace tamis::api
