// Arithmetic, membership and slices.
#include "text/jinja/operators.h"

#include <algorithm>
#include <cmath>

#include "base/fault.h"
#include "text/jinja/format.h"
#include "text/jinja/interpreter.h"

namespace tamis::jinja {
namespace {

tl::unexpected<Error> overflow() { return fail(ErrorCode::invalid_argument, "integer result does not fit 64 bits"); }

std::string_view symbol(NodeKind op) {
  switch (op) {
    case NodeKind::add: return "+";
    case NodeKind::subtract: return "-";
    case NodeKind::multiply: return "*";
    case NodeKind::divide: return "/";
    case NodeKind::floor_divide: return "//";
    case NodeKind::modulo: return "%";
    default: return "**";
  }
}

tl::unexpected<Error> bad_operands(NodeKind op, const Value& a, const Value& b) {
  if (a.is_undefined()) return undefined_error(a);
  if (b.is_undefined()) return undefined_error(b);
  return type_error(
      fmt::format("unsupported operand type(s) for {}: '{}' and '{}'", symbol(op), type_name(a), type_name(b)));
}

tl::unexpected<Error> zero_division() { return fail(ErrorCode::invalid_argument, "division by zero"); }

Result<Value> integer_power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return fail(ErrorCode::invalid_argument, "0 cannot be raised to a negative power");
    return Value::of(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return overflow();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return overflow();
  }
  return Value::of(result);
}

Result<Value> integer_arithmetic(NodeKind op, int64_t a, int64_t b) {
  int64_t out = 0;
  switch (op) {
    case NodeKind::add:
      if (__builtin_add_overflow(a, b, &out)) return overflow();
      return Value::of(out);
    case NodeKind::subtract:
      if (__builtin_sub_overflow(a, b, &out)) return overflow();
      return Value::of(out);
    case NodeKind::multiply:
      if (__builtin_mul_overflow(a, b, &out)) return overflow();
      return Value::of(out);
    case NodeKind::divide:
      if (b == 0) return zero_division();
      return Value::of(static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b)));
    case NodeKind::floor_divide: {
      TAMIS_TRY(out, floor_divide(a, b));
      return Value::of(out);
    }
    case NodeKind::modulo: {
      TAMIS_TRY(out, floor_modulo(a, b));
      return Value::of(out);
    }
    default: return integer_power(a, b);
  }
}

Result<Value> real_arithmetic(NodeKind op, double a, double b) {
  switch (op) {
    case NodeKind::add: return Value::of(a + b);
    case NodeKind::subtract: return Value::of(a - b);
    case NodeKind::multiply: return Value::of(a * b);
    default: break;
  }
  if (op == NodeKind::power) {
    if (a == 0 && b < 0) return fail(ErrorCode::invalid_argument, "0.0 cannot be raised to a negative power");
    const double power = std::pow(a, b);
    if (std::isnan(power) && !std::isnan(a) && !std::isnan(b)) return type_error("complex numbers are not supported");
    if (std::isinf(power) && std::isfinite(a) && std::isfinite(b))
      return fail(ErrorCode::invalid_argument, "Numerical result out of range");
    return Value::of(power);
  }
  if (b == 0) return zero_division();
  if (op == NodeKind::divide) return Value::of(a / b);
  const double rest = float_modulo(a, b);
  if (op == NodeKind::modulo) return Value::of(rest);
  const double quotient = (a - rest) / b;
  double floored = std::floor(quotient);
  if (quotient - floored > 0.5) floored += 1;
  return Value::of(quotient == 0 ? std::copysign(0.0, a / b) : floored);
}

Result<Value> add_strings(Interpreter& interpreter, const Text& a, const Text& b) {
  TAMIS_TRY_STATUS(interpreter.budget().can_hold(a.bytes.size() + b.bytes.size()));
  TAMIS_TRY_STATUS(interpreter.budget().spend_bytes(a.bytes.size() + b.bytes.size()));
  const bool is_markup = a.is_markup || b.is_markup;
  Text out = is_markup && !a.is_markup ? escape_html(a) : a;
  if (is_markup && !b.is_markup)
    out.append(escape_html(b));
  else
    out.append(b);
  out.is_markup = is_markup;
  return interpreter.string(std::move(out));
}

Result<Value> repeat(Interpreter& interpreter, const Value& value, int64_t times) {
  times = std::max<int64_t>(times, 0);
  const uint64_t n = value.is_string() ? value.bytes().size() : value.items().size();
  uint64_t total = 0;
  if (__builtin_mul_overflow(n, static_cast<uint64_t>(times), &total)) return overflow();
  TAMIS_TRY_STATUS(interpreter.budget().can_hold(value.is_string()         ? total
                                                 : total > UINT64_MAX / 64 ? UINT64_MAX
                                                                           : total * sizeof(Value)));
  TAMIS_TRY_STATUS(interpreter.budget().spend(value.is_string() ? total >> 10 : total >> 4));
  if (n == 0) times = 0;
  if (value.is_string()) {
    Text out;
    out.is_markup = value.text().is_markup;
    for (int64_t i = 0; i < times; ++i) out.append(value.text());
    return interpreter.string(std::move(out));
  }
  std::vector<Value> items;
  for (int64_t i = 0; i < times; ++i) items.insert(items.end(), value.items().begin(), value.items().end());
  return value.is(Kind::list) ? make_list(interpreter.budget(), std::move(items))
                              : make_tuple(interpreter.budget(), std::move(items));
}

bool is_repeatable(const Value& value) { return value.is_string() || value.is(Kind::list) || value.is(Kind::tuple); }

Result<Value> join_sequences(Interpreter& interpreter, const Value& a, const Value& b) {
  TAMIS_TRY_STATUS(interpreter.budget().can_hold((a.items().size() + b.items().size()) * sizeof(Value)));
  TAMIS_TRY_STATUS(interpreter.budget().spend((a.items().size() + b.items().size()) >> 4));
  std::vector<Value> items = a.items();
  items.insert(items.end(), b.items().begin(), b.items().end());
  return a.is(Kind::list) ? make_list(interpreter.budget(), std::move(items))
                          : make_tuple(interpreter.budget(), std::move(items));
}

}  // namespace

Result<int64_t> floor_divide(int64_t a, int64_t b) {
  if (b == 0) return zero_division();
  if (b == -1 && a == INT64_MIN) return overflow();
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

Result<int64_t> floor_modulo(int64_t a, int64_t b) {
  if (b == 0) return fail(ErrorCode::invalid_argument, "integer modulo by zero");
  if (b == -1) return 0;
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

double float_modulo(double a, double b) {
  double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

Result<Value> arithmetic(Interpreter& interpreter, NodeKind op, const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return integer_arithmetic(op, a.as_int(), b.as_int());
  if (a.is_number() && b.is_number()) return real_arithmetic(op, a.as_double(), b.as_double());
  if (a.is(Kind::wide_integer) || b.is(Kind::wide_integer)) return overflow();
  if (op == NodeKind::modulo && a.is_string()) return format_percent(interpreter, a.text(), b);
  if (op == NodeKind::add && a.is_string() && b.is_string()) return add_strings(interpreter, a.text(), b.text());
  if (op == NodeKind::add && a.kind() == b.kind() && is_repeatable(a)) return join_sequences(interpreter, a, b);
  if (op == NodeKind::multiply && is_repeatable(a) && b.is_integral()) return repeat(interpreter, a, b.as_int());
  if (op == NodeKind::multiply && is_repeatable(b) && a.is_integral()) return repeat(interpreter, b, a.as_int());
  return bad_operands(op, a, b);
}

Result<Value> negated(const Value& value) {
  if (value.is(Kind::real)) return Value::of(-value.as_double());
  if (!value.is_integral()) {
    if (value.is_undefined()) return undefined_error(value);
    return type_error(fmt::format("bad operand type for unary -: '{}'", type_name(value)));
  }
  int64_t out = 0;
  if (__builtin_sub_overflow(int64_t{0}, value.as_int(), &out)) return overflow();
  return Value::of(out);
}

Result<bool> contains(Interpreter& interpreter, const Value& container, const Value& item) {
  if (container.is_string()) {
    if (!item.is_string())
      return type_error(fmt::format("'in <string>' requires string as left operand, not {}", type_name(item)));
    TAMIS_TRY_STATUS(interpreter.budget().spend_bytes(container.bytes().size()));
    return find_bytes(container.bytes(), item.bytes()) != std::string_view::npos;
  }
  const bool is_keys = container.is(Kind::view) && container.object<ViewObject>().what == ViewObject::What::keys;
  if (container.is(Kind::dict) || is_keys) {
    if (!is_hashable(item)) return type_error(fmt::format("unhashable type: '{}'", type_name(item)));
    const Value& dict = is_keys ? container.object<ViewObject>().dict : container;
    return dict.dict().find(item) != nullptr;
  }
  if (container.is(Kind::range) && item.is_integral()) {
    const RangeObject& range = container.object<RangeObject>();
    const __int128 distance = static_cast<__int128>(item.as_int()) - range.first;
    return distance % range.step == 0 && distance / range.step >= 0 && distance / range.step < range.n;
  }
  TAMIS_TRY(const Sequence all, interpreter.sequence(container));
  TAMIS_TRY_STATUS(interpreter.budget().spend(static_cast<uint64_t>(all.n) >> 4));
  for (int64_t i = 0; i < all.n; ++i)
    if (is_equal(all.item(interpreter.budget(), i), item)) return true;
  return false;
}

Result<bool> compare(Interpreter& interpreter, CompareOp op, const Value& a, const Value& b) {
  switch (op) {
    case CompareOp::eq: return is_equal(a, b);
    case CompareOp::ne: return !is_equal(a, b);
    case CompareOp::in: return contains(interpreter, b, a);
    case CompareOp::not_in: {
      TAMIS_TRY(const bool is_in, contains(interpreter, b, a));
      return !is_in;
    }
    default: break;
  }
  const bool swaps = op == CompareOp::gt || op == CompareOp::le;
  TAMIS_TRY(const bool less, swaps ? is_less(b, a) : is_less(a, b));
  if (op == CompareOp::lt || op == CompareOp::gt) return less;
  const bool is_nan =
      (a.is(Kind::real) && std::isnan(a.as_double())) || (b.is(Kind::real) && std::isnan(b.as_double()));
  return !less && !is_nan;
}

Result<SliceBounds> slice_bounds(int64_t length, const Value* start, const Value* stop, const Value* step) {
  for (const Value* part : {start, stop, step}) {
    if (part == nullptr || part->is_none() || part->is_integral()) continue;
    return type_error("slice indices must be integers or None or have an __index__ method");
  }
  const auto given = [](const Value* part) { return part != nullptr && !part->is_none(); };
  const int64_t by = given(step) ? step->as_int() : 1;
  if (by == 0) return fail(ErrorCode::invalid_argument, "slice step cannot be zero");
  const int64_t low = by > 0 ? 0 : -1, high = by > 0 ? length : length - 1;
  const auto clamp = [&](const Value* part, int64_t otherwise) {
    if (!given(part)) return otherwise;
    int64_t at = part->as_int();
    if (at < 0) at = at < -length ? low : at + length;
    return TAMIS_CHECKED(16, at < low || at > high) ? std::clamp(at, low, high) : at;
  };
  const int64_t begin = clamp(start, by > 0 ? low : high), end = clamp(stop, by > 0 ? high : low);
  const __int128 distance = static_cast<__int128>(end) - begin;
  const __int128 n =
      by > 0 ? (distance + by - 1) / by : (-distance - static_cast<__int128>(by) - 1) / -static_cast<__int128>(by);
  const bool is_empty = by > 0 ? distance <= 0 : distance >= 0;
  return SliceBounds{begin, is_empty ? 0 : static_cast<int64_t>(n), by, end};
}

namespace {

Value slice_string(Interpreter& interpreter, const Text& text, const SliceBounds& bounds) {
  Text out;
  out.is_markup = text.is_markup;
  const bool is_plain = is_ascii(text.bytes);
  const std::vector<size_t> offsets = is_plain ? std::vector<size_t>{} : char_offsets(text.bytes);
  const auto offset = [&](int64_t i) { return is_plain ? static_cast<size_t>(i) : offsets[static_cast<size_t>(i)]; };
  if (bounds.step == 1 && bounds.n > 0) {
    out.append(text, offset(bounds.begin), offset(bounds.begin + bounds.n));
  } else {
    for (int64_t i = 0; i < bounds.n; ++i) {
      const int64_t at = bounds.begin + i * bounds.step;
      out.append(text, offset(at), offset(at + 1));
    }
  }
  return interpreter.string(std::move(out));
}

}  // namespace

Result<Value> slice(Interpreter& interpreter, const Value& sequence, const Value* start, const Value* stop,
                    const Value* step) {
  if (sequence.is_undefined()) return undefined_error(sequence);
  const bool can_slice =
      sequence.is_string() || sequence.is(Kind::list) || sequence.is(Kind::tuple) || sequence.is(Kind::range);
  int64_t length = 0;
  if (!can_slice || !length_of(sequence, length))
    return type_error(fmt::format("'{}' object cannot be sliced", type_name(sequence)));
  TAMIS_TRY(const SliceBounds bounds, slice_bounds(length, start, stop, step));
  if (sequence.is_string()) {
    TAMIS_TRY_STATUS(interpreter.budget().spend_chars(sequence.bytes().size()));
    return slice_string(interpreter, sequence.text(), bounds);
  }
  if (sequence.is(Kind::range)) {
    const RangeObject& range = sequence.object<RangeObject>();
    const int64_t by = bounds.n == 1 ? (range.step > 0) == (bounds.step > 0) ? 1 : -1 : range.step * bounds.step;
    int64_t first = 0, after = 0;
    if (__builtin_mul_overflow(bounds.begin, range.step, &first) ||
        __builtin_add_overflow(first, range.first, &first) || __builtin_mul_overflow(bounds.end, range.step, &after) ||
        __builtin_add_overflow(after, range.first, &after))
      return overflow();
    return make_range(interpreter.budget(), first, after, by);
  }
  TAMIS_TRY_STATUS(interpreter.budget().spend(static_cast<uint64_t>(bounds.n) >> 4));
  std::vector<Value> items;
  for (int64_t i = 0; i < bounds.n; ++i)
    items.push_back(sequence.items()[static_cast<size_t>(bounds.begin + i * bounds.step)]);
  return sequence.is(Kind::list) ? make_list(interpreter.budget(), std::move(items))
                                 : make_tuple(interpreter.budget(), std::move(items));
}

}  // namespace tamis::jinja
