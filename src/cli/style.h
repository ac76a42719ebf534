// How results look on a terminal: colours when wanted, columns that line up. Plain text everywhere else.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/verb.h"

namespace tamis::cli {

// Colours of the 16-colour palette, which terminal themes keep readable on light and dark.
enum class Color : uint8_t { none, bold, dim, red, green, yellow, blue, magenta, cyan };

class Style {
 public:
  explicit Style(bool is_colored) : is_colored_(is_colored) {}
  // By --color, NO_COLOR and whether stdout is a terminal.
  static Style from_args(const Args& args);

  std::string paint(Color color, std::string_view text) const;
  std::string bold(std::string_view text) const { return paint(Color::bold, text); }
  std::string dim(std::string_view text) const { return paint(Color::dim, text); }
  bool is_colored() const { return is_colored_; }

 private:
  bool is_colored_;
};

enum class Align : uint8_t { left, right };

// Rows of cells, padded to the widest cell of each column; no trailing spaces. Cells may hold colour sequences.
class Table {
 public:
  explicit Table(std::vector<Align> columns, std::string indent = "  ")
      : columns_(std::move(columns)), indent_(std::move(indent)) {}
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  bool empty() const { return rows_.empty(); }
  std::string text() const;

 private:
  std::vector<Align> columns_;
  std::string indent_;
  std::vector<std::vector<std::string>> rows_;
};

// Terminal columns of a text: code points, colour sequences not counted. (East Asian wide forms count as one.)
size_t display_width(std::string_view text);

// `text` broken at spaces into lines of at most `width` columns, each after the first begun with `indent` spaces.
std::string wrap(std::string_view text, size_t width, size_t indent);

// 134515008 → "134,515,008"
std::string with_commas(uint64_t n);

}  // namespace tamis::cli
