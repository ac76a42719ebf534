// Text with provenance: the bytes of a template string and which of them came from the caller's messages. Every
// operation on strings keeps the marks, so that the rendered prompt can be cut into scaffolding and content (reported
// fault B09). Strings are byte strings that should be UTF-8; an ill-formed byte counts as one character.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tamis::jinja {

struct Span {
  size_t begin = 0, end = 0;  // bytes
};

struct Text {
  std::string bytes;
  std::vector<Span> content;  // ascending, disjoint, not empty: the ranges that are the caller's
  bool is_markup = false;     // markupsafe's Markup: result of |safe and |escape, escapes what is added to it

  static Text plain(std::string_view text) { return Text{std::string(text), {}, false}; }
  static Text from_caller(std::string_view text);

  bool has_content() const { return !content.empty(); }
  void append(const Text& other) { append(other, 0, other.bytes.size()); }
  void append(const Text& other, size_t begin, size_t end);
  void append(std::string_view piece, bool is_content);
  void mark_all();  // the whole text becomes content
  bool is_content_at(size_t byte) const;
};

// Bytes [begin, end) with their marks; markup stays markup.
Text sub_text(const Text& text, size_t begin, size_t end);

// Length in bytes (1–4) of the character at text[i]; 1 for an ill-formed byte. Requires: i < text.size().
size_t char_length(std::string_view text, size_t i);
// The code point at text[i]; an ill-formed byte gives U+FFFD.
char32_t char_at(std::string_view text, size_t i);
size_t count_chars(std::string_view text);
bool is_ascii(std::string_view text);
// Byte offsets of every character, and the size at the end.
std::vector<size_t> char_offsets(std::string_view text);

// Python's str.isspace of one code point.
bool is_space(char32_t c);
// Offsets after leading, before trailing white space (or the characters of `set` when not null).
size_t skip_leading(std::string_view text, const std::string_view* set);
size_t skip_trailing(std::string_view text, const std::string_view* set);

// First and last occurrence in linear time whatever the texts; npos when there is none.
size_t find_bytes(std::string_view text, std::string_view sub, size_t from = 0);
size_t rfind_bytes(std::string_view text, std::string_view sub);

// The lines of str.splitlines, as byte ranges.
std::vector<Span> line_ranges(std::string_view text, bool keeps_ends);

// A letter, digit or underscore (\w of Python's re).
bool is_word_char(char32_t c);
// Text without comments, tags and runs of white space, entities & < > " ' resolved.
Text strip_tags(const Text& text);

// HTML escaping as markupsafe does it: & < > ' ".
Text escape_html(const Text& text);

}  // namespace tamis::jinja
