// Options in a file, for programs that are started by others: `NAME = VALUE` lines under the names of the command line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tamis::cli {

struct Setting {
  std::string name;  // an option's, without its dashes: "host", "np"
  std::string value;
  size_t line_number = 0;  // from 1
};

// Blank lines and lines that begin with # or ; are passed over; blanks around name and value do not count, and a value
// may stand in double quotes. Errors: io, not_found, and parse_config()'s with the file's name.
Result<std::vector<Setting>> read_config_file(const std::string& path);

// Errors: invalid_argument for a line that is none of these, naming it.
Result<std::vector<Setting>> parse_config(std::string_view text);

}  // namespace tamis::cli
