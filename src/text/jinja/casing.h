// Case of text, character by character, provenance kept.
#pragma once

#include "text/jinja/text.h"

namespace tamis::jinja {

enum class Casing : uint8_t { upper, lower, capitalize, title, swap, fold };

// str.upper, lower, capitalize, title, swapcase, casefold.
Text with_case(const Text& text, Casing casing);
// jinja2's |title: words begin after white space and -({[<.
Text with_word_case(const Text& text);
std::string lower_bytes(std::string_view text);

// str.isupper, str.islower: at least one cased character and none of the other case.
bool is_upper_text(std::string_view text);
bool is_lower_text(std::string_view text);

}  // namespace tamis::jinja
