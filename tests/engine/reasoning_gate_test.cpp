// Reasoning of answers: it is bounded to the token, and a grammar waits for its end.
#include "engine/reasoning_gate.h"

#include <gtest/gtest.h>

#include "cpu/backend.h"
#include "engine/scheduler.h"
#include "tests/engine/schedule_helper.h"
#include "tests/engine/tiny_model.h"

namespace tamis {
namespace {

ReasoningRule rule(int64_t budget = -1) {
  ReasoningRule rule;
  rule.begin = "<a>";
  rule.end = "</a>";
  rule.budget = budget;
  rule.forced_end = {'<', '/', 'a', '>', '\n'};
  return rule;
}

TEST(ReasoningGate, SeesMarksHoweverTheyAreCut) {
  for (const std::vector<const char*>& tokens :
       {std::vector<const char*>{"<a>", "b", "</a>"}, {"\n", "<", "a>", "b<", "/", "a", ">"}, {"<a", ">b</a>"}}) {
    const ReasoningRule marks = rule();
    ReasoningGate gate(marks);
    EXPECT_TRUE(gate.may_begin());
    bool was_open = false;
    for (const char* const token : tokens) {
      EXPECT_EQ(gate.forced(), kNoToken);
      gate.accept(token);
      was_open |= gate.is_open();
      EXPECT_FALSE(gate.may_begin());
    }
    EXPECT_TRUE(was_open);
    EXPECT_EQ(gate.is_open(), tokens.size() == 2);  // the last row ends inside one token, seen with the next
  }
  const ReasoningRule marks = rule();
  ReasoningGate gate(marks);
  for (const char* const token : {"<", "b", "<a>"}) gate.accept(token);
  EXPECT_FALSE(gate.is_open());  // it began with something else
}

TEST(ReasoningGate, ForcesTheEndAtTheBudget) {
  for (const int64_t budget : {0, 3}) {
    ReasoningRule marks = rule(budget);
    marks.is_open = true;
    ReasoningGate gate(marks);
    for (int64_t i = 0; i < budget; ++i) {
      EXPECT_EQ(gate.forced(), kNoToken);
      gate.accept("x");
    }
    for (const TokenId id : marks.forced_end) {
      EXPECT_TRUE(gate.is_open());
      EXPECT_EQ(gate.forced(), id);
      gate.accept(std::string(1, static_cast<char>(id)));
    }
    EXPECT_FALSE(gate.is_open());
    EXPECT_EQ(gate.forced(), kNoToken);
  }
}

class SchedulerReasoning : public testing::Test {
 protected:
  test::Answer answer(GenerateRequest request) const {
    const auto collector = test::submit(*scheduler_, request);
    EXPECT_EQ(collector->wait().failure, nullptr);
    return collector->answer();
  }
  std::shared_ptr<const TokenMasks> digits() const {
    return std::make_shared<const TokenMasks>(*Grammar::from_regex("[0-9]{3}"),
                                              *TokenTrie::create(*engine_->tokenizer()));
  }

  std::shared_ptr<const Engine> engine_ =
      test::load_tiny(test::write_tiny_model({.n_ctx_train = 512}), *make_cpu_backend());
  std::unique_ptr<Scheduler> scheduler_ = *Scheduler::create(engine_);
};

TEST_F(SchedulerReasoning, ABudgetEndsItAndTheGrammarHoldsBehind) {
  GenerateRequest request = test::greedy(test::some_tokens(20), 60);
  const std::string free = answer(request).text;
  request.reasoning = rule(7);
  request.reasoning->is_open = true;
  const test::Answer bounded = answer(request);
  ASSERT_EQ(bounded.tokens.size(), 60U);
  EXPECT_EQ(std::vector<TokenId>(bounded.tokens.begin() + 7, bounded.tokens.begin() + 12),
            request.reasoning->forced_end);
  EXPECT_TRUE(bounded.text.starts_with(free.substr(0, 2)));

  request.masks = digits();
  request.ignore_eos = false;
  const test::Answer held = answer(request);
  ASSERT_EQ(held.tokens.size(), 7U + 5 + 3);
  EXPECT_EQ(std::vector<TokenId>(held.tokens.begin(), held.tokens.begin() + 12),
            std::vector<TokenId>(bounded.tokens.begin(), bounded.tokens.begin() + 12));
  for (size_t i = 12; i < 15; ++i) EXPECT_TRUE(held.tokens[i] >= '0' && held.tokens[i] <= '9');
  EXPECT_EQ(held.end->end, GenerationEnd::end_of_text);
}

TEST_F(SchedulerReasoning, WithoutAnyTheGrammarHoldsFromTheStart) {
  GenerateRequest request = test::greedy(test::some_tokens(20), 60);
  request.masks = digits();
  request.reasoning = rule();
  EXPECT_EQ(answer(request).tokens.size(), 3U);
}

TEST_F(SchedulerReasoning, AModelMayBeginItUnderAGrammar) {
  GenerateRequest request = test::greedy(test::some_tokens(20), 60);
  request.masks = digits();
  request.reasoning = rule(2);
  request.reasoning->begin = "<|user|>";
  request.reasoning->begin_token = *engine_->tokenizer()->find_token("<|user|>");
  request.sampling.logit_bias.push_back({request.reasoning->begin_token, 100});
  const test::Answer began = answer(request);
  ASSERT_EQ(began.tokens.size(), 1U + 2 + 5 + 3);
  EXPECT_EQ(began.tokens[0], request.reasoning->begin_token);
}

TEST_F(SchedulerReasoning, ShownControlTokensAreText) {
  GenerateRequest request = test::greedy(test::some_tokens(20), 2);
  const TokenId user = *engine_->tokenizer()->find_token("<|user|>");
  request.sampling.logit_bias.push_back({user, 100});
  EXPECT_EQ(answer(request).text, "");
  request.shown_tokens = {user};
  EXPECT_EQ(answer(request).text, "<|user|><|user|>");
}

}  // namespace
}  // namespace tamis
