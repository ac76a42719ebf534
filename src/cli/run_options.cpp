// The generation options of `run` as one table: command line, /set and its listing all read it.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "cli/run.h"

namespace tamis::cli {
namespace {

struct NumberRow {
  std::string_view name;  // without dashes
  float Sampling::*real = nullptr;
  int32_t Sampling::*integer = nullptr;
};

constexpr NumberRow kNumbers[] = {
    {"temp", &Sampling::temp},
    {"top-k", nullptr, &Sampling::top_k},
    {"top-p", &Sampling::top_p},
    {"min-p", &Sampling::min_p},
    {"typical", &Sampling::typical_p},
    {"xtc-probability", &Sampling::xtc_probability},
    {"xtc-threshold", &Sampling::xtc_threshold},
    {"repeat-last-n", nullptr, &Sampling::repeat_last_n},
    {"repeat-penalty", &Sampling::repeat_penalty},
    {"frequency-penalty", &Sampling::frequency_penalty},
    {"presence-penalty", &Sampling::presence_penalty},
    {"dry-multiplier", &Sampling::dry_multiplier},
    {"dry-base", &Sampling::dry_base},
    {"dry-allowed-length", nullptr, &Sampling::dry_allowed_length},
    {"dry-penalty-last-n", nullptr, &Sampling::dry_penalty_last_n},
    {"mirostat", nullptr, &Sampling::mirostat},
    {"mirostat-lr", &Sampling::mirostat_lr},
    {"mirostat-ent", &Sampling::mirostat_ent},
};

template <class T>
std::optional<T> parse(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

// "ID+BIAS" or "ID-BIAS", as llama.cpp writes them; "ID-inf" forbids the token.
Result<Sampling::Bias> parse_bias(std::string_view text) {
  const size_t sign = text.find_first_of("+-");
  const auto id = parse<int32_t>(text.substr(0, sign));
  if (sign == std::string_view::npos || !id)
    return fail(ErrorCode::invalid_argument, "--logit-bias: got \"{}\", expected ID+BIAS or ID-BIAS",
                escape_for_display(text));
  const auto bias = parse<float>(text.substr(sign + 1));
  if (!bias || std::isnan(*bias) || *bias < 0)
    return fail(ErrorCode::invalid_argument, "--logit-bias: got \"{}\", expected a number after the sign",
                escape_for_display(text));
  return Sampling::Bias{*id, text[sign] == '-' ? -*bias : *bias};
}

}  // namespace

Status set_option(GenerateOptions& options, std::string_view name, std::string_view value) {
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

std::string option_list(const GenerateOptions& options) {
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

Result<GenerateOptions> generate_options(const Args& args, float temp) {
  GenerateOptions options;
  options.sampling.temp = temp;
  for (const NumberRow& row : kNumbers) {
    const std::string name = fmt::format("--{}", row.name);
    if (args.has(name)) TAMIS_TRY_STATUS(set_option(options, row.name, args.text(name)));
  }
  if (args.has("--seed")) TAMIS_TRY_STATUS(set_option(options, "seed", args.text("--seed")));
  if (args.has("-n")) options.n_predict = args.integer("-n");
  options.stop = args.texts("--stop");
  options.ignore_eos = args.flag("--ignore-eos");
  for (const std::string& text : args.texts("--logit-bias")) {
    TAMIS_TRY(const Sampling::Bias bias, parse_bias(text));
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
      {.names = "--temp",
       .kind = OptionKind::real,
       .value_name = "X",
       .help = "temperature, 0 = always the most probable token; default: 0 for a PROMPT, 0.8 in a chat",
       .minimum = 0},
      {.names = "--stop,-r,--reverse-prompt",
       .kind = OptionKind::text,
       .value_name = "TEXT",
       .help = "end the answer before this text",
       .is_repeatable = true},
      {.names = "--ignore-eos", .help = "never end the answer by itself"},
      {.names = "--logit-bias",
       .kind = OptionKind::text,
       .value_name = "ID±BIAS",
       .help = "add BIAS to a token's logit: 15043+1, 2-inf",
       .is_repeatable = true},
  };
  const std::vector<OptionSpec> numbers = {
      {.names = "--top-k",
       .kind = OptionKind::integer,
       .value_name = "N",
       .help = "choose among the N most probable tokens; 0 = all",
       .default_text = "40"},
      {.names = "--top-p",
       .kind = OptionKind::real,
       .value_name = "P",
       .help = "choose among the most probable tokens that reach P together; 1 = all",
       .default_text = "0.95",
       .minimum = 0,
       .maximum = 1},
      {.names = "--min-p",
       .kind = OptionKind::real,
       .value_name = "P",
       .help = "drop tokens less probable than P times the best; 0 = none",
       .default_text = "0.05",
       .minimum = 0,
       .maximum = 1},
      {.names = "--typical",
       .kind = OptionKind::real,
       .value_name = "P",
       .help = "locally typical sampling; 1 = off",
       .default_text = "1",
       .minimum = 0,
       .maximum = 1},
      {.names = "--xtc-probability",
       .kind = OptionKind::real,
       .value_name = "P",
       .help = "chance to drop the top choices; 0 = off",
       .default_text = "0",
       .minimum = 0,
       .maximum = 1},
      {.names = "--xtc-threshold",
       .kind = OptionKind::real,
       .value_name = "P",
       .help = "which choices XTC drops; above 0.5 = off",
       .default_text = "0.1",
       .minimum = 0},
      {.names = "--repeat-last-n",
       .kind = OptionKind::integer,
       .value_name = "N",
       .help = "tokens the penalties look at; 0 = off, -1 = all",
       .default_text = "64",
       .minimum = -1},
      {.names = "--repeat-penalty",
       .kind = OptionKind::real,
       .value_name = "X",
       .help = "divide the logits of repeated tokens; 1 = off",
       .default_text = "1",
       .minimum = 0},
      {.names = "--frequency-penalty",
       .kind = OptionKind::real,
       .value_name = "X",
       .help = "subtract X times a token's count; 0 = off",
       .default_text = "0"},
      {.names = "--presence-penalty",
       .kind = OptionKind::real,
       .value_name = "X",
       .help = "subtract X from tokens that occurred; 0 = off",
       .default_text = "0"},
      {.names = "--dry-multiplier",
       .kind = OptionKind::real,
       .value_name = "X",
       .help = "penalise repeated sequences (DRY); 0 = off",
       .default_text = "0",
       .minimum = 0},
      {.names = "--dry-base",
       .kind = OptionKind::real,
       .value_name = "X",
       .help = "growth of DRY's penalty with length",
       .default_text = "1.75",
       .minimum = 1},
      {.names = "--dry-allowed-length",
       .kind = OptionKind::integer,
       .value_name = "N",
       .help = "repeats of this length are free",
       .default_text = "2",
       .minimum = 0},
      {.names = "--dry-penalty-last-n",
       .kind = OptionKind::integer,
       .value_name = "N",
       .help = "tokens DRY looks at; 0 = off, -1 = all",
       .default_text = "-1",
       .minimum = -1},
      {.names = "--mirostat",
       .kind = OptionKind::integer,
       .value_name = "N",
       .help = "1 or 2: mirostat in place of the truncations; 0 = off",
       .default_text = "0",
       .minimum = 0,
       .maximum = 2},
      {.names = "--mirostat-lr",
       .kind = OptionKind::real,
       .value_name = "X",
       .help = "mirostat's learning rate",
       .default_text = "0.1",
       .minimum = 0},
      {.names = "--mirostat-ent",
       .kind = OptionKind::real,
       .value_name = "X",
       .help = "mirostat's target surprise, bits",
       .default_text = "5",
       .minimum = 0},
  };
  options.insert(options.end(), numbers.begin(), numbers.end());
  return options;
}

}  // namespace tamis::cli
