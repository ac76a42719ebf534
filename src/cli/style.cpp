// Colours, tables, wrapped text.
#include "cli/style.h"

#include <unistd.h>

#include <algorithm>

#include "base/env.h"
#include "base/utf8.h"

namespace tamis::cli {
namespace {

std::string_view sequence(Color color) {
  static constexpr std::string_view kSequences[] = {"",         "\x1b[1m",  "\x1b[2m",  "\x1b[31m", "\x1b[32m",
                                                    "\x1b[33m", "\x1b[34m", "\x1b[35m", "\x1b[36m"};
  return kSequences[static_cast<size_t>(color)];
}

}  // namespace

Style Style::from_args(const Args& args) {
  const std::string when = args.text("--color");
  if (when == "always") return Style(true);
  return Style(when == "auto" && !env::no_color() && !args.flag("--json") && ::isatty(STDOUT_FILENO) == 1);
}

std::string Style::paint(Color color, std::string_view text) const {
  if (!is_colored_ || color == Color::none || text.empty()) return std::string(text);
  return fmt::format("{}{}\x1b[0m", sequence(color), text);
}

std::string Table::text() const {
  std::vector<size_t> widths(columns_.size());
  for (const auto& row : rows_)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));
  std::string out;
  for (const auto& row : rows_) {
    std::string line = indent_;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - display_width(row[i]), ' ');
      if (i > 0) line += "  ";
      line += columns_[i] == Align::left ? row[i] + padding : padding + row[i];
    }
    line.resize(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

size_t display_width(std::string_view text) {
  size_t width = 0;
  for (size_t i = 0; i < text.size();) {
    if (text[i] == '\x1b') {
      const size_t end = text.find('m', i);
      i = end == std::string_view::npos ? text.size() : end + 1;
      continue;
    }
    i += std::max<size_t>(1, utf8_sequence_length(text, i));
    ++width;
  }
  return width;
}

std::string wrap(std::string_view text, size_t width, size_t indent) {
  std::string out;
  size_t column = indent;
  while (!text.empty()) {
    const size_t space = text.find(' ');
    const std::string_view word = text.substr(0, space);
    text = space == std::string_view::npos ? std::string_view() : text.substr(space + 1);
    const size_t columns = display_width(word);
    if (column > indent && column + 1 + columns > width) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += columns;
  }
  return out;
}

std::string with_commas(uint64_t n) {
  std::string digits = std::to_string(n);
  for (size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

}  // namespace tamis::cli
