// The access log: a line a request on stderr, with what an operator asks for and no text of a user. Last stop of a
// request.
#pragma once

#include <cstdint>
#include <string>

#include "server/http.h"

namespace tamis::server {

enum class AccessLog : uint8_t { off, text, json };

// One line without its end. Everything a client chose is escaped and cut at 256 bytes. `unix_time`: seconds.
std::string access_line(AccessLog format, const Answered& answered, int64_t unix_time);

// Writes the line, unless the log is off.
void log_access(AccessLog format, const Answered& answered, int64_t unix_time);

}  // namespace tamis::server
