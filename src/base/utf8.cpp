// Strict UTF-8 decoding after Unicode 15 table 3-7 (well-formed byte sequences).
#include "base/utf8.h"

namespace tamis {
namespace {

unsigned byte_at(std::string_view text, size_t i) { return static_cast<unsigned char>(text[i]); }
bool is_continuation(unsigned byte) { return (byte & 0xc0) == 0x80; }

// Length announced by a lead byte, 0 when it cannot start a sequence.
size_t announced_length(unsigned lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xc2) return 0;
  if (lead < 0xe0) return 2;
  if (lead < 0xf0) return 3;
  return lead < 0xf5 ? 4 : 0;
}

// Whether `second` may follow `lead` (excludes overlong forms, surrogates and values past U+10FFFF).
bool second_is_allowed(unsigned lead, unsigned second) {
  if (!is_continuation(second)) return false;
  switch (lead) {
    case 0xe0: return second >= 0xa0;
    case 0xed: return second <= 0x9f;
    case 0xf0: return second >= 0x90;
    case 0xf4: return second <= 0x8f;
    default: return true;
  }
}

}  // namespace

size_t utf8_sequence_length(std::string_view text, size_t i) {
  const unsigned lead = byte_at(text, i);
  const size_t length = announced_length(lead);
  if (length <= 1) return length;
  if (text.size() - i < length || !second_is_allowed(lead, byte_at(text, i + 1))) return 0;
  for (size_t k = 2; k < length; ++k)
    if (!is_continuation(byte_at(text, i + k))) return 0;
  return length;
}

char32_t utf8_code_point(std::string_view text, size_t i, size_t length) {
  const unsigned lead = byte_at(text, i);
  if (length == 1) return lead;
  char32_t code_point = lead & (0xffu >> (length + 1));
  for (size_t k = 1; k < length; ++k) code_point = (code_point << 6) | (byte_at(text, i + k) & 0x3f);
  return code_point;
}

void utf8_append(std::string& out, char32_t cp) {
  if (cp < 0x80) {
    out += static_cast<char>(cp);
  } else if (cp < 0x800) {
    out += static_cast<char>(0xc0 | (cp >> 6));
    out += static_cast<char>(0x80 | (cp & 0x3f));
  } else if (cp < 0x10000) {
    out += static_cast<char>(0xe0 | (cp >> 12));
    out += static_cast<char>(0x80 | ((cp >> 6) & 0x3f));
    out += static_cast<char>(0x80 | (cp & 0x3f));
  } else {
    out += static_cast<char>(0xf0 | (cp >> 18));
    out += static_cast<char>(0x80 | ((cp >> 12) & 0x3f));
    out += static_cast<char>(0x80 | ((cp >> 6) & 0x3f));
    out += static_cast<char>(0x80 | (cp & 0x3f));
  }
}

size_t utf8_first_invalid(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    const size_t length = utf8_sequence_length(text, i);
    if (length == 0) break;
    i += length;
  }
  return i;
}

size_t utf8_incomplete_tail(std::string_view text) {
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const unsigned byte = byte_at(text, text.size() - back);
    if (is_continuation(byte)) continue;
    const size_t length = announced_length(byte);
    if (length <= back) return 0;
    return back == 1 || second_is_allowed(byte, byte_at(text, text.size() - back + 1)) ? back : 0;
  }
  return 0;
}

}  // namespace tamis
