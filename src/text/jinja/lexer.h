// Jinja source → tokens, with jinja2's white space rules under trim_blocks and lstrip_blocks.
// Source of the rules: jinja2 3.1 documentation, "Whitespace Control" and "Escaping".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tamis::jinja {

enum class TokenKind : uint8_t {
  data,
  variable_begin,
  variable_end,
  block_begin,
  block_end,
  name,
  string,
  integer,
  real,
  op,
  end
};

struct Token {
  TokenKind kind;
  uint32_t line;
  std::string text;  // name, operator, text of data and strings (unescaped), digits of numbers (decimal)
};

// Errors: format, naming the line, for unbalanced brackets, unknown characters and unfinished constructs.
Result<std::vector<Token>> tokenize(std::string_view source);

tl::unexpected<Error> syntax_error(uint32_t line, std::string_view what);

}  // namespace tamis::jinja
