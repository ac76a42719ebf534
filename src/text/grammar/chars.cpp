// Characters as bytes: ranges of code points as UTF-8, and as JSON writes them inside a string.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "base/utf8.h"
#include "text/grammar/ir.h"

namespace tamis {
namespace {

// Words of one length between two words, digit by digit: both UTF-8 sequences and \uXXXX are that.
template <class AddDigits>
class RangeWriter {
 public:
  RangeWriter(Nfa& nfa, uint8_t lowest, uint8_t highest, AddDigits add_digits)
      : nfa_(nfa), lowest_(lowest), highest_(highest), add_digits_(add_digits) {}

  // Requires: low and high of one length, low <= high as words.
  void add(uint32_t from, uint32_t to, std::string_view low, std::string_view high) {
    const auto first = static_cast<uint8_t>(low[0]), last = static_cast<uint8_t>(high[0]);
    if (low.size() == 1) return add_digits_(from, first, last, to);
    if (first == last) return add(step(from, first, first), to, low.substr(1), high.substr(1));
    const std::string least(low.size() - 1, static_cast<char>(lowest_));
    const std::string most(low.size() - 1, static_cast<char>(highest_));
    const bool takes_all_of_first = low.substr(1) == least, takes_all_of_last = high.substr(1) == most;
    if (!takes_all_of_first) add(step(from, first, first), to, low.substr(1), most);
    if (!takes_all_of_last) add(step(from, last, last), to, least, high.substr(1));
    const auto begin = static_cast<uint8_t>(takes_all_of_first ? first : first + 1);
    const auto end = static_cast<uint8_t>(takes_all_of_last ? last : last - 1);
    if (begin <= end) add(step(from, begin, end), to, least, most);
  }

 private:
  uint32_t step(uint32_t from, uint8_t first, uint8_t last) {
    const uint32_t next = nfa_.add_state();
    add_digits_(from, first, last, next);
    return next;
  }

  Nfa& nfa_;
  uint8_t lowest_, highest_;
  AddDigits add_digits_;
};

void add_utf8(Nfa& nfa, uint32_t from, uint32_t to, char32_t first, char32_t last) {
  constexpr std::array<char32_t, 4> kLastOfLength = {0x7f, 0x7ff, 0xffff, 0x10ffff};
  RangeWriter writer(nfa, 0x80, 0xbf,
                     [&nfa](uint32_t a, uint8_t low, uint8_t high, uint32_t b) { nfa.add_edge(a, low, high, b); });
  for (const char32_t end : kLastOfLength) {
    if (first > end) continue;
    std::string low, high;
    utf8_append(low, first);
    utf8_append(high, std::min(last, end));
    writer.add(from, to, low, high);
    if (last <= end) return;
    first = end + 1;
  }
}

void add_hex_digits(Nfa& nfa, uint32_t from, uint8_t low, uint8_t high, uint32_t to) {
  if (low <= 9)
    nfa.add_edge(from, static_cast<uint8_t>('0' + low), static_cast<uint8_t>('0' + std::min<int>(high, 9)), to);
  if (high < 10) return;
  const int first = std::max<int>(low, 10) - 10, last = high - 10;
  nfa.add_edge(from, static_cast<uint8_t>('a' + first), static_cast<uint8_t>('a' + last), to);
  nfa.add_edge(from, static_cast<uint8_t>('A' + first), static_cast<uint8_t>('A' + last), to);
}

// \uXXXX for first … last, 16-bit units.
void add_unit(Nfa& nfa, uint32_t from, uint32_t to, uint32_t first, uint32_t last) {
  const uint32_t backslash = nfa.add_state(), digits = nfa.add_state();
  nfa.add_edge(from, '\\', '\\', backslash);
  nfa.add_edge(backslash, 'u', 'u', digits);
  std::string low, high;
  for (const int shift : {12, 8, 4, 0}) {
    low += static_cast<char>(first >> shift & 15u);
    high += static_cast<char>(last >> shift & 15u);
  }
  RangeWriter(nfa, 0, 15, [&nfa](uint32_t a, uint8_t lowest, uint8_t highest, uint32_t b) {
    add_hex_digits(nfa, a, lowest, highest, b);
  }).add(digits, to, low, high);
}

// Pairs of surrogates for first … last >= U+10000.
void add_pairs(Nfa& nfa, uint32_t from, uint32_t to, char32_t first, char32_t last) {
  const auto high_of = [](char32_t c) { return 0xd800u + ((c - 0x10000u) >> 10); };
  const auto low_of = [](char32_t c) { return 0xdc00u + ((c - 0x10000u) & 0x3ffu); };
  const auto add = [&](uint32_t high_first, uint32_t high_last, uint32_t low_first, uint32_t low_last) {
    const uint32_t middle = nfa.add_state();
    add_unit(nfa, from, middle, high_first, high_last);
    add_unit(nfa, middle, to, low_first, low_last);
  };
  uint32_t begin = high_of(first), end = high_of(last);
  if (begin == end) return add(begin, end, low_of(first), low_of(last));
  if (low_of(first) != 0xdc00) add(begin, begin, low_of(first), 0xdfff), ++begin;
  if (low_of(last) != 0xdfff) add(end, end, 0xdc00, low_of(last)), --end;
  if (begin <= end) add(begin, end, 0xdc00, 0xdfff);
}

void add_escaped(Nfa& nfa, uint32_t from, uint32_t to, char32_t first, char32_t last) {
  if (first <= 0xffff) add_unit(nfa, from, to, first, std::min<char32_t>(last, 0xffff));
  if (last > 0xffff) add_pairs(nfa, from, to, std::max<char32_t>(first, 0x10000), last);
}

constexpr std::pair<char32_t, char> kShortEscapes[] = {{'"', '"'}, {'\\', '\\'}, {'/', '/'}, {8, 'b'},
                                                       {12, 'f'},  {10, 'n'},    {13, 'r'},  {9, 't'}};

void add_json(Nfa& nfa, uint32_t from, uint32_t to, const CodePointRanges& ranges, CharForm form) {
  // Those that stand for themselves; those that are written \uXXXX.
  constexpr std::pair<char32_t, char32_t> kPlain[] = {{0x20, 0x21}, {0x23, 0x5b}, {0x5d, 0x10ffff}};
  constexpr std::pair<char32_t, char32_t> kEscaped[] = {{0, 0x1f}, {0x7f, 0x10ffff}};
  for (const auto& [first, last] : ranges) {
    for (const auto& [low, high] : kPlain)
      if (first <= high && low <= last) add_utf8(nfa, from, to, std::max(first, low), std::min(last, high));
    if (form == CharForm::json_any) {
      add_escaped(nfa, from, to, first, last);
    } else {
      for (const auto& [low, high] : kEscaped)
        if (first <= high && low <= last) add_escaped(nfa, from, to, std::max(first, low), std::min(last, high));
    }
    for (const auto& [c, letter] : kShortEscapes) {
      if (c < first || c > last || (c == '/' && form != CharForm::json_any)) continue;
      const uint32_t backslash = nfa.add_state();
      nfa.add_edge(from, '\\', '\\', backslash);
      nfa.add_edge(backslash, static_cast<uint8_t>(letter), static_cast<uint8_t>(letter), to);
    }
  }
}

}  // namespace

void add_chars(Nfa& nfa, uint32_t from, uint32_t to, const CodePointRanges& ranges, CharForm form) {
  if (form != CharForm::utf8) return add_json(nfa, from, to, ranges, form);
  for (const auto& [first, last] : ranges) add_utf8(nfa, from, to, first, last);
}

}  // namespace tamis
