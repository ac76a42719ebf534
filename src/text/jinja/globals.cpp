// Global functions: range, dict, namespace, cycler, joiner, and Hugging Face's raise_exception and strftime_now.
#include <algorithm>
#include <limits>

#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/print.h"
#include "text/jinja/strftime.h"

namespace tamis::jinja {
namespace {

using Args = const Arguments&;

constexpr int64_t kMaxRange = 100000;  // the sandbox's MAX_RANGE

Result<Value> range(Interpreter& interpreter, Args args) {
  if (!args.keywords.empty()) return type_error("range() takes no keyword arguments");
  const size_t n = args.positional.size();
  if (n == 0 || n > 3) return type_error(fmt::format("range expected 1 to 3 arguments, got {}", n));
  for (const Value& arg : args.positional) {
    if (arg.is_undefined()) return undefined_error(arg);
    if (!arg.is_integral())
      return type_error(fmt::format("'{}' object cannot be interpreted as an integer", type_name(arg)));
  }
  const int64_t first = n == 1 ? 0 : args.positional[0].as_int(), stop = args.positional[n == 1 ? 0 : 1].as_int();
  const int64_t step = n == 3 ? args.positional[2].as_int() : 1;
  if (step == 0) return fail(ErrorCode::invalid_argument, "range() arg 3 must not be zero");
  Value out = make_range(interpreter.budget(), first, stop, step);
  if (out.object<RangeObject>().n > kMaxRange)
    return fail(ErrorCode::invalid_argument, "Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}).",
                kMaxRange);
  return out;
}

Result<Value> dict(Interpreter& interpreter, Args args) {
  if (args.positional.size() > 1)
    return type_error(fmt::format("dict expected at most 1 argument, got {}", args.positional.size()));
  std::vector<DictObject::Member> members;
  if (!args.positional.empty()) {
    const Value& source = args.positional[0];
    if (source.is(Kind::dict)) {
      members = source.dict().members;
    } else {
      TAMIS_TRY(const std::vector<Value> pairs, interpreter.items(source));
      for (const Value& pair : pairs) {
        TAMIS_TRY(const std::vector<Value> two, interpreter.items(pair));
        if (two.size() != 2) return type_error("dictionary update sequence elements must have length 2");
        members.emplace_back(two[0], two[1]);
      }
    }
  }
  for (const auto& [name, value] : args.keywords)
    members.emplace_back(interpreter.string(std::string_view(name)), value);
  return make_dict(interpreter.budget(), std::move(members));
}

Result<Value> name_space(Interpreter& interpreter, Args args) {
  TAMIS_TRY(Value members, dict(interpreter, args));
  // A dict of its own: members are set in place.
  TAMIS_TRY(Value own, make_dict(interpreter.budget(), members.dict().members));
  return interpreter.new_namespace(std::move(own));
}

Result<Value> cycler(Interpreter& interpreter, Args args) {
  if (!args.keywords.empty()) return type_error("cycler() takes no keyword arguments");
  if (args.positional.empty()) return fail(ErrorCode::invalid_argument, "at least one item has to be provided");
  return interpreter.new_cycler(args.positional);
}

Result<Value> joiner(Interpreter& interpreter, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match("joiner", args, {"sep"}, 0));
  return interpreter.new_joiner(bound.has(0) ? *bound[0] : interpreter.string(", "));
}

Result<Value> lipsum(Interpreter&, Args) {
  return fail(ErrorCode::invalid_argument, "function 'lipsum' is not supported");
}

Result<Value> raise_exception(Interpreter& interpreter, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match("raise_exception", args, {"message"}, 1));
  TAMIS_TRY(const Text message, to_text(interpreter, *bound[0]));
  return fail(ErrorCode::invalid_argument, "{}", escape_for_display(message.bytes, 2000));
}

Result<Value> strftime_now(Interpreter& interpreter, Args args) {
  TAMIS_TRY(const Bound bound, Bound::match("strftime_now", args, {"format"}, 1));
  TAMIS_TRY(const Text* format, bound.string(0));
  if (format == nullptr) return type_error("strftime() argument 1 must be str, not None");
  TAMIS_TRY(const ClockTime now, read_clock(interpreter.clock()));
  TAMIS_TRY_STATUS(interpreter.budget().prepare(format->bytes.size() * 16));
  Text out = Text::plain(format_time(now, format->bytes));
  if (format->has_content()) out.mark_all();
  return interpreter.string(std::move(out));
}

constexpr FunctionRow kFunctions[] = {
    {"cycler", cycler},        {"dict", dict},
    {"joiner", joiner},        {"lipsum", lipsum},
    {"namespace", name_space}, {"raise_exception", raise_exception},
    {"range", range},          {"strftime_now", strftime_now},
};

}  // namespace

const FunctionRow* find_global(std::string_view name) {
  const auto it = std::find_if(std::begin(kFunctions), std::end(kFunctions),
                               [name](const FunctionRow& row) { return row.name == name; });
  return it == std::end(kFunctions) ? nullptr : it;
}

}  // namespace tamis::jinja
