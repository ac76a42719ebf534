// From argv to an exit code: picks the verb (by name, or by the name the program was called under), parses, runs,
// prints errors.
#pragma once

#include <string_view>

#include "base/result.h"

namespace tamis::cli {

constexpr std::string_view kVersion = "0.1.0";

int run_program(int argc, char** argv);

// One line on stderr: `tamis: FILE: byte N (0x…): WHAT [CODE]`, or under `as_json` {"schema":1,"error":{…}}.
void print_error(const Error& error, bool as_json);

}  // namespace tamis::cli
