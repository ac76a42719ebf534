// The shelf alone: who is loaded, who makes room, who waits for how long, and what failed loads leave behind.
#include "server/model_shelf.h"

#include <gtest/gtest.h>

#include <deque>
#include <future>
#include <thread>

#include "tests/server/fake_models.h"
#include "tests/server/server_fixture.h"

namespace tamis::server {
namespace {

using test::FakeModel;
using Fault = FakeModel::Fault;
using State = ModelStatus::State;

class ModelShelfTest : public testing::Test {
 protected:
  FakeModel& add(const std::string& name, uint64_t n_bytes = 1) { return models_.emplace_back(name, n_bytes); }

  void open(uint64_t budget_bytes, ShelfOptions options = {}) {
    options.budget_bytes = budget_bytes;
    auto opened = ModelShelf::open(sources(), options);
    ASSERT_TRUE(opened) << opened.error().to_string();
    shelf_ = *std::move(opened);
  }

  std::vector<ModelSource> sources() {
    std::vector<ModelSource> out;
    for (FakeModel& fake : models_) out.push_back(test::source_of(fake));
    return out;
  }

  // What becomes of asking for a model, at once or later.
  struct Asked {
    std::future<ApiResult<ModelLease>> outcome;
    bool has_to_wait = false;
  };

  Asked ask(std::string_view name, double seconds = 0, std::string tenant = "", const void* key = nullptr) {
    auto promise = std::make_shared<std::promise<ApiResult<ModelLease>>>();
    Asked asked{promise->get_future()};
    ModelWait wait;
    wait.key = key;
    wait.tenant = std::move(tenant);
    wait.seconds = seconds;
    wait.then = [promise](ApiResult<ModelLease> lease) { promise->set_value(std::move(lease)); };
    auto taken = shelf_->take(name, std::move(wait));
    if (!taken)
      promise->set_value(tl::unexpected(taken.error()));
    else if (*taken)
      promise->set_value(**std::move(taken));
    else
      asked.has_to_wait = true;
    return asked;
  }

  ApiResult<ModelLease> get(std::string_view name) { return ask(name).outcome.get(); }

  // The status of the answer to who asks for it: 200 with a lease, which ends at once.
  int status(Asked asked) {
    const auto lease = asked.outcome.get();
    return lease ? 200 : lease.error().status;
  }
  int status(std::string_view name) { return status(ask(name)); }

  ModelStatus of(std::string_view name) const {
    for (ModelStatus& model : shelf_->list())
      if (model.card.alias == name) return std::move(model);
    ADD_FAILURE() << name;
    return {};
  }
  State state(std::string_view name) const { return of(name).state; }

  std::deque<FakeModel> models_;  // outlive the shelf
  std::unique_ptr<ModelShelf> shelf_;
};

TEST_F(ModelShelfTest, TheFirstIsThereAtOnceOthersWhenTheyAreAskedFor) {
  FakeModel& a = add("a");
  FakeModel& b = add("b");
  open(0);
  EXPECT_EQ(a.n_loaded, 1);
  EXPECT_EQ(b.n_loaded, 0);
  EXPECT_EQ(state("b"), State::unloaded);
  const auto without_name = get("");
  ASSERT_TRUE(without_name);
  EXPECT_EQ(without_name->model->alias, "a");
  Asked asked = ask("b");
  EXPECT_TRUE(asked.has_to_wait);
  const auto lease = asked.outcome.get();
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->model->alias, "b");
  EXPECT_NE(lease->counts, without_name->counts);
  EXPECT_FALSE(ask("b").has_to_wait);
  EXPECT_EQ(b.n_loaded, 1);
  EXPECT_EQ(of("b").figures.n_loads, 1U);
}

TEST_F(ModelShelfTest, NamesThatAreNotThereAreNotLookedFor) {
  add("a");
  add("b");
  open(0);
  for (const std::string_view name : {"c", "A", "a/../b", "a\nb", "a.gguf", " "}) {
    const auto none = get(name);
    ASSERT_FALSE(none) << name;
    EXPECT_EQ(none.error().status, 404);
    EXPECT_EQ(none.error().code, "model_not_found");
    EXPECT_EQ(none.error().message.find('\n'), std::string::npos);
  }
}

TEST_F(ModelShelfTest, WhoWasUsedLongestAgoMakesRoom) {
  add("a");
  add("b");
  add("c");
  open(2);
  EXPECT_EQ(status("b"), 200);
  EXPECT_EQ(status("a"), 200);
  EXPECT_EQ(status("c"), 200);
  EXPECT_EQ(state("a"), State::loaded);
  EXPECT_EQ(state("b"), State::unloaded);
  EXPECT_EQ(state("c"), State::loaded);
  EXPECT_EQ(of("b").figures.n_unloads, 1U);
  EXPECT_EQ(of("b").figures.n_bytes, 0U);
  EXPECT_EQ(status("b"), 200);  // in the place of a
  EXPECT_EQ(state("a"), State::unloaded);
}

TEST_F(ModelShelfTest, AsManyLeaveAsItTakes) {
  add("a", 2);
  add("b", 2);
  add("large", 4);
  open(5);
  EXPECT_EQ(status("b"), 200);
  EXPECT_EQ(status("large"), 200);
  EXPECT_EQ(state("a"), State::unloaded);
  EXPECT_EQ(state("b"), State::unloaded);
}

TEST_F(ModelShelfTest, WhoIsUsedStaysAndOthersPassWhoDoesNotFit) {
  add("a", 2);
  FakeModel& b = add("b", 2);
  add("small", 1);
  open(3);
  std::optional<ModelLease> lease = *get("a");
  Asked waiting = ask("b");
  // It is known by then that b does not fit: the smaller one was asked for later.
  EXPECT_EQ(status("small"), 200);
  EXPECT_EQ(b.n_measured, 1);
  EXPECT_EQ(b.n_begun, 0);
  EXPECT_EQ(state("a"), State::loaded);
  EXPECT_EQ(of("b").figures.n_waiting, 1U);
  lease.reset();
  EXPECT_EQ(status(std::move(waiting)), 200);
  EXPECT_EQ(state("a"), State::unloaded);
}

TEST_F(ModelShelfTest, WaitingForMemoryHasAnEnd) {
  add("a");
  FakeModel& b = add("b");
  open(1);
  std::optional<ModelLease> lease = *get("a");
  const auto late = ask("b", 0.01).outcome.get();
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().status, 503);
  EXPECT_GT(late.error().retry_after_seconds, 0);
  EXPECT_EQ(b.n_begun, 0);
  EXPECT_EQ(state("a"), State::loaded);
  lease.reset();
  EXPECT_EQ(status("b"), 200);
}

TEST_F(ModelShelfTest, ALoadKeepsNobodyElse) {
  add("a");
  FakeModel& b = add("b");
  open(0);
  b.is_held = true;
  Asked waiting = ask("b");
  b.n_begun.wait(0);
  EXPECT_EQ(state("b"), State::loading);
  EXPECT_FALSE(ask("a").has_to_wait);
  EXPECT_EQ(status(ask("b", 0.01)), 503);  // its deadline comes while the load runs
  b.let_go();
  EXPECT_EQ(status(std::move(waiting)), 200);
  EXPECT_EQ(b.n_loaded, 1);
}

TEST_F(ModelShelfTest, AFailedLoadIsTriedAgainWhenItIsAskedForAgain) {
  add("a");
  FakeModel& b = add("b");
  open(1);
  for (const Fault fault : {Fault::broken_header, Fault::broken_file, Fault::no_memory}) {
    b.fault = fault;
    const auto failed = get("b");
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().status, fault == Fault::no_memory ? 503 : 500);
    EXPECT_EQ(failed.error().message.find("secret"), std::string::npos) << failed.error().message;
    EXPECT_TRUE(of("b").has_failed);
    EXPECT_EQ(status("a"), 200);  // its memory was given back
  }
  EXPECT_EQ(of("b").figures.n_failed_loads, 3U);
  b.fault = Fault::none;
  EXPECT_EQ(status("b"), 200);
  EXPECT_FALSE(of("b").has_failed);
}

TEST_F(ModelShelfTest, WhatNeverFitsIsToldSoAndDisturbsNobody) {
  add("a");
  FakeModel& b = add("b", 6);
  open(5);
  EXPECT_EQ(status("b"), 500);
  EXPECT_EQ(state("a"), State::loaded);
  b.n_bytes = 5;  // another file in its place
  EXPECT_EQ(status("b"), 200);
}

TEST_F(ModelShelfTest, TheFirstOneHasToFitAndToLoad) {
  FakeModel& a = add("a", 6);
  add("b");
  const auto large = ModelShelf::open(sources(), {.budget_bytes = 5});
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code, ErrorCode::out_of_memory);
  a.fault = Fault::broken_file;
  const auto broken = ModelShelf::open(sources(), {.budget_bytes = 6});
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code, ErrorCode::format);
}

TEST_F(ModelShelfTest, AsManyWaitAsMay) {
  add("a");
  FakeModel& b = add("b");
  open(0, {.max_waiting = 2, .max_waiting_per_tenant = 1});
  b.is_held = true;
  Asked first = ask("b", 0, "one");
  EXPECT_EQ(status(ask("b", 0, "one")), 429);
  Asked second = ask("b", 0, "two");
  EXPECT_EQ(status(ask("b", 0, "three")), 503);
  EXPECT_EQ(of("b").figures.n_waiting, 2U);
  b.let_go();
  EXPECT_EQ(status(std::move(first)), 200);
  EXPECT_EQ(status(std::move(second)), 200);
}

TEST_F(ModelShelfTest, WhoIsForgottenIsNotCalled) {
  add("a");
  FakeModel& b = add("b");
  open(0);
  b.is_held = true;
  const int key = 0, other_key = 0;
  Asked gone = ask("b", 0, "", &key);
  Asked stays = ask("b", 0, "", &other_key);
  shelf_->forget(&key);
  shelf_->forget(&key);
  EXPECT_EQ(of("b").figures.n_waiting, 1U);
  b.let_go();
  EXPECT_EQ(status(std::move(stays)), 200);
  EXPECT_THROW(gone.outcome.get(), std::future_error);  // dropped, never called
}

TEST_F(ModelShelfTest, AModelNobodyWaitsForAnyMoreIsNotLoaded) {
  add("a");
  FakeModel& b = add("b");
  add("c");
  open(1);
  std::optional<ModelLease> lease = *get("a");
  const int key = 0;
  Asked gone = ask("b", 0, "", &key);
  Asked waiting = ask("c");
  shelf_->forget(&key);
  lease.reset();
  EXPECT_EQ(status(std::move(waiting)), 200);
  EXPECT_EQ(b.n_begun, 0);
}

TEST_F(ModelShelfTest, DrainingTellsWhoWaitsAndLetsWhatRunsEnd) {
  add("a");
  FakeModel& b = add("b");
  open(0);
  b.is_held = true;
  Asked waiting = ask("b");
  b.n_begun.wait(0);
  Scheduler& scheduler = *get("a")->model->scheduler;
  const auto stopper = test::hold_steps(scheduler);
  while (scheduler.stats().n_queued > 0) std::this_thread::yield();  // it runs
  bool is_clean = false;
  std::thread draining([&] { is_clean = shelf_->drain(60); });
  EXPECT_EQ(status(std::move(waiting)), 503);
  EXPECT_EQ(status("a"), 503);
  stopper->let_go();
  draining.join();
  EXPECT_TRUE(is_clean);
  b.let_go();
}

TEST_F(ModelShelfTest, AShelfThatEndsTellsWhoWaits) {
  add("a");
  FakeModel& b = add("b");
  open(0);
  b.is_held = true;
  Asked waiting = ask("b");
  b.n_begun.wait(0);
  std::thread ending([&] { shelf_.reset(); });
  EXPECT_EQ(status(std::move(waiting)), 503);
  b.let_go();
  ending.join();
}

TEST_F(ModelShelfTest, ModelsAreUsedWhileTheyComeAndGo) {
  for (const char* const name : {"a", "b", "c"}) add(name);
  open(1);
  std::vector<std::thread> threads;
  std::atomic<int> n_wrong{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k < 25; ++k) {
        const std::string name(1, static_cast<char>('a' + (i + k) % 3));
        const auto lease = get(name);
        const bool is_right = lease && lease->model->alias == name &&
                              lease->model->engine->tokenizer()->encode("some text", {}).size() == 9;
        n_wrong += is_right ? 0 : 1;
        for (const ModelStatus& model : shelf_->list())
          if (model.lease) n_wrong += model.lease->model->scheduler->stats().n_failed > 0 ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(n_wrong, 0);
}

}  // namespace
}  // namespace tamis::server
