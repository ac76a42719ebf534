// What the scheduler costs and what it keeps its promises by, on a real model without a server: (1) one stream alone
// against the same answer from a session; (2) three streams while a long prompt arrives: the gaps between their tokens,
// and the long prompt's time to its first token against what it takes alone.
// usage: bench_scheduler MODEL [THREADS] [PROMPT_TOKENS] [ITL_TARGET_MS]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "base/thread_pool.h"
#include "cpu/backend.h"
#include "engine/scheduler.h"

namespace {

using namespace tamis;
using Clock = std::chrono::steady_clock;

constexpr int kRounds = 5;
constexpr int64_t kAnswerTokens = 64;
constexpr size_t kShortPrompt = 64;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// When each token came.
class Times : public GenerateListener {
 public:
  void on_token(const TokenEvent&) override {
    const std::lock_guard lock(mutex_);
    at_.push_back(Clock::now());
    changed_.notify_all();
  }
  void on_choice_end(const ChoiceEnd&) override {}
  void on_end(const RequestReport& report) override {
    const std::lock_guard lock(mutex_);
    if (report.failure != nullptr) {
      fmt::print(stderr, "{}\n", report.failure->error.to_string());
      std::exit(1);
    }
    report_ = report;
    is_ended_ = true;
    changed_.notify_all();
  }
  RequestReport wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_ended_; });
    return report_;
  }
  void wait_for_tokens(size_t n) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_ended_ || at_.size() >= n; });
  }
  std::vector<Clock::time_point> at() {
    const std::lock_guard lock(mutex_);
    return at_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Clock::time_point> at_;
  RequestReport report_;
  bool is_ended_ = false;
};

GenerateRequest request_of(size_t n_prompt, int64_t n_predict, uint64_t seed) {
  GenerateRequest request;
  Rng rng(seed);
  for (size_t i = 0; i < n_prompt; ++i) request.prompt.push_back(static_cast<TokenId>(1000 + rng.below(20000)));
  request.sampling.temp = 0;
  request.n_predict = n_predict;
  request.ignore_eos = true;
  return request;
}

std::shared_ptr<Times> submit(Scheduler& scheduler, const GenerateRequest& request, RequestId* id = nullptr) {
  auto times = std::make_shared<Times>();
  const auto result = scheduler.submit(request, times);
  if (!result) {
    fmt::print(stderr, "{}\n", result.error().error.to_string());
    std::exit(1);
  }
  if (id != nullptr) *id = *result;
  return times;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// Tokens a second after the first one.
void compare_alone(const std::shared_ptr<const Engine>& engine, Scheduler& scheduler) {
  std::vector<double> session_rates, scheduler_rates, ratios;
  for (int round = 0; round < kRounds; ++round) {
    const GenerateRequest request = request_of(kShortPrompt, kAnswerTokens, 100 + static_cast<uint64_t>(round));
    Session session(engine);
    GenerationOptions options;
    options.sampling = request.sampling;
    options.n_predict = request.n_predict;
    options.ignore_eos = true;
    const auto begin = Clock::now();
    const auto answer = generate(session, request.prompt, options, nullptr);
    const double session_seconds = seconds_since(begin);
    const auto begin_scheduled = Clock::now();
    submit(scheduler, request)->wait();
    const double scheduled_seconds = seconds_since(begin_scheduled);
    if (!answer) std::exit(1);
    session_rates.push_back(kAnswerTokens / session_seconds);
    scheduler_rates.push_back(kAnswerTokens / scheduled_seconds);
    ratios.push_back(session_seconds / scheduled_seconds);
  }
  fmt::print("one stream, {} + {} tokens: session {:.2f} tokens/s, scheduler {:.2f}, ratio {:.3f} (medians of {})\n",
             kShortPrompt, kAnswerTokens, median(session_rates), median(scheduler_rates), median(ratios), kRounds);
}

void compare_long_prompt(Scheduler& scheduler, size_t n_prompt, uint32_t itl_target_ms) {
  const double alone = submit(scheduler, request_of(n_prompt, 1, 7))->wait().first_token_seconds;
  std::vector<std::shared_ptr<Times>> streams(3);
  std::vector<RequestId> ids(3);
  for (size_t i = 0; i < 3; ++i) streams[i] = submit(scheduler, request_of(kShortPrompt, -1, 20 + i), &ids[i]);
  for (const auto& stream : streams) stream->wait_for_tokens(20);
  const auto begin = Clock::now();
  const double together = submit(scheduler, request_of(n_prompt, 1, 8))->wait().first_token_seconds;
  const auto end = Clock::now();
  std::vector<double> gaps, gaps_before;
  for (size_t i = 0; i < 3; ++i) {
    streams[i]->wait_for_tokens(streams[i]->at().size() + 1);
    const auto at = streams[i]->at();
    for (size_t j = 1; j < at.size(); ++j)
      (at[j] < begin ? gaps_before : gaps)
          .push_back(std::chrono::duration<double, std::milli>(at[j] - at[j - 1]).count());
    scheduler.cancel(ids[i]);
  }
  for (const auto& stream : streams) stream->wait();
  std::ranges::sort(gaps);
  fmt::print(
      "three streams, a prompt of {} tokens arrives: gaps median {:.0f} ms before, {:.0f} during, p99 {:.0f}, "
      "largest {:.0f} (target {}); {:.1f} tokens/s of all three meanwhile\n",
      n_prompt, median(gaps_before), median(gaps), gaps[gaps.size() * 99 / 100], gaps.back(), itl_target_ms,
      static_cast<double>(gaps.size()) / std::chrono::duration<double>(end - begin).count());
  fmt::print("its first token: {:.2f} s alone, {:.2f} s among them, ratio {:.2f}\n", alone, together, together / alone);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: bench_scheduler MODEL [THREADS] [PROMPT_TOKENS] [ITL_TARGET_MS]\n");
    return 2;
  }
  const auto number = [&](int i, uint32_t otherwise) {
    return argc > i ? static_cast<uint32_t>(std::atoi(argv[i])) : otherwise;
  };
  const uint32_t n_prompt = number(3, 4096), itl_target_ms = number(4, 250);
  const auto pool = ThreadPool::create(number(2, 0));
  auto backend = make_cpu_backend(pool.get());
  if (!backend) return 1;
  auto engine = Engine::load(argv[1], *std::move(backend), {.n_ctx = n_prompt + 512});
  if (!engine) {
    fmt::print(stderr, "{}\n", engine.error().to_string());
    return 1;
  }
  auto scheduler = Scheduler::create(*engine, {.itl_target_ms = itl_target_ms, .pool = pool.get()});
  if (!scheduler) {
    fmt::print(stderr, "{}\n", scheduler.error().to_string());
    return 1;
  }
  compare_alone(*engine, **scheduler);
  compare_long_prompt(**scheduler, n_prompt, itl_target_ms);
  return 0;
}
