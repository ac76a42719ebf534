// GPT-2's printable stand-ins for bytes: how byte-level vocabularies spell their tokens in a file.
// Source: Radford et al. 2019, encoder.py, bytes_to_unicode: bytes 33–126, 161–172 and 174–255 stand for themselves,
// the others for U+0100 on, in order.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tamis {

class ByteAlphabet {
 public:
  static const ByteAlphabet& get();

  char32_t code_point_of(uint8_t byte) const { return to_code_point_[byte]; }
  // The byte a stand-in means, or nothing for any other code point.
  std::optional<uint8_t> byte_of(char32_t code_point) const {
    return code_point < to_byte_.size() && to_byte_[code_point] >= 0
               ? std::optional<uint8_t>(static_cast<uint8_t>(to_byte_[code_point]))
               : std::nullopt;
  }
  // Appends the bytes that `stored` spells; false (and nothing appended) when it is not made of stand-ins.
  bool decode(std::string_view stored, std::string& out) const;
  std::string encode(std::string_view bytes) const;

 private:
  ByteAlphabet();
  std::array<char32_t, 256> to_code_point_{};
  std::array<int16_t, 324> to_byte_{};
};

}  // namespace tamis
