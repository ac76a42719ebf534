// The bounds-checked way through untrusted bytes: nothing is touched before it is known to be there. Little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/result.h"

namespace tamis {

class ByteReader {
 public:
  // `base_offset`: where `bytes` begins in its file, so that errors name file offsets.
  explicit ByteReader(std::span<const std::byte> bytes, uint64_t base_offset = 0) : bytes_(bytes), base_(base_offset) {}

  uint64_t offset() const { return base_ + position_; }  // file offset of the next byte
  uint64_t bytes_left() const { return bytes_.size() - position_; }

  // The next n bytes, as a view. Errors: format, naming the offset, when fewer are left.
  Result<std::span<const std::byte>> take(uint64_t n) {
    if (n > bytes_left()) return out_of_bytes(n);
    auto view = bytes_.subspan(position_, n);
    position_ += n;
    return view;
  }

  Result<std::string_view> take_text(uint64_t n) {
    TAMIS_TRY(auto view, take(n));
    return std::string_view(reinterpret_cast<const char*>(view.data()), view.size());
  }

  Status skip(uint64_t n) {
    if (n > bytes_left()) return out_of_bytes(n);
    position_ += n;
    return {};
  }

  // A little-endian number. Errors: format, when the bytes end first.
  template <class T>
  Result<T> read() {
    static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>);
    if (sizeof(T) > bytes_left()) return out_of_bytes(sizeof(T));
    T value;
    std::memcpy(&value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return value;
  }

 private:
  tl::unexpected<Error> out_of_bytes(uint64_t n) const;

  std::span<const std::byte> bytes_;
  uint64_t base_ = 0;
  uint64_t position_ = 0;
};

}  // namespace tamis
