// The argument parser: words are matched to the verb's tables, values checked when they are read.
#include "cli/parse.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/topology.h"
#include "cli/config_file.h"

namespace tamis::cli {
namespace {

bool has_name(const OptionSpec& option, std::string_view name) {
  for (std::string_view own : option_names(option))
    if (own == name) return true;
  return false;
}

bool is_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

template <class T>
Result<T> to_number(std::string_view text, std::string_view name, std::string_view kind) {
  std::string_view digits = text;
  if (digits.starts_with('+')) digits.remove_prefix(1);
  T value{};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool is_whole = end == digits.data() + digits.size() && !digits.empty();
  if (error == std::errc::result_out_of_range && is_whole)
    return fail(ErrorCode::invalid_argument, "{}: got {}, which is out of range", name, escape_for_display(text));
  if (error != std::errc() || !is_whole)
    return fail(ErrorCode::invalid_argument, "{}: got \"{}\", expected {}", name, escape_for_display(text), kind);
  return value;
}

std::string range_text(const OptionSpec& option) {
  if (std::isinf(option.maximum)) return fmt::format("at least {}", option.minimum);
  if (std::isinf(option.minimum)) return fmt::format("at most {}", option.maximum);
  return fmt::format("{} to {}", option.minimum, option.maximum);
}

Status check_choice(const std::vector<std::string_view>& choices, std::string_view value, std::string_view name) {
  if (choices.empty() || std::find(choices.begin(), choices.end(), value) != choices.end()) return {};
  std::string list;
  for (std::string_view choice : choices) list += fmt::format("{}{}", list.empty() ? "" : ", ", choice);
  return fail(ErrorCode::invalid_argument, "{}: got \"{}\", expected one of {}", name, escape_for_display(value), list);
}

Status check_value(const OptionSpec& option, std::string_view value, std::string_view name) {
  TAMIS_TRY_STATUS(check_choice(option.choices, value, name));
  double number = 0;
  if (option.kind == OptionKind::integer) {
    TAMIS_TRY(const int64_t whole, to_number<int64_t>(value, name, "a whole number"));
    number = static_cast<double>(whole);
  } else if (option.kind == OptionKind::real) {
    TAMIS_TRY(number, to_number<double>(value, name, "a number"));
    if (!std::isfinite(number))
      return fail(ErrorCode::invalid_argument, "{}: got {}, expected a finite number", name, value);
  } else {
    return {};
  }
  if (number < option.minimum || number > option.maximum)
    return fail(ErrorCode::invalid_argument, "{}: got {}, expected {}", name, value, range_text(option));
  return {};
}

tl::unexpected<Error> unknown_option(const Verb& verb, std::string_view name) {
  std::vector<std::string_view> names;
  for (const OptionSpec& option : verb.options)
    for (std::string_view own : option_names(option)) names.push_back(own);
  const std::string_view near = nearest(name, names);
  return fail(ErrorCode::invalid_argument, "unknown option {}{} (see tamis {} --help)", escape_for_display(name),
              near.empty() ? std::string() : fmt::format("; did you mean {}?", near), verb.name);
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

}  // namespace

class ArgsBuilder {
 public:
  explicit ArgsBuilder(const Verb& verb) : verb_(verb) {
    for (const OptionSpec& option : verb.options) args_.entries_.push_back({&option, option.names, {}, false});
    for (const PositionalSpec& positional : verb.positionals)
      args_.entries_.push_back({nullptr, positional.name, {}, false});
  }

  Result<Args> build(std::span<const std::string> arguments) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      const std::string& word = arguments[i];
      if (!are_options_over_ && word == "--") {
        are_options_over_ = true;
      } else if (!are_options_over_ && looks_like_option(word)) {
        TAMIS_TRY(i, take_option(arguments, i));
      } else {
        TAMIS_TRY_STATUS(take_positional(word));
      }
    }
    TAMIS_TRY_STATUS(take_config_file());
    TAMIS_TRY_STATUS(finish());
    return std::move(args_);
  }

 private:
  Args::Entry* find(std::string_view name) {
    for (Args::Entry& entry : args_.entries_)
      if (entry.option != nullptr && has_name(*entry.option, name)) return &entry;
    return nullptr;
  }

  bool looks_like_option(std::string_view word) {
    if (word.size() < 2 || word[0] != '-') return false;
    return !is_number(word) || find(word) != nullptr;
  }

  // Returns the index of the last argument used.
  Result<size_t> take_option(std::span<const std::string> arguments, size_t i) {
    const std::string_view word = arguments[i];
    const size_t equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    Args::Entry* entry = find(name);
    if (entry == nullptr) return unknown_option(verb_, name);
    const OptionSpec& option = *entry->option;
    if (entry->is_given && !option.is_repeatable && option.kind != OptionKind::flag)
      return fail(ErrorCode::invalid_argument, "{}: given twice", name);
    entry->is_given = true;
    if (option.kind == OptionKind::flag) {
      if (equals != std::string_view::npos) return fail(ErrorCode::invalid_argument, "{} takes no value", name);
      entry->values.push_back("");
      return i;
    }
    std::string_view value;
    if (equals != std::string_view::npos) {
      value = word.substr(equals + 1);
    } else if (option.is_value_optional && !may_take_next(arguments, i)) {
      return i;
    } else if (i + 1 < arguments.size()) {
      value = arguments[++i];
    } else {
      return fail(ErrorCode::invalid_argument, "{} needs a value: {}", name, option.value_name);
    }
    TAMIS_TRY_STATUS(check_value(option, value, name));
    entry->values.emplace_back(value);
    return i;
  }

  // Whether the word after an option with optional value can be that value: it is no option, and enough words that are
  // neither options nor values of options come after it for the required positionals still missing.
  bool may_take_next(std::span<const std::string> arguments, size_t i) {
    if (i + 1 >= arguments.size() || looks_like_option(arguments[i + 1])) return false;
    size_t n_needed = 0, n_later = 0;
    for (size_t k = position_; k < verb_.positionals.size(); ++k) n_needed += verb_.positionals[k].is_required;
    for (size_t k = i + 2; k < arguments.size(); ++k) {
      if (!looks_like_option(arguments[k])) {
        ++n_later;
      } else if (const Args::Entry* entry = find(arguments[k]);
                 entry != nullptr && entry->option->kind != OptionKind::flag) {
        ++k;
      }
    }
    return n_later >= n_needed;
  }

  Status take_positional(const std::string& word) {
    const size_t first = verb_.options.size();
    if (position_ >= verb_.positionals.size()) {
      if (position_ > 0 && verb_.positionals[position_ - 1].is_repeatable) {
        --position_;
      } else {
        return fail(ErrorCode::invalid_argument, "unexpected argument \"{}\" (see tamis {} --help)",
                    escape_for_display(word), verb_.name);
      }
    }
    const PositionalSpec& positional = verb_.positionals[position_];
    TAMIS_TRY_STATUS(check_choice(positional.choices, word, positional.name));
    Args::Entry& entry = args_.entries_[first + position_];
    entry.values.push_back(word);
    entry.is_given = true;
    ++position_;
    return {};
  }

  // What the command line does not say, the file of --config may.
  Status take_config_file() {
    const Args::Entry* const config = find("--config");
    if (config == nullptr || !config->is_given) return {};
    const std::string path = config->values.back();
    TAMIS_TRY(const std::vector<Setting> settings, read_config_file(path));
    std::vector<const Args::Entry*> of_command_line;
    for (const Args::Entry& entry : args_.entries_)
      if (entry.is_given) of_command_line.push_back(&entry);
    for (const Setting& setting : settings) {
      auto taken = take_setting(setting, of_command_line);
      if (!taken) return fail(taken.error().code, "{}: line {}: {}", path, setting.line_number, taken.error().message);
    }
    return {};
  }

  Status take_setting(const Setting& setting, const std::vector<const Args::Entry*>& of_command_line) {
    const std::string name = (setting.name.size() == 1 ? "-" : "--") + setting.name;
    Args::Entry* entry = find(name);
    if (entry == nullptr) entry = find("-" + setting.name);  // -np, -ctk
    if (entry == nullptr || entry == find("--config") || entry == find("--help")) return unknown_option(verb_, name);
    if (std::find(of_command_line.begin(), of_command_line.end(), entry) != of_command_line.end()) return {};
    const OptionSpec& option = *entry->option;
    if (entry->is_given && !option.is_repeatable) return fail(ErrorCode::invalid_argument, "{}: given twice", name);
    if (option.kind == OptionKind::flag) {
      if (setting.value != "true" && setting.value != "false")
        return fail(ErrorCode::invalid_argument, "{}: got \"{}\", expected true or false", name,
                    escape_for_display(setting.value));
      if (setting.value == "false") return {};
      entry->values.push_back("");
    } else {
      TAMIS_TRY_STATUS(check_value(option, setting.value, name));
      entry->values.push_back(setting.value);
    }
    entry->is_given = true;
    return {};
  }

  Status finish() {
    const Args::Entry* help = find("--help");
    const bool wants_help = help != nullptr && help->is_given;
    for (size_t i = 0; i < verb_.positionals.size(); ++i) {
      const PositionalSpec& positional = verb_.positionals[i];
      if (positional.is_required && !args_.entries_[verb_.options.size() + i].is_given && !wants_help)
        return fail(ErrorCode::invalid_argument, "{} is missing (see tamis {} --help)", positional.name, verb_.name);
    }
    for (Args::Entry& entry : args_.entries_)
      if (entry.option != nullptr && !entry.is_given && !entry.option->default_text.empty())
        entry.values.emplace_back(entry.option->default_text);
    if (Args::Entry* threads = find("--threads"); threads != nullptr && threads->values.empty())
      threads->values.push_back(std::to_string(read_topology().n_usable));
    return {};
  }

  const Verb& verb_;
  Args args_;
  size_t position_ = 0;
  bool are_options_over_ = false;
};

Result<Args> parse_args(const Verb& verb, std::span<const std::string> arguments) {
  auto args = ArgsBuilder(verb).build(arguments);
  if (!args) args.error().message = fmt::format("{}: {}", verb.name, args.error().message);
  return args;
}

const std::vector<OptionSpec>& common_options() {
  static const std::vector<OptionSpec> options = {
      {.names = "--json", .help = "print one JSON object, or one a line for streams; errors too"},
      {.names = "-q,--quiet", .help = "no warnings, no progress"},
      {.names = "-v,--verbose", .help = "say more on stderr; twice for everything", .is_repeatable = true},
      {.names = "--color",
       .kind = OptionKind::text,
       .value_name = "WHEN",
       .help = "colours in the result; auto = on a terminal, unless NO_COLOR is set",
       .default_text = "auto",
       .choices = {"auto", "always", "never"}},
      {.names = "-t,--threads",
       .kind = OptionKind::integer,
       .value_name = "N",
       .help = "threads to use; default: the physical cores this process may use",
       .minimum = 1,
       .maximum = 4096},
      {.names = "--no-progress", .help = "no progress bar"},
      {.names = "-h,--help", .help = "show this help"},
  };
  return options;
}

bool is_common_option(const OptionSpec& option) {
  for (const OptionSpec& common : common_options())
    if (common.names == option.names && common.help == option.help) return true;
  return false;
}

std::vector<std::string_view> option_names(const OptionSpec& option) {
  std::vector<std::string_view> names;
  std::string_view rest = option.names;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    names.push_back(rest.substr(0, comma));
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  }
  return names;
}

std::string_view nearest(std::string_view word, const std::vector<std::string_view>& candidates) {
  std::string_view best;
  size_t best_distance = 3;
  if (word.size() > 64) return best;
  for (std::string_view candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance && distance <= (word.size() < 6 ? 1 : 2)) {
      best = candidate;
      best_distance = distance;
    }
  }
  if (!best.empty() || word.size() < 4) return best;
  for (std::string_view candidate : candidates)
    if (candidate.starts_with(word)) return candidate;
  return best;
}

const Args::Entry& Args::entry(std::string_view name) const {
  for (const Entry& entry : entries_) {
    if (entry.option == nullptr ? entry.name == name : has_name(*entry.option, name)) return entry;
  }
  check_failed("the verb's table has this option", std::string(name).c_str(), 0);
}

bool Args::has(std::string_view name) const { return entry(name).is_given; }
bool Args::flag(std::string_view name) const { return entry(name).is_given; }

std::string Args::text(std::string_view name) const {
  const Entry& found = entry(name);
  return found.values.empty() ? std::string() : found.values.back();
}

int64_t Args::integer(std::string_view name) const {
  const Entry& found = entry(name);
  TAMIS_CHECK(!found.values.empty());
  const auto value = to_number<int64_t>(found.values.back(), name, "a whole number");
  TAMIS_CHECK(value.has_value());
  return *value;
}

double Args::real(std::string_view name) const {
  const Entry& found = entry(name);
  TAMIS_CHECK(!found.values.empty());
  const auto value = to_number<double>(found.values.back(), name, "a number");
  TAMIS_CHECK(value.has_value());
  return *value;
}

std::vector<std::string> Args::texts(std::string_view name) const { return entry(name).values; }

std::vector<OptionSpec> operator+(std::vector<OptionSpec> a, const std::vector<OptionSpec>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace tamis::cli
