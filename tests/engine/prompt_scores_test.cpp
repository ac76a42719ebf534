// How probable a prompt's own tokens are, through the scheduler: what a plain forward says, bit for bit, whatever else
// runs, however the prompt is cut, with stored pages and without.
#include <gtest/gtest.h>

#include <cmath>

#include "compute/reference.h"
#include "cpu/backend.h"
#include "engine/distribution.h"
#include "engine/sampler_steps.h"
#include "engine/scheduler.h"
#include "engine/scheduler_sequence.h"
#include "tests/engine/schedule_helper.h"
#include "tests/engine/tiny_model.h"

namespace tamis {
namespace {

using test::alone;
using test::Collector;
using test::greedy;
using test::some_tokens;

constexpr uint32_t kTop = 3;

class ScoreCollector : public Collector {
 public:
  using Collector::Collector;
  void on_prompt_scores(std::span<const TokenScore> got) override {
    scores.insert(scores.end(), got.begin(), got.end());
    ++n_calls;
  }
  // after wait()
  std::vector<TokenScore> scores;
  size_t n_calls = 0;
};

std::unique_ptr<Backend> backend_of(bool is_reference) {
  return is_reference ? make_reference_backend() : *make_cpu_backend();
}

std::shared_ptr<const Engine> tiny(bool is_reference = false) {
  return test::load_tiny(test::write_tiny_model({.n_ctx_train = 512}), backend_of(is_reference), {.n_batch = 64});
}

std::unique_ptr<Scheduler> start(const std::shared_ptr<const Engine>& engine, const SchedulerOptions& options) {
  auto scheduler = Scheduler::create(engine, options);
  EXPECT_TRUE(scheduler) << scheduler.error().to_string();
  return *std::move(scheduler);
}

GenerateRequest scored(std::vector<TokenId> prompt, int64_t n) {
  GenerateRequest request = greedy(std::move(prompt), n);
  request.scores_prompt = request.has_logprobs = true;
  request.n_top_logprobs = kTop;
  return request;
}

std::shared_ptr<ScoreCollector> submit(Scheduler& scheduler, GenerateRequest request, RequestId* id = nullptr) {
  auto collector = std::make_shared<ScoreCollector>(request.n_choices);
  const auto submitted = scheduler.submit(std::move(request), collector);
  EXPECT_TRUE(submitted);
  if (id != nullptr && submitted) *id = *submitted;
  return collector;
}

// All tokens in one forward that hands out all logits; the arithmetic of a distribution on them.
std::vector<TokenScore> plain_scores(const Engine& engine, const std::vector<TokenId>& prompt) {
  const std::vector<float> logits = test::plain_logits(engine, prompt);
  const size_t n_vocab = engine.model().n_vocab();
  std::vector<TokenScore> out;
  for (size_t i = 0; i + 1 < prompt.size(); ++i) {
    const auto row = std::span(logits).subspan(i * n_vocab, n_vocab);
    const auto logprob = [&](TokenId id) {
      return TokenLogprob{id, static_cast<float>(-negative_log_likelihood(row, static_cast<size_t>(id)))};
    };
    TokenScore& score = out.emplace_back();
    score.logprob = logprob(prompt[i + 1]);
    for (const Candidate& candidate : top_k_candidates(row, kTop)) score.top.push_back(logprob(candidate.id));
  }
  return out;
}

void expect_equal(const TokenLogprob& got, const TokenLogprob& wanted) {
  EXPECT_EQ(got.id, wanted.id);
  EXPECT_EQ(got.logprob, wanted.logprob);
}

void expect_equal(const std::vector<TokenScore>& got, const std::vector<TokenScore>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    expect_equal(got[i].logprob, wanted[i].logprob);
    ASSERT_EQ(got[i].top.size(), wanted[i].top.size());
    for (size_t k = 0; k < wanted[i].top.size(); ++k) expect_equal(got[i].top[k], wanted[i].top[k]);
  }
}

TEST(PromptScores, AreThoseOfAPlainForward) {
  for (const bool is_reference : {false, true}) {
    const auto engine = tiny(is_reference);
    const auto scheduler = start(engine, {});
    for (const size_t n : {1, 2, 31, 32, 33, 64, 65, 200}) {
      const auto prompt = some_tokens(n);
      const auto got = submit(*scheduler, scored(prompt, 1));
      EXPECT_EQ(got->wait().n_generated, 1U);
      expect_equal(got->scores, plain_scores(*engine, prompt));
      EXPECT_EQ(got->n_calls, n == 1 ? 0U : (n + 63) / 64 - (n % 64 == 1 ? 1 : 0));  // one a step
    }
  }
}

TEST(PromptScores, NothingNeedBeGenerated) {
  const auto engine = tiny();
  const auto scheduler = start(engine, {});
  const auto prompt = some_tokens(100);
  const auto got = submit(*scheduler, scored(prompt, 0));
  EXPECT_EQ(got->wait().n_generated, 0U);
  EXPECT_EQ(got->answer().end->end, GenerationEnd::token_limit);
  expect_equal(got->scores, plain_scores(*engine, prompt));
}

TEST(PromptScores, TheSameBitsWhateverElseRuns) {
  const auto engine = tiny();
  const auto prompt = some_tokens(150);
  const auto expected = plain_scores(*engine, prompt);
  SchedulerOptions options;
  options.max_batched_tokens = 16;
  options.max_seqs = 16;
  const auto pool = ThreadPool::create(2);
  for (ThreadPool* const each : {static_cast<ThreadPool*>(nullptr), pool.get()}) {
    options.pool = each;
    const auto scheduler = start(engine, options);
    const auto plain = greedy(prompt, 4);
    test::submit(*scheduler, plain)->wait();  // now its pages are stored
    std::vector<GenerateRequest> others;
    std::vector<std::shared_ptr<Collector>> answers;
    for (size_t i = 0; i < 6; ++i) {
      others.push_back(greedy(some_tokens(20 + 7 * i), 40));
      answers.push_back(test::submit(*scheduler, others.back()));
    }
    std::vector<std::shared_ptr<ScoreCollector>> several;
    for (uint32_t i = 0; i < 3; ++i) {
      GenerateRequest request = scored(prompt, 4);
      request.n_choices = i + 1;
      several.push_back(submit(*scheduler, std::move(request)));
    }
    for (size_t i = 0; i < several.size(); ++i) {
      const RequestReport report = several[i]->wait();
      EXPECT_EQ(report.n_cached, 0U);
      EXPECT_EQ(report.miss, CacheMiss::bypassed);
      expect_equal(several[i]->scores, expected);
      for (uint32_t k = 0; k <= i; ++k) EXPECT_EQ(several[i]->answer(k).tokens, alone(engine, plain).tokens);
    }
    for (size_t i = 0; i < others.size(); ++i) {
      answers[i]->wait();
      EXPECT_EQ(answers[i]->answer().tokens, alone(engine, others[i]).tokens);
    }
    EXPECT_GT(test::submit(*scheduler, plain)->wait().n_cached, 0U);  // what was stored still is
  }
}

TEST(PromptScores, SurviveAPause) {
  const auto engine = tiny();
  const auto prompt = some_tokens(200);
  // An answer that matters more takes the pages of the prompt that is read beside it, token by token.
  SchedulerOptions options;
  options.max_batched_tokens = options.max_seqs = 2;
  options.kv_bytes = 11 * *engine->model().make_cache(engine->kv_types()).page_bytes();
  const auto scheduler = start(engine, options);
  for (int i = 0; i < 40; ++i) test::submit(*scheduler, greedy({1}, 1))->wait();  // answers are short, it seems
  const auto held = std::make_shared<test::Holder>();
  ASSERT_TRUE(scheduler->submit(greedy({1}, 1), held));
  held->wait_until_held();  // so that the two begin together
  const auto got = submit(*scheduler, scored(prompt, 1));
  GenerateRequest other = greedy(some_tokens(10), 300);
  other.priority = 1;
  const auto answer = test::submit(*scheduler, other);
  held->let_go();
  EXPECT_GT(got->wait().n_pauses, 0U);
  expect_equal(got->scores, plain_scores(*engine, prompt));
  answer->wait();
}

TEST(PromptScores, TheEndOfATextHasAScore) {
  const auto engine = tiny();
  const auto scheduler = start(engine, {});
  const TokenId end = engine->tokenizer()->special().eos;
  ASSERT_NE(end, kNoToken);
  GenerateRequest request = scored(some_tokens(20), 5);
  request.ignore_eos = false;
  request.sampling.logit_bias.push_back({end, 100});
  const auto got = submit(*scheduler, request);
  EXPECT_EQ(got->wait().n_generated, 0U);
  EXPECT_EQ(got->answer().end->end, GenerationEnd::end_of_text);
  EXPECT_EQ(got->answer().end->end_token.logprob.id, end);
  EXPECT_LT(got->answer().end->end_token.logprob.logprob, 0) << "the model's own, before bias";
  EXPECT_EQ(got->answer().end->end_token.top.size(), kTop);
  request.has_logprobs = request.scores_prompt = false;
  request.n_top_logprobs = 0;
  const auto unasked = submit(*scheduler, request);
  unasked->wait();
  EXPECT_EQ(unasked->answer().end->end_token.logprob.id, kNoToken);
  EXPECT_TRUE(unasked->scores.empty());
}

TEST(PromptScores, NoneOfAModelThatComputesNoNumbers) {
  const std::vector<float> logits = {0, NAN, 1};
  EXPECT_TRUE(std::isnan(score_token(logits, 0, 2).logprob.logprob));
  EXPECT_TRUE(std::isnan(score_token(std::vector<float>{0, INFINITY}, 0, 2).logprob.logprob));
  const TokenScore score = score_token(std::vector<float>{0, 0}, 1, 5);
  EXPECT_FLOAT_EQ(score.logprob.logprob, std::log(0.5F));
  EXPECT_EQ(score.top.size(), 2U);
}

}  // namespace
}  // namespace tamis
