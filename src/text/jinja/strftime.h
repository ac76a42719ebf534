// strftime with English names, whatever the locale, and a clock that can be fixed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tamis::jinja {

struct ClockTime {
  int64_t year = 1970;
  int month = 1, day = 1, hour = 0, minute = 0, second = 0;  // month and day from 1
  int64_t microsecond = 0;
  int64_t unix_seconds = 0;  // as the local clock counts
};

// Local time now for "", else a fixed "YYYY-MM-DDTHH:MM:SS". Errors: invalid_argument.
Result<ClockTime> read_clock(std::string_view clock);
// All directives of C and glibc's flags (%-d, %_d, %0d, %^a); unknown ones stay as they are.
std::string format_time(const ClockTime& time, std::string_view format);

}  // namespace tamis::jinja
