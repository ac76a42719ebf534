// UTF-8 as a byte-level fact: sequence lengths, validity, code points. Strict: no surrogates, no overlong forms, ≤
// U+10FFFF. (Unicode properties live in text/unicode.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tamis {

// Length in bytes (1–4) of the well-formed sequence at text[i], 0 when the bytes there are not well-formed or cut off.
size_t utf8_sequence_length(std::string_view text, size_t i);

// Code point of the well-formed sequence of `length` bytes at text[i] (length from utf8_sequence_length, not 0).
char32_t utf8_code_point(std::string_view text, size_t i, size_t length);

// Appends the code point's UTF-8 form. Requires: a scalar value (≤ U+10FFFF, no surrogate).
void utf8_append(std::string& out, char32_t code_point);

// Offset of the first ill-formed byte, or text.size() when all of it is well-formed.
size_t utf8_first_invalid(std::string_view text);

// Number of bytes at the end of text that begin a well-formed sequence but do not complete it (0–3).
size_t utf8_incomplete_tail(std::string_view text);

}  // namespace tamis
