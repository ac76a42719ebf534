// Limits of single requests and tenants: time of their own, places in the queue, what priority is good for.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/rng.h"
#include "cpu/backend.h"
#include "engine/scheduler.h"
#include "tests/engine/schedule_helper.h"
#include "tests/engine/tiny_model.h"

namespace tamis {
namespace {

using test::Collector;
using test::greedy;
using test::Holder;

std::unique_ptr<Scheduler> start(SchedulerOptions options, uint64_t n_pages = 0) {
  const auto engine =
      test::load_tiny(test::write_tiny_model({.n_ctx_train = 512}), *make_cpu_backend(), {.n_batch = 64});
  options.kv_bytes = n_pages * *engine->model().make_cache(engine->kv_types()).page_bytes();
  auto scheduler = Scheduler::create(engine, options);
  EXPECT_TRUE(scheduler.has_value()) << scheduler.error().to_string();
  return *std::move(scheduler);
}

GenerateRequest random_request(Rng& rng, size_t n_prompt, int64_t n, std::string tenant, int32_t priority = 0) {
  std::vector<TokenId> prompt(n_prompt);
  for (TokenId& id : prompt) id = static_cast<TokenId>(rng.below(256));
  GenerateRequest request = greedy(std::move(prompt), n);
  request.tenant = std::move(tenant);
  request.priority = priority;
  return request;
}

TEST(SchedulerLimits, ARequestHasItsOwnTime) {  // promises 13 and 19
  const auto scheduler = start({.max_seqs = 1});
  const auto running = std::make_shared<Holder>();
  GenerateRequest endless = greedy({1, 2, 3}, 500);
  endless.time_limit_seconds = 60;
  ASSERT_TRUE(scheduler->submit(endless, running));
  running->wait_until_held();
  GenerateRequest hurried = greedy({4}, 1), patient = hurried;
  hurried.time_limit_seconds = 0.01;
  const auto late = test::submit(*scheduler, hurried), in_time = test::submit(*scheduler, patient);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  running->let_go();
  late->wait();
  ASSERT_TRUE(late->failure());
  EXPECT_TRUE(late->failure()->is_busy);
  EXPECT_FALSE(late->failure()->is_greedy);
  EXPECT_EQ(in_time->wait().n_generated, 1U);
  running->wait();
  EXPECT_EQ(running->answer().end->end, GenerationEnd::token_limit);
}

TEST(SchedulerLimits, AnAnswerThatTakesTooLongEndsAsItIs) {  // promise 19
  const auto scheduler = start({.max_seqs = 2});
  std::shared_ptr<Holder> holder;
  // Where it was refused, this machine took longer than the limit to begin at all.
  for (double limit = 0.05; holder == nullptr || holder->failure(); limit *= 2) {
    holder = std::make_shared<Holder>();
    GenerateRequest limited = greedy({1, 2, 3}, 500);
    limited.time_limit_seconds = limit;
    const auto over = std::chrono::steady_clock::now() + std::chrono::duration<double>(limit + 0.01);
    ASSERT_TRUE(scheduler->submit(limited, holder));
    holder->wait_until_held();
    std::this_thread::sleep_until(over);
    holder->let_go();
    holder->wait();
    ASSERT_LT(limit, 100);
  }
  EXPECT_EQ(holder->answer().end->end, GenerationEnd::time_limit);
  EXPECT_EQ(holder->answer().tokens.size(), 1U);
  EXPECT_EQ(test::submit(*scheduler, greedy({5}, 2))->wait().n_generated, 2U);
}

TEST(SchedulerLimits, NoTenantHoldsTheQueueAlone) {  // promise 14
  const auto scheduler = start({.max_seqs = 1, .max_queue = 4, .max_queue_per_tenant = 2});
  const auto running = std::make_shared<Holder>();
  GenerateRequest mine = greedy({1, 2, 3}, 2), other = mine;
  mine.tenant = "a";
  other.tenant = "b";
  ASSERT_TRUE(scheduler->submit(mine, running));
  running->wait_until_held();
  std::vector<std::shared_ptr<Collector>> waiting;
  for (int i = 0; i < 2; ++i) waiting.push_back(test::submit(*scheduler, mine));
  const auto refused = scheduler->submit(mine, std::make_shared<Collector>());
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().is_busy && refused.error().is_greedy);
  for (int i = 0; i < 2; ++i) waiting.push_back(test::submit(*scheduler, other));
  EXPECT_FALSE(scheduler->submit(other, std::make_shared<Collector>()));
  running->let_go();
  for (const auto& collector : waiting) EXPECT_EQ(collector->wait().n_generated, 2U);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(test::submit(*scheduler, mine)->wait().n_generated, 2U);  // places come back
}

TEST(SchedulerLimits, NoTenantGetsMoreByWhatItCallsUrgent) {  // promise 14
  const auto scheduler = start({.max_seqs = 4, .max_queue = 1000});
  Rng rng(21);
  const auto holder = std::make_shared<Holder>();
  ASSERT_TRUE(scheduler->submit(greedy({1}, 1), holder));
  holder->wait_until_held();
  std::vector<std::shared_ptr<Collector>> loud, modest;
  for (int i = 0; i < 200; ++i) loud.push_back(test::submit(*scheduler, random_request(rng, 30, 30, "loud", 100)));
  for (int i = 0; i < 20; ++i)
    modest.push_back(test::submit(*scheduler, random_request(rng, 30, 30, "modest", i == 19 ? 1 : -100)));
  holder->let_go();
  size_t last = 0;
  for (const auto& collector : modest) {
    collector->wait();
    last = std::max(last, collector->order());
  }
  for (const auto& collector : loud) collector->wait();
  const auto n_before = static_cast<size_t>(
      std::ranges::count_if(loud, [&](const auto& collector) { return collector->order() < last; }));
  EXPECT_LE(n_before, 2 * modest.size());
  EXPECT_GE(2 * n_before, modest.size());
  // Among its own, what is more urgent goes first.
  for (size_t i = 0; i < 19; ++i) EXPECT_LT(modest[19]->order(), modest[i]->order());
}

TEST(SchedulerLimits, PagesAreNotTakenFromAnotherTenantByPriority) {  // promise 14
  for (const bool is_one_tenant : {false, true}) {
    const auto scheduler = start({.max_seqs = 4, .speculation = Speculation::off}, 14);
    Rng rng(22);
    const auto first = std::make_shared<Holder>();
    ASSERT_TRUE(scheduler->submit(random_request(rng, 64, 200, is_one_tenant ? "loud" : "modest"), first));
    first->wait_until_held();
    const auto loud = test::submit(*scheduler, random_request(rng, 64, 200, "loud", 100));
    first->let_go();
    // Each becomes nine pages long.
    const uint32_t n_pauses = first->wait().n_pauses, n_of_loud = loud->wait().n_pauses;
    EXPECT_GE(is_one_tenant ? n_pauses : n_of_loud, 1U) << is_one_tenant;
    EXPECT_EQ(is_one_tenant ? n_of_loud : n_pauses, 0U) << is_one_tenant;
  }
}

TEST(SchedulerLimits, WhoIsPausedIsNotPassedByAnotherTenant) {  // promise 14
  const auto scheduler = start({.max_seqs = 8, .speculation = Speculation::off}, 14);
  Rng rng(23);
  const auto holder = std::make_shared<Holder>(), older = std::make_shared<Holder>(190);
  ASSERT_TRUE(scheduler->submit(greedy({1}, 1), holder));
  holder->wait_until_held();
  ASSERT_TRUE(scheduler->submit(random_request(rng, 64, 250, "older"), older));
  const auto modest = test::submit(*scheduler, random_request(rng, 64, 200, "modest"));
  holder->let_go();
  older->wait_until_held();  // the other one has given way for it
  const auto loud = test::submit(*scheduler, random_request(rng, 3, 2, "loud", 100));
  older->let_go();
  EXPECT_GE(modest->wait().n_pauses, 1U);
  loud->wait();
  older->wait();
  EXPECT_LT(older->order(), loud->order());
}

TEST(SchedulerLimits, RefusalsAreCountedByTheirReasons) {  // promise 32
  const auto scheduler = start({.max_seqs = 1, .max_queue = 2, .max_queue_per_tenant = 1});
  const auto running = std::make_shared<Holder>();
  GenerateRequest request = greedy({1, 2, 3}, 2);
  const auto refused = [&](const GenerateRequest& wanted) {
    EXPECT_FALSE(scheduler->submit(wanted, std::make_shared<Collector>()));
  };
  ASSERT_TRUE(scheduler->submit(request, running));
  running->wait_until_held();
  refused(greedy({}, 1));
  request.time_limit_seconds = 0.001;
  const auto late = test::submit(*scheduler, request);
  refused(request);
  request.tenant = "other";
  const auto late_too = test::submit(*scheduler, request);
  request.tenant = "third";
  refused(request);
  refused(request);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  running->let_go();
  for (const auto& collector : {late, late_too}) collector->wait();
  EXPECT_TRUE(scheduler->drain(60));
  refused(request);
  const SchedulerStats stats = scheduler->stats();
  const auto n = [&](Refusal refusal) { return stats.n_refused_by[static_cast<size_t>(refusal)]; };
  EXPECT_EQ(n(Refusal::invalid), 1U);
  EXPECT_EQ(n(Refusal::tenant_full), 1U);
  EXPECT_EQ(n(Refusal::queue_full), 2U);
  EXPECT_EQ(n(Refusal::waited), 2U);
  EXPECT_EQ(n(Refusal::draining), 1U);
  EXPECT_EQ(stats.n_refused, 7U);
  EXPECT_EQ(stats.n_failed, 0U);
}

}  // namespace
}  // namespace tamis
