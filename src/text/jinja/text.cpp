// Byte and character operations on text with provenance.
#include "text/jinja/text.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>

#include "base/utf8.h"

namespace tamis::jinja {

Text Text::from_caller(std::string_view text) {
  Text out = plain(text);
  out.mark_all();
  return out;
}

void Text::mark_all() {
  content.clear();
  if (!bytes.empty()) content.push_back({0, bytes.size()});
}

void Text::append(const Text& other, size_t begin, size_t end) {
  const size_t base = bytes.size();
  bytes.append(other.bytes, begin, end - begin);
  auto span = std::lower_bound(other.content.begin(), other.content.end(), begin,
                               [](const Span& s, size_t offset) { return s.end <= offset; });
  for (; span != other.content.end() && span->begin < end; ++span) {
    const Span moved{base + std::max(span->begin, begin) - begin, base + std::min(span->end, end) - begin};
    if (moved.begin == moved.end) continue;
    if (!content.empty() && content.back().end == moved.begin)
      content.back().end = moved.end;
    else
      content.push_back(moved);
  }
}

void Text::append(std::string_view piece, bool is_content) {
  const size_t begin = bytes.size();
  bytes.append(piece);
  if (!is_content || piece.empty()) return;
  if (!content.empty() && content.back().end == begin)
    content.back().end = bytes.size();
  else
    content.push_back({begin, bytes.size()});
}

bool Text::is_content_at(size_t byte) const {
  const auto span = std::lower_bound(content.begin(), content.end(), byte,
                                     [](const Span& s, size_t offset) { return s.end <= offset; });
  return span != content.end() && span->begin <= byte;
}

Text sub_text(const Text& text, size_t begin, size_t end) {
  Text out;
  out.is_markup = text.is_markup;
  if (begin < end) out.append(text, begin, end);
  return out;
}

size_t char_length(std::string_view text, size_t i) {
  if (static_cast<unsigned char>(text[i]) < 0x80) return 1;
  const size_t length = utf8_sequence_length(text, i);
  return length == 0 ? 1 : length;
}

char32_t char_at(std::string_view text, size_t i) {
  if (static_cast<unsigned char>(text[i]) < 0x80) return static_cast<unsigned char>(text[i]);
  const size_t length = utf8_sequence_length(text, i);
  return length == 0 ? U'�' : utf8_code_point(text, i, length);
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

size_t count_chars(std::string_view text) {
  if (is_ascii(text)) return text.size();
  size_t n = 0;
  for (size_t i = 0; i < text.size(); i += char_length(text, i)) ++n;
  return n;
}

std::vector<size_t> char_offsets(std::string_view text) {
  std::vector<size_t> offsets;
  for (size_t i = 0; i < text.size(); i += char_length(text, i)) offsets.push_back(i);
  offsets.push_back(text.size());
  return offsets;
}

bool is_space(char32_t c) {
  if (c <= 0x20) return c == 0x20 || (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x1f);
  if (c < 0x2000) return c == 0x85 || c == 0xa0 || c == 0x1680;
  return c <= 0x200a || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

namespace {

bool is_in(std::string_view text, size_t i, size_t length, const std::string_view* set) {
  if (set == nullptr) return is_space(char_at(text, i));
  const std::string_view one = text.substr(i, length);
  for (size_t j = 0; j < set->size(); j += char_length(*set, j))
    if (set->substr(j, char_length(*set, j)) == one) return true;
  return false;
}

}  // namespace

size_t skip_leading(std::string_view text, const std::string_view* set) {
  size_t i = 0;
  while (i < text.size()) {
    const size_t length = char_length(text, i);
    if (!is_in(text, i, length, set)) break;
    i += length;
  }
  return i;
}

size_t skip_trailing(std::string_view text, const std::string_view* set) {
  size_t end = text.size();
  while (end > 0) {
    size_t begin = end - 1;
    for (size_t back = 2; back <= 4 && back <= end; ++back)
      if (utf8_sequence_length(text, end - back) == back) begin = end - back;
    if (!is_in(text, begin, end - begin, set)) break;
    end = begin;
  }
  return end;
}

size_t find_bytes(std::string_view text, std::string_view sub, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (sub.empty()) return from;
  const void* found = memmem(text.data() + from, text.size() - from, sub.data(), sub.size());
  return found == nullptr ? std::string_view::npos : static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

size_t rfind_bytes(std::string_view text, std::string_view sub) {
  if (sub.size() <= 8) return text.rfind(sub);
  const std::string reversed_text(text.rbegin(), text.rend()), reversed_sub(sub.rbegin(), sub.rend());
  const size_t at = find_bytes(reversed_text, reversed_sub);
  return at == std::string_view::npos ? at : text.size() - at - sub.size();
}

bool is_word_char(char32_t c) {
  if (c < 0x80) return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) ||
         (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO);
}

namespace {

// Without what stands between `open` and `close`.
Text without(const Text& text, std::string_view open, std::string_view close) {
  Text out;
  size_t from = 0;
  while (true) {
    const size_t begin = text.bytes.find(open, from);
    const size_t end = begin == std::string::npos ? begin : text.bytes.find(close, begin);
    if (end == std::string::npos) break;
    out.append(text, from, begin);
    from = end + close.size();
  }
  out.append(text, from, text.bytes.size());
  return out;
}

}  // namespace

Text strip_tags(const Text& text) {
  const Text bare = without(without(text, "<!--", "-->"), "<", ">");
  Text out;
  for (size_t i = skip_leading(bare.bytes, nullptr); i < bare.bytes.size();) {
    if (!out.bytes.empty()) out.append(" ", false);
    size_t end = i;
    while (end < bare.bytes.size() && !is_space(char_at(bare.bytes, end))) end += char_length(bare.bytes, end);
    out.append(bare, i, end);
    i = end + skip_leading(std::string_view(bare.bytes).substr(end), nullptr);
  }
  constexpr std::pair<std::string_view, std::string_view> kEntities[] = {
      {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&#34;", "\""}, {"&#39;", "'"}, {"&amp;", "&"}};
  Text plain;
  for (size_t i = 0; i < out.bytes.size();) {
    size_t taken = 0;
    for (const auto& [entity, with] : kEntities) {
      if (out.bytes.compare(i, entity.size(), entity) != 0) continue;
      plain.append(with, out.is_content_at(i));
      taken = entity.size();
      break;
    }
    if (taken == 0) plain.append(out, i, i + 1);
    i += std::max<size_t>(taken, 1);
  }
  return plain;
}

Text escape_html(const Text& text) {
  Text out;
  out.is_markup = true;
  size_t from = 0;
  for (size_t i = 0; i < text.bytes.size(); ++i) {
    std::string_view with;
    switch (text.bytes[i]) {
      case '&': with = "&amp;"; break;
      case '<': with = "&lt;"; break;
      case '>': with = "&gt;"; break;
      case '\'': with = "&#39;"; break;
      case '"': with = "&#34;"; break;
      default: continue;
    }
    out.append(text, from, i);
    out.append(with, text.is_content_at(i));
    from = i + 1;
  }
  out.append(text, from, text.bytes.size());
  return out;
}

}  // namespace tamis::jinja
