// Pages of paused sequences go to a file and come back as they were; where they cannot, the sequence is computed again,
// and nobody can tell.
#include "engine/kv_spill.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <future>
#include <thread>

#include "base/rng.h"
#include "base/thread_pool.h"
#include "cpu/backend.h"
#include "tests/base/full_disk.h"
#include "tests/engine/schedule_helper.h"
#include "tests/engine/tiny_model.h"

namespace tamis {
namespace {

using test::Answer;
using test::Collector;
using test::FullDisk;
using test::greedy;
using test::submit;
using State = SpilledPages::State;

constexpr size_t kPageBytes = 4096;

std::vector<KvPage> pages_of(KvPagePool& pool, size_t n, char first) {
  std::vector<KvPage> pages;
  for (size_t i = 0; i < n; ++i) {
    pages.push_back(*pool.take());
    std::memset(pages.back().get(), first + static_cast<char>(i), kPageBytes);
  }
  return pages;
}

void finish(KvSpill& spill) {
  while (spill.is_busy()) spill.wait();
  spill.collect();
}

TEST(KvSpill, PagesComeBackAsTheyWere) {
  KvPagePool pool(kPageBytes, 10);
  auto spill = KvSpill::create(testing::TempDir(), kPageBytes, 8);
  ASSERT_TRUE(spill.has_value()) << spill.error().to_string();
  auto spilled = (*spill)->write(pages_of(pool, 5, 'a'), 3, 250);
  ASSERT_NE(spilled, nullptr);
  EXPECT_EQ((*spill)->n_leaving(), 5u);
  EXPECT_EQ(pool.n_used(), 5u) << "held while they are written";
  finish(**spill);
  EXPECT_EQ((*spill)->state(*spilled), State::stored);
  EXPECT_EQ((*spill)->n_leaving(), 0u);
  EXPECT_EQ((*spill)->n_stored(), 5u);
  EXPECT_EQ(pool.n_used(), 0u);
  EXPECT_EQ((*spill)->write(pages_of(pool, 4, 'k'), 0, 100), nullptr) << "no room for four more";

  std::vector<KvPage> back = pages_of(pool, 3, 'x');
  (*spill)->read(*spilled, back);
  finish(**spill);
  EXPECT_EQ((*spill)->state(*spilled), State::restored);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(back[i].use_count(), 1) << "nobody else holds it";
    const auto* const bytes = reinterpret_cast<const char*>(back[i].get());
    EXPECT_EQ(std::count(bytes, bytes + kPageBytes, static_cast<char>('c' + i)), static_cast<long>(kPageBytes));
  }
  EXPECT_EQ((*spill)->n_written(), 5u);
  EXPECT_EQ((*spill)->n_restored(), 3u);
  spilled = nullptr;
  (*spill)->collect();
  EXPECT_EQ((*spill)->n_stored(), 0u);
  EXPECT_GT((*spill)->seconds_for(10), 0);
}

TEST(KvSpill, WhoLeavesWhileItIsWrittenLeavesNothing) {
  KvPagePool pool(kPageBytes, 100);
  auto spill = KvSpill::create(testing::TempDir(), kPageBytes, 60);
  ASSERT_TRUE(spill.has_value());
  for (int round = 0; round < 50; ++round) {
    std::vector<std::shared_ptr<SpilledPages>> several;
    for (int i = 0; i < 6; ++i) several.push_back((*spill)->write(pages_of(pool, 1 + i, 'a'), 0, 1));
    several.erase(several.begin() + round % 5);
    finish(**spill);
    for (const auto& spilled : several) EXPECT_EQ((*spill)->state(*spilled), State::stored);
    EXPECT_EQ((*spill)->n_stored(), 21u - (1 + static_cast<size_t>(round) % 5));
    several.clear();
    (*spill)->collect();
    EXPECT_EQ((*spill)->n_stored(), 0u);
    EXPECT_EQ(pool.n_used(), 0u);
  }
  (*spill)->write(pages_of(pool, 40, 'a'), 0, 1);
  spill->reset();  // in the middle of it
  EXPECT_EQ(pool.n_used(), 0u);
}

// Whoever says something on stderr waits from now on until let_go().
class HeldLog {
 public:
  HeldLog() : stderr_(::dup(STDERR_FILENO)) {
    ::signal(SIGPIPE, SIG_IGN);  // where a test ends before it lets go
    EXPECT_EQ(::pipe(pipe_), 0);
    n_filled_ = static_cast<size_t>(::fcntl(pipe_[1], F_GETPIPE_SZ));
    const std::string filling(n_filled_, '.');
    EXPECT_EQ(::write(pipe_[1], filling.data(), n_filled_), static_cast<ssize_t>(n_filled_));
    ::dup2(pipe_[1], STDERR_FILENO);
  }
  ~HeldLog() {
    ::dup2(stderr_, STDERR_FILENO);
    for (const int fd : {pipe_[1], pipe_[0], stderr_}) ::close(fd);
  }
  HeldLog(const HeldLog&) = delete;
  HeldLog& operator=(const HeldLog&) = delete;

  void let_go() { read(n_filled_); }
  // What was said since. Requires: let_go, and that nobody says anything now.
  std::string text() {
    int n = 0;
    EXPECT_EQ(::ioctl(pipe_[0], FIONREAD, &n), 0);
    return read(static_cast<size_t>(n));
  }

 private:
  std::string read(size_t n) {
    std::string out(n, 0);
    for (size_t done = 0; done < n;) done += static_cast<size_t>(::read(pipe_[0], out.data() + done, n - done));
    return out;
  }
  int stderr_, pipe_[2] = {};
  size_t n_filled_ = 0;
};

TEST(KvSpill, NothingIsWrittenForWhoHasLeft) {
  KvPagePool pool(kPageBytes, 10);
  auto spill = KvSpill::create(testing::TempDir(), kPageBytes, 8);
  ASSERT_TRUE(spill.has_value());
  const FullDisk full(0);
  HeldLog log;
  const auto first = (*spill)->write(pages_of(pool, 1, 'a'), 0, 1);  // fails, and the thread waits to say so
  auto unwanted = (*spill)->write(pages_of(pool, 3, 'b'), 0, 1);
  const auto wanted = (*spill)->write(pages_of(pool, 2, 'c'), 0, 1);
  unwanted = nullptr;
  (*spill)->collect();
  EXPECT_EQ((*spill)->n_stored(), 3u);
  EXPECT_EQ((*spill)->n_leaving(), 3u);
  EXPECT_EQ(pool.n_used(), 3u);
  log.let_go();
  finish(**spill);
  const std::string said = log.text();
  EXPECT_EQ(std::ranges::count(said, '\n'), 2) << said;
  EXPECT_EQ((*spill)->state(*wanted), State::lost);
  EXPECT_EQ(pool.n_used(), 0u);
}

TEST(KvSpill, NothingStaysInTheDirectoryAndAFullDiskLosesPagesOnly) {
  const std::string dir = testing::TempDir() + "tamis_spill";
  std::filesystem::create_directory(dir);
  KvPagePool pool(kPageBytes, 10);
  auto spill = KvSpill::create(dir, kPageBytes, 8);
  ASSERT_TRUE(spill.has_value()) << spill.error().to_string();
  EXPECT_TRUE(std::filesystem::is_empty(dir)) << "the file has no name";
  const FullDisk full(2 * kPageBytes + 100);
  const auto fits = (*spill)->write(pages_of(pool, 2, 'a'), 0, 64);
  const auto does_not = (*spill)->write(pages_of(pool, 2, 'a'), 0, 64);
  finish(**spill);
  EXPECT_EQ((*spill)->state(*fits), State::stored);
  EXPECT_EQ((*spill)->state(*does_not), State::lost);
  EXPECT_EQ(pool.n_used(), 0u);
  EXPECT_FALSE(KvSpill::create(dir + "/none", kPageBytes, 8).has_value());
  std::filesystem::remove(dir);
}

class SchedulerSpill : public testing::Test {
 protected:
  SchedulerSpill() {
    Rng rng(6);
    for (int i = 0; i < 12; ++i) {
      std::vector<TokenId> prompt(40 + rng.below(60));
      for (TokenId& id : prompt) id = static_cast<TokenId>(rng.below(256));
      if (i % 4 == 1) std::copy_n(requests.back().prompt.begin(), 40, prompt.begin());  // begins like the one before
      requests.push_back(greedy(prompt, 150));
      requests.back().priority = i % 3;
      requests.back().n_choices = i == 5 ? 3 : 1;
      n_pages += KvCache::pages_of(prompt.size() + 150) * requests.back().n_choices;
    }
  }

  // Half the pages that are needed, and every pause a spill.
  SchedulerOptions half() const {
    return {.kv_bytes = n_pages / 2 * *engine->model().make_cache(engine->kv_types()).page_bytes(),
            .spill_dir = testing::TempDir(),
            .spill_margin = 0,
            .speculation = Speculation::off};
  }

  SchedulerStats run(const SchedulerOptions& options) {
    auto scheduler = Scheduler::create(engine, options);
    EXPECT_TRUE(scheduler.has_value());
    // Short answers first: more is then taken up than there will be room for.
    for (int i = 0; i < 60; ++i) submit(**scheduler, greedy({1, 2, 3}, 1))->wait();
    std::vector<std::shared_ptr<Collector>> collectors;
    for (const GenerateRequest& request : requests) collectors.push_back(submit(**scheduler, request));
    for (size_t i = 0; i < requests.size(); ++i) {
      collectors[i]->wait();
      EXPECT_FALSE(collectors[i]->failure().has_value());
      for (uint32_t choice = 0; choice < requests[i].n_choices; ++choice) {
        const Answer expected = test::alone(engine, requests[i], choice);
        EXPECT_EQ(collectors[i]->answer(choice).tokens, expected.tokens) << i;
        EXPECT_EQ(collectors[i]->answer(choice).text, expected.text) << i;
      }
    }
    EXPECT_TRUE((*scheduler)->drain(60));
    const SchedulerStats stats = (*scheduler)->stats();
    EXPECT_EQ(stats.n_failed, 0u);
    EXPECT_GT(stats.n_pauses, 0u) << "the test should reach pauses";
    return stats;
  }

  std::shared_ptr<const Engine> engine =
      test::load_tiny(test::write_tiny_model({.n_ctx_train = 512}), *make_cpu_backend(nullptr), {.n_batch = 64});
  std::vector<GenerateRequest> requests;
  size_t n_pages = 0;
};

TEST_F(SchedulerSpill, AnswersAreTheSameAfterASpill) {
  for (const bool has_prefix_cache : {true, false}) {
    SchedulerOptions options = half();
    options.has_prefix_cache = has_prefix_cache;
    const SchedulerStats with = run(options);
    EXPECT_GT(with.n_pages_spilled, 0u);
    EXPECT_GT(with.n_pages_restored, 0u);
    EXPECT_LE(with.n_pages_restored, with.n_pages_spilled);
    options.spill_dir = "";
    const SchedulerStats without = run(options);
    EXPECT_EQ(without.n_pages_spilled, 0u);
    options = half();
    options.has_prefix_cache = has_prefix_cache;
    options.speculation = Speculation::ngram;
    options.draft_margin = 0;
    run(options);
  }
}

TEST_F(SchedulerSpill, AFullDiskOrAFullFileFailsNobody) {
  {
    const FullDisk full(20000);  // some four pages
    run(half());
  }
  SchedulerOptions options = half();
  options.spill_bytes = 3 * options.kv_bytes / (n_pages / 2);  // three pages
  EXPECT_LE(run(options).kv_pages_spilled, 3u);
  options.spill_margin = 1e9;
  EXPECT_EQ(run(options).n_pages_spilled, 0u) << "computing again is sooner done";
}

TEST_F(SchedulerSpill, CancelAtAnyTimeGivesThePagesBack) {
  auto scheduler = Scheduler::create(engine, half());
  ASSERT_TRUE(scheduler.has_value());
  Rng rng(3);
  for (int round = 0; round < 6; ++round) {
    for (int i = 0; i < 60; ++i) submit(**scheduler, greedy({1, 2, 3}, 1))->wait();
    std::vector<std::shared_ptr<Collector>> collectors;
    std::vector<RequestId> ids(requests.size());
    for (size_t i = 0; i < requests.size(); ++i) collectors.push_back(submit(**scheduler, requests[i], &ids[i]));
    for (size_t i = 0; i < requests.size(); i += 2) {
      collectors[i]->wait_for_tokens(rng.below(120));
      (*scheduler)->cancel(ids[i]);
    }
    for (const auto& collector : collectors) collector->wait();
  }
  EXPECT_TRUE((*scheduler)->drain(60));
  for (int i = 0; i < 1000 && (*scheduler)->stats().n_running > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ((*scheduler)->stats().kv_pages_used, 0u);
}

// Holds the step thread in its request's last token too, with which the request's pages go.
class TwiceHolder : public test::Holder {
 public:
  TwiceHolder(size_t first, size_t last) : Holder(first), n_left_(last) {}
  void on_token(const TokenEvent& event) override {
    Holder::on_token(event);
    if (--n_left_ > 0) return;
    is_at_end_ = true;
    is_at_end_.notify_all();
    may_end_.wait(false);
  }
  void wait_until_at_end() const { is_at_end_.wait(false); }
  void let_end() {
    may_end_ = true;
    may_end_.notify_all();
  }

 private:
  size_t n_left_;
  std::atomic<bool> is_at_end_{false}, may_end_{false};
};

// Three answers in seven pages: the first has a third page, the second waits for one, and the two pages of the last are
// being written, which takes as long as the log is held. The step thread is held in a late token of the first.
class PagesLeaving : public testing::Test {
 protected:
  static constexpr size_t kPages = 7;
  static constexpr size_t kHeldIn = 70;  // of the first answer, whose third page lasts up to its 87th

  PagesLeaving() {
    Rng rng(2);
    for (std::byte& byte : some_pages) byte = static_cast<std::byte>(rng.below(100));
    // Short answers first, and each is expected to end within two pages.
    for (int i = 0; i < 60; ++i) submit(*scheduler, greedy({1, 2, 3}, 1))->wait();
    const auto starter = std::make_shared<test::Holder>();
    EXPECT_TRUE(scheduler->submit(greedy({1}, 1), starter));
    starter->wait_until_held();
    for (int32_t i = 0; i < 3; ++i) {
      // The more important, the longer.
      GenerateRequest request =
          greedy(test::some_tokens(12 - static_cast<size_t>(i)), i == 0 ? int64_t{kHeldIn} + 1 : 75);
      request.priority = 2 - i;
      if (i == 0) {
        const auto id = scheduler->submit(request, first);
        EXPECT_TRUE(id);
      } else {
        collectors.push_back(submit(*scheduler, request, &ids[static_cast<size_t>(i) - 1]));
      }
    }
    starter->let_go();
    first->wait_until_held();
  }
  ~PagesLeaving() override {
    for (const RequestId id : ids) scheduler->cancel(id);
    first->let_go();
    first->let_end();
  }

  std::future<size_t> store(size_t n_blocks) {
    return std::async(std::launch::async, [this, n_blocks] {
      const std::vector<TokenId> tokens = test::some_tokens(n_blocks * kPageTokens);
      const auto stored = scheduler->store(tokens, "", 0, std::span(some_pages).first(n_blocks * page_bytes));
      return stored.value_or(0) / kPageTokens;
    });
  }

  static constexpr size_t kPageTokens = KvCache::kPageTokens;
  std::shared_ptr<const Engine> engine =
      test::load_tiny(test::write_tiny_model({.n_ctx_train = 512}), *make_cpu_backend(nullptr), {.n_batch = 64});
  size_t page_bytes = *engine->model().make_cache(engine->kv_types()).page_bytes();
  std::vector<std::byte> some_pages = std::vector<std::byte>(kPages * page_bytes);
  FullDisk full{0};
  std::unique_ptr<Scheduler> scheduler = *Scheduler::create(engine, {.kv_bytes = kPages * page_bytes,
                                                                     .spill_dir = testing::TempDir(),
                                                                     .spill_margin = 0,
                                                                     .aging_seconds = 0,
                                                                     .has_prefix_cache = false,
                                                                     .speculation = Speculation::off});
  HeldLog log;
  std::shared_ptr<TwiceHolder> first = std::make_shared<TwiceHolder>(kHeldIn, kHeldIn + 1);
  std::vector<std::shared_ptr<Collector>> collectors;
  RequestId ids[2] = {};
};

// How long to wait for another thread to be where a test wants it. One that is later makes the test see less, and pass.
constexpr std::chrono::milliseconds kSomeTime(200);

TEST_F(PagesLeaving, WhoStoresWaitsForThem) {
  ASSERT_EQ(scheduler->stats().n_pauses, 1U);
  ASSERT_EQ(scheduler->stats().kv_pages_used, kPages);
  scheduler->cancel(ids[1]);
  std::future<size_t> stored = store(1);
  stored.wait_for(kSomeTime);
  first->let_go();
  EXPECT_EQ(stored.wait_for(kSomeTime), std::future_status::timeout) << "there is no page, but there will be";
  log.let_go();
  first->let_end();
  EXPECT_EQ(stored.get(), 1U);
}

TEST_F(PagesLeaving, WhoComesMeanwhileIsServed) {
  ASSERT_EQ(scheduler->stats().n_pauses, 1U);
  for (const RequestId id : ids) scheduler->cancel(id);
  first->let_go();
  first->let_end();
  first->wait();
  auto answered = std::async(std::launch::async, [this] { return submit(*scheduler, greedy({1, 2}, 3))->wait(); });
  EXPECT_EQ(answered.wait_for(100 * kSomeTime), std::future_status::ready) << "no step waits for the disk";
  log.let_go();
  EXPECT_EQ(answered.get().n_generated, 3U);
}

TEST_F(PagesLeaving, NobodyNeedsToComeForThemToBeFree) {
  ASSERT_EQ(scheduler->stats().n_pauses, 1U);
  for (const RequestId id : ids) scheduler->cancel(id);
  first->let_go();
  first->wait_until_at_end();
  // Comes before the step thread has nothing to do, so that it does not wait for what is being written.
  auto asked = std::async(std::launch::async, [this] { return scheduler->forget_stored({}, "").has_value(); });
  asked.wait_for(kSomeTime);
  first->let_end();
  asked.wait_for(50 * kSomeTime);
  log.let_go();
  EXPECT_TRUE(asked.get());
  for (int i = 0; i < 20000 && scheduler->stats().kv_pages_used > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(scheduler->stats().kv_pages_used, 0U);
  EXPECT_EQ(store(kPages).get(), kPages);
}

}  // namespace
}  // namespace tamis
