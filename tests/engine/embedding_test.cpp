// Embeddings through the scheduler: the pooled states of a direct forward, on both backends; the same bits whatever
// else runs, however the prompt is cut, with stored pages and without.
#include <gtest/gtest.h>

#include <cmath>

#include "compute/reference.h"
#include "cpu/backend.h"
#include "engine/pooled_states.h"
#include "engine/scheduler.h"
#include "tests/engine/schedule_helper.h"
#include "tests/engine/tiny_model.h"

namespace tamis {
namespace {

using test::alone;
using test::Collector;
using test::greedy;
using test::some_tokens;

class EmbeddingCollector : public Collector {
 public:
  void on_embedding(std::span<const float> got) override { values.assign(got.begin(), got.end()); }
  std::vector<float> values;  // after wait()
};

std::shared_ptr<EmbeddingCollector> embed(Scheduler& scheduler, std::vector<TokenId> prompt, Pooling pooling) {
  auto collector = std::make_shared<EmbeddingCollector>();
  GenerateRequest request;
  request.prompt = std::move(prompt);
  request.pooling = pooling;
  EXPECT_TRUE(scheduler.submit(std::move(request), collector));
  return collector;
}

std::unique_ptr<Backend> backend_of(bool is_reference) {
  return is_reference ? make_reference_backend() : *make_cpu_backend();
}

std::shared_ptr<const Engine> tiny(std::unique_ptr<Backend> backend) {
  return test::load_tiny(test::write_tiny_model({.n_ctx_train = 512}), std::move(backend), {.n_batch = 64});
}

std::unique_ptr<Scheduler> start(const std::shared_ptr<const Engine>& engine, const SchedulerOptions& options) {
  auto scheduler = Scheduler::create(engine, options);
  EXPECT_TRUE(scheduler) << scheduler.error().to_string();
  return *std::move(scheduler);
}

using States = std::vector<std::vector<float>>;  // [n][n_embd]

// The final hidden states of all tokens.
States hidden_states(const Engine& engine, const std::vector<TokenId>& prompt) {
  KvCache cache = engine.model().make_cache(engine.kv_types());
  std::vector<KvSlot> slots;
  for (uint32_t i = 0; i < prompt.size(); ++i) slots.push_back({&cache, i});
  States states;
  const auto done = engine.forward({.tokens = prompt, .slots = slots, .keeps_all_rows = true},
                                   [&](std::string_view name, int32_t, TensorView value) {
                                     if (name != "output_norm") return;
                                     for (size_t i = 0; i < value.n_rows; ++i)
                                       states.emplace_back(value.row(i), value.row(i) + value.n_cols);
                                   });
  EXPECT_TRUE(done);
  return states;
}

// Summed here in another way than the engine does.
std::vector<double> unit_mean(const States& states) {
  std::vector<double> out(states.front().size());
  double squares = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    for (const auto& state : states) out[i] += double{state[i]} / static_cast<double>(states.size());
    squares += out[i] * out[i];
  }
  for (double& value : out) value /= std::sqrt(squares);
  return out;
}

TEST(Embedding, IsThePooledStatesOfADirectForward) {
  const auto prompt = some_tokens(100);
  for (const bool is_reference : {false, true}) {
    const auto engine = tiny(backend_of(is_reference));
    const auto scheduler = start(engine, {});
    const auto states = hidden_states(*engine, prompt);
    ASSERT_EQ(states.size(), prompt.size());
    const std::pair<Pooling, std::vector<double>> expected[] = {
        {Pooling::mean, unit_mean(states)},
        {Pooling::first, unit_mean(States{states.front()})},
        {Pooling::last, unit_mean(States{states.back()})},
    };
    for (const auto& [pooling, wanted] : expected) {
      const auto got = embed(*scheduler, prompt, pooling);
      const RequestReport report = got->wait();
      EXPECT_EQ(report.n_generated, 0U);
      ASSERT_EQ(got->values.size(), wanted.size());
      for (size_t i = 0; i < wanted.size(); ++i)  // one rounding to float of a value of at most 1
        EXPECT_NEAR(got->values[i], wanted[i], 6e-8);
    }
  }
}

TEST(Embedding, BothBackendsAgree) {
  const auto prompt = some_tokens(100);
  std::vector<float> values[2];
  for (const bool is_reference : {false, true}) {
    const auto scheduler = start(tiny(backend_of(is_reference)), {});
    const auto got = embed(*scheduler, prompt, Pooling::mean);
    got->wait();
    values[is_reference ? 1 : 0] = got->values;
  }
  double cosine = 0;
  for (size_t i = 0; i < values[0].size(); ++i) cosine += double{values[0][i]} * values[1][i];
  EXPECT_GT(cosine, 0.999);  // f16 keys and values, and activations in 8 bits on the CPU
}

TEST(Embedding, TheSameBitsWhateverElseRuns) {
  const auto engine = tiny(backend_of(false));
  const auto prompt = some_tokens(150);
  std::vector<float> expected;
  {
    const auto scheduler = start(engine, {});
    const auto got = embed(*scheduler, prompt, Pooling::mean);
    got->wait();
    expected = got->values;
  }
  ASSERT_FALSE(expected.empty());
  // Small steps, a prompt with the same beginning stored, answers running, and several at once.
  SchedulerOptions options;
  options.max_batched_tokens = 16;
  options.max_seqs = 16;
  const auto scheduler = start(engine, options);
  test::submit(*scheduler, greedy(prompt, 4))->wait();
  std::vector<GenerateRequest> others;
  std::vector<std::shared_ptr<Collector>> answers;
  for (size_t i = 0; i < 6; ++i) {
    others.push_back(greedy(some_tokens(20 + 7 * i), 40));
    answers.push_back(test::submit(*scheduler, others.back()));
  }
  std::vector<std::shared_ptr<EmbeddingCollector>> embeddings;
  for (int i = 0; i < 3; ++i) embeddings.push_back(embed(*scheduler, prompt, Pooling::mean));
  for (const auto& each : embeddings) {
    EXPECT_EQ(each->wait().n_cached, 0U);
    EXPECT_EQ(each->values, expected);
  }
  for (size_t i = 0; i < others.size(); ++i) {
    answers[i]->wait();
    EXPECT_EQ(answers[i]->answer().tokens, alone(engine, others[i]).tokens);
  }
}

TEST(Embedding, SurvivesAPause) {
  const auto engine = tiny(backend_of(false));
  const auto prompt = some_tokens(200);
  const auto undisturbed = start(engine, {});
  const auto expected = embed(*undisturbed, prompt, Pooling::mean);
  expected->wait();
  // An answer that matters more takes the pages of the prompt that is read beside it, token by token.
  SchedulerOptions options;
  options.max_batched_tokens = options.max_seqs = 2;
  options.kv_bytes = 11 * *engine->model().make_cache(engine->kv_types()).page_bytes();
  const auto scheduler = start(engine, options);
  for (int i = 0; i < 40; ++i) test::submit(*scheduler, greedy({1}, 1))->wait();  // answers are short, it seems
  const auto held = std::make_shared<test::Holder>();
  ASSERT_TRUE(scheduler->submit(greedy({1}, 1), held));
  held->wait_until_held();  // so that the two begin together
  const auto pooled = embed(*scheduler, prompt, Pooling::mean);
  GenerateRequest other = greedy(some_tokens(10), 300);
  other.priority = 1;
  const auto answer = test::submit(*scheduler, other);
  held->let_go();
  EXPECT_GT(pooled->wait().n_pauses, 0U);
  EXPECT_EQ(pooled->values, expected->values);
  answer->wait();
}

TEST(PooledStates, PositionsThatCameBeforeArePassedOver) {
  const float a[] = {3, 0}, b[] = {0, 4};
  PooledStates mean(Pooling::mean), last(Pooling::last), first(Pooling::first);
  for (PooledStates* const each : {&mean, &last, &first}) {
    each->add(0, a);
    each->add(0, b);
    each->add(1, b);
    each->add(0, a);
  }
  EXPECT_EQ(mean.values(), (std::vector<float>{0.6F, 0.8F}));
  EXPECT_EQ(last.values(), (std::vector<float>{0, 1}));
  EXPECT_EQ(first.values(), (std::vector<float>{1, 0}));
}

}  // namespace
}  // namespace tamis
