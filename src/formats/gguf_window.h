// The header region of a GGUF file, read into memory as far as it has been asked for and no further: a number in the
// file never sizes an allocation, only bytes that are there do.  Not mapped: a file cut short by someone else while it
// is parsed must give an error, not SIGBUS.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "base/file.h"

namespace tamis {

struct FreeDeleter {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};
// From realloc, which moves the pages of a large block instead of copying them.
using GgufBytes = std::unique_ptr<std::byte[], FreeDeleter>;

class GgufWindow {
 public:
  // Reads from byte 0 of `source`; refuses to hold more than `max_bytes` (at most 4 GiB - 1).
  GgufWindow(ByteSource& source, uint64_t max_bytes);

  uint64_t position() const { return position_; }
  uint64_t source_bytes() const { return source_bytes_; }
  uint64_t bytes_left() const { return source_bytes_ - position_; }

  // Makes the next n bytes readable. False when the source ends first, the cap is reached, or reading failed: see
  // `failure`.
  bool ensure(uint64_t n) {
    if (n <= filled_ - position_) return true;
    return fetch(n);
  }
  // Why the last `ensure(n)` failed: an io or out_of_memory error, or nothing when the source is too short;
  // `is_over_limit` for the cap.
  const std::optional<Error>& failure() const { return failure_; }
  bool is_over_limit() const { return is_over_limit_; }

  // Requires (both): ensure(n) succeeded for the bytes used.
  template <class T>
  T load(uint64_t ahead = 0) const {
    T value;
    std::memcpy(&value, buffer_.get() + position_ + ahead, sizeof(T));
    return value;
  }
  void advance(uint64_t n) { position_ += n; }
  // What is readable already, without reading more.
  std::string_view ready() const { return text(position_, filled_ - position_); }
  std::string_view text(uint64_t offset, uint64_t n) const {
    return {reinterpret_cast<const char*>(buffer_.get()) + offset, n};
  }

  // Hands over bytes [0, position()), in a block of exactly that size. The window is empty afterwards.
  GgufBytes release();

 private:
  bool fetch(uint64_t n);
  bool resize(uint64_t capacity);
  bool fill_to(uint64_t end);

  ByteSource& source_;
  uint64_t source_bytes_;
  uint64_t max_bytes_;
  GgufBytes buffer_;
  uint64_t capacity_ = 0;
  uint64_t filled_ = 0;
  uint64_t position_ = 0;
  std::optional<Error> failure_;
  bool is_over_limit_ = false;
};

}  // namespace tamis
