// Text → double.
#pragma once

#include <optional>
#include <string_view>

namespace tamis::jinja {

// The double nearest to a decimal number ("1.5", "-2e300", "inf", "nan"); past the range infinity or 0, as Python has
// it. Nothing when any byte is left over.
std::optional<double> parse_double(std::string_view text);

}  // namespace tamis::jinja
