// A pushdown automaton of JSON over bytes.
#include "text/json_scanner.h"

#include <fmt/format.h>

namespace tamis {
namespace {

bool is_space(char byte) { return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t'; }
bool is_digit(char byte) { return byte >= '0' && byte <= '9'; }
bool is_hex(char byte) { return is_digit(byte) || (byte >= 'a' && byte <= 'f') || (byte >= 'A' && byte <= 'F'); }

}  // namespace

JsonScanner::State JsonScanner::push(char byte) {
  if (in_string_) return take_in_string(byte);
  if (!literal_.empty()) {
    if (byte != literal_.front()) return State::invalid;
    literal_.remove_prefix(1);
    return literal_.empty() ? end_value() : State::more;
  }
  if (number_ != Number::none) {
    if (goes_on_number(byte)) return State::more;
    const bool is_whole = number_ == Number::zero || number_ == Number::digits || number_ == Number::fraction ||
                          number_ == Number::exponent_digits;
    number_ = Number::none;
    if (!is_whole) return State::invalid;
    end_value();
  }
  return take(byte);
}

JsonScanner::State JsonScanner::take(char byte) {
  if (is_space(byte)) return State::more;
  switch (phase_) {
    case Phase::first_value:
      if (byte == ']') return close('[');
      return begin_value(byte);
    case Phase::value: return begin_value(byte);
    case Phase::first_key:
    case Phase::key:
      if (byte == '}' && phase_ == Phase::first_key) return close('{');
      if (byte != '"') return State::invalid;
      phase_ = Phase::key;
      in_string_ = true;
      return State::more;
    case Phase::colon:
      if (byte != ':') return State::invalid;
      phase_ = Phase::value;
      return State::more;
    case Phase::after_value: break;
  }
  if (byte == ',') {
    phase_ = open_.back() == '{' ? Phase::key : Phase::value;
    return State::more;
  }
  if (byte == '}') return close('{');
  if (byte == ']') return close('[');
  return State::invalid;
}

JsonScanner::State JsonScanner::take_in_string(char byte) {
  if (n_hex_ > 0) {
    if (!is_hex(byte)) return State::invalid;
    --n_hex_;
    return State::more;
  }
  if (is_escaped_) {
    is_escaped_ = false;
    if (byte == 'u') n_hex_ = 4;
    const bool is_known = std::string_view("\"\\/bfnrtu").find(byte) != std::string_view::npos;
    return is_known ? State::more : State::invalid;
  }
  if (byte == '\\') {
    is_escaped_ = true;
  } else if (byte == '"') {
    in_string_ = false;
    if (phase_ != Phase::key) return end_value();
    phase_ = Phase::colon;
  }
  return State::more;
}

JsonScanner::State JsonScanner::begin_value(char byte) {
  if (byte == '{' || byte == '[') {
    if (open_.size() >= kMaxDepth) return State::invalid;
    open_ += byte;
    phase_ = byte == '{' ? Phase::first_key : Phase::first_value;
    return State::more;
  }
  if (open_.empty()) return State::invalid;
  phase_ = Phase::value;
  if (byte == '"') {
    in_string_ = true;
  } else if (byte == '-') {
    number_ = Number::minus;
  } else if (is_digit(byte)) {
    number_ = byte == '0' ? Number::zero : Number::digits;
  } else if (byte == 't') {
    literal_ = "rue";
  } else if (byte == 'f') {
    literal_ = "alse";
  } else if (byte == 'n') {
    literal_ = "ull";
  } else {
    return State::invalid;
  }
  return State::more;
}

JsonScanner::State JsonScanner::close(char bracket) {
  if (open_.empty() || open_.back() != bracket) return State::invalid;
  open_.pop_back();
  return end_value();
}

JsonScanner::State JsonScanner::end_value() {
  phase_ = Phase::after_value;
  return open_.empty() ? State::done : State::more;
}

bool JsonScanner::goes_on_number(char byte) {
  const auto go = [&](Number to) {
    number_ = to;
    return true;
  };
  const bool is_exponent = byte == 'e' || byte == 'E';
  switch (number_) {
    case Number::minus: return is_digit(byte) && go(byte == '0' ? Number::zero : Number::digits);
    case Number::digits:
      if (is_digit(byte)) return true;
      [[fallthrough]];
    case Number::zero:
      if (byte == '.') return go(Number::point);
      return is_exponent && go(Number::exponent);
    case Number::point: return is_digit(byte) && go(Number::fraction);
    case Number::fraction: return is_digit(byte) || (is_exponent && go(Number::exponent));
    case Number::exponent:
      if (byte == '+' || byte == '-') return go(Number::exponent_sign);
      [[fallthrough]];
    case Number::exponent_sign:
    case Number::exponent_digits: return is_digit(byte) && go(Number::exponent_digits);
    case Number::none: break;
  }
  return false;
}

void JsonScanner::append_repaired(std::string& out, char byte, bool was_in_string) {
  if (!was_in_string || static_cast<unsigned char>(byte) >= 0x20) {
    out += byte;
  } else if (byte == '\n') {
    out += "\\n";
  } else if (byte == '\t') {
    out += "\\t";
  } else if (byte == '\r') {
    out += "\\r";
  } else {
    out += fmt::format("\\u{:04x}", static_cast<unsigned char>(byte));
  }
}

}  // namespace tamis
