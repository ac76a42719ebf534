// One request that generates: hears the scheduler's events on its thread, turns them into the dialect's bytes on the
// input/output thread. Between scheduler and reply.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <variant>
#include <vector>

#include "engine/scheduler.h"
#include "server/answer_format.h"
#include "server/answer_plan.h"
#include "server/http.h"
#include "server/metrics.h"

namespace tamis::server {

class AnswerJob : public GenerateListener, public std::enable_shared_from_this<AnswerJob> {
 public:
  struct Setup {
    std::shared_ptr<Reply> reply;
    std::unique_ptr<AnswerFormat> format;
    bool is_stream = false;
    uint32_t n_choices = 1;
    std::shared_ptr<RequestFacts> facts;  // of the request, for the log
    std::shared_ptr<ModelMetrics> metrics;
    std::shared_ptr<const void> hold;  // on the model (model_shelf.h)
    AnswerPlan plan;
    std::string id;  // of the request, which those of calls are made from
    // Gets the tokens of the first choice, `prompt` first, when the answer ends; null: nobody wants them. Called by the
    // step thread.
    std::function<void(std::vector<TokenId> tokens)> keep;
    std::vector<TokenId> prompt;  // with keep
  };
  explicit AnswerJob(Setup setup);

  void on_prompt(size_t n_done, size_t n_cached, size_t n_prompt) override;
  void on_token(const TokenEvent& event) override;
  void on_choice_end(const ChoiceEnd& event) override;
  void on_end(const RequestReport& report) override;

 private:
  struct End {
    RequestReport report;
    std::optional<ApiError> failure;
  };
  using Event = std::variant<AnswerToken, AnswerEnd, End>;

  void push(Event event);
  void tell_apart(AnswerToken& token);
  void tell_apart(AnswerEnd& end);
  void collect(AnswerChoice& choice, const std::vector<AnswerPiece>& pieces, const std::string& text,
               uint32_t choice_idx) const;
  void handle_events();  // on the input/output thread
  void finish(const End& end, std::string piece);
  void fail(const ApiError& error);
  void note_end(const RequestReport& report, std::string_view how) const;

  std::vector<TokenId> kept_;  // of the step thread, with keep; takes the prompt out of the setup
  const Setup setup_;

  // of the step thread
  std::vector<std::chrono::steady_clock::time_point> last_token_;  // of each choice
  std::vector<GenerationEnd> ends_;

  std::mutex mutex_;
  std::vector<Event> events_;  // guarded
  bool is_posted_ = false;     // guarded: handle_events will come
  size_t n_cached_ = 0;        // guarded: tokens of the prompt

  // of the input/output thread
  std::vector<AnswerChoice> choices_;  // of a whole answer
  std::vector<AnswerParser> parsers_;  // of each choice; none where the text is the answer
  std::vector<size_t> n_calls_;        // whole ones of each choice
  bool has_begun_ = false, is_cancelled_ = false;
  std::string_view end_ = "stop";  // of the last choice
};

}  // namespace tamis::server
