// One call that generates: hears the scheduler's events on its thread, turns them into the dialect's bytes on the
// input/output thread. Between scheduler and reply. Each of its prompts is a request of the scheduler, a few at a time,
// fewer where the queue is full; where one fails, all end.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <variant>
#include <vector>

#include "engine/scheduler.h"
#include "server/answer_format.h"
#include "server/answer_plan.h"
#include "server/http.h"
#include "server/metrics.h"

namespace tamis::server {

class AnswerJob : public std::enable_shared_from_this<AnswerJob> {
 public:
  struct Setup {
    std::shared_ptr<Reply> reply;
    std::unique_ptr<AnswerFormat> format;
    bool is_stream = false;
    GenerateRequest request;                                        // of each prompt, all but the prompt
    std::vector<std::vector<TokenId>> prompts;                      // at least one
    size_t n_at_once = 1;                                           // of them
    std::optional<std::chrono::steady_clock::time_point> deadline;  // of all together
    std::weak_ptr<const ServedModel> model;
    std::shared_ptr<RequestFacts> facts;  // of the request, for the log
    std::shared_ptr<ModelMetrics> metrics;
    std::shared_ptr<const void> hold;  // on the model (model_shelf.h)
    std::shared_ptr<void> held;        // the bytes of a large answer
    AnswerPlan plan;
    std::string id;          // of the request, which those of calls are made from
    std::string model_name;  // for the request's trace
    // Gets the tokens of the first choice, the only prompt first, when the answer ends; null: nobody wants them. Called
    // by the step thread.
    std::function<void(std::vector<TokenId> tokens)> keep;
  };
  explicit AnswerJob(Setup setup);

  // Submits the first prompt, and sees to the rest. Once, from any thread. Errors: why the first one was not taken; the
  // reply is its caller's then.
  ApiResult<void> start();
  // Who hears of the next prompt. Choice i of prompt p is choice p · n_choices + i of the answer.
  std::shared_ptr<GenerateListener> next_listener();

 private:
  class Listener;
  struct PromptScores {
    size_t prompt_idx = 0;
    std::vector<TokenScore> scores;
  };
  struct PromptEnd {
    RequestReport report;
    std::optional<ApiError> failure;
  };
  using Event = std::variant<PromptScores, AnswerToken, AnswerEnd, PromptEnd>;

  ApiResult<void> submit_next();
  void push(Event event);  // from any thread
  void handle_events();    // this and the rest: on the input/output thread
  void handle(Event& event, std::string& piece);
  void handle(PromptEnd& end);
  void submit_more();
  void give_up(ApiError error);  // ends what runs; nothing more is submitted
  void on_gone();
  void cancel_running();
  bool is_over() const { return failure_ || is_cancelled_ || is_gone_; }
  void tell_apart(AnswerToken& token);
  void tell_apart(AnswerEnd& end);
  void collect(AnswerChoice& choice, const std::vector<AnswerPiece>& pieces, const std::string& text,
               uint32_t choice_idx) const;
  void finish(std::string piece);
  void fail(const ApiError& error);
  void note_end(std::string_view how) const;

  Setup setup_;
  const uint32_t n_choices_;  // of a prompt
  size_t n_submitted_ = 0;    // prompts; of the input/output thread, once the first one is
  const std::chrono::steady_clock::time_point submitted_ = std::chrono::steady_clock::now();  // just before

  std::vector<TokenId> kept_;  // of the step thread, with keep

  std::mutex mutex_;
  std::vector<Event> events_;       // guarded
  bool is_posted_ = false;          // guarded: handle_events will come
  size_t n_cached_ = 0;             // guarded: tokens of the last prompt begun
  std::vector<RequestId> running_;  // guarded; all that were submitted: those that have ended do no harm

  // of the input/output thread
  std::vector<AnswerChoice> choices_;  // of a whole answer
  std::vector<AnswerParser> parsers_;  // of each choice; none where the text is the answer
  std::vector<size_t> n_calls_;        // whole ones of each choice
  size_t n_ended_ = 0;                 // prompts
  RequestReport total_;                // of those that have ended
  std::optional<ApiError> failure_;    // the first one
  bool has_begun_ = false, is_cancelled_ = false, is_gone_ = false;
  bool is_queue_full_ = false;                    // the last prompt was not taken, until one before it ends
  std::string_view end_ = "stop";                 // of the last choice
  std::vector<std::string_view> finish_reasons_;  // of each choice that has ended; else ""
};

}  // namespace tamis::server
