// `tamis bench serve SCENARIO --url URL`: a load generator for servers that speak OpenAI's API.
#include <charconv>

#include "base/file.h"
#include "cli/interrupt.h"
#include "cli/load_report.h"
#include "cli/load_scenarios.h"
#include "cli/verb.h"
#include "server/http.h"

namespace tamis::cli {
namespace {

constexpr uint64_t kMaxKeyFileBytes = uint64_t{1} << 20;

// "512" or "64-512".
Result<std::optional<TokenRange>> token_range(const Args& args, std::string_view name) {
  if (!args.has(name)) return std::optional<TokenRange>();
  const std::string text = args.text(name);
  const size_t dash = text.find('-');
  TokenRange range;
  const auto read = [&](std::string_view word, uint64_t& value) {
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    return error == std::errc() && end == word.data() + word.size() && value >= 1 && value <= 1000000;
  };
  const std::string_view words = text;
  const bool is_read = read(words.substr(0, dash), range.low) &&
                       read(dash == std::string::npos ? words : words.substr(dash + 1), range.high);
  if (!is_read || range.low > range.high)
    return fail(ErrorCode::invalid_argument, "{}: got \"{}\", expected tokens such as 512 or 64-512", name,
                escape_for_display(text));
  return std::optional(range);
}

Result<std::vector<std::string>> read_keys(const Args& args) {
  std::vector<std::string> keys;
  if (!args.has("--api-key-file")) return keys;
  TAMIS_TRY(const std::string text, read_text_file(args.text("--api-key-file"), kMaxKeyFileBytes));
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty() && line[0] != '#') keys.push_back(std::move(line));
    at = end + 1;
  }
  return keys;
}

Result<LoadOptions> read_options(const Args& args) {
  LoadOptions options;
  options.is_chat = args.text("--endpoint") == "chat";
  options.seed = static_cast<uint64_t>(args.integer("--seed"));
  options.slo = {args.real("--slo-ttft-ms") / 1e3, args.real("--slo-tpot-ms") / 1e3};
  options.share = args.real("--slo-share");
  if (args.has("--rate")) options.rate = args.real("--rate");
  if (args.has("--clients")) options.n_clients = static_cast<uint32_t>(args.integer("--clients"));
  if (args.has("--requests")) options.n_requests = static_cast<uint32_t>(args.integer("--requests"));
  TAMIS_TRY(options.prompt, token_range(args, "--prompt-tokens"));
  TAMIS_TRY(options.output, token_range(args, "--output-tokens"));
  TAMIS_TRY(options.keys, read_keys(args));
  return options;
}

// The first model that the server lists, unless --model says.
Result<std::string> model_name(const Args& args, LoadClient& client, const std::string& key) {
  if (args.has("--model")) return args.text("--model");
  TAMIS_TRY(const Json list, client.get("/v1/models", key, stop_flag()));
  const Json* data = list.find("data");
  if (data != nullptr && data->is_array() && !data->as_array().empty()) {
    const Json* id = data->as_array().front().find("id");
    if (id != nullptr && id->is_string()) return id->as_string();
  }
  return fail(ErrorCode::network, "/v1/models lists no model; give --model NAME");
}

Result<int> run_bench_serve(const Args& args) {
  TAMIS_TRY(LoadOptions options, read_options(args));
  if (!args.has("--url")) return fail(ErrorCode::invalid_argument, "--url is missing: http://HOST:PORT of the server");
  auto target = parse_load_url(args.text("--url"));
  if (!target) return fail(target.error().code, "--url: {}", target.error().message);
  TAMIS_TRY_STATUS(check_scenario(args.text("SCENARIO")));
  server::raise_descriptor_limit();
  TAMIS_TRY(const std::unique_ptr<LoadClient> client, LoadClient::create(*target, args.real("--timeout")));
  TAMIS_TRY(options.model, model_name(args, *client, options.keys.empty() ? "" : options.keys[0]));
  TAMIS_TRY(const LoadReport report, run_scenario(args.text("SCENARIO"), *client, options, stop_flag()));
  if (args.has("--trace"))
    TAMIS_TRY_STATUS(write_text_file(args.text("--trace"), trace_lines(report), args.flag("--force")));
  if (!args.flag("--json")) {
    TAMIS_TRY_STATUS(print_out(load_text(report)));
    return 0;
  }
  Json out = load_json(report);
  out.set("url", args.text("--url")).set("model", options.model).set("seed", options.seed);
  TAMIS_TRY_STATUS(print_out(out.dump() + "\n"));
  return 0;
}

OptionSpec text_option(std::string_view names, std::string_view value_name, std::string_view help) {
  return {.names = names, .kind = OptionKind::text, .value_name = value_name, .help = help};
}

OptionSpec number_option(std::string_view names, OptionKind kind, std::string_view help, std::string_view default_text,
                         double maximum) {
  return {.names = names,
          .kind = kind,
          .value_name = "N",
          .help = help,
          .default_text = default_text,
          .minimum = kind == OptionKind::integer ? 1 : 0.001,
          .maximum = maximum};
}

std::string scenario_list() {
  std::string out = "Scenarios:";
  for (const ScenarioRow& row : load_scenarios()) out += fmt::format(" {}: {}.", row.name, row.summary);
  return out;
}

std::vector<OptionSpec> bench_serve_options() {
  OptionSpec endpoint = text_option("--endpoint", "NAME", "chat: /v1/chat/completions; text: /v1/completions");
  endpoint.default_text = "chat";
  endpoint.choices = {"chat", "text"};
  return {
      text_option("--url", "URL", "the server: http://HOST:PORT"),
      text_option("--model", "NAME", "as requests name it; default: the first that /v1/models lists"),
      endpoint,
      text_option("--api-key-file", "FILE", "keys, one a line; S8 uses the first two, as two tenants"),
      number_option("--rate", OptionKind::real, "requests a second; S2 starts there (0.5)", "", 1e6),
      number_option("--clients", OptionKind::integer, "users, streams or senders at once", "", 100000),
      number_option("--requests", OptionKind::integer, "requests in all; of S2 at each rate, of S5 turns", "", 1e7),
      text_option("--prompt-tokens", "N[-M]", "tokens of a prompt, or a range to draw from"),
      text_option("--output-tokens", "N[-M]", "tokens of an answer, or a range to draw from"),
      {.names = "--seed",
       .kind = OptionKind::integer,
       .value_name = "N",
       .help = "of words, lengths and times",
       .default_text = "1",
       .minimum = 0},
      number_option("--slo-ttft-ms", OptionKind::real, "a good answer's first token comes within", "2000", 1e9),
      number_option("--slo-tpot-ms", OptionKind::real, "a good answer's tokens come within, on average", "150", 1e9),
      number_option("--slo-share", OptionKind::real, "of the requests that must be good for S2's rate to count", "0.9",
                    1),
      number_option("--timeout", OptionKind::real, "seconds after which a request has failed", "600", 1e6),
      text_option("--trace", "FILE", "write every request's times, a JSON line each"),
      {.names = "--force", .help = "overwrite the file of --trace"},
  };
}

}  // namespace

Verb bench_serve_verb() {
  static const std::string details =
      "Also written `tamis bench serve`. Sends chats of common words to a server that speaks OpenAI's API, streamed, "
      "with lengths and times that a seed fixes, and reports the time to the first token (TTFT), the time for each "
      "further token (TPOT), the times between two (ITL), failures, and goodput: answers a second that keep both "
      "limits.\n\n" +
      scenario_list() + "\n\n--json prints one object: facts of the scenario and a summary of each phase.";
  return {.name = "bench-serve",
          .summary = "loads a server as a scenario says and reports how it holds",
          .details = details,
          .positionals = {{.name = "SCENARIO",
                           .help = "S1 to S11, open or closed",
                           .choices = {"S1", "S2", "S3", "S4", "S5", "S6", "S7", "S8", "S9", "S10", "S11", "open",
                                       "closed"}}},
          .options = bench_serve_options(),
          .run = run_bench_serve};
}

}  // namespace tamis::cli
