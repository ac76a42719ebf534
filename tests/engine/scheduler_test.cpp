// Many requests at once: every one gets the answer it would get alone, byte for byte, whoever else is there, whatever
// is found stored, and after any pause; pages come back; nobody makes another one fail; queues have an end.
#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <thread>

#include "base/rng.h"
#include "base/thread_pool.h"
#include "cpu/backend.h"
#include "engine/distribution.h"
#include "tests/engine/schedule_helper.h"
#include "tests/engine/tiny_model.h"

namespace tamis {
namespace {

using test::alone;
using test::Answer;
using test::Collector;
using test::greedy;
using test::load_tiny;
using test::submit;
using test::write_tiny_model;

constexpr uint32_t kPage = KvCache::kPageTokens;

std::shared_ptr<const Engine> tiny(uint32_t n_ctx = 512, ThreadPool* pool = nullptr) {
  return load_tiny(write_tiny_model({.n_ctx_train = n_ctx}), *make_cpu_backend(pool), {.n_batch = 64});
}

uint64_t page_bytes(const Engine& engine) { return *engine.model().make_cache(engine.kv_types()).page_bytes(); }

std::unique_ptr<Scheduler> start(const std::shared_ptr<const Engine>& engine, SchedulerOptions options = {},
                                 uint32_t n_pages = 0) {
  if (n_pages > 0) options.kv_bytes = n_pages * page_bytes(*engine);
  auto scheduler = Scheduler::create(engine, options);
  EXPECT_TRUE(scheduler.has_value()) << scheduler.error().to_string();
  return *std::move(scheduler);
}

std::vector<TokenId> random_prompt(Rng& rng, size_t n) {
  std::vector<TokenId> tokens(n);
  for (TokenId& id : tokens) id = static_cast<TokenId>(rng.below(256));
  return tokens;
}

void expect_same(const Answer& got, const Answer& expected, std::string_view what) {
  EXPECT_EQ(got.tokens, expected.tokens) << what;
  EXPECT_EQ(got.text, expected.text) << what;
  ASSERT_TRUE(got.end.has_value()) << what;
  EXPECT_EQ(got.end->end, expected.end->end) << what;
  EXPECT_EQ(got.end->n_tokens, expected.tokens.size()) << what;
}

// Nothing is in use once all have ended.
void expect_idle(Scheduler& scheduler) {
  EXPECT_TRUE(scheduler.drain(60));
  for (int i = 0; i < 1000 && scheduler.stats().n_running > 0; ++i)  // the last step's figures follow its events
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const SchedulerStats stats = scheduler.stats();
  EXPECT_EQ(stats.n_queued + stats.n_running + stats.n_paused, 0u);
  EXPECT_EQ(stats.kv_pages_used, 0u);
}

TEST(Scheduler, AnswersAsASessionDoes) {
  const auto engine = tiny();
  const auto scheduler = start(engine);
  Rng rng(1);
  std::vector<GenerateRequest> requests;
  for (const size_t n : {size_t{1}, size_t{31}, size_t{32}, size_t{33}, size_t{200}})
    requests.push_back(greedy(random_prompt(rng, n), 20));
  requests.push_back(requests.back());
  requests.back().sampling.temp = 0.8f;  // drawn, and ended by the model itself if it likes
  requests.back().sampling.seed = 5;
  requests.back().ignore_eos = false;
  requests.back().n_predict = -1;
  requests.push_back(requests.front());
  requests.back().n_predict = 0;
  requests.push_back(greedy(random_prompt(rng, 510), 20));  // the context ends before
  requests.push_back(greedy(random_prompt(rng, 512), 20));
  requests.push_back(requests[4]);
  const Answer whole = alone(engine, requests[4]);
  requests.back().stop = {whole.text.substr(5, 2), "never there"};
  for (const GenerateRequest& request : requests) {
    const auto collector = submit(*scheduler, request);
    const RequestReport& report = collector->wait();
    expect_same(collector->answer(), alone(engine, request), "prompt of " + std::to_string(request.prompt.size()));
    EXPECT_EQ(report.n_prompt, request.prompt.size());
    EXPECT_EQ(report.n_generated, collector->answer().tokens.size());
    EXPECT_FALSE(collector->failure().has_value());
    EXPECT_EQ(collector->answer().stop_string, request.stop.empty() ? "" : request.stop[0]);
  }
  expect_idle(*scheduler);
}

TEST(Scheduler, TheSameBytesAloneAndAmongFifteenOthers) {
  const auto pool = ThreadPool::create(3);
  const auto engine = tiny(512, pool.get());
  Rng rng(2);
  std::vector<GenerateRequest> requests;
  for (int i = 0; i < 16; ++i) {
    requests.push_back(greedy(random_prompt(rng, 1 + rng.below(150)), 10 + static_cast<int64_t>(rng.below(60))));
    requests.back().sampling.temp = i % 3 == 0 ? 0.9f : 0;
    requests.back().sampling.seed = i;
    requests.back().tenant = i % 2 == 0 ? "a" : "b";
  }
  std::vector<Answer> expected;
  for (const GenerateRequest& request : requests) expected.push_back(alone(engine, request));
  for (const uint32_t itl_target_ms : {1u, 250u}) {
    const auto scheduler = start(engine, {.itl_target_ms = itl_target_ms, .pool = pool.get()});
    std::vector<std::shared_ptr<Collector>> collectors;
    for (const GenerateRequest& request : requests) collectors.push_back(submit(*scheduler, request));
    for (size_t i = 0; i < requests.size(); ++i) {
      collectors[i]->wait();
      expect_same(collectors[i]->answer(), expected[i], "request " + std::to_string(i));
    }
    expect_idle(*scheduler);
    EXPECT_EQ(scheduler->stats().n_finished, 16u);
    EXPECT_LT(scheduler->stats().n_steps, 16u * 40) << "sequences share steps";
  }
}

TEST(Scheduler, StoredPagesAreSharedAndChangeNothing) {
  const auto engine = tiny();
  Rng rng(3);
  const std::vector<TokenId> common = random_prompt(rng, 200);
  GenerateRequest first = greedy(common, 50), second = first;
  second.prompt.push_back(7);
  const auto scheduler = start(engine);
  const auto before = submit(*scheduler, first);
  EXPECT_EQ(before->wait().n_cached, 0u);
  EXPECT_EQ(before->wait().miss, CacheMiss::unknown);
  const auto after = submit(*scheduler, second);
  EXPECT_EQ(after->wait().n_cached, 6 * kPage);
  EXPECT_EQ(after->wait().miss, CacheMiss::none) << "there is no other whole page";
  expect_same(after->answer(), alone(engine, second), "stored prompt");

  // What was generated is stored as well: the next turn of a conversation.
  GenerateRequest next = first;
  const std::vector<TokenId>& answer = before->answer().tokens;
  next.prompt.insert(next.prompt.end(), answer.begin(), answer.end());
  next.prompt.resize(300, 3);
  const auto turn = submit(*scheduler, next);
  EXPECT_EQ(turn->wait().n_cached, (200 + 50 - 1) / kPage * kPage);
  EXPECT_EQ(turn->wait().miss, CacheMiss::diverged);
  expect_same(turn->answer(), alone(engine, next), "next turn");

  next.cache_salt = "somebody else's";
  const auto salted = submit(*scheduler, next);
  EXPECT_EQ(salted->wait().n_cached, 0u);
  EXPECT_EQ(salted->wait().miss, CacheMiss::unknown);
  expect_same(salted->answer(), turn->answer(), "salted");

  const auto without = start(engine, {.has_prefix_cache = false});
  submit(*without, first)->wait();
  const auto again = submit(*without, first);
  EXPECT_EQ(again->wait().n_cached, 0u);
  expect_same(again->answer(), before->answer(), "without stored pages");
  expect_idle(*without);
  expect_idle(*scheduler);
  EXPECT_EQ(without->stats().kv_pages_stored, 0u);
}

TEST(Scheduler, APrefixOfManyIsComputedOnce) {
  const auto engine = tiny();
  Rng rng(4);
  const std::vector<TokenId> common = random_prompt(rng, 320);
  std::vector<GenerateRequest> requests;
  for (int i = 0; i < 16; ++i) {
    requests.push_back(greedy(common, 5));
    const std::vector<TokenId> own = random_prompt(rng, 10);
    requests.back().prompt.insert(requests.back().prompt.end(), own.begin(), own.end());
  }
  const auto scheduler = start(engine);
  std::vector<std::shared_ptr<Collector>> collectors;
  for (const GenerateRequest& request : requests) collectors.push_back(submit(*scheduler, request));
  size_t n_cached = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    n_cached += collectors[i]->wait().n_cached;
    expect_same(collectors[i]->answer(), alone(engine, requests[i]), "request " + std::to_string(i));
  }
  expect_idle(*scheduler);
  const SchedulerStats stats = scheduler->stats();
  EXPECT_EQ(stats.n_prompt_tokens, 16u * 330);
  EXPECT_EQ(stats.n_computed_tokens, 320u + 16 * 10) << "all at once, and yet once";
  EXPECT_EQ(stats.n_cached_tokens, 15u * 320);
  EXPECT_EQ(n_cached, stats.n_cached_tokens);
}

TEST(Scheduler, ChoicesShareTheirPrompt) {
  const auto engine = tiny();
  Rng rng(5);
  GenerateRequest request = greedy(random_prompt(rng, 75), 40);
  request.sampling.temp = 1;
  request.sampling.seed = 11;
  request.n_choices = 5;
  for (const bool has_prefix_cache : {true, false}) {
    const auto scheduler = start(engine, {.has_prefix_cache = has_prefix_cache});
    const auto collector = submit(*scheduler, request);
    const RequestReport& report = collector->wait();
    for (uint32_t i = 0; i < 5; ++i) {
      expect_same(collector->answer(i), alone(engine, request, i), "choice " + std::to_string(i));
      EXPECT_EQ(collector->answer(i).end->seed, 11 + i);
    }
    EXPECT_NE(collector->answer(0).text, collector->answer(1).text);
    EXPECT_EQ(report.n_generated, 200u);
    expect_idle(*scheduler);
    EXPECT_EQ(scheduler->stats().n_computed_tokens, 75u);
  }
}

TEST(Scheduler, APoolOfHalfTheSizeFailsNobody) {
  const auto engine = tiny();
  Rng rng(6);
  std::vector<GenerateRequest> requests;
  size_t n_pages = 0;
  for (int i = 0; i < 12; ++i) {
    requests.push_back(greedy(random_prompt(rng, 40 + rng.below(60)), 150));
    requests.back().priority = i % 3;
    requests.back().n_choices = i == 5 ? 3 : 1;
    n_pages += (requests.back().prompt.size() + 150 + kPage - 1) / kPage * requests.back().n_choices;
  }
  std::vector<Answer> expected;
  for (const GenerateRequest& request : requests) expected.push_back(alone(engine, request));
  for (const bool has_prefix_cache : {true, false}) {
    const auto scheduler = start(engine, {.has_prefix_cache = has_prefix_cache}, static_cast<uint32_t>(n_pages / 2));
    std::vector<std::shared_ptr<Collector>> collectors;
    // Short answers first: more is then taken up than there will be room for.
    for (int i = 0; i < 60; ++i) submit(*scheduler, greedy({1, 2, 3}, 1))->wait();
    for (const GenerateRequest& request : requests) collectors.push_back(submit(*scheduler, request));
    size_t n_pauses = 0;
    for (size_t i = 0; i < requests.size(); ++i) {
      n_pauses += collectors[i]->wait().n_pauses;
      EXPECT_FALSE(collectors[i]->failure().has_value());
      for (uint32_t choice = 0; choice < requests[i].n_choices; ++choice)
        expect_same(collectors[i]->answer(choice), expected[i], "request " + std::to_string(i));
    }
    expect_idle(*scheduler);
    EXPECT_EQ(scheduler->stats().n_pauses, n_pauses);
    EXPECT_GT(n_pauses, 0u) << "the test should reach pauses";
    EXPECT_EQ(scheduler->stats().n_failed, 0u);
  }
}

TEST(Scheduler, WhatCanNeverFitIsRefusedAndTheRestEndsWithThePool) {
  const auto engine = tiny();
  const auto scheduler = start(engine, {}, 3);
  EXPECT_EQ(scheduler->n_ctx(), 3 * kPage);
  Rng rng(7);
  const auto refused = scheduler->submit(greedy(random_prompt(rng, 3 * kPage + 1), 1), std::make_shared<Collector>());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().error.code, ErrorCode::invalid_argument);
  EXPECT_FALSE(refused.error().is_busy);
  const auto longest = submit(*scheduler, greedy(random_prompt(rng, 3 * kPage), -1));
  longest->wait();
  EXPECT_EQ(longest->answer().end->end, GenerationEnd::context_full);
  EXPECT_EQ(longest->answer().tokens.size(), 1u);
  GenerateRequest choices = greedy(random_prompt(rng, 2 * kPage + 1), -1);
  choices.n_choices = 4;
  choices.sampling.temp = 1;
  choices.sampling.seed = 1;
  const auto collector = submit(*scheduler, choices);
  collector->wait();
  EXPECT_FALSE(collector->failure().has_value()) << "one after another they fit";
  for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(collector->answer(i).tokens.size(), kPage);
  expect_idle(*scheduler);
}

TEST(Scheduler, RefusesWhatMakesNoSense) {
  const auto engine = tiny();
  const auto scheduler = start(engine, {.max_seqs = 8});
  const auto code = [&](const std::function<void(GenerateRequest&)>& change) {
    GenerateRequest request = greedy({1, 2, 3}, 1);
    change(request);
    const auto result = scheduler->submit(request, std::make_shared<Collector>());
    return result ? ErrorCode::internal : result.error().error.code;
  };
  EXPECT_EQ(code([](auto& r) { r.prompt.clear(); }), ErrorCode::invalid_argument);
  EXPECT_EQ(code([](auto& r) { r.prompt = {-1}; }), ErrorCode::invalid_argument);
  EXPECT_EQ(code([](auto& r) { r.prompt = {static_cast<TokenId>(test::kTinyVocab)}; }), ErrorCode::invalid_argument);
  EXPECT_EQ(code([](auto& r) { r.n_choices = 0; }), ErrorCode::invalid_argument);
  EXPECT_EQ(code([](auto& r) { r.n_choices = 9; }), ErrorCode::invalid_argument);
  EXPECT_EQ(code([](auto& r) { r.n_top_logprobs = 21; }), ErrorCode::invalid_argument);
  EXPECT_EQ(code([](auto& r) { r.sampling.top_p = -1; }), ErrorCode::invalid_argument);
  EXPECT_EQ(scheduler->stats().n_queued, 0u);
  EXPECT_EQ(scheduler->stats().n_refused, 7u);
  EXPECT_FALSE(Scheduler::create(engine, {.itl_target_ms = 0}).has_value());
  EXPECT_FALSE(Scheduler::create(engine, {.max_seqs = 0}).has_value());
  EXPECT_FALSE(Scheduler::create(engine, {.kv_bytes = 2 * page_bytes(*engine) - 1}).has_value());
}

TEST(Scheduler, OneRequestThatFailsIsAloneInIt) {
  const auto engine = tiny();
  const auto scheduler = start(engine);
  GenerateRequest impossible = greedy({1, 2, 3}, 5);
  for (uint32_t id = 0; id < test::kTinyVocab; ++id)
    impossible.sampling.logit_bias.push_back({static_cast<TokenId>(id), -std::numeric_limits<float>::infinity()});
  const GenerateRequest possible = greedy({1, 2, 3}, 30);
  const auto before = submit(*scheduler, possible), failing = submit(*scheduler, impossible),
             after = submit(*scheduler, possible);
  failing->wait();
  ASSERT_TRUE(failing->failure().has_value());
  EXPECT_EQ(failing->failure()->error.code, ErrorCode::invalid_argument);
  const Answer expected = alone(engine, possible);
  for (const auto& collector : {before, after}) {
    collector->wait();
    expect_same(collector->answer(), expected, "beside one that fails");
  }
  expect_idle(*scheduler);
  EXPECT_EQ(scheduler->stats().n_failed, 1u);
}

TEST(Scheduler, LogprobsAreTheModelsOwn) {
  const auto engine = tiny();
  const auto scheduler = start(engine);
  GenerateRequest request = greedy({5, 6, 7}, 4);
  request.n_top_logprobs = 3;
  request.sampling.logit_bias = {{42, 100}};  // what is chosen is not what the model finds likely
  const auto collector = submit(*scheduler, request);
  collector->wait();
  Session session(engine);
  auto logits = session.append(request.prompt);
  const Answer& answer = collector->answer();
  ASSERT_EQ(answer.tokens, std::vector<TokenId>(4, 42));
  for (size_t i = 0; i < 4; ++i) {
    const auto logprob = [&](TokenId id) { return -negative_log_likelihood(*logits, static_cast<size_t>(id)); };
    EXPECT_NEAR(answer.logprobs[i].logprob, logprob(42), 1e-5);
    ASSERT_EQ(answer.tops[i].size(), 3u);
    EXPECT_EQ(answer.tops[i][0].id, static_cast<TokenId>(top_index(*logits)));
    for (const TokenLogprob& top : answer.tops[i]) EXPECT_NEAR(top.logprob, logprob(top.id), 1e-5);
    EXPECT_GE(answer.tops[i][0].logprob, answer.tops[i][1].logprob);
    logits = session.append(std::span(&answer.tokens[i], 1));
  }
}

TEST(Scheduler, MinTokensHoldsTheEndBack) {
  const auto engine = tiny();
  const auto scheduler = start(engine);
  GenerateRequest request = greedy({1, 2, 3}, 20);
  request.ignore_eos = false;
  request.sampling.logit_bias = {{test::kTinyEnd, 1000}};
  const auto at_once = submit(*scheduler, request);
  at_once->wait();
  EXPECT_TRUE(at_once->answer().tokens.empty());
  EXPECT_EQ(at_once->answer().end->end, GenerationEnd::end_of_text);
  request.min_tokens = 7;
  const auto later = submit(*scheduler, request);
  later->wait();
  EXPECT_EQ(later->answer().tokens.size(), 7u);
  EXPECT_EQ(later->answer().end->end, GenerationEnd::end_of_text);
}

TEST(Scheduler, AnswersKeepToTheirGrammar) {
  const auto engine = tiny();
  const auto trie = TokenTrie::create(*engine->tokenizer());
  ASSERT_TRUE(trie.has_value());
  const auto grammar = Grammar::from_regex("(yes|no): [0-9]{3,40}(\\.[a-f]+)?!");
  ASSERT_TRUE(grammar.has_value());
  Rng rng(13);
  const auto scheduler = start(engine);
  std::vector<GenerateRequest> requests(6, greedy(random_prompt(rng, 50), 400));
  requests[1].n_choices = 4;
  std::vector<std::shared_ptr<Collector>> collectors;
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].ignore_eos = false;
    requests[i].sampling.temp = 1.5f;
    requests[i].sampling.seed = i;
    if (i % 2 == 1) requests[i].masks = std::make_shared<TokenMasks>(*grammar, *trie);
    collectors.push_back(submit(*scheduler, requests[i]));
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    collectors[i]->wait();
    ASSERT_FALSE(collectors[i]->failure().has_value()) << collectors[i]->failure()->error.to_string();
    for (uint32_t choice = 0; choice < requests[i].n_choices; ++choice) {
      const Answer& answer = collectors[i]->answer(choice);
      if (requests[i].masks == nullptr) {
        expect_same(answer, alone(engine, requests[i]), "beside others with a grammar");
        continue;
      }
      EXPECT_TRUE(grammar->matches(answer.text)) << answer.text;
      EXPECT_EQ(answer.end->end, GenerationEnd::end_of_text);
    }
  }
}

TEST(Scheduler, ASpaceThatTheGrammarWantsIsInTheText) {
  const auto engine =
      load_tiny(write_tiny_model({.n_ctx_train = 512, .is_sentencepiece = true}), *make_cpu_backend(), {.n_batch = 64});
  const auto scheduler = start(engine);
  GenerateRequest request = greedy({1, 2, 3}, 20);
  request.masks =
      std::make_shared<TokenMasks>(*Grammar::from_gbnf("root ::= \" yes\""), *TokenTrie::create(*engine->tokenizer()));
  const auto collector = submit(*scheduler, request);
  collector->wait();
  EXPECT_EQ(collector->answer().text, " yes");
}

TEST(Scheduler, AnAnswerThatItsGrammarCannotFollowFailsAlone) {
  const auto engine = tiny();
  const auto scheduler = start(engine);
  const GenerateRequest other = greedy({1, 2, 3}, 30);
  GenerateRequest ambiguous = greedy({1, 2, 3}, 400);
  ambiguous.sampling.logit_bias = {{'a', 100}};
  ambiguous.masks = std::make_shared<TokenMasks>(*Grammar::from_gbnf(test::too_ambiguous_grammar()),
                                                 *TokenTrie::create(*engine->tokenizer()));
  const auto beside = submit(*scheduler, other), failing = submit(*scheduler, ambiguous);
  failing->wait();
  ASSERT_TRUE(failing->failure().has_value());
  EXPECT_EQ(failing->failure()->error.code, ErrorCode::unsupported);
  EXPECT_NE(failing->failure()->error.message.find("too many ways"), std::string::npos)
      << failing->failure()->error.message;
  EXPECT_FALSE(failing->failure()->is_busy);
  beside->wait();
  expect_same(beside->answer(), alone(engine, other), "beside one whose grammar gives up");
  expect_idle(*scheduler);
}

TEST(Scheduler, TheQueueHasAnEnd) {
  const auto engine = tiny();
  const auto scheduler = start(engine, {.max_seqs = 1, .max_queue = 3});
  const GenerateRequest endless = greedy({1, 2, 3}, 500);
  RequestId id = 0;
  const auto running = submit(*scheduler, endless, &id);
  running->wait_for_tokens(1);
  std::vector<std::shared_ptr<Collector>> waiting;
  for (int i = 0; i < 3; ++i) waiting.push_back(submit(*scheduler, greedy({4}, 1)));
  EXPECT_EQ(scheduler->stats().n_queued, 3u);
  const auto refused = scheduler->submit(endless, std::make_shared<Collector>());
  ASSERT_FALSE(refused.has_value());
  EXPECT_TRUE(refused.error().is_busy);
  EXPECT_GE(refused.error().retry_after_seconds, 1);
  scheduler->cancel(id);
  running->wait();
  EXPECT_EQ(running->answer().end->end, GenerationEnd::cancelled);
  const std::vector<TokenId> whole = alone(engine, endless).tokens, &part = running->answer().tokens;
  EXPECT_TRUE(part.size() < whole.size() && std::equal(part.begin(), part.end(), whole.begin()));
  for (const auto& collector : waiting) EXPECT_EQ(collector->wait().n_generated, 1u);
  expect_idle(*scheduler);
  EXPECT_TRUE(scheduler->submit(endless, std::make_shared<Collector>()).error().is_busy) << "drained";
}

TEST(Scheduler, WaitingTooLongIsAnAnswerToo) {
  const auto engine = tiny();
  const auto scheduler = start(engine, {.max_seqs = 1, .queue_timeout_seconds = 0.02});
  RequestId id = 0;
  const auto running = submit(*scheduler, greedy({1, 2, 3}, 500), &id);
  running->wait_for_tokens(1);
  // Whatever ends first: this wait, or the answer before it.
  std::vector<std::shared_ptr<Collector>> waiting;
  for (int i = 0; i < 4; ++i)
    waiting.push_back(submit(*scheduler, greedy(random_prompt(*std::make_unique<Rng>(i), 400), 400)));
  size_t n_refused = 0;
  for (const auto& collector : waiting) {
    const RequestReport& report = collector->wait();
    if (!collector->failure()) continue;
    ++n_refused;
    EXPECT_TRUE(collector->failure()->is_busy);
    EXPECT_GE(report.queue_seconds, 0.02);
  }
  EXPECT_GT(n_refused, 0u);
  running->wait();
  expect_idle(*scheduler);
}

TEST(Scheduler, PriorityGoesFirstAndShortPromptsPassLongOnes) {
  const auto engine = tiny();
  Rng rng(8);
  const auto scheduler = start(engine, {.max_seqs = 1});
  RequestId id = 0;
  const auto running = submit(*scheduler, greedy({1}, 500), &id);
  running->wait_for_tokens(1);
  GenerateRequest request = greedy(random_prompt(rng, 400), 2);
  const auto longer = submit(*scheduler, request);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  const auto shorter = submit(*scheduler, greedy(random_prompt(rng, 3), 2));
  request.priority = 1;
  const auto urgent = submit(*scheduler, request);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the shorter's wait now weighs more
  scheduler->cancel(id);
  for (const auto& collector : {running, longer, shorter, urgent}) collector->wait();
  EXPECT_LT(running->order(), urgent->order());
  EXPECT_LT(urgent->order(), shorter->order());
  EXPECT_LT(shorter->order(), longer->order());
}

TEST(Scheduler, TenantsGetEqualSharesWhateverTheyAskFor) {
  const auto engine = tiny();
  Rng rng(9);
  const auto scheduler = start(engine, {.max_seqs = 4, .max_queue = 1000});
  std::vector<std::shared_ptr<Collector>> greedy_one, modest;
  for (int i = 0; i < 220; ++i) {
    GenerateRequest request = greedy(random_prompt(rng, 30), 30);
    request.tenant = i % 11 == 10 ? "modest" : "greedy";
    (i % 11 == 10 ? modest : greedy_one).push_back(submit(*scheduler, request));
  }
  size_t last = 0;
  for (const auto& collector : modest) {
    collector->wait();
    last = std::max(last, collector->order());
  }
  for (const auto& collector : greedy_one) collector->wait();
  // When the modest tenant's 20 had ended, the greedy one's may have been about as many, not 200.
  const auto n_before = static_cast<size_t>(
      std::ranges::count_if(greedy_one, [&](const auto& collector) { return collector->order() < last; }));
  EXPECT_LE(n_before, 2 * modest.size());
  expect_idle(*scheduler);
}

TEST(Scheduler, CancelAtAnyTimeGivesThePagesBack) {
  const auto engine = tiny();
  Rng rng(10);
  const auto scheduler = start(engine, {.max_seqs = 4}, 40);
  for (int i = 0; i < 60; ++i) {
    GenerateRequest request = greedy(random_prompt(rng, 1 + rng.below(300)), 200);
    request.n_choices = 1 + static_cast<uint32_t>(rng.below(3));
    RequestId id = 0;
    const auto collector = submit(*scheduler, request, &id);
    if (rng.below(2) == 0) collector->wait_for_tokens(rng.below(40));
    scheduler->cancel(id);
    scheduler->cancel(id);
    if (rng.below(2) == 0) collector->wait();
  }
  scheduler->cancel(12345678);
  expect_idle(*scheduler);
}

TEST(Scheduler, TellsWhoIsThere) {
  const auto engine = tiny();
  const auto scheduler = start(engine, {.max_seqs = 1});
  EXPECT_TRUE(scheduler->sequences().empty());
  const auto held = std::make_shared<test::Holder>(3);
  const auto first = scheduler->submit(greedy({1, 2, 3, 4}, 8), held);
  ASSERT_TRUE(first);
  held->wait_until_held();
  RequestId second = 0;
  const auto waiting = submit(*scheduler, greedy({5, 6}, 2), &second);
  const std::vector<SequenceInfo> there = scheduler->sequences();
  ASSERT_EQ(there.size(), 2U);
  EXPECT_EQ(there[0].request_id, *first);
  EXPECT_EQ(there[0].state, SequenceInfo::State::running);
  EXPECT_EQ(there[0].n_prompt, 4U);
  EXPECT_EQ(there[0].n_computed, 5U);  // of the step before the one that is held
  EXPECT_EQ(there[0].n_generated, 2U);
  EXPECT_EQ(there[1].request_id, second);
  EXPECT_EQ(there[1].state, SequenceInfo::State::waiting);
  EXPECT_EQ(there[1].n_computed, 0U);
  held->let_go();
  held->wait();
  waiting->wait();
  EXPECT_TRUE(scheduler->drain(60));
}

TEST(Scheduler, DestroyedWhileBusyEverybodyHearsTheEnd) {
  const auto engine = tiny();
  Rng rng(11);
  std::vector<std::shared_ptr<Collector>> collectors;
  {
    const auto scheduler = start(engine, {.max_seqs = 2});
    for (int i = 0; i < 6; ++i) collectors.push_back(submit(*scheduler, greedy(random_prompt(rng, 100), 300)));
    collectors[0]->wait_for_tokens(3);
  }
  for (const auto& collector : collectors) {
    collector->wait();
    EXPECT_TRUE(collector->answer().end.has_value());
  }
}

TEST(Scheduler, DrainCancelsWhatTakesTooLong) {
  const auto engine = tiny();
  const auto scheduler = start(engine, {.max_seqs = 1});
  std::vector<std::shared_ptr<Collector>> collectors;
  for (int i = 0; i < 50; ++i) collectors.push_back(submit(*scheduler, greedy({1, 2}, 500)));
  EXPECT_FALSE(scheduler->drain(0.01));
  EXPECT_EQ(collectors.back()->answer().end->end, GenerationEnd::cancelled);
  EXPECT_TRUE(scheduler->drain(0));
}

// Whatever is asked for, in whatever order it is cancelled: answers are prefixes of what each would get alone, whole
// unless cancelled, and no page is lost.
TEST(Scheduler, TwoHundredRandomRequests) {
  const auto pool = ThreadPool::create(2);
  const auto engine = tiny(256, pool.get());
  Rng rng(12);
  std::vector<std::vector<TokenId>> beginnings;
  for (int i = 0; i < 4; ++i) beginnings.push_back(random_prompt(rng, 40 + 20 * i));
  const auto scheduler = start(engine, {.itl_target_ms = 5, .max_seqs = 8, .pool = pool.get()}, 24);
  struct Asked {
    GenerateRequest request;
    std::shared_ptr<Collector> collector;
    bool is_cancelled;
  };
  std::vector<Asked> all;
  for (int i = 0; i < 200; ++i) {
    GenerateRequest request = greedy(random_prompt(rng, 1 + rng.below(80)), static_cast<int64_t>(rng.below(60)));
    if (rng.below(2) == 0) {
      const auto& beginning = beginnings[rng.below(4)];
      request.prompt.insert(request.prompt.begin(), beginning.begin(), beginning.end());
    }
    request.priority = static_cast<int32_t>(rng.below(3));
    request.tenant = std::to_string(rng.below(3));
    request.cache_salt = rng.below(8) == 0 ? "salt" : "";
    request.n_choices = rng.below(6) == 0 ? 3 : 1;
    request.sampling.temp = rng.below(2) == 0 ? 0 : 0.7f;
    request.sampling.seed = i;
    RequestId id = 0;
    const auto collector = submit(*scheduler, request, &id);
    all.push_back({request, collector, rng.below(4) == 0});
    if (all.back().is_cancelled) {
      collector->wait_for_tokens(rng.below(10));
      scheduler->cancel(id);
    }
    const SchedulerStats stats = scheduler->stats();
    EXPECT_LE(stats.kv_pages_used + stats.kv_pages_stored, stats.kv_pages);
    EXPECT_LE(stats.n_running, 8u);
  }
  for (const Asked& asked : all) {
    asked.collector->wait();
    ASSERT_FALSE(asked.collector->failure().has_value()) << asked.collector->failure()->error.to_string();
    for (uint32_t i = 0; i < asked.request.n_choices; ++i) {
      const Answer expected = alone(engine, asked.request, i);
      const Answer& got = asked.collector->answer(i);
      ASSERT_LE(got.tokens.size(), expected.tokens.size());
      EXPECT_TRUE(std::equal(got.tokens.begin(), got.tokens.end(), expected.tokens.begin()));
      if (!asked.is_cancelled) expect_same(got, expected, "not cancelled");
    }
  }
  expect_idle(*scheduler);
  const SchedulerStats stats = scheduler->stats();
  EXPECT_EQ(stats.n_finished + stats.n_cancelled, 200u);
  EXPECT_GT(stats.n_pages_evicted, 0u);
}

}  // namespace
}  // namespace tamis
