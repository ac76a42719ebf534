// From scheduler events to replies.
#include "server/answer_job.h"

#include <algorithm>

#include "base/log.h"
#include "server/request_trace.h"

namespace tamis::server {

namespace {

// Tokens and times are summed; who waited longest is told.
void add_report(RequestReport& total, const RequestReport& one) {
  total.n_prompt += one.n_prompt;
  total.n_cached += one.n_cached;
  total.n_generated += one.n_generated;
  total.n_pauses += one.n_pauses;
  total.n_drafted += one.n_drafted;
  total.n_accepted += one.n_accepted;
  total.prompt_seconds += one.prompt_seconds;
  total.generate_seconds += one.generate_seconds;
  total.queue_seconds = std::max(total.queue_seconds, one.queue_seconds);
  total.first_token_seconds = std::max(total.first_token_seconds, one.first_token_seconds);
}

}  // namespace

class AnswerJob::Listener : public GenerateListener {
 public:
  Listener(std::shared_ptr<AnswerJob> job, size_t prompt_idx)
      : job_(std::move(job)),
        prompt_idx_(prompt_idx),
        first_choice_(static_cast<uint32_t>(prompt_idx) * job_->n_choices_),
        last_token_(job_->n_choices_) {}

  void on_prompt(size_t, size_t n_cached, size_t) override {
    const std::lock_guard lock(job_->mutex_);
    job_->n_cached_ = n_cached;
  }

  void on_prompt_scores(std::span<const TokenScore> scores) override {
    job_->push(PromptScores{prompt_idx_, {scores.begin(), scores.end()}});
  }

  void on_token(const TokenEvent& event) override {
    const auto now = std::chrono::steady_clock::now();
    auto& last = last_token_[event.choice_idx];
    if (last.time_since_epoch().count() != 0)
      job_->setup_.metrics->on_token_gap(std::chrono::duration<double>(now - last).count());
    last = now;
    if (job_->setup_.keep && event.choice_idx == 0) job_->kept_.push_back(event.id);
    job_->push(AnswerToken{first_choice_ + event.choice_idx,
                           event.id,
                           std::string(event.text),
                           {},
                           event.logprob,
                           {event.top.begin(), event.top.end()}});
  }

  void on_choice_end(const ChoiceEnd& event) override {
    ends_.push_back(event.end);
    job_->push(AnswerEnd{first_choice_ + event.choice_idx,
                         event.end,
                         std::string(event.text),
                         std::string(event.stop_string),
                         {},
                         event.seed,
                         event.n_tokens,
                         0,
                         event.end_token});
  }

  void on_end(const RequestReport& report) override {
    job_->setup_.metrics->on_report(report, ends_);
    if (job_->setup_.keep && report.failure == nullptr) job_->setup_.keep(std::move(job_->kept_));
    PromptEnd end{report, std::nullopt};
    if (report.failure != nullptr) end.failure = from_failure(*report.failure);
    end.report.failure = nullptr;
    job_->push(std::move(end));
  }

 private:
  const std::shared_ptr<AnswerJob> job_;
  const size_t prompt_idx_;
  const uint32_t first_choice_;
  std::vector<std::chrono::steady_clock::time_point> last_token_;  // of each choice
  std::vector<GenerationEnd> ends_;
};

AnswerJob::AnswerJob(Setup setup) : setup_(std::move(setup)), n_choices_(setup_.request.n_choices) {
  const size_t n = setup_.prompts.size() * n_choices_;
  choices_.resize(setup_.is_stream ? 0 : n);
  n_calls_.resize(n);
  finish_reasons_.resize(n);
  if (setup_.keep) kept_ = setup_.prompts.front();
  if (setup_.plan.parsing != nullptr)
    for (size_t i = 0; i < n; ++i) parsers_.emplace_back(*setup_.plan.parsing);
  if (!setup_.is_stream) return;
  Response head;
  head.content_type = setup_.format->content_type();
  head.headers.emplace_back("cache-control", "no-cache");
  head.held = std::move(setup_.held);
  setup_.reply->start_stream(std::move(head), setup_.format->ping());
}

ApiResult<void> AnswerJob::start() {
  TAMIS_API_TRY_STATUS(submit_next());
  setup_.reply->on_gone([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->on_gone();
  });
  if (setup_.prompts.size() > 1) setup_.reply->post([self = shared_from_this()] { self->submit_more(); });
  return {};
}

std::shared_ptr<GenerateListener> AnswerJob::next_listener() {
  return std::make_shared<Listener>(shared_from_this(), n_submitted_++);
}

// Nothing of this object but what is guarded is touched once the scheduler has the request: its events may come before
// it is told so.
ApiResult<void> AnswerJob::submit_next() {
  const auto model = setup_.model.lock();
  if (!model) return refused(503, "the server is shutting down");
  GenerateRequest request = setup_.request;
  request.prompt = setup_.prompts[n_submitted_];
  if (setup_.deadline) {
    const std::chrono::duration<double> left = *setup_.deadline - std::chrono::steady_clock::now();
    if (left.count() <= 0) return refused(503, "the request's time is over");
    request.time_limit_seconds = left.count();
  }
  const auto id = model->scheduler->submit(std::move(request), next_listener());
  if (!id) {
    is_queue_full_ = id.error().is_busy;
    return tl::unexpected<ApiError>(from_failure(id.error()));
  }
  const std::lock_guard lock(mutex_);
  running_.push_back(*id);
  return {};
}

void AnswerJob::submit_more() {
  while (!is_over() && !is_queue_full_ && n_submitted_ < setup_.prompts.size() &&
         n_submitted_ - n_ended_ < setup_.n_at_once) {
    const size_t n_before = n_submitted_;
    const auto submitted = submit_next();
    if (submitted) continue;
    n_submitted_ = n_before;
    if (is_queue_full_ && n_ended_ < n_submitted_) return;
    give_up(submitted.error());
    if (n_ended_ == n_submitted_) finish("");
  }
}

void AnswerJob::give_up(ApiError error) {
  if (!failure_) failure_ = std::move(error);
  cancel_running();
}

void AnswerJob::on_gone() {
  is_gone_ = true;
  cancel_running();
}

void AnswerJob::cancel_running() {
  const auto model = setup_.model.lock();
  if (!model) return;
  std::vector<RequestId> running;
  {
    const std::lock_guard lock(mutex_);
    running = running_;
  }
  for (const RequestId id : running) model->scheduler->cancel(id);
}

void AnswerJob::push(Event event) {
  bool has_to_post = false;
  {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
    has_to_post = !is_posted_;
    is_posted_ = true;
  }
  if (has_to_post) setup_.reply->post([self = shared_from_this()] { self->handle_events(); });
}

void AnswerJob::tell_apart(AnswerToken& token) {
  if (parsers_.empty()) return;
  token.pieces = parsers_[token.choice_idx].push(token.text);
  token.text.clear();
  for (const AnswerPiece& piece : token.pieces) {
    if (piece.kind == AnswerPiece::Kind::text) token.text += piece.text;
    n_calls_[token.choice_idx] += piece.kind == AnswerPiece::Kind::call_end && piece.is_whole ? 1 : 0;
  }
}

void AnswerJob::tell_apart(AnswerEnd& end) {
  if (parsers_.empty()) return;
  AnswerParser& parser = parsers_[end.choice_idx];
  const bool is_own_stop = !setup_.plan.own_stop.empty() && end.stop_string == setup_.plan.own_stop;
  end.pieces = parser.push(end.text);
  if (is_own_stop)  // a call's end: part of the call
    for (AnswerPiece& piece : parser.push(end.stop_string)) append_piece(end.pieces, std::move(piece));
  for (AnswerPiece& piece : parser.finish()) append_piece(end.pieces, std::move(piece));
  end.text.clear();
  for (const AnswerPiece& piece : end.pieces) {
    if (piece.kind == AnswerPiece::Kind::text) end.text += piece.text;
    n_calls_[end.choice_idx] += piece.kind == AnswerPiece::Kind::call_end && piece.is_whole ? 1 : 0;
  }
  end.n_calls = n_calls_[end.choice_idx];
  if (!is_own_stop) return;
  end.end = GenerationEnd::end_of_text;
  end.stop_string.clear();
}

void AnswerJob::handle_events() {
  std::vector<Event> events;
  size_t n_cached = 0;
  {
    const std::lock_guard lock(mutex_);
    events.swap(events_);
    n_cached = n_cached_;
    is_posted_ = false;
  }
  std::string piece;
  for (Event& event : events) {
    if (auto* const end = std::get_if<PromptEnd>(&event)) {
      handle(*end);
      continue;
    }
    if (failure_) continue;
    if (setup_.is_stream && !has_begun_) {
      has_begun_ = true;
      piece += setup_.format->begin(n_cached);
    }
    handle(event, piece);
  }
  if (n_ended_ == n_submitted_ && (is_over() || n_ended_ == setup_.prompts.size())) return finish(std::move(piece));
  if (!piece.empty()) setup_.reply->write(std::move(piece));
  submit_more();
}

void AnswerJob::handle(Event& event, std::string& piece) {
  if (auto* const prompt = std::get_if<PromptScores>(&event)) {
    setup_.format->prompt_scores(prompt->prompt_idx, std::move(prompt->scores));
  } else if (auto* const token = std::get_if<AnswerToken>(&event)) {
    tell_apart(*token);
    if (setup_.is_stream) {
      piece += setup_.format->token(*token);
      return;
    }
    AnswerChoice& choice = choices_[token->choice_idx];
    collect(choice, token->pieces, token->text, token->choice_idx);
    choice.tokens.push_back(std::move(*token));
  } else if (auto* const choice_end = std::get_if<AnswerEnd>(&event)) {
    is_cancelled_ |= choice_end->end == GenerationEnd::cancelled;
    end_ = openai_finish_reason(choice_end->end);
    if (is_cancelled_) return;
    tell_apart(*choice_end);
    finish_reasons_[choice_end->choice_idx] = openai_finish_reason(*choice_end);
    if (setup_.is_stream) {
      piece += setup_.format->choice_end(*choice_end);
      return;
    }
    AnswerChoice& choice = choices_[choice_end->choice_idx];
    collect(choice, choice_end->pieces, choice_end->text, choice_end->choice_idx);
    choice.end = std::move(*choice_end);
    choice.end.n_calls = choice.calls.size();
  }
}

void AnswerJob::handle(PromptEnd& end) {
  is_queue_full_ = false;
  if (n_ended_++ == 0) {
    total_ = end.report;
  } else {
    add_report(total_, end.report);
  }
  if (end.failure) give_up(*std::move(end.failure));
}

void AnswerJob::collect(AnswerChoice& choice, const std::vector<AnswerPiece>& pieces, const std::string& text,
                        uint32_t choice_idx) const {
  if (parsers_.empty()) choice.text += text;
  for (const AnswerPiece& piece : pieces) choice.add(piece, call_id(setup_.id, choice_idx, piece.call_idx));
}

void AnswerJob::finish(std::string piece) {
  if (!piece.empty()) setup_.reply->write(std::move(piece));
  if (failure_) {
    note_end("failed");
    return fail(*failure_);
  }
  if (is_cancelled_ || is_gone_) {  // the client has gone; where it has not, the server is going
    note_end("cancelled");
    return fail(plain_error(503, "the server is shutting down"));
  }
  note_end(end_);
  if (!setup_.is_stream) {
    Response response;
    response.body = setup_.format->whole(choices_, total_).dump() + "\n";
    response.held = std::move(setup_.held);
    return setup_.reply->send(std::move(response));
  }
  setup_.reply->write(setup_.format->end(total_));
  setup_.reply->finish();
}

void AnswerJob::fail(const ApiError& error) {
  setup_.reply->fail(error_response(error), setup_.is_stream ? setup_.format->failed(error) : "");
}

void AnswerJob::note_end(std::string_view how) const {
  const RequestReport& report = total_;
  RequestFacts& facts = *setup_.facts;
  facts.is_generation = true;
  facts.n_prompt = report.n_prompt;
  facts.n_cached = report.n_cached;
  facts.n_generated = report.n_generated;
  facts.queue_ms = report.queue_seconds * 1e3;
  facts.first_token_ms = report.first_token_seconds * 1e3;
  facts.end = how;
  if (facts.trace != nullptr) {
    RequestTrace& trace = *facts.trace;
    trace.model = setup_.model_name;
    trace.n_prompts = setup_.prompts.size();
    trace.submitted = submitted_;
    trace.prompt_seconds = report.prompt_seconds;
    trace.generate_seconds = report.generate_seconds;
    const size_t n_told = std::min(finish_reasons_.size(), RequestTrace::kMaxReasons);
    trace.finish_reasons.assign(finish_reasons_.begin(), finish_reasons_.begin() + static_cast<ptrdiff_t>(n_told));
    std::ranges::replace(trace.finish_reasons, std::string_view(), how);
  }
  log_debug("prompt of {} tokens, {} cached: {}", report.n_prompt, report.n_cached, cache_miss_name(report.miss));
}

}  // namespace tamis::server
