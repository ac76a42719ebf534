// One function a scenario, over the client's callbacks.
#include "cli/load_scenarios.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cli/load_run.h"

namespace tamis::cli {
namespace {

constexpr double kTick = 0.1;         // seconds between looks at a level that may be lost
constexpr uint32_t kTenantLoad = 10;  // S8: the first tenant's load, in loads of the second
constexpr double kOverload = 3;       // S7: offered, in capacities
constexpr size_t kPiecesBefore = 8;   // S3: of every stream, before the long prompt comes
constexpr uint64_t kEndless = 2000;   // S3: output tokens of a stream that another replaces when it ends

Result<LoadReport> one_stream(LoadRun& run, const LoadSizes& defaults) {
  const LoadSizes sizes = run.sizes(defaults);
  TAMIS_TRY_STATUS(run.closed_phase("alone", sizes));
  const LoadSummary& summary = run.report().phases.back().summary;
  run.fact("prompt_rate", summary.ttft.p50 > 0 ? run.median_prompt_tokens() / summary.ttft.p50 : 0, "tokens/s");
  run.fact("decode_rate", summary.tpot.p50 > 0 ? 1 / summary.tpot.p50 : 0, "tokens/s");
  return run.take_report();
}

// Sends `sizes.n_requests` at Poisson times. With `slo_share` it ends as soon as too many have missed the SLO.
Status open_phase(LoadRun& run, const LoadSizes& sizes, double rate, std::optional<double> slo_share,
                  bool& has_passed) {
  const size_t n = sizes.n_requests;
  const std::vector<double> times = poisson_times(run.options().seed, rate, n);
  std::vector<std::optional<size_t>> sent(n);
  std::vector<uint64_t> n_output(n);
  const double start = run.client().now();
  for (size_t i = 0; i < n; ++i) {
    LoadMessage message{.user = run.words(sizes.prompt.draw(run.rng())), .n_output = sizes.output.draw(run.rng())};
    n_output[i] = message.n_output;
    run.client().plan(start + times[i], [&run, &sent, i, message = std::move(message)] {
      sent[i] = run.send(static_cast<uint32_t>(i), message);
    });
  }
  const auto n_allowed =
      slo_share ? static_cast<size_t>(std::floor((1 - *slo_share) * static_cast<double>(n) + 1e-9)) : n;
  const auto n_missed = [&] {
    size_t missed = 0;
    for (size_t i = 0; i < n; ++i) {
      if (!sent[i]) continue;
      const LoadTrace& trace = run.client().trace(*sent[i]);
      missed += trace.ended > 0 ? !meets(trace, run.options().slo)
                                : has_missed(trace, run.options().slo, n_output[i], run.client().now());
    }
    return missed;
  };
  has_passed = true;
  std::function<void()> look = [&] {
    if (n_missed() > n_allowed) {
      has_passed = false;
      run.client().drop_plans();
      run.client().cancel_all();
    } else if (std::any_of(sent.begin(), sent.end(),
                           [&](const auto& idx) { return !idx || run.client().trace(*idx).ended == 0; })) {
      run.client().plan(run.client().now() + kTick, look);
    }
  };
  if (slo_share) run.client().plan(start + kTick, look);
  TAMIS_TRY_STATUS(run.client().run(run.stop()));
  if (slo_share) has_passed &= n_missed() <= n_allowed;
  run.end_phase(fmt::format("{:.3g}/s", rate));
  return {};
}

Result<LoadReport> rate_sweep(LoadRun& run, const LoadSizes& defaults) {
  const LoadSizes sizes = run.sizes(defaults);
  RateSearch search(run.options().rate.value_or(0.5), 2);
  while (const auto rate = search.next()) {
    bool has_passed = false;
    TAMIS_TRY_STATUS(open_phase(run, sizes, *rate, run.options().share, has_passed));
    if (!has_passed) run.report().phases.back().name += " lost";
    search.on_result(*rate, has_passed);
  }
  run.fact("goodput_rate", search.best(), "requests/s");
  return run.take_report();
}

Result<LoadReport> one_rate(LoadRun& run, const LoadSizes& defaults) {
  if (!run.options().rate) return fail(ErrorCode::invalid_argument, "open: --rate is missing");
  bool has_passed = false;
  TAMIS_TRY_STATUS(open_phase(run, run.sizes(defaults), *run.options().rate, std::nullopt, has_passed));
  return run.take_report();
}

Result<LoadReport> closed_loop(LoadRun& run, const LoadSizes& defaults) {
  TAMIS_TRY_STATUS(run.closed_phase("closed", run.sizes(defaults)));
  return run.take_report();
}

// Streams of plain words: where a token is half a character no piece comes, and two steps would look like one gap.
constexpr std::string_view kStory = "Tell a very long story in plain English prose. These words are in it: ";

// S3, second phase: streams run, and a long prompt arrives among them.
class Attack {
 public:
  Attack(LoadRun& run, const LoadSizes& sizes) : run_(run), sizes_(sizes), n_pieces_(sizes.n_clients) {}

  void start() {
    for (uint32_t i = 0; i < sizes_.n_clients; ++i) start_stream(i);
  }
  size_t attacker() const { return attacker_; }
  bool has_attacked() const { return has_attacked_; }

 private:
  void start_stream(uint32_t stream) {
    if (is_over_) return;
    const LoadMessage message{.user = std::string(kStory) + run_.words(48), .n_output = kEndless};
    run_.send(
        stream, message, [this, stream](const LoadTrace&) { on_piece(stream); },
        [this, stream](const LoadTrace& trace) {
          if (trace.is_answered()) return start_stream(stream);  // one that failed is told of, not tried again
          if (has_attacked_ || is_over_) return;
          is_over_ = true;  // without all streams there is nothing to measure
          run_.client().cancel_all();
        });
  }

  void on_piece(uint32_t stream) {
    ++n_pieces_[stream];
    const bool all_run = std::all_of(n_pieces_.begin(), n_pieces_.end(), [](size_t n) { return n >= kPiecesBefore; });
    if (has_attacked_ || !all_run) return;
    has_attacked_ = true;
    const LoadMessage message{.user = run_.words(sizes_.prompt.high), .n_output = sizes_.output.high};
    attacker_ = run_.send(sizes_.n_clients, message, {}, [this](const LoadTrace&) {
      is_over_ = true;
      run_.client().cancel_all();
    });
  }

  LoadRun& run_;
  const LoadSizes& sizes_;
  std::vector<size_t> n_pieces_;
  bool has_attacked_ = false, is_over_ = false;
  size_t attacker_ = 0;
};

Result<LoadReport> long_prompt_arrives(LoadRun& run, const LoadSizes& defaults) {
  const LoadSizes sizes = run.sizes(defaults);
  TAMIS_TRY_STATUS(
      run.closed_phase("alone", {.n_clients = 1, .n_requests = 1, .prompt = sizes.prompt, .output = sizes.output}));
  const double alone = run.report().phases.back().summary.ttft.p50;
  Attack attack(run, sizes);
  attack.start();
  TAMIS_TRY_STATUS(run.client().run(run.stop()));
  if (!attack.has_attacked()) {
    run.end_phase("together");
    return fail(ErrorCode::network, "S3: the streams did not run: {}", run.first_error());
  }
  const LoadTrace long_one = run.client().trace(attack.attacker());
  run.end_phase("together");
  const double first = ttft(long_one).value_or(long_one.ended - long_one.sent);
  std::vector<LoadTrace> streams;
  for (const LoadTrace& trace : run.report().phases.back().traces)
    if (trace.client < sizes.n_clients) streams.push_back(trace);
  double served = 0, served_before = 0;
  for (uint32_t i = 0; i < sizes.n_clients; ++i) {
    served += served_tokens(streams, i, long_one.sent, long_one.sent + first);
    served_before += served_tokens(streams, i, 0, long_one.sent);
  }
  double begin = long_one.sent;
  for (const LoadTrace& trace : streams)
    if (!trace.pieces.empty()) begin = std::min(begin, trace.pieces.front());
  run.fact("largest_gap", largest_gap(streams, long_one.sent, long_one.sent + first), "s");
  run.fact("largest_gap_before", largest_gap(streams, 0, long_one.sent), "s");
  run.fact("streams_rate_before", long_one.sent > begin ? served_before / (long_one.sent - begin) : 0, "tokens/s");
  run.fact("streams_rate_meanwhile", first > 0 ? served / first : 0, "tokens/s");
  run.fact("ttft_alone", alone, "s");
  run.fact("ttft_together", first, "s");
  run.fact("ttft_ratio", alone > 0 ? first / alone : 0, "");
  if (!long_one.error.empty()) return fail(ErrorCode::network, "S3: the long prompt failed: {}", long_one.error);
  return run.take_report();
}

// All users at once: the hardest moment for a cache, which has nothing yet.
Result<LoadReport> shared_prefix(LoadRun& run, const LoadSizes& defaults) {
  constexpr uint64_t kOwnTokens = 64;
  const LoadSizes sizes = run.sizes(defaults);
  const std::string shared = run.words(sizes.prompt.high);
  const size_t n_own_words = run.cost().words_for(kOwnTokens);
  for (uint32_t i = 0; i < sizes.n_clients; ++i)
    run.send(
        i, {.system = shared, .user = random_words(run.rng(), n_own_words), .n_output = sizes.output.draw(run.rng())});
  TAMIS_TRY_STATUS(run.client().run(run.stop()));
  run.end_phase("users");
  const double own = run.cost().tokens_per_word * static_cast<double>(n_own_words);
  double n_shared = 0, n_users = 0;
  for (const LoadTrace& trace : run.report().phases.back().traces) {
    if (!trace.is_answered()) continue;
    n_shared = std::max(n_shared, static_cast<double>(trace.n_prompt) - own);
    ++n_users;
  }
  const double n_unique = n_shared + n_users * own;
  run.fact("computed_over_unique", computed_over_unique(run.report().phases.back().traces, n_unique), "");
  run.fact("unique_tokens", n_unique, "tokens");
  return run.take_report();
}

Result<LoadReport> agent(LoadRun& run, const LoadSizes& defaults) {
  const LoadSizes sizes = run.sizes(defaults);
  Json messages = Json::array();
  messages.push_back(chat_message("system", run.words(sizes.prompt.high)));
  messages.push_back(chat_message("user", run.words(sizes.prompt.high)));
  std::vector<double> first;
  double computed = 0, longest = 0;
  for (uint32_t turn = 0; turn < sizes.n_requests; ++turn) {
    const size_t idx = run.send_messages(0, messages, agent_tools(), sizes.output.high);
    TAMIS_TRY_STATUS(run.client().run(run.stop()));
    const LoadTrace trace = run.client().trace(idx);
    run.end_phase(fmt::format("turn {}", turn + 1));
    if (!trace.error.empty()) return fail(ErrorCode::network, "S5, turn {}: {}", turn + 1, trace.error);
    computed += static_cast<double>(trace.n_prompt) - static_cast<double>(trace.n_cached);
    longest = static_cast<double>(trace.n_prompt);
    if (const auto value = ttft(trace)) first.push_back(*value);
    append_tool_turn(messages, turn, trace.text, run.words(sizes.prompt.high));
  }
  run.fact("ttft_p50", percentile(first, 0.5), "s");
  run.fact("ttft_last_turn", first.empty() ? 0 : first.back(), "s");
  run.fact("last_prompt", longest, "tokens");
  run.fact("computed_over_unique", longest > 0 ? computed / longest : 0, "");
  return run.take_report();
}

Result<LoadReport> overload(LoadRun& run, const LoadSizes& defaults) {
  const LoadSizes sizes = run.sizes(defaults);
  TAMIS_TRY_STATUS(run.closed_phase("capacity", sizes));
  const double capacity = run.report().phases.back().summary.request_rate;
  if (capacity <= 0) return fail(ErrorCode::network, "S7: nothing was answered: {}", run.first_error());
  bool has_passed = false;
  LoadSizes more = sizes;
  more.n_requests *= static_cast<uint32_t>(kOverload);
  TAMIS_TRY_STATUS(open_phase(run, more, kOverload * capacity, std::nullopt, has_passed));
  const LoadPhase& phase = run.report().phases.back();
  const auto n_refused = std::count_if(phase.traces.begin(), phase.traces.end(), [](const LoadTrace& trace) {
    return trace.status == 503 || trace.status == 429;
  });
  run.fact("capacity", capacity, "requests/s");
  run.fact("offered", kOverload * capacity, "requests/s");
  run.fact("refused", static_cast<double>(n_refused), "requests");
  run.fact("failed_otherwise", static_cast<double>(phase.summary.n_failed) - static_cast<double>(n_refused),
           "requests");
  run.fact("ttft_p95_admitted", phase.summary.ttft.p95, "s");
  return run.take_report();
}

// Two keys, one with ten times the other's clients. Shares are counted while both are there.
Result<LoadReport> two_tenants(LoadRun& run, const LoadSizes& defaults) {
  const LoadSizes sizes = run.sizes(defaults);
  if (run.options().keys.size() < 2)
    return fail(ErrorCode::invalid_argument, "S8: two tenants need two keys (--api-key-file)");
  uint32_t n_left = sizes.n_requests;
  double end = 0;
  std::function<void(uint32_t)> next = [&](uint32_t tenant) {
    if (end > 0) return;
    const LoadMessage message{.user = run.words(sizes.prompt.draw(run.rng())),
                              .n_output = sizes.output.draw(run.rng())};
    run.send(tenant, message, {}, [&, tenant](const LoadTrace& trace) {
      if (tenant == 1 && n_left > 0 && --n_left == 0) {
        end = trace.ended;
        run.client().cancel_all();
      } else if (trace.is_answered()) {
        next(tenant);
      }
    });
  };
  for (uint32_t i = 0; i < sizes.n_clients; ++i) {
    for (uint32_t k = 0; k < kTenantLoad; ++k) next(0);
    next(1);
  }
  TAMIS_TRY_STATUS(run.client().run(run.stop()));
  run.end_phase("tenants");
  const std::vector<LoadTrace>& traces = run.report().phases.back().traces;
  double begin[2] = {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  for (const LoadTrace& trace : traces)
    if (!trace.pieces.empty()) begin[trace.client] = std::min(begin[trace.client], trace.pieces.front());
  const double from = std::max(begin[0], begin[1]);
  if (end == 0 || !(from < end)) return fail(ErrorCode::network, "S8: a tenant got nothing: {}", run.first_error());
  const double served[2] = {served_tokens(traces, 0, from, end), served_tokens(traces, 1, from, end)};
  run.fact("served_heavy", served[0], "tokens");
  run.fact("served_light", served[1], "tokens");
  run.fact("heavy_over_light", served[1] > 0 ? served[0] / served[1] : 0, "");
  run.fact("fairness", jain(served), "");
  return run.take_report();
}

// By turns, so that a machine that slows down slows both.
Result<LoadReport> grammar_cost(LoadRun& run, const LoadSizes& defaults) {
  constexpr int kRounds = 2;
  const LoadSizes sizes = run.sizes(defaults);
  std::vector<double> rates[2];
  for (int round = 0; round < kRounds; ++round)
    for (const bool is_held : {false, true}) {
      run.set_form(is_held ? array_schema() : Json());
      TAMIS_TRY_STATUS(run.closed_phase(is_held ? "schema" : "free", sizes));
      for (const LoadTrace& trace : run.report().phases.back().traces)
        if (const auto value = tpot(trace); trace.is_answered() && value && *value > 0)
          rates[is_held ? 1 : 0].push_back(1 / *value);
    }
  const double free_rate = percentile(rates[0], 0.5), held_rate = percentile(rates[1], 0.5);
  run.fact("free_rate", free_rate, "tokens/s");
  run.fact("schema_rate", held_rate, "tokens/s");
  run.fact("schema_over_free", free_rate > 0 ? held_rate / free_rate : 0, "");
  return run.take_report();
}

struct Scenario {
  ScenarioRow row;
  LoadSizes defaults;
  Result<LoadReport> (*run)(LoadRun& run, const LoadSizes& defaults);
};

constexpr TokenRange exactly(uint64_t n) { return {n, n}; }

// docs/bench-serve.md says the same in words.
const Scenario kScenarios[] = {
    {{"S1", "one stream alone"}, {1, 3, exactly(512), exactly(128)}, one_stream},
    {{"S2", "short chats at Poisson times: the highest rate within the SLO"},
     {1, 40, {64, 512}, {32, 128}},
     rate_sweep},
    {{"S3", "a long prompt arrives among running streams"}, {3, 1, exactly(4000), exactly(8)}, long_prompt_arrives},
    {{"S4", "users with one long system prompt"}, {16, 1, exactly(2048), exactly(16)}, shared_prefix},
    {{"S5", "an agent's turns: a prompt that grows, with tools"}, {1, 20, exactly(128), exactly(48)}, agent},
    {{"S6", "more sequences than the KV pool holds"}, {16, 16, exactly(256), exactly(256)}, closed_loop},
    {{"S7", "three times the load it can serve"}, {16, 32, {64, 512}, {32, 128}}, overload},
    {{"S8", "two keys, one with ten times the load"}, {4, 16, exactly(64), exactly(64)}, two_tenants},
    {{"S9", "a long text to summarize"}, {1, 1, exactly(32000), exactly(128)}, one_stream},
    {{"S10", "LoRA adapters mixed (not supported)"}, {}, nullptr},
    {{"S11", "answers held to a schema, and free ones"}, {4, 8, exactly(64), exactly(96)}, grammar_cost},
    {{"open", "requests at Poisson times of --rate"}, {1, 40, {64, 512}, {32, 128}}, one_rate},
    {{"closed", "--clients that each send the next request when the last is answered"},
     {4, 16, {64, 512}, {32, 128}},
     closed_loop},
};

}  // namespace

std::span<const ScenarioRow> load_scenarios() {
  static const std::vector<ScenarioRow> rows = [] {
    std::vector<ScenarioRow> out;
    for (const Scenario& scenario : kScenarios) out.push_back(scenario.row);
    return out;
  }();
  return rows;
}

static const Scenario* find_scenario(std::string_view name) {
  for (const Scenario& scenario : kScenarios)
    if (scenario.row.name == name) return &scenario;
  return nullptr;
}

Status check_scenario(std::string_view name) {
  const Scenario* scenario = find_scenario(name);
  if (scenario == nullptr) return fail(ErrorCode::invalid_argument, "{}: no such scenario", escape_for_display(name));
  if (scenario->run == nullptr)
    return fail(ErrorCode::unsupported, "{}: adapters (LoRA) are not supported, so there is nothing to mix", name);
  return {};
}

Result<LoadReport> run_scenario(std::string_view name, LoadClient& client, const LoadOptions& options,
                                const std::atomic<bool>& stop) {
  TAMIS_TRY_STATUS(check_scenario(name));
  const Scenario* scenario = find_scenario(name);
  LoadRun run(client, options, stop, std::string(name));
  TAMIS_TRY_STATUS(run.learn_word_cost());
  return scenario->run(run, scenario->defaults);
}

std::optional<double> RateSearch::next() const {
  if (low_ == 0 && high_ == 0) return start_;
  if (high_ == 0) return low_ >= start_ * kHighest ? std::nullopt : std::optional(2 * low_);
  if (low_ == 0) return high_ <= start_ * kLowest ? std::nullopt : std::optional(high_ / 2);
  return n_left_ > 0 ? std::optional(std::sqrt(low_ * high_)) : std::nullopt;
}

void RateSearch::on_result(double rate, bool has_passed) {
  if (low_ > 0 && high_ > 0) --n_left_;
  (has_passed ? low_ : high_) = rate;
}

std::vector<double> poisson_times(uint64_t seed, double rate, size_t n) {
  Rng rng(seed);
  std::vector<double> out;
  double at = 0;
  for (size_t i = 0; i < n; ++i) {
    at += -std::log(1 - rng.uniform()) / rate;
    out.push_back(at);
  }
  return out;
}

}  // namespace tamis::cli
