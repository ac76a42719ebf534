// Requests to a scheduler and what came of them, for its tests.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/scheduler.h"

namespace tamis::test {

struct Answer {
  std::vector<TokenId> tokens;
  std::string text;
  std::optional<ChoiceEnd> end;  // its views are empty
  std::string stop_string;
  std::vector<TokenLogprob> logprobs;
  std::vector<std::vector<TokenLogprob>> tops;
};

// Listens to one request.
class Collector : public GenerateListener {
 public:
  explicit Collector(uint32_t n_choices = 1) : answers_(n_choices) {}

  void on_token(const TokenEvent& event) override;
  void on_choice_end(const ChoiceEnd& event) override;
  void on_end(const RequestReport& report) override;
  void on_prompt(size_t n_done, size_t n_cached, size_t n_prompt) override;

  // Waits for the end.
  const RequestReport& wait();
  // Waits for `n` tokens of all choices, or the end.
  void wait_for_tokens(size_t n);
  // After the end.
  const Answer& answer(uint32_t i = 0) const { return answers_[i]; }
  const std::optional<RequestFailure>& failure() const { return failure_; }
  const std::vector<size_t>& prompt_steps() const { return prompt_steps_; }
  size_t order() const { return order_; }  // among all ends of the program

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Answer> answers_;
  size_t n_tokens_ = 0, order_ = 0;
  bool is_ended_ = false;
  RequestReport report_;
  std::optional<RequestFailure> failure_;
  std::vector<size_t> prompt_steps_;
};

// Keeps the step thread in its n-th token until it is let go.
class Holder : public Collector {
 public:
  explicit Holder(size_t n = 1) : n_left_(n) {}
  void on_token(const TokenEvent& event) override;
  void on_end(const RequestReport& report) override;
  // Returns also when the request has ended before.
  void wait_until_held() const { is_held_.wait(false); }
  void let_go();

 private:
  size_t n_left_;
  std::atomic<bool> is_held_{false}, is_free_{false};
};

// A request of `prompt` that greedily chooses `n` tokens, whatever they are.
GenerateRequest greedy(std::vector<TokenId> prompt, int64_t n);

// Submits and expects that it is taken.
std::shared_ptr<Collector> submit(Scheduler& scheduler, const GenerateRequest& request, RequestId* id = nullptr);

// The same request answered by a session of its own.
Answer alone(const std::shared_ptr<const Engine>& engine, const GenerateRequest& request, uint32_t choice_idx = 0);

}  // namespace tamis::test
