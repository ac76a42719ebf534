// Limits of single requests and tenants: time of their own, places in the queue.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "cpu/backend.h"
#include "engine/scheduler.h"
#include "tests/engine/schedule_helper.h"
#include "tests/engine/tiny_model.h"

namespace tamis {
namespace {

using test::Collector;
using test::greedy;
using test::Holder;

std::unique_ptr<Scheduler> start(SchedulerOptions options) {
  const auto engine =
      test::load_tiny(test::write_tiny_model({.n_ctx_train = 512}), *make_cpu_backend(), {.n_batch = 64});
  auto scheduler = Scheduler::create(engine, options);
  EXPECT_TRUE(scheduler.has_value()) << scheduler.error().to_string();
  return *std::move(scheduler);
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

}  // namespace
}  // namespace tamis
