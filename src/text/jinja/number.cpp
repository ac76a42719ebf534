// Text → double over std::from_chars, which reports values out of range without giving them.
#include "text/jinja/number.h"

#include <charconv>
#include <limits>

namespace tamis::jinja {

std::optional<double> parse_double(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size() || error == std::errc::invalid_argument) return std::nullopt;
  if (error != std::errc::result_out_of_range) return value;
  const bool is_negative = text.starts_with('-');
  const size_t exponent = text.find_first_of("eE");
  const size_t first_digit = text.find_first_of("123456789");
  const bool is_small =
      exponent != std::string_view::npos ? text.substr(exponent + 1).starts_with('-') : text.find('.') < first_digit;
  const double magnitude = is_small ? 0.0 : std::numeric_limits<double>::infinity();
  return is_negative ? -magnitude : magnitude;
}

}  // namespace tamis::jinja
