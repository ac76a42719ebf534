// The scheduler on a model that was trained (tiny-kjv): texts, not noise. Every request gets the text it would get
// alone, among fifteen others, with stored pages and without, and after pauses.
#include <gtest/gtest.h>

#include "base/thread_pool.h"
#include "cpu/backend.h"
#include "tests/engine/schedule_helper.h"

namespace tamis {
namespace {

constexpr const char* kModel = TAMIS_SOURCE_DIR "/../shared/data/tiny-kjv/tiny-kjv-f32.gguf";

TEST(SchedulerShared, SixteenAnswersAreThoseOfSixteenSessions) {
  const auto pool = ThreadPool::create(2);
  const auto engine = Engine::load(kModel, *make_cpu_backend(pool.get()), {.n_ctx = 256});
  ASSERT_TRUE(engine.has_value()) << engine.error().to_string();
  const std::string beginning =
      "In the beginning God created the heaven and the earth. And the earth was without form, and void; and darkness "
      "was upon the face of the deep. And ";
  std::vector<GenerateRequest> requests;
  std::vector<test::Answer> expected;
  for (const char* end : {"the Spirit", "God said", "he", "they", "the LORD", "I", "all the people", "it came to pass",
                          "Moses", "the king", "there was", "when", "if", "the sons of", "behold", "David"}) {
    requests.push_back(test::greedy((*engine)->tokenizer()->encode(beginning + end, {.add_special = true}), 40));
    requests.back().ignore_eos = false;
    expected.push_back(test::alone(*engine, requests.back()));
    EXPECT_GT(expected.back().text.size(), 20u);
  }
  const auto page = (*engine)->model().make_cache((*engine)->kv_types()).page_bytes();
  for (const bool has_prefix_cache : {true, false}) {
    for (const uint32_t n_pages : {200u, 18u}) {
      auto scheduler = Scheduler::create(
          *engine,
          {.max_seqs = 16, .kv_bytes = n_pages * *page, .has_prefix_cache = has_prefix_cache, .pool = pool.get()});
      ASSERT_TRUE(scheduler.has_value()) << scheduler.error().to_string();
      for (int round = 0; round < 2; ++round) {
        std::vector<std::shared_ptr<test::Collector>> collectors;
        for (const GenerateRequest& request : requests) collectors.push_back(test::submit(**scheduler, request));
        for (size_t i = 0; i < requests.size(); ++i) {
          collectors[i]->wait();
          ASSERT_FALSE(collectors[i]->failure().has_value());
          EXPECT_EQ(collectors[i]->answer().text, expected[i].text) << n_pages << " pages";
          EXPECT_EQ(collectors[i]->answer().end->end, expected[i].end->end);
        }
      }
      EXPECT_EQ((*scheduler)->stats().n_cached_tokens > 0, has_prefix_cache);
    }
  }
}

}  // namespace
}  // namespace tamis
