// Unicode properties by way of utf8proc's tables.
#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>

#include "base/utf8.h"

namespace tamis::unicode {
namespace {

constexpr uint32_t bit(uint32_t category) { return 1u << category; }

struct Property {
  std::string_view name;
  uint32_t mask;
};

constexpr uint32_t kLetter = bit(UTF8PROC_CATEGORY_LU) | bit(UTF8PROC_CATEGORY_LL) | bit(UTF8PROC_CATEGORY_LT) |
                             bit(UTF8PROC_CATEGORY_LM) | bit(UTF8PROC_CATEGORY_LO);
constexpr uint32_t kMark = bit(UTF8PROC_CATEGORY_MN) | bit(UTF8PROC_CATEGORY_MC) | bit(UTF8PROC_CATEGORY_ME);
constexpr uint32_t kSpace =
    bit(UTF8PROC_CATEGORY_ZS) | bit(UTF8PROC_CATEGORY_ZL) | bit(UTF8PROC_CATEGORY_ZP) | bit(kControlSpace);

constexpr Property kProperties[] = {
    {"L", kLetter},
    {"Lu", bit(UTF8PROC_CATEGORY_LU)},
    {"Ll", bit(UTF8PROC_CATEGORY_LL)},
    {"Lt", bit(UTF8PROC_CATEGORY_LT)},
    {"Lm", bit(UTF8PROC_CATEGORY_LM)},
    {"Lo", bit(UTF8PROC_CATEGORY_LO)},
    {"M", kMark},
    {"Mn", bit(UTF8PROC_CATEGORY_MN)},
    {"N", bit(UTF8PROC_CATEGORY_ND) | bit(UTF8PROC_CATEGORY_NL) | bit(UTF8PROC_CATEGORY_NO)},
    {"Nd", bit(UTF8PROC_CATEGORY_ND)},
    {"P", bit(UTF8PROC_CATEGORY_PC) | bit(UTF8PROC_CATEGORY_PD) | bit(UTF8PROC_CATEGORY_PS) |
              bit(UTF8PROC_CATEGORY_PE) | bit(UTF8PROC_CATEGORY_PI) | bit(UTF8PROC_CATEGORY_PF) |
              bit(UTF8PROC_CATEGORY_PO)},
    {"S",
     bit(UTF8PROC_CATEGORY_SM) | bit(UTF8PROC_CATEGORY_SC) | bit(UTF8PROC_CATEGORY_SK) | bit(UTF8PROC_CATEGORY_SO)},
    {"Z", bit(UTF8PROC_CATEGORY_ZS) | bit(UTF8PROC_CATEGORY_ZL) | bit(UTF8PROC_CATEGORY_ZP)},
    {"C", bit(UTF8PROC_CATEGORY_CC) | bit(UTF8PROC_CATEGORY_CF) | bit(UTF8PROC_CATEGORY_CS) |
              bit(UTF8PROC_CATEGORY_CO) | bit(UTF8PROC_CATEGORY_CN) | bit(kControlSpace)},
    {"s", kSpace},
};

// Whether NFC may change this character or anything before it: it combines, is second in a composition, or has a
// canonical decomposition that does not compose back.
bool is_unsafe_in_nfc(char32_t code_point) {
  if (code_point < 0x300) return false;
  if (code_point >= 0xac00 && code_point <= 0xd7a3) return false;  // Hangul syllables
  if ((code_point >= 0x1161 && code_point <= 0x1175) || (code_point >= 0x11a8 && code_point <= 0x11c2)) return true;
  const utf8proc_property_t* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(code_point));
  if (property->combining_class != 0) return true;
  if (property->comb_index != 0xffff && property->comb_index >= 0x8000) return true;
  if (property->decomp_seqindex == 0xffff || property->decomp_type != 0) return false;
  std::string own;
  utf8_append(own, code_point);
  utf8proc_uint8_t* composed = nullptr;
  const auto length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(own.data()), static_cast<utf8proc_ssize_t>(own.size()),
                   &composed, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const bool is_same = length == static_cast<utf8proc_ssize_t>(own.size()) &&
                       std::equal(own.begin(), own.end(), composed,
                                  [](char a, utf8proc_uint8_t b) { return static_cast<utf8proc_uint8_t>(a) == b; });
  std::free(composed);
  return !is_same;
}

// Decomposes, orders the marks (utf8proc's own ordering is quadratic in a run of marks, so it is handed an ordered run)
// and composes.
void append_composed(std::string& out, std::string_view segment) {
  std::string ordered;
  for (const char32_t code_point : to_nfd(segment)) utf8_append(ordered, code_point);
  utf8proc_uint8_t* composed = nullptr;
  const auto length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(ordered.data()),
                                   static_cast<utf8proc_ssize_t>(ordered.size()), &composed,
                                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  if (length < 0)
    out += segment;  // out of memory in utf8proc: the text as it was
  else
    out.append(reinterpret_cast<const char*>(composed), static_cast<size_t>(length));
  std::free(composed);
}

}  // namespace

Char char_at(std::string_view text, size_t i) {
  const auto lead = static_cast<unsigned char>(text[i]);
  if (lead < 0x80) return {lead, 1, true};
  const size_t length = utf8_sequence_length(text, i);
  if (length == 0) return {kReplacement, 1, false};
  return {utf8_code_point(text, i, length), static_cast<uint32_t>(length), true};
}

uint32_t char_class(char32_t code_point) {
  if ((code_point >= 9 && code_point <= 13) || code_point == 0x85) return kControlSpace;
  if (code_point > kLastCodePoint) return UTF8PROC_CATEGORY_CN;
  return static_cast<uint32_t>(utf8proc_category(static_cast<utf8proc_int32_t>(code_point)));
}

uint32_t property_mask(std::string_view name) {
  for (const Property& property : kProperties)
    if (property.name == name) return property.mask;
  return 0;
}

bool is_whitespace(char32_t code_point) { return (bit(char_class(code_point)) & kSpace) != 0; }
bool is_letter(char32_t code_point) { return (bit(char_class(code_point)) & kLetter) != 0; }
bool is_word(char32_t code_point) {
  constexpr uint32_t kWord = kLetter | kMark | bit(UTF8PROC_CATEGORY_ND) | bit(UTF8PROC_CATEGORY_PC);
  return (bit(char_class(code_point)) & kWord) != 0;
}

const std::vector<std::pair<char32_t, char32_t>>& han_ranges() {
  // Scripts-15.0.0.txt, "Han".
  static const std::vector<std::pair<char32_t, char32_t>> ranges = {
      {0x2e80, 0x2e99},   {0x2e9b, 0x2ef3},   {0x2f00, 0x2fd5},   {0x3005, 0x3005},   {0x3007, 0x3007},
      {0x3021, 0x3029},   {0x3038, 0x303b},   {0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfa6d},
      {0xfa70, 0xfad9},   {0x16fe2, 0x16fe3}, {0x16ff0, 0x16ff1}, {0x20000, 0x2a6df}, {0x2a700, 0x2b739},
      {0x2b740, 0x2b81d}, {0x2b820, 0x2cea1}, {0x2ceb0, 0x2ebe0}, {0x2f800, 0x2fa1d}, {0x30000, 0x3134a},
      {0x31350, 0x323af}};
  return ranges;
}

std::string_view to_nfc(std::string_view text, std::string& storage) {
  storage.clear();
  size_t copied = 0;         // text[0, copied) is in storage already
  size_t segment_begin = 0;  // the last safe character: what an unsafe one may combine with
  size_t i = 0;
  while (i < text.size()) {
    const Char c = char_at(text, i);
    if (!c.is_valid) {
      i += c.length;
      segment_begin = i;
      continue;
    }
    if (!is_unsafe_in_nfc(c.code_point)) {
      segment_begin = i;
      i += c.length;
      continue;
    }
    size_t end = i + c.length;
    while (end < text.size()) {
      const Char next = char_at(text, end);
      if (!next.is_valid || !is_unsafe_in_nfc(next.code_point)) break;
      end += next.length;
    }
    storage.append(text.substr(copied, segment_begin - copied));
    append_composed(storage, text.substr(segment_begin, end - segment_begin));
    copied = i = segment_begin = end;
  }
  if (copied == 0) return text;
  storage.append(text.substr(copied));
  return storage;
}

void append_nfd(std::vector<char32_t>& out, char32_t code_point) {
  utf8proc_int32_t parts[32];
  int boundary = 0;
  const auto n =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code_point), parts, 32,
                              static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE), &boundary);
  if (n <= 0 || n > 32) {
    out.push_back(code_point);
    return;
  }
  for (utf8proc_ssize_t k = 0; k < n; ++k) out.push_back(static_cast<char32_t>(parts[k]));
}

std::vector<char32_t> to_nfd(std::string_view text) {
  std::vector<char32_t> out;
  for (size_t i = 0; i < text.size();) {
    const Char c = char_at(text, i);
    append_nfd(out, c.code_point);
    i += c.length;
  }
  const auto combining_class = [](char32_t code_point) {
    return utf8proc_get_property(static_cast<utf8proc_int32_t>(code_point))->combining_class;
  };
  for (size_t i = 0; i < out.size();) {  // canonical ordering: each run of marks by combining class, stably
    if (combining_class(out[i]) == 0) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < out.size() && combining_class(out[end]) != 0) ++end;
    std::stable_sort(out.begin() + static_cast<ptrdiff_t>(i), out.begin() + static_cast<ptrdiff_t>(end),
                     [&](char32_t a, char32_t b) { return combining_class(a) < combining_class(b); });
    i = end;
  }
  return out;
}

void append_lower(std::string& out, char32_t code_point) {
  if (code_point == 0x130) {  // the one full mapping that differs from the simple one
    utf8_append(out, 'i');
    utf8_append(out, 0x307);
    return;
  }
  utf8_append(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code_point))));
}

}  // namespace tamis::unicode
