// One JSON object or array read byte by byte: whether what came so far is JSON, and where it ends. For text that a
// model is still writing; whole texts are read by formats/json.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tamis {

// Strict (RFC 8259) but for one thing: control characters inside strings pass, since models write line breaks there
// (append_repaired() puts the escapes in).
class JsonScanner {
 public:
  enum class State : uint8_t { more, done, invalid };
  static constexpr uint32_t kMaxDepth = 120;  // below what formats/json reads

  // Takes the next byte. After `done` or `invalid` nothing may be pushed.
  State push(char byte);

  uint32_t depth() const { return static_cast<uint32_t>(open_.size()); }  // containers that are open
  bool is_in_key() const { return phase_ == Phase::key && in_string_; }
  bool is_in_string() const { return in_string_; }
  // A value of the outermost container has begun and not ended. (A number ends with the byte after it.)
  bool is_in_member_value() const {
    return depth() > 1 || (depth() == 1 && (is_scalar_open() && phase_ != Phase::key));
  }
  bool is_in_number() const { return number_ != Number::none; }

  // Adds a byte that push() took to `out` so that the whole is JSON. `was_in_string`: before the push.
  static void append_repaired(std::string& out, char byte, bool was_in_string);

 private:
  enum class Phase : uint8_t { value, first_value, key, first_key, colon, after_value };
  enum class Number : uint8_t { none, minus, zero, digits, point, fraction, exponent, exponent_sign, exponent_digits };

  bool is_scalar_open() const { return in_string_ || number_ != Number::none || !literal_.empty(); }
  State take(char byte);
  State take_in_string(char byte);
  State begin_value(char byte);
  State close(char bracket);
  State end_value();
  bool goes_on_number(char byte);

  std::string open_;  // of '{' and '['
  Phase phase_ = Phase::value;
  Number number_ = Number::none;
  std::string_view literal_;  // the bytes of true, false or null still to come
  bool in_string_ = false, is_escaped_ = false;
  uint32_t n_hex_ = 0;  // digits of \uXXXX still to come
};

}  // namespace tamis
