// Unicode facts the tokenizers need, over utf8proc: categories with white space told apart, normal forms, lower case,
// scripts. Text that is not UTF-8 is never refused: an ill-formed byte is one character of its own (it counts as
// U+FFFD). Source: utf8proc 2.8 (Unicode 15.0); White_Space and Han from the same version of the Unicode Character
// Database.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tamis::unicode {

constexpr char32_t kReplacement = 0xfffd;
constexpr char32_t kLastCodePoint = 0x10ffff;

// One character of a byte string: its code point and how many bytes it takes (1 and U+FFFD for an ill-formed byte).
struct Char {
  char32_t code_point;
  uint32_t length;
  bool is_valid;
};
// Requires: i < text.size().
Char char_at(std::string_view text, size_t i);

// Classes 0 … 29 are utf8proc's general categories; white space among the control characters has its own.
constexpr uint32_t kControlSpace = 30;
constexpr uint32_t kNClasses = 31;
uint32_t char_class(char32_t code_point);
// The bit mask of classes of a Unicode property: "L", "Lu", "N", "Nd", "M", "P", "S", "Z", "C", "s" (White_Space); 0 =
// unknown.
uint32_t property_mask(std::string_view name);

bool is_whitespace(char32_t code_point);  // White_Space
bool is_letter(char32_t code_point);
bool is_word(char32_t code_point);  // letters, marks, decimal digits, connector punctuation: what \w and \b mean

// Ranges (both ends in) of the script Han.
const std::vector<std::pair<char32_t, char32_t>>& han_ranges();

// NFC; ill-formed bytes stay as they are and separate what is composed. Text already in NFC costs one pass and no copy:
// then the result is `text` itself, otherwise a view of `storage`.
std::string_view to_nfc(std::string_view text, std::string& storage);

// Appends the canonical decomposition (NFD without reordering) of one code point.
void append_nfd(std::vector<char32_t>& out, char32_t code_point);
// NFD of a sequence, with canonical ordering.
std::vector<char32_t> to_nfd(std::string_view text);

// Appends the full lower case of one code point.
void append_lower(std::string& out, char32_t code_point);

}  // namespace tamis::unicode
