// Collecting what a scheduler tells about a request.
#include "tests/engine/schedule_helper.h"

#include <gtest/gtest.h>

namespace tamis::test {

void Collector::on_token(const TokenEvent& event) {
  const std::lock_guard lock(mutex_);
  EXPECT_FALSE(is_ended_);
  Answer& answer = answers_.at(event.choice_idx);
  EXPECT_FALSE(answer.end.has_value());
  answer.tokens.push_back(event.id);
  answer.text += event.text;
  answer.logprobs.push_back(event.logprob);
  answer.tops.emplace_back(event.top.begin(), event.top.end());
  ++n_tokens_;
  changed_.notify_all();
}

void Collector::on_choice_end(const ChoiceEnd& event) {
  const std::lock_guard lock(mutex_);
  EXPECT_FALSE(is_ended_);
  Answer& answer = answers_.at(event.choice_idx);
  EXPECT_FALSE(answer.end.has_value()) << "twice";
  answer.text += event.text;
  answer.stop_string = event.stop_string;
  answer.end = event;
  answer.end->text = answer.end->stop_string = {};
}

void Collector::on_end(const RequestReport& report) {
  static std::atomic<size_t> n_ended{0};
  const std::lock_guard lock(mutex_);
  EXPECT_FALSE(is_ended_) << "twice";
  is_ended_ = true;
  report_ = report;
  report_.failure = nullptr;
  if (report.failure != nullptr) failure_ = *report.failure;
  order_ = ++n_ended;
  changed_.notify_all();
}

void Collector::on_prompt(size_t n_done, size_t n_cached, size_t n_prompt) {
  const std::lock_guard lock(mutex_);
  EXPECT_LE(n_cached, n_done);
  EXPECT_LE(n_done, n_prompt);
  prompt_steps_.push_back(n_done);
}

const RequestReport& Collector::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return is_ended_; });
  return report_;
}

void Collector::wait_for_tokens(size_t n) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return is_ended_ || n_tokens_ >= n; });
}

void Holder::on_token(const TokenEvent& event) {
  if (n_left_ > 0 && --n_left_ == 0) {
    is_held_ = true;
    is_held_.notify_all();
    is_free_.wait(false);
  }
  Collector::on_token(event);
}

void Holder::on_end(const RequestReport& report) {
  Collector::on_end(report);
  is_held_ = true;
  is_held_.notify_all();
}

void Holder::let_go() {
  is_free_ = true;
  is_free_.notify_all();
}

GenerateRequest greedy(std::vector<TokenId> prompt, int64_t n) {
  GenerateRequest request;
  request.prompt = std::move(prompt);
  request.sampling.temp = 0;
  request.n_predict = n;
  request.ignore_eos = true;
  return request;
}

std::shared_ptr<Collector> submit(Scheduler& scheduler, const GenerateRequest& request, RequestId* id) {
  auto collector = std::make_shared<Collector>(request.n_choices);
  const auto result = scheduler.submit(request, collector);
  EXPECT_TRUE(result.has_value()) << (result ? "" : result.error().error.to_string());
  if (result && id != nullptr) *id = *result;
  return collector;
}

Answer alone(const std::shared_ptr<const Engine>& engine, const GenerateRequest& request, uint32_t choice_idx) {
  Session session(engine);
  GenerationOptions options;
  options.sampling = request.sampling;
  if (options.sampling.seed) *options.sampling.seed += choice_idx;
  options.n_predict = request.n_predict;
  options.stop = request.stop;
  options.ignore_eos = request.ignore_eos;
  options.speculation = Speculation::off;
  const auto result = generate(session, request.prompt, options, nullptr);
  EXPECT_TRUE(result.has_value()) << result.error().to_string();
  Answer answer;
  answer.tokens = result->tokens;
  answer.text = result->text;
  answer.end = ChoiceEnd{.choice_idx = choice_idx, .end = result->end, .n_tokens = result->tokens.size()};
  return answer;
}

}  // namespace tamis::test
