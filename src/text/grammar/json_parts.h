// The pieces JSON texts are made of, as parts of a grammar: white space, strings, numbers within bounds, fixed values.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "formats/json.h"
#include "text/grammar/ir.h"

namespace tamis {

// A number in decimal digits, exactly. "0.05" is integer "0", fraction "05".
struct Decimal {
  bool is_negative = false;
  std::string integer = "0";  // no leading zeros
  std::string fraction;       // no trailing zeros
  bool is_zero() const { return integer == "0" && fraction.empty(); }
  friend bool operator==(const Decimal&, const Decimal&) = default;
};
// Requires: value is a number. Its shortest decimal form that reads back the same.
Decimal to_decimal(const Json& value);
bool is_less(const Decimal& a, const Decimal& b);

struct NumberBounds {
  bool integers_only = false;
  std::optional<Decimal> least, most;  // both may be taken
  uint32_t multiple_of = 0;            // 0 = any; integers only
};
// The least (or the largest) integer that a bound lets through; `is_exclusive`: the bound itself may not be taken.
Decimal least_integer(const Decimal& bound, bool is_exclusive);
Decimal largest_integer(const Decimal& bound, bool is_exclusive);
// The next double above (below) a bound that may not be taken.
Decimal next_double(const Decimal& bound, bool up);

class JsonParts {
 public:
  explicit JsonParts(GrammarSource& source) : source_(source) {}

  // At most one space, or one or two line ends and an indent: what programs write, and no model can get lost in.
  PartId space();
  PartId any_string();
  // Strings of min … max characters (Unicode scalar values).
  PartId string_of_length(uint32_t min, uint32_t max);
  // "text" as a JSON string with its quotes.
  PartId fixed_string(std::string_view text, CharForm form = CharForm::json);
  PartId number();   // any
  PartId integer();  // any, without fraction or exponent
  // Numbers in plain decimals within bounds. Nothing when they need too many states.
  std::optional<PartId> bounded_number(const NumberBounds& bounds);
  // One value, white space free; an object's members in the order they have.
  PartId value(const Json& value);
  // name: with its colon and white space.
  PartId key(std::string_view name);
  // Puts white space inside the brackets.
  PartId bracketed(std::string_view open, PartId inner, std::string_view close);
  PartId comma();

  // Any JSON value, and any JSON object.
  PartId any_value();
  PartId any_object();

  // The automaton of the characters of any string, without quotes; of those with min … max characters. Nothing as for
  // to_dfa().
  const Dfa& any_content();
  std::optional<Dfa> content_of_length(uint32_t min, uint32_t max);
  // The part of a string whose characters (as JSON writes them) an automaton takes.
  PartId quoted(const Dfa& content);
  PartId quoted(PartId content);

  GrammarSource& source() { return source_; }

 private:
  PartId any_char();
  PartId regex(std::string_view pattern);
  void define_any_value();

  GrammarSource& source_;
  std::optional<PartId> space_, any_string_, any_char_, number_, integer_;
  std::optional<Dfa> any_content_;
  std::optional<RuleId> any_value_, any_object_;
};

// json_number.cpp: the automaton of numbers within bounds.
std::optional<Dfa> number_automaton(const NumberBounds& bounds, size_t max_states, WorkBudget& budget);

}  // namespace tamis
