// Guesses of the next tokens: what they are, what they are worth, and that no answer can tell whether there were any.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "base/rng.h"
#include "base/thread_pool.h"
#include "cpu/backend.h"
#include "engine/draft_model.h"
#include "engine/draft_policy.h"
#include "engine/ngram_draft.h"
#include "tests/engine/schedule_helper.h"
#include "tests/engine/tiny_model.h"

namespace tamis {
namespace {

using test::alone;
using test::Answer;
using test::Collector;
using test::greedy;
using test::submit;

// What NgramDraft::guess says, found by looking everywhere: the longest agreement of the newest kLinks candidates.
std::vector<TokenId> plain_guess(const std::vector<TokenId>& tokens, size_t n_most, size_t& n_agreeing) {
  size_t best = 0;
  n_agreeing = NgramDraft::kLeast - 1;
  for (size_t at = tokens.size() - 1; at >= NgramDraft::kLeast; --at) {
    size_t n = 0;
    while (n < at && n < NgramDraft::kMostAgreeing && tokens[at - 1 - n] == tokens[tokens.size() - 1 - n]) ++n;
    if (n > n_agreeing) best = at, n_agreeing = n;
  }
  std::vector<TokenId> out;
  for (size_t i = 0; best > 0 && i < n_most; ++i)
    out.push_back(best + i < tokens.size() ? tokens[best + i] : out[best + i - tokens.size()]);
  if (best == 0) n_agreeing = 0;
  return out;
}

TEST(NgramDraft, GuessesWhatFollowedTheLongestEqualEnding) {
  NgramDraft draft;
  const std::vector<TokenId> tokens = {1, 2, 3, 4, 5, 6, 9, 2, 3, 4, 7, 8, 9, 1, 2, 3, 4};
  draft.extend(tokens);
  std::vector<TokenId> guess;
  EXPECT_EQ(draft.guess(tokens, 4, guess), 4u) << "1 2 3 4, not only 2 3 4";
  EXPECT_EQ(guess, (std::vector<TokenId>{5, 6, 9, 2}));
  const std::vector<TokenId> period = {7, 8, 9, 7, 8, 9, 7, 8};
  NgramDraft other;
  other.extend(period);
  EXPECT_EQ(other.guess(period, 5, guess), 5u);
  EXPECT_EQ(guess, (std::vector<TokenId>{9, 7, 8, 9, 7})) << "goes on behind the end";
  const std::vector<TokenId> none = {1, 2, 3, 4, 5};
  NgramDraft third;
  third.extend(none);
  EXPECT_EQ(third.guess(none, 5, guess), 0u);
  EXPECT_TRUE(guess.empty());
}

TEST(NgramDraft, FindsWhatLookingEverywhereFinds) {
  Rng rng(5);
  size_t n_guesses = 0;
  for (int round = 0; round < 200; ++round) {
    NgramDraft draft;
    std::vector<TokenId> tokens;
    const uint64_t n_values = 2 + rng.below(12);
    for (int length = 0; length < 120; ++length) {
      tokens.push_back(static_cast<TokenId>(rng.below(n_values) * 1000));
      if (rng.below(4) == 0) continue;  // several taken in at once
      draft.extend(tokens);
      std::vector<TokenId> guess;
      const size_t n = draft.guess(tokens, 6, guess);
      size_t n_plain = 0;
      const std::vector<TokenId> plain = plain_guess(tokens, 6, n_plain);
      ASSERT_LE(n, n_plain);
      ASSERT_EQ(n == 0, n_plain == 0);
      if (n_values < 6) continue;  // more places than are looked at
      ASSERT_EQ(n, n_plain);
      ASSERT_EQ(guess, plain);
      n_guesses += n > 0 ? 1 : 0;
    }
  }
  EXPECT_GT(n_guesses, 100u);
}

TEST(DraftPolicy, RowsAreAddedWhileTheyPay) {
  const auto policy_of = [](double base_ms, double row_ms, uint32_t n_answers) {
    DraftPolicy policy(1.2);
    Rng rng(1);
    for (int i = 0; i < 40; ++i) {
      const uint32_t n = n_answers + static_cast<uint32_t>(rng.below(8));
      policy.note(n, base_ms + row_ms * n);
    }
    return policy;
  };
  DraftPolicy cheap = policy_of(50, 1, 1);
  EXPECT_GE(cheap.n_worth(0.9, 1), 10u) << "a row of 1 ms in a step of 51";
  EXPECT_LE(cheap.n_worth(0.3, 1), 4u);
  EXPECT_GE(cheap.n_worth(0.3, 1), 2u);
  DraftPolicy loaded = policy_of(50, 10, 32);
  EXPECT_EQ(loaded.n_worth(0.8, 32), 0u) << "rows are what the step consists of";
  EXPECT_EQ(DraftPolicy(0).n_worth(0.01, 32), DraftPolicy::kMostTokens);
  EXPECT_EQ(DraftPolicy(1.2).n_worth(0.9, 1), 0u) << "nothing was measured";
  // Where rows are said to cost too much, now and then some are tried all the same.
  size_t n_tried = 0;
  for (int i = 0; i < 1000; ++i) n_tried += loaded.n_worth(0.8, 32) > 0 ? 1 : 0;
  EXPECT_GE(n_tried, 5u);
  EXPECT_LE(n_tried, 10u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(loaded.n_worth(0.1, 32), 0u);
}

TEST(DraftRecord, FollowsHowGuessesHold) {
  DraftRecord record;
  for (int i = 0; i < 100; ++i) record.note(3, false);
  for (int i = 0; i < 100; ++i) record.note(20, true);
  EXPECT_LT(record.chance(4), 0.01);
  EXPECT_GT(record.chance(32), 0.99);
  EXPECT_EQ(record.chance(8), 0.6) << "apart";
}

class SpeculationTest : public testing::Test {
 protected:
  // Few letters, so that every ending was there before; and text whose second half is its first.
  static std::vector<TokenId> prompt_of(Rng& rng, size_t n) {
    std::vector<TokenId> tokens(n);
    for (TokenId& id : tokens) id = static_cast<TokenId>(97 + rng.below(3));
    for (size_t i = n / 2; rng.below(2) == 0 && i < n; ++i) tokens[i] = tokens[i - n / 2];
    return tokens;
  }

  std::unique_ptr<ThreadPool> pool = ThreadPool::create(2);
  std::shared_ptr<const Engine> engine =
      test::load_tiny(test::write_tiny_model({.n_ctx_train = 256}), *make_cpu_backend(pool.get()), {.n_batch = 64});
};

TEST_F(SpeculationTest, ASessionsAnswerIsTheSame) {
  Rng rng(6);
  size_t n_accepted = 0, n_rejected = 0;
  for (int i = 0; i < 60; ++i) {
    GenerationOptions options;
    options.sampling.temp = i % 3 == 0 ? 0 : 0.2f * static_cast<float>(i % 5);
    options.sampling.seed = static_cast<uint64_t>(i);
    options.sampling.repeat_penalty = i % 4 == 0 ? 1.1f : 1;
    options.n_predict = i % 6 == 0 ? -1 : static_cast<int64_t>(rng.below(100));
    options.ignore_eos = i % 2 == 0;
    if (i % 7 == 0) options.stop = {"a", "e", "%"};
    const std::vector<TokenId> prompt = prompt_of(rng, 1 + rng.below(100));
    options.speculation = Speculation::off;
    Session plain(engine), guessing(engine);
    const auto expected = generate(plain, prompt, options, nullptr);
    options.speculation = Speculation::ngram;
    options.draft_margin = 0;
    const auto got = generate(guessing, prompt, options, nullptr);
    ASSERT_TRUE(expected && got);
    EXPECT_EQ(got->tokens, expected->tokens) << i;
    EXPECT_EQ(got->text, expected->text) << i;
    EXPECT_EQ(got->end, expected->end) << i;
    EXPECT_EQ(guessing.tokens(), plain.tokens()) << "nothing guessed stays";
    n_accepted += got->n_accepted;
    n_rejected += got->n_drafted - got->n_accepted;
  }
  EXPECT_GT(n_accepted, 40u);
  EXPECT_GT(n_rejected, 100u);
}

TEST_F(SpeculationTest, AnswersOfManyAreTheSame) {
  Rng rng(7);
  std::vector<GenerateRequest> requests;
  for (int i = 0; i < 24; ++i) {
    GenerateRequest request = greedy(prompt_of(rng, 1 + rng.below(120)), 1 + static_cast<int64_t>(rng.below(100)));
    request.sampling.temp = i % 3 == 0 ? 0.7f : 0;
    request.sampling.seed = static_cast<uint64_t>(i);
    request.sampling.frequency_penalty = i % 4 == 0 ? 0.3f : 0;
    request.ignore_eos = i % 2 == 0;
    if (i % 6 == 0) request.n_predict = -1;
    request.n_choices = i % 8 == 0 ? 2 : 1;
    request.has_logprobs = true;
    requests.push_back(std::move(request));
  }
  const uint64_t page_bytes = *engine->model().make_cache(engine->kv_types()).page_bytes();
  std::vector<std::vector<TokenLogprob>> logprobs;
  for (const Speculation speculation : {Speculation::off, Speculation::ngram}) {
    for (const uint32_t n_pages : {400u, 20u}) {
      auto scheduler = Scheduler::create(engine, {.max_seqs = 8,
                                                  .kv_bytes = n_pages * page_bytes,
                                                  .speculation = speculation,
                                                  .draft_margin = 0,
                                                  .pool = pool.get()});
      ASSERT_TRUE(scheduler.has_value());
      std::vector<std::shared_ptr<Collector>> collectors;
      for (const GenerateRequest& request : requests) collectors.push_back(submit(**scheduler, request));
      for (size_t i = 0; i < requests.size(); ++i) {
        const RequestReport& report = collectors[i]->wait();
        for (uint32_t choice = 0; choice < requests[i].n_choices; ++choice) {
          const Answer expected = alone(engine, requests[i], choice);
          EXPECT_EQ(collectors[i]->answer(choice).tokens, expected.tokens) << i;
          EXPECT_EQ(collectors[i]->answer(choice).text, expected.text) << i;
          EXPECT_EQ(collectors[i]->answer(choice).end->end, expected.end->end) << i;
        }
        EXPECT_LE(report.n_accepted, report.n_drafted);
        if (speculation == Speculation::off && n_pages == 400)
          logprobs.push_back(collectors[i]->answer().logprobs);
        else
          for (size_t j = 0; j < logprobs[i].size(); ++j)
            EXPECT_EQ(collectors[i]->answer().logprobs.at(j).logprob, logprobs[i][j].logprob) << "the same bits";
      }
      EXPECT_TRUE((*scheduler)->drain(60));
      const SchedulerStats stats = (*scheduler)->stats();
      EXPECT_EQ(stats.n_drafted_tokens > 0, speculation == Speculation::ngram);
      EXPECT_EQ(stats.n_accepted_tokens > 50, speculation == Speculation::ngram);
    }
  }
}

TEST_F(SpeculationTest, AGuessedTokenSavesAStepAndIsStored) {
  const auto trie = TokenTrie::create(*engine->tokenizer());
  const auto grammar = Grammar::from_regex("(The same again, and )*");
  ASSERT_TRUE(trie && grammar);
  GenerateRequest request = greedy({1, 2, 3}, 200);
  request.masks = std::make_shared<TokenMasks>(*grammar, *trie);
  uint64_t n_steps = 0;
  for (const Speculation speculation : {Speculation::off, Speculation::ngram}) {
    auto scheduler = Scheduler::create(engine, {.speculation = speculation, .draft_margin = 0});
    ASSERT_TRUE(scheduler.has_value());
    const auto first = submit(**scheduler, request);
    const RequestReport& report = first->wait();
    GenerateRequest next = request;
    next.prompt.insert(next.prompt.end(), first->answer().tokens.begin(), first->answer().tokens.end());
    next.n_predict = 1;
    next.masks = nullptr;
    EXPECT_EQ(submit(**scheduler, next)->wait().n_cached, 192u) << "what was guessed and held can be shared as well";
    EXPECT_TRUE((*scheduler)->drain(60));
    // The last step's figures follow its events.
    for (int i = 0; i < 1000 && (*scheduler)->stats().n_generated_tokens < 201; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const SchedulerStats stats = (*scheduler)->stats();
    if (speculation == Speculation::off) {
      n_steps = stats.n_steps;
    } else {
      EXPECT_EQ(stats.n_steps, n_steps - report.n_accepted);
      EXPECT_GT(report.n_accepted, 50u);
    }
  }
}

// A draft model that is the model itself guesses all right; another one of noise hardly anything. Nobody can tell.
TEST_F(SpeculationTest, ADraftModelSavesStepsAndChangesNothing) {
  const auto other = test::load_tiny(test::write_tiny_model({.n_expert = 2, .n_ctx_train = 256}),
                                     *make_cpu_backend(pool.get()), {.n_batch = 64});
  Rng rng(8);
  std::vector<GenerateRequest> requests;
  for (int i = 0; i < 12; ++i) {
    GenerateRequest request = greedy(prompt_of(rng, 1 + rng.below(120)), 20 + static_cast<int64_t>(rng.below(80)));
    request.sampling.temp = i % 3 == 0 ? 0 : 1;
    request.sampling.seed = static_cast<uint64_t>(i);
    request.sampling.repeat_penalty = i % 4 == 0 ? 1.2f : 1;
    request.n_choices = i % 5 == 0 ? 2 : 1;
    requests.push_back(std::move(request));
  }
  const uint64_t page_bytes = *engine->model().make_cache(engine->kv_types()).page_bytes();
  for (const auto& draft : {engine, other}) {
    for (const uint32_t n_pages : {400u, 20u}) {
      auto scheduler = Scheduler::create(
          engine,
          {.max_seqs = 8, .kv_bytes = n_pages * page_bytes, .draft = draft, .draft_margin = 0, .pool = pool.get()});
      ASSERT_TRUE(scheduler.has_value()) << scheduler.error().to_string();
      std::vector<std::shared_ptr<Collector>> collectors;
      for (const GenerateRequest& request : requests) collectors.push_back(submit(**scheduler, request));
      size_t n_generated = 0, n_accepted = 0;
      for (size_t i = 0; i < requests.size(); ++i) {
        const RequestReport& report = collectors[i]->wait();
        n_generated += report.n_generated;
        n_accepted += report.n_accepted;
        for (uint32_t choice = 0; choice < requests[i].n_choices; ++choice) {
          const Answer expected = alone(engine, requests[i], choice);
          EXPECT_EQ(collectors[i]->answer(choice).tokens, expected.tokens) << i;
          EXPECT_EQ(collectors[i]->answer(choice).text, expected.text) << i;
        }
      }
      if (n_pages != 400) continue;
      EXPECT_EQ(n_accepted > n_generated / 2, draft == engine) << n_accepted << " of " << n_generated;
    }
  }
}

// What no room can be found for is tried once, not again and again; what the text so far says is guessed all the same.
TEST_F(SpeculationTest, ADraftModelLeavesOutWhatItHasNoRoomFor) {
  Rng rng(9);
  auto draft = DraftModel::create(engine, *engine, 2);
  ASSERT_TRUE(draft.has_value());
  const std::vector<TokenId> prompt = prompt_of(rng, 100);
  DraftState state;
  const auto ask = [&] {
    DraftModel::Ask out{
        .state = &state, .tokens = prompt, .sampler = *SamplerChain::create({}, engine->model().n_vocab())};
    out.n_most = 4;
    (*draft)->guess({&out, 1});
    EXPECT_TRUE(out.guess.empty());
  };
  ask();
  EXPECT_EQ(state.tokens.size(), DraftModel::kCatchUp);
  for (int i = 0; i < 2; ++i) {
    ask();
    EXPECT_TRUE(state.is_left_out);
    EXPECT_FALSE(state.cache.has_value()) << "its pages are for others";
  }

  const auto small = test::load_tiny(test::write_tiny_model({.n_ctx_train = 256}), *make_cpu_backend(pool.get()),
                                     {.n_ctx = 32, .n_batch = 64});
  std::vector<GenerateRequest> requests;
  for (int i = 0; i < 12; ++i) requests.push_back(greedy(prompt_of(rng, 60), 100));
  std::vector<size_t> n_drafted;
  for (const auto& other : {std::shared_ptr<const Engine>(), small}) {
    auto scheduler = Scheduler::create(engine, {.draft = other, .draft_margin = 0});
    ASSERT_TRUE(scheduler.has_value());
    n_drafted.push_back(0);
    for (const GenerateRequest& request : requests) n_drafted.back() += submit(**scheduler, request)->wait().n_drafted;
  }
  EXPECT_GT(n_drafted[0], 0u);
  EXPECT_EQ(n_drafted[1], n_drafted[0]);
}

// Where rows are said to cost too much, a guess is tried now and then; it is priced once, and then computed.
TEST_F(SpeculationTest, ADraftModelsTrialsAreComputed) {
  GenerateRequest request = greedy({1, 2, 3}, 200);
  request.sampling.temp = 5;  // nothing comes again
  request.sampling.seed = 4;
  auto scheduler = Scheduler::create(engine, {.draft = engine, .draft_margin = 1e9});
  ASSERT_TRUE(scheduler.has_value());
  EXPECT_GT(submit(**scheduler, request)->wait().n_drafted, 0u);
}

TEST_F(SpeculationTest, ADraftModelOfAnotherVocabularyIsRefusedByName) {
  const auto other = test::load_tiny(test::write_tiny_model({.is_sentencepiece = true}), *make_cpu_backend(nullptr));
  const auto scheduler = Scheduler::create(engine, {.draft = other});
  ASSERT_FALSE(scheduler.has_value());
  EXPECT_NE(scheduler.error().to_string().find("for token 0, expected"), std::string::npos)
      << scheduler.error().to_string();
}

}  // namespace
}  // namespace tamis
