// Case mappings over utf8proc, with Unicode's one-to-many rows and the final sigma.
#include "text/jinja/casing.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>

#include "base/utf8.h"
#include "text/jinja/special_casing.h"

namespace tamis::jinja {
namespace {

const SpecialCasing* special_of(char32_t c) {
  if (c < 0xdf) return nullptr;
  const auto it = std::lower_bound(std::begin(kSpecialCasing), std::end(kSpecialCasing), c,
                                   [](const SpecialCasing& row, char32_t code) { return row.from < code; });
  return it != std::end(kSpecialCasing) && it->from == c ? it : nullptr;
}

std::string encoded(char32_t c) {
  std::string out;
  utf8_append(out, c);
  return out;
}

char32_t mapped(char32_t c, utf8proc_int32_t (*map)(utf8proc_int32_t)) {
  return static_cast<char32_t>(map(static_cast<utf8proc_int32_t>(c)));
}

std::string upper(char32_t c) {
  if (c < 0x80) return std::string(1, static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c));
  if (const SpecialCasing* row = special_of(c)) return std::string(row->upper);
  return encoded(mapped(c, utf8proc_toupper));
}

std::string title(char32_t c) {
  if (c < 0x80) return upper(c);
  if (const SpecialCasing* row = special_of(c)) return std::string(row->title);
  return encoded(mapped(c, utf8proc_totitle));
}

std::string lower(char32_t c) {
  if (c < 0x80) return std::string(1, static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c));
  if (c == 0x130) return "i\xcc\x87";
  return encoded(mapped(c, utf8proc_tolower));
}

std::string fold(char32_t c) {
  if (c == 0xdf || c == 0x1e9e) return "ss";
  if (c < 0x80) return lower(c);
  const std::string text = encoded(c);
  utf8proc_uint8_t* folded = nullptr;
  const auto n = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                              static_cast<utf8proc_ssize_t>(text.size()), &folded, UTF8PROC_CASEFOLD);
  std::string out = n < 0 ? text : std::string(reinterpret_cast<const char*>(folded), static_cast<size_t>(n));
  std::free(folded);
  return out;
}

bool is_upper(char32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z';
  return utf8proc_isupper(static_cast<utf8proc_int32_t>(c)) != 0;
}
bool is_lower(char32_t c) {
  if (c < 0x80) return c >= 'a' && c <= 'z';
  return utf8proc_islower(static_cast<utf8proc_int32_t>(c)) != 0;
}
bool is_cased(char32_t c) {
  return is_upper(c) || is_lower(c) ||
         (c > 0x80 && utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_LT);
}

bool is_case_ignorable(char32_t c) {
  if (c == '\'' || c == '.' || c == ':' || c == '^' || c == '`' || c == 0xb7 || c == 0x2019) return true;
  if (c < 0x80) return false;
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_ME || category == UTF8PROC_CATEGORY_CF ||
         category == UTF8PROC_CATEGORY_LM || category == UTF8PROC_CATEGORY_SK;
}

// A capital sigma that ends a word becomes ς.
bool is_final_sigma(std::string_view text, size_t at) {
  bool before = false;
  for (size_t i = 0; i < at; i += char_length(text, i)) {
    const char32_t c = char_at(text, i);
    if (!is_case_ignorable(c)) before = is_cased(c);
  }
  if (!before) return false;
  for (size_t i = at + 2; i < text.size(); i += char_length(text, i)) {
    const char32_t c = char_at(text, i);
    if (!is_case_ignorable(c)) return !is_cased(c);
  }
  return true;
}

}  // namespace

namespace {

// ASCII keeps its length, so the marks stay where they are.
Text ascii_with_case(const Text& text, Casing casing) {
  Text out = text;
  bool raises = casing == Casing::upper || casing == Casing::capitalize || casing == Casing::title;
  for (char& c : out.bytes) {
    const bool is_small = c >= 'a' && c <= 'z', is_capital = c >= 'A' && c <= 'Z';
    if (casing == Casing::swap) raises = is_small;
    if (raises && is_small) c = static_cast<char>(c - 32);
    if (!raises && is_capital) c = static_cast<char>(c + 32);
    if (casing == Casing::capitalize) raises = false;
    if (casing == Casing::title) raises = !is_small && !is_capital;
  }
  return out;
}

}  // namespace

Text with_case(const Text& text, Casing casing) {
  if (is_ascii(text.bytes)) return ascii_with_case(text, casing);
  Text out;
  out.is_markup = text.is_markup;
  bool is_first = true, after_cased = false;
  for (size_t i = 0; i < text.bytes.size();) {
    const size_t length = char_length(text.bytes, i);
    const char32_t c = char_at(text.bytes, i);
    std::string with;
    if (length == 1 && static_cast<unsigned char>(text.bytes[i]) >= 0x80) {
      with = text.bytes.substr(i, 1);  // an ill-formed byte has no case
    } else {
      const bool raises = casing == Casing::upper || (casing == Casing::swap && is_lower(c));
      const bool titles = (casing == Casing::capitalize && is_first) || (casing == Casing::title && !after_cased);
      const bool keeps = casing == Casing::swap && !is_cased(c);
      if (keeps)
        with = encoded(c);
      else if (raises)
        with = upper(c);
      else if (titles)
        with = title(c);
      else if (casing == Casing::fold)
        with = fold(c);
      else
        with = c == 0x3a3 && is_final_sigma(text.bytes, i) ? "\xcf\x82" : lower(c);
    }
    out.append(with, text.is_content_at(i));
    is_first = false;
    after_cased = is_cased(c);
    i += length;
  }
  return out;
}

Text with_word_case(const Text& text) {
  Text out;
  out.is_markup = text.is_markup;
  bool is_start = true;
  for (size_t i = 0; i < text.bytes.size();) {
    const size_t length = char_length(text.bytes, i);
    const char32_t c = char_at(text.bytes, i);
    const bool is_break =
        is_space(c) || (c < 0x80 && std::string_view("-({[<").find(static_cast<char>(c)) != std::string_view::npos);
    if (c == U'�')
      out.append(text, i, i + length);
    else
      out.append(is_start && !is_break ? upper(c) : lower(c), text.is_content_at(i));
    is_start = is_break;
    i += length;
  }
  return out;
}

std::string lower_bytes(std::string_view text) {
  if (!is_ascii(text)) return with_case(Text::plain(text), Casing::lower).bytes;
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return out;
}

bool is_upper_text(std::string_view text) {
  bool any = false;
  for (size_t i = 0; i < text.size(); i += char_length(text, i)) {
    const char32_t c = char_at(text, i);
    if (is_cased(c) && !is_upper(c)) return false;
    any |= is_upper(c);
  }
  return any;
}

bool is_lower_text(std::string_view text) {
  bool any = false;
  for (size_t i = 0; i < text.size(); i += char_length(text, i)) {
    const char32_t c = char_at(text, i);
    if (is_cased(c) && !is_lower(c)) return false;
    any |= is_lower(c);
  }
  return any;
}

}  // namespace tamis::jinja
