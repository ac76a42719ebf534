// The generation options of `run` as one table: command line, /set and its listing all read it.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "base/file.h"
#include "base/limits.h"
#include "cli/run.h"

namespace tamis::cli {
namespace {

struct NumberRow {
  std::string_view name;  // without dashes
  float api::Sampling::*real;
  int32_t api::Sampling::*integer;  // one of the two is null
  double minimum, maximum;
  std::string_view value_name, default_text, help;
};

using S = api::Sampling;
constexpr double kAny = std::numeric_limits<double>::infinity();
constexpr NumberRow kNumbers[] = {
    {"temp", &S::temp, nullptr, 0, kAny, "X", "",
     "temperature, 0 = always the most probable token; default: 0 for a PROMPT, 0.8 in a chat"},
    {"top-k", nullptr, &S::top_k, -kAny, kAny, "N", "40", "choose among the N most probable tokens; 0 = all"},
    {"top-p", &S::top_p, nullptr, 0, 1, "P", "0.95",
     "choose among the most probable tokens that reach P together; 1 = all"},
    {"min-p", &S::min_p, nullptr, 0, 1, "P", "0.05", "drop tokens less probable than P times the best; 0 = none"},
    {"typical", &S::typical_p, nullptr, 0, 1, "P", "1", "locally typical sampling; 1 = off"},
    {"xtc-probability", &S::xtc_probability, nullptr, 0, 1, "P", "0", "chance to drop the top choices; 0 = off"},
    {"xtc-threshold", &S::xtc_threshold, nullptr, 0, 1, "P", "0.1", "which choices XTC drops; above 0.5 = off"},
    {"repeat-last-n", nullptr, &S::repeat_last_n, -1, kAny, "N", "64",
     "tokens the penalties look at; 0 = off, -1 = all"},
    {"repeat-penalty", &S::repeat_penalty, nullptr, 0, kAny, "X", "1", "divide the logits of repeated tokens; 1 = off"},
    {"frequency-penalty", &S::frequency_penalty, nullptr, -kAny, kAny, "X", "0",
     "subtract X times a token's count; 0 = off"},
    {"presence-penalty", &S::presence_penalty, nullptr, -kAny, kAny, "X", "0",
     "subtract X from tokens that occurred; 0 = off"},
    {"dry-multiplier", &S::dry_multiplier, nullptr, 0, kAny, "X", "0", "penalise repeated sequences (DRY); 0 = off"},
    {"dry-base", &S::dry_base, nullptr, 1, kAny, "X", "1.75", "growth of DRY's penalty with length"},
    {"dry-allowed-length", nullptr, &S::dry_allowed_length, 0, kAny, "N", "2", "repeats of this length are free"},
    {"dry-penalty-last-n", nullptr, &S::dry_penalty_last_n, -1, kAny, "N", "-1",
     "tokens DRY looks at; 0 = off, -1 = all"},
    {"mirostat", nullptr, &S::mirostat, 0, 2, "N", "0", "1 or 2: mirostat in place of the truncations; 0 = off"},
    {"mirostat-lr", &S::mirostat_lr, nullptr, 0, kAny, "X", "0.1", "mirostat's learning rate"},
    {"mirostat-ent", &S::mirostat_ent, nullptr, 0, kAny, "X", "5", "mirostat's target surprise, bits"},
};

// The option names with their dashes, for tables that hold views.
std::string_view option_name(const NumberRow& row) {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (const NumberRow& each : kNumbers) out.push_back(fmt::format("--{}", each.name));
    return out;
  }();
  return names[static_cast<size_t>(&row - kNumbers)];
}

template <class T>
std::optional<T> parse(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

// "ID+BIAS" or "ID-BIAS", as llama.cpp writes them; "ID-inf" forbids the token.
Result<api::Sampling::Bias> parse_bias(std::string_view text) {
  const size_t sign = text.find_first_of("+-");
  const auto id = parse<int32_t>(text.substr(0, sign));
  if (sign == std::string_view::npos || !id)
    return fail(ErrorCode::invalid_argument, "--logit-bias: got \"{}\", expected ID+BIAS or ID-BIAS",
                escape_for_display(text));
  const auto bias = parse<float>(text.substr(sign + 1));
  if (!bias || std::isnan(*bias) || *bias < 0)
    return fail(ErrorCode::invalid_argument, "--logit-bias: got \"{}\", expected a number after the sign",
                escape_for_display(text));
  return api::Sampling::Bias{*id, text[sign] == '-' ? -*bias : *bias};
}

}  // namespace

Status set_option(api::GenerateOptions& options, std::string_view name, std::string_view value) {
  const auto bad = [&] {
    return fail(ErrorCode::invalid_argument, "{}: got \"{}\", expected a number", escape_for_display(name),
                escape_for_display(value));
  };
  for (const NumberRow& row : kNumbers) {
    if (row.name != name) continue;
    if (row.real != nullptr) {
      const auto number = parse<float>(value);
      if (!number || !std::isfinite(*number)) return bad();
      options.sampling.*row.real = *number;
    } else {
      const auto number = parse<int32_t>(value);
      if (!number) return bad();
      options.sampling.*row.integer = *number;
    }
    return {};
  }
  if (name == "seed" || name == "n-predict") {
    const auto number = parse<int64_t>(value);
    if (!number) return bad();
    if (name == "n-predict") {
      options.n_predict = *number;
    } else if (*number < 0) {
      options.sampling.seed.reset();
    } else {
      options.sampling.seed = static_cast<uint64_t>(*number);
    }
    return {};
  }
  return fail(ErrorCode::invalid_argument, "\"{}\" is no setting; /set lists them", escape_for_display(name));
}

std::string option_list(const api::GenerateOptions& options) {
  std::string out;
  for (const NumberRow& row : kNumbers) {
    if (row.real != nullptr) {
      out += fmt::format("  {} {}\n", row.name, options.sampling.*row.real);
    } else {
      out += fmt::format("  {} {}\n", row.name, options.sampling.*row.integer);
    }
  }
  out += fmt::format("  n-predict {}\n", options.n_predict);
  out +=
      options.sampling.seed ? fmt::format("  seed {}\n", *options.sampling.seed) : "  seed -1 (another every time)\n";
  return out;
}

namespace {

// One of --grammar, --grammar-file, --json-schema, --regex.
Status set_form(const Args& args, api::GenerateOptions& options) {
  constexpr std::pair<std::string_view, api::AnswerForm> kForms[] = {{"--grammar", api::AnswerForm::grammar},
                                                                     {"--grammar-file", api::AnswerForm::grammar},
                                                                     {"-j", api::AnswerForm::json_schema},
                                                                     {"--regex", api::AnswerForm::regex}};
  for (const auto& [name, form] : kForms) {
    if (!args.has(name)) continue;
    if (options.form != api::AnswerForm::any)
      return fail(ErrorCode::invalid_argument, "{}: an answer has one form, and another option gave one", name);
    options.form = form;
    options.form_text = args.text(name);
    const bool is_file = name == "--grammar-file" || (name == "-j" && options.form_text.starts_with('@'));
    if (!is_file) continue;
    const std::string path = options.form_text.substr(name == "-j" ? 1 : 0);
    TAMIS_TRY(options.form_text, read_text_file(path, Limits{}.grammar_bytes));
  }
  return {};
}

}  // namespace

Result<api::GenerateOptions> generate_options(const Args& args, float temp) {
  api::GenerateOptions options;
  options.sampling.temp = temp;
  for (const NumberRow& row : kNumbers) {
    const std::string_view name = option_name(row);
    if (args.has(name)) TAMIS_TRY_STATUS(set_option(options, row.name, args.text(name)));
  }
  if (args.has("--seed")) TAMIS_TRY_STATUS(set_option(options, "seed", args.text("--seed")));
  if (args.has("-n")) options.n_predict = args.integer("-n");
  options.stop = args.texts("--stop");
  options.ignore_eos = args.flag("--ignore-eos");
  options.has_speculation = args.text("--spec") != "off" && !args.has("--trace-tensors");
  TAMIS_TRY_STATUS(set_form(args, options));
  for (const std::string& text : args.texts("--logit-bias")) {
    TAMIS_TRY(const api::Sampling::Bias bias, parse_bias(text));
    options.sampling.logit_bias.push_back(bias);
  }
  return options;
}

std::vector<OptionSpec> generate_option_specs() {
  std::vector<OptionSpec> options = {
      {.names = "-n,--predict,--n-predict",
       .kind = OptionKind::integer,
       .value_name = "N",
       .help = "tokens at most; -1: until the model ends or the context is full",
       .default_text = "-1",
       .minimum = -2},
      {.names = "-s,--seed",
       .kind = OptionKind::integer,
       .value_name = "N",
       .help = "start of the random numbers; -1: another every time",
       .minimum = -1},
      {.names = "-r,--stop,--reverse-prompt",
       .kind = OptionKind::text,
       .value_name = "TEXT",
       .help = "end the answer before this text",
       .is_repeatable = true},
      {.names = "--grammar",
       .kind = OptionKind::text,
       .value_name = "GBNF",
       .help = "the answer is what a grammar (llama.cpp's dialect) describes"},
      {.names = "--grammar-file", .kind = OptionKind::text, .value_name = "FILE", .help = "the same, from a file"},
      {.names = "-j,--json-schema",
       .kind = OptionKind::text,
       .value_name = "SCHEMA",
       .help = "the answer is JSON that a JSON Schema accepts; @FILE reads it from a file, {} is any JSON"},
      {.names = "--regex",
       .kind = OptionKind::text,
       .value_name = "PATTERN",
       .help = "the whole answer matches a regular expression"},
      {.names = "--spec",
       .kind = OptionKind::text,
       .value_name = "KIND",
       .help = "guess tokens from the text so far (ngram), which saves time where it repeats itself and changes no "
               "answer; off: do not",
       .default_text = "ngram",
       .choices = {"ngram", "off"}},
      {.names = "--ignore-eos", .help = "never end the answer by itself"},
      {.names = "--logit-bias",
       .kind = OptionKind::text,
       .value_name = "ID±BIAS",
       .help = "add BIAS to a token's logit: 15043+1, 2-inf",
       .is_repeatable = true},
  };
  for (const NumberRow& row : kNumbers) {
    options.push_back({.names = option_name(row),
                       .kind = row.real != nullptr ? OptionKind::real : OptionKind::integer,
                       .value_name = row.value_name,
                       .help = row.help,
                       .default_text = row.default_text,
                       .minimum = row.minimum,
                       .maximum = row.maximum});
  }
  return options;
}

}  // namespace tamis::cli
