// The controller of a step's tokens on made-up machines, whose steps take what a formula says.
#include "engine/step_budget.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"
#include "engine/fair_share.h"

namespace tamis {
namespace {

// A machine: base + cost · tokens, every step off by up to `jitter` of it.
struct Machine {
  double base_ms, cost_ms, jitter = 0;
  double step(uint32_t n, Rng& rng) const { return (base_ms + cost_ms * n) * (1 + jitter * (2 * rng.uniform() - 1)); }
};

TEST(StepBudget, StepsComeCloseToTheTargetAndStayBelow) {
  Rng rng(1);
  for (const Machine machine : {Machine{40, 3}, Machine{100, 1, 0.05}, Machine{5, 0.5, 0.1}, Machine{20, 20}}) {
    StepBudget budget(250, 2048);
    for (int i = 0; i < 30; ++i) {
      const uint32_t n = budget.n_tokens(3);
      const double ms = machine.step(n, rng);
      const bool is_least = n <= 3 + StepBudget::kMinPromptTokens;
      EXPECT_TRUE(i <= 5 || is_least || ms <= 250 * (1 + machine.jitter)) << "step " << i << ": " << ms << " ms";
      budget.note(n, ms);
    }
    const double wanted = (StepBudget::kShareOfGap * 250 - machine.base_ms) / machine.cost_ms;
    const double most = std::clamp(wanted, 3.0 + StepBudget::kMinPromptTokens, 2048.0);
    EXPECT_NEAR(budget.n_tokens(3), most, 0.3 * most) << machine.base_ms << " + " << machine.cost_ms;
    EXPECT_TRUE(most > 500 || budget.n_tokens(0) > 2 * wanted) << "nobody waits for the next token of an answer";
  }
}

TEST(StepBudget, FollowsAMachineThatSlowsDownAndForgetsNothingWhileAnswersAlone) {
  Rng rng(2);
  StepBudget budget(250, 512);
  Machine machine{30, 2, 0.02};
  for (int i = 0; i < 20; ++i) {
    const uint32_t n = budget.n_tokens(4);
    budget.note(n, machine.step(n, rng));
  }
  const uint32_t before = budget.n_tokens(4);
  // Thousands of steps of four tokens say nothing about what a prompt costs; what is known stays.
  for (int i = 0; i < 5000; ++i) budget.note(4, machine.step(4, rng));
  EXPECT_NEAR(budget.n_tokens(4), before, 0.25 * before);
  machine = {60, 8, 0.02};
  int n_late = 0;
  for (int i = 0; i < 20; ++i) {
    const uint32_t n = budget.n_tokens(4);
    const double ms = machine.step(n, rng);
    n_late += ms > 500 ? 1 : 0;  // twice the target
    budget.note(n, ms);
  }
  EXPECT_LE(n_late, 3);
  const uint32_t after = budget.n_tokens(4);
  EXPECT_LE(machine.step(after, rng), 260);
  EXPECT_GE(after, 4 + StepBudget::kMinPromptTokens);
}

TEST(StepBudget, PromptsAlwaysGetSomethingAndNobodyMoreThanTheMost) {
  StepBudget budget(10, 64);
  EXPECT_EQ(budget.n_tokens(0), 64u) << "nothing known yet";
  budget.note(10, 10000);  // hopeless
  EXPECT_EQ(budget.n_tokens(5), 5 + StepBudget::kMinPromptTokens);
  EXPECT_EQ(budget.n_tokens(60), 64u);
  EXPECT_EQ(budget.n_tokens(64), 64u) << "every answer gets its token";
  StepBudget fast(10, 64);
  fast.note(64, 0.001);
  EXPECT_EQ(fast.n_tokens(1), 64u);
}

TEST(FairShare, CountsAndDoesNotLetAnyoneSaveUp) {
  FairShare share;
  share.arrive("a");
  share.charge("a", 100);
  share.arrive("b");
  EXPECT_EQ(share.served("b"), 100) << "as much as the least of those who are there";
  share.charge("b", 5);
  share.charge("a", 50);
  EXPECT_LT(share.served("b"), share.served("a"));
  share.leave("b");
  share.charge("a", 1000);
  share.arrive("b");
  EXPECT_EQ(share.served("b"), 1150) << "what was not used while away is gone";
  share.leave("a");
  share.leave("b");
  share.arrive("c");
  EXPECT_EQ(share.served("c"), 1150);
}

TEST(FairShare, ForgetsWhoIsGone) {
  FairShare share;
  share.arrive("stays");
  for (int i = 0; i < 3000; ++i) {
    share.arrive(std::to_string(i));
    share.leave(std::to_string(i));
  }
  EXPECT_LE(share.n_tenants(), 1025u);
  EXPECT_EQ(share.served("stays"), 0);
}

}  // namespace
}  // namespace tamis
