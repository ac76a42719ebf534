// The library's one failure channel: a value or a reason. Nothing in tamis throws; whatever depends on the outside
// (a file, a prompt, a template, memory, a device) returns Result.  architecture.md §7.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace tamis {

// What kind of failure; exit codes and HTTP statuses are mapped from it in one table (base/result.cpp).
enum class ErrorCode : uint8_t {
  io,                // the operating system refused (open, read, write, rename)
  format,            // the bytes are not what the format allows
  unsupported,       // well-formed, but not something tamis does
  shape,             // tensor shapes disagree with the configuration
  not_found,         // a named thing does not exist
  out_of_memory,     // memory or disk would not suffice
  device,            // a backend or its driver failed
  network,           // a remote did not answer, or refused
  cancelled,         // the caller asked to stop
  invalid_argument,  // the caller's own request is wrong
  check_failed,      // a comparison or threshold did not hold
  internal,          // a fault of ours
};

// Where in a file an error lies: everything the one-line form `FILE: byte N (0x…): WHAT: got …, expected … [TAG]`
// needs.
struct ErrorSite {
  std::string file;
  uint64_t byte_offset = 0;
  bool has_offset = false;
  std::string section;  // "header" | "kv" | "tensor" | "data" | "config" | "vocab" | "template"
  int64_t index = -1;   // index of the key or tensor, -1 when none
  std::string subject;  // key or tensor name, escaped for printing
  std::string got;
  std::string expected;
  std::string tag;  // stable machine-readable name, e.g. "E_HPARAM_RANGE"
};

struct Error {
  ErrorCode code = ErrorCode::internal;
  std::string message;                    // what was expected, what was found; without the file name
  std::shared_ptr<const ErrorSite> site;  // null when no file is involved

  // The full single line, with file and byte offset when known.
  std::string to_string() const;
};

template <class T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

std::string_view error_code_name(ErrorCode code);

// The program's exit code for an error: 1 runtime, 2 usage, 3 bad file, 4 does not fit, 5 network, 6 check failed, 130
// cancelled.
int exit_code(ErrorCode code);

// Builds the unexpected value of a Result: `return fail(ErrorCode::shape, "{}: got {}", name, n);`
template <class... Args>
[[nodiscard]] tl::unexpected<Error> fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected<Error>(Error{code, fmt::vformat(format, fmt::make_format_args(args...)), nullptr});
}

[[nodiscard]] tl::unexpected<Error> fail_at(ErrorCode code, ErrorSite site);

// What lies at a byte, and what should; readers of a format name their section and tag once.
ErrorSite site_at_byte(uint64_t offset, std::string_view section, std::string got, std::string expected,
                       std::string_view tag);

// Adds or replaces the file name of an error on its way up.
Error with_file(Error error, std::string_view file);

// Makes untrusted text printable: control bytes and invalid UTF-8 as \xNN, cut at `max_bytes` with an ellipsis.
std::string escape_for_display(std::string_view text, size_t max_bytes = 80);

[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace tamis

// Aborts on a programmer's error. Never reachable from input.
#define TAMIS_CHECK(condition)                                               \
  do {                                                                       \
    if (!(condition)) ::tamis::check_failed(#condition, __FILE__, __LINE__); \
  } while (0)

#define TAMIS_CONCAT_(a, b) a##b
#define TAMIS_CONCAT(a, b) TAMIS_CONCAT_(a, b)

// `TAMIS_TRY(auto x, expr());` declares x from the value of expr(), or returns its error from the enclosing function.
#define TAMIS_TRY(decl, expr) TAMIS_TRY_(TAMIS_CONCAT(tamis_result_, __COUNTER__), decl, expr)
#define TAMIS_TRY_(tmp, decl, expr)                                  \
  auto tmp = (expr);                                                 \
  if (!tmp) [[unlikely]]                                             \
    return ::tl::unexpected<::tamis::Error>(std::move(tmp).error()); \
  decl = std::move(tmp).value()

// `TAMIS_TRY_STATUS(expr());` returns the error of a Status expression from the enclosing function.
#define TAMIS_TRY_STATUS(expr) TAMIS_TRY_STATUS_(TAMIS_CONCAT(tamis_status_, __COUNTER__), expr)
#define TAMIS_TRY_STATUS_(tmp, expr)        \
  if (auto tmp = (expr); !tmp) [[unlikely]] \
  return ::tl::unexpected<::tamis::Error>(std::move(tmp).error())
