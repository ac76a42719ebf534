// Numbers within bounds as automata over their digits: exact for any size, no arithmetic on doubles.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "text/grammar/json_parts.h"

namespace tamis {
namespace {

void add_one(std::string& digits) {
  size_t i = digits.size();
  while (i > 0 && digits[i - 1] == '9') digits[--i] = '0';
  if (i == 0) {
    digits.insert(digits.begin(), '1');
  } else {
    ++digits[i - 1];
  }
}

// Requires: digits is not "0".
void subtract_one(std::string& digits) {
  size_t i = digits.size();
  while (digits[i - 1] == '0') digits[--i] = '9';
  --digits[i - 1];
  if (digits[0] == '0' && digits.size() > 1) digits.erase(0, 1);
}

Decimal decimal_of(std::string_view text) {
  Decimal out;
  out.is_negative = text.starts_with('-');
  if (out.is_negative) text.remove_prefix(1);
  const size_t e = text.find_first_of("eE");
  int exponent = 0;
  if (e != std::string_view::npos) {
    std::string_view digits = text.substr(e + 1);
    if (digits.starts_with('+')) digits.remove_prefix(1);
    std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
    text = text.substr(0, e);
  }
  const size_t point = text.find('.');
  std::string integer(text.substr(0, point));
  std::string fraction(point == std::string_view::npos ? "" : text.substr(point + 1));
  for (; exponent > 0; --exponent) {
    integer += fraction.empty() ? '0' : fraction[0];
    if (!fraction.empty()) fraction.erase(0, 1);
  }
  for (; exponent < 0; ++exponent) {
    fraction.insert(fraction.begin(), integer.empty() ? '0' : integer.back());
    if (!integer.empty()) integer.pop_back();
  }
  integer.erase(0, std::min(integer.find_first_not_of('0'), integer.size()));
  fraction.erase(fraction.find_last_not_of('0') + 1);
  out.integer = integer.empty() ? "0" : integer;
  out.fraction = fraction;
  if (out.is_zero()) out.is_negative = false;
  return out;
}

int compare_magnitudes(const Decimal& a, const Decimal& b) {
  if (a.integer.size() != b.integer.size()) return a.integer.size() < b.integer.size() ? -1 : 1;
  if (const int order = a.integer.compare(b.integer); order != 0) return order;
  return a.fraction.compare(b.fraction);  // a prefix is the smaller one
}

// The automaton of non-negative decimals (or integers) not below, or not above, one.
class MagnitudeWriter {
 public:
  MagnitudeWriter(const Decimal& bound, bool is_lower, bool integers_only)
      : bound_(bound), is_lower_(is_lower), integers_only_(integers_only) {}

  Nfa write() {
    start_ = nfa_.start = nfa_.add_state();
    nfa_.accept = nfa_.add_state();
    whole_ = nfa_.add_state();
    fraction_ = nfa_.add_state();
    nfa_.add_epsilon(whole_, nfa_.accept);
    if (!integers_only_) {
      const uint32_t point = nfa_.add_state();
      nfa_.add_edge(whole_, '.', '.', point);
      nfa_.add_edge(point, '0', '9', fraction_);
      nfa_.add_edge(fraction_, '0', '9', fraction_);
      nfa_.add_epsilon(fraction_, nfa_.accept);
    }
    is_lower_ ? add_longer() : add_shorter();
    add_fraction(add_same_length());
    return std::move(nfa_);
  }

 private:
  void add_longer() {
    uint32_t at = nfa_.add_state();
    nfa_.add_edge(start_, '1', '9', at);
    for (size_t i = 0; i < bound_.integer.size(); ++i) {
      const uint32_t next = nfa_.add_state();
      nfa_.add_edge(at, '0', '9', next);
      at = next;
    }
    nfa_.add_edge(at, '0', '9', at);
    nfa_.add_epsilon(at, whole_);
  }

  void add_shorter() {
    const size_t n = bound_.integer.size();
    if (n < 2) return;
    nfa_.add_edge(start_, '0', '0', whole_);
    uint32_t at = start_;
    for (size_t i = 1; i < n; ++i) {
      const uint32_t next = nfa_.add_state();
      nfa_.add_edge(at, i == 1 ? '1' : '0', '9', next);
      nfa_.add_epsilon(next, whole_);
      at = next;
    }
  }

  void add_digits(uint32_t from, int low, int high, uint32_t to) {
    if (low <= high) nfa_.add_edge(from, static_cast<uint8_t>('0' + low), static_cast<uint8_t>('0' + high), to);
  }
  // The digits on the side that decides the comparison.
  void add_deciding(uint32_t from, char digit, int least, uint32_t to) {
    is_lower_ ? add_digits(from, digit - '0' + 1, 9, to) : add_digits(from, least, digit - '0' - 1, to);
  }

  // Whole parts as long as the bound's; returns the state where they are equal.
  uint32_t add_same_length() {
    const std::string& digits = bound_.integer;
    uint32_t tie = start_, decided = 0;
    for (size_t i = 0; i < digits.size(); ++i) {
      const uint32_t next_decided = i + 1 == digits.size() ? whole_ : nfa_.add_state();
      const uint32_t next_tie = nfa_.add_state();
      add_deciding(tie, digits[i], i == 0 && digits.size() > 1 ? 1 : 0, next_decided);
      if (i > 0) nfa_.add_edge(decided, '0', '9', next_decided);
      nfa_.add_edge(tie, static_cast<uint8_t>(digits[i]), static_cast<uint8_t>(digits[i]), next_tie);
      tie = next_tie;
      decided = next_decided;
    }
    return tie;
  }

  void add_fraction(uint32_t tie) {
    const std::string& digits = bound_.fraction;
    if (is_lower_ && digits.empty()) return nfa_.add_epsilon(tie, whole_);
    if (!is_lower_) nfa_.add_epsilon(tie, nfa_.accept);
    if (integers_only_) return;
    uint32_t at = nfa_.add_state();
    nfa_.add_edge(tie, '.', '.', at);
    for (const char digit : digits) {
      const uint32_t next = nfa_.add_state();
      add_deciding(at, digit, 0, fraction_);
      nfa_.add_edge(at, static_cast<uint8_t>(digit), static_cast<uint8_t>(digit), next);
      if (!is_lower_) nfa_.add_epsilon(next, nfa_.accept);
      at = next;
    }
    if (is_lower_) return nfa_.add_epsilon(at, fraction_);
    const uint32_t zeros = nfa_.add_state();
    nfa_.add_edge(at, '0', '0', zeros);
    nfa_.add_edge(zeros, '0', '0', zeros);
    nfa_.add_epsilon(zeros, nfa_.accept);
  }

  const Decimal& bound_;
  bool is_lower_, integers_only_;
  Nfa nfa_;
  uint32_t start_ = 0, whole_ = 0, fraction_ = 0;
};

class NumberAutomaton {
 public:
  NumberAutomaton(bool integers_only, size_t max_states, WorkBudget& budget)
      : integers_only_(integers_only), max_states_(max_states), budget_(budget) {}

  // Non-negative numbers from `least` up to `most` (without it: to infinity).
  std::optional<Dfa> between(const Decimal& least, const std::optional<Decimal>& most) {
    auto from = determinize(MagnitudeWriter(least, true, integers_only_).write(), max_states_, budget_);
    if (!from || !most) return from;
    const auto to = determinize(MagnitudeWriter(*most, false, integers_only_).write(), max_states_, budget_);
    return to ? intersect(*from, *to, max_states_, budget_) : std::nullopt;
  }

  // A word of `positive`, or - and one of `negative`.
  std::optional<Dfa> join(const Dfa& positive, const Dfa& negative) {
    Nfa nfa;
    nfa.start = nfa.add_state();
    nfa.accept = nfa.add_state();
    const uint32_t minus = nfa.add_state();
    nfa.add_edge(nfa.start, '-', '-', minus);
    add_automaton(nfa, positive, nfa.start, nfa.accept);
    add_automaton(nfa, negative, minus, nfa.accept);
    return determinize(nfa, max_states_, budget_);
  }

  std::optional<Dfa> multiples(uint32_t of) {
    Nfa nfa;
    nfa.start = nfa.add_state();
    nfa.accept = nfa.add_state();
    const uint32_t minus = nfa.add_state();
    const uint32_t first = minus + 1;  // the state of remainder 0
    for (uint32_t r = 0; r < of; ++r) nfa.add_state();
    const auto add_digit = [&](uint32_t from, uint32_t remainder, uint32_t digit) {
      const auto c = static_cast<uint8_t>('0' + digit);
      nfa.add_edge(from, c, c, first + static_cast<uint32_t>((uint64_t{remainder} * 10 + digit) % of));
    };
    nfa.add_edge(nfa.start, '-', '-', minus);
    nfa.add_edge(nfa.start, '0', '0', nfa.accept);
    nfa.add_epsilon(first, nfa.accept);
    for (uint32_t digit = 0; digit < 10; ++digit) {
      if (digit > 0) add_digit(nfa.start, 0, digit), add_digit(minus, 0, digit);
      for (uint32_t r = 0; r < of; ++r) add_digit(first + r, r, digit);
    }
    return determinize(nfa, max_states_, budget_);
  }

 private:
  bool integers_only_;
  size_t max_states_;
  WorkBudget& budget_;
};

Decimal negated(Decimal value) {
  value.is_negative = !value.is_negative && !value.is_zero();
  return value;
}

}  // namespace

Decimal to_decimal(const Json& value) { return decimal_of(value.dump()); }

bool is_less(const Decimal& a, const Decimal& b) {
  if (a.is_negative != b.is_negative) return a.is_negative;
  const int order = compare_magnitudes(a, b);
  return a.is_negative ? order > 0 : order < 0;
}

Decimal least_integer(const Decimal& bound, bool is_exclusive) {
  Decimal out = bound;
  out.fraction.clear();
  const bool moves_up = is_exclusive || !bound.fraction.empty();
  if (!bound.is_negative) {
    if (moves_up) add_one(out.integer);
  } else if (is_exclusive && bound.fraction.empty()) {
    subtract_one(out.integer);
  }
  if (out.is_zero()) out.is_negative = false;
  return out;
}

Decimal largest_integer(const Decimal& bound, bool is_exclusive) {
  return negated(least_integer(negated(bound), is_exclusive));
}

Decimal next_double(const Decimal& bound, bool up) {
  const std::string text =
      (bound.is_negative ? "-" : "") + bound.integer + "." + (bound.fraction.empty() ? "0" : bound.fraction);
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  const double infinity = std::numeric_limits<double>::infinity();
  return to_decimal(Json(std::nextafter(value, up ? infinity : -infinity)));
}

std::optional<Dfa> number_automaton(const NumberBounds& bounds, size_t max_states, WorkBudget& budget) {
  NumberAutomaton make(bounds.integers_only, max_states, budget);
  const Decimal zero;
  std::optional<Dfa> positive, negative;
  if (!bounds.most || !bounds.most->is_negative) {
    const Decimal& least = bounds.least && !bounds.least->is_negative ? *bounds.least : zero;
    positive = make.between(least, bounds.most);
    if (!positive) return std::nullopt;
  }
  if (!bounds.least || bounds.least->is_negative) {
    // The sign turns the bounds around. -0 is no integer's usual form.
    Decimal least = bounds.most && bounds.most->is_negative ? negated(*bounds.most) : zero;
    if (bounds.integers_only && least.is_zero()) least.integer = "1";
    negative = make.between(least, bounds.least ? std::optional(negated(*bounds.least)) : std::nullopt);
    if (!negative) return std::nullopt;
  }
  auto all = make.join(positive.value_or(Dfa{}), negative.value_or(Dfa{}));
  if (!all || bounds.multiple_of < 2) return all;
  const auto multiples = make.multiples(bounds.multiple_of);
  return multiples ? intersect(*all, *multiples, max_states, budget) : std::nullopt;
}

}  // namespace tamis
