// From scheduler events to replies.
#include "server/answer_job.h"

#include "base/log.h"

namespace tamis::server {

AnswerJob::AnswerJob(Setup setup)
    : kept_(std::move(setup.prompt)),
      setup_(std::move(setup)),
      last_token_(setup_.n_choices),
      choices_(setup_.is_stream ? 0 : setup_.n_choices),
      n_calls_(setup_.n_choices) {
  if (setup_.plan.parsing != nullptr)
    for (uint32_t i = 0; i < setup_.n_choices; ++i) parsers_.emplace_back(*setup_.plan.parsing);
  if (!setup_.is_stream) return;
  Response head;
  head.content_type = setup_.format->content_type();
  head.headers.emplace_back("cache-control", "no-cache");
  setup_.reply->start_stream(std::move(head), setup_.format->ping());
}

void AnswerJob::on_prompt(size_t, size_t n_cached, size_t) {
  const std::lock_guard lock(mutex_);
  n_cached_ = n_cached;
}

void AnswerJob::on_token(const TokenEvent& event) {
  const auto now = std::chrono::steady_clock::now();
  auto& last = last_token_[event.choice_idx];
  if (last.time_since_epoch().count() != 0)
    setup_.metrics->on_token_gap(std::chrono::duration<double>(now - last).count());
  last = now;
  if (setup_.keep && event.choice_idx == 0) kept_.push_back(event.id);
  push(AnswerToken{
      event.choice_idx, event.id, std::string(event.text), {}, event.logprob, {event.top.begin(), event.top.end()}});
}

void AnswerJob::on_choice_end(const ChoiceEnd& event) {
  ends_.push_back(event.end);
  push(AnswerEnd{event.choice_idx,
                 event.end,
                 std::string(event.text),
                 std::string(event.stop_string),
                 {},
                 event.seed,
                 event.n_tokens});
}

void AnswerJob::on_end(const RequestReport& report) {
  setup_.metrics->on_report(report, ends_);
  if (setup_.keep && report.failure == nullptr) setup_.keep(std::move(kept_));
  End end{report, std::nullopt};
  if (report.failure != nullptr) end.failure = from_failure(*report.failure);
  end.report.failure = nullptr;
  push(std::move(end));
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
    if (setup_.is_stream && !has_begun_ && !(std::holds_alternative<End>(event))) {
      has_begun_ = true;
      piece += setup_.format->begin(n_cached);
    }
    if (auto* const token = std::get_if<AnswerToken>(&event)) {
      tell_apart(*token);
      if (setup_.is_stream) {
        piece += setup_.format->token(*token);
        continue;
      }
      AnswerChoice& choice = choices_[token->choice_idx];
      collect(choice, token->pieces, token->text, token->choice_idx);
      choice.tokens.push_back(std::move(*token));
    } else if (auto* const choice_end = std::get_if<AnswerEnd>(&event)) {
      is_cancelled_ |= choice_end->end == GenerationEnd::cancelled;
      end_ = openai_finish_reason(choice_end->end);
      if (is_cancelled_) continue;
      tell_apart(*choice_end);
      if (setup_.is_stream) {
        piece += setup_.format->choice_end(*choice_end);
        continue;
      }
      AnswerChoice& choice = choices_[choice_end->choice_idx];
      collect(choice, choice_end->pieces, choice_end->text, choice_end->choice_idx);
      choice.end = std::move(*choice_end);
      choice.end.n_calls = choice.calls.size();
    } else {
      return finish(std::get<End>(event), std::move(piece));
    }
  }
  if (!piece.empty()) setup_.reply->write(std::move(piece));
}

void AnswerJob::collect(AnswerChoice& choice, const std::vector<AnswerPiece>& pieces, const std::string& text,
                        uint32_t choice_idx) const {
  if (parsers_.empty()) choice.text += text;
  for (const AnswerPiece& piece : pieces) choice.add(piece, call_id(setup_.id, choice_idx, piece.call_idx));
}

void AnswerJob::finish(const End& end, std::string piece) {
  if (!piece.empty()) setup_.reply->write(std::move(piece));
  if (end.failure) {
    note_end(end.report, "failed");
    return fail(*end.failure);
  }
  if (is_cancelled_) {  // the client has gone; where it has not, the server is going
    note_end(end.report, "cancelled");
    return fail(plain_error(503, "the server is shutting down"));
  }
  note_end(end.report, end_);
  if (!setup_.is_stream) {
    Response response;
    response.body = setup_.format->whole(choices_, end.report).dump() + "\n";
    return setup_.reply->send(std::move(response));
  }
  setup_.reply->write(setup_.format->end(end.report));
  setup_.reply->finish();
}

void AnswerJob::fail(const ApiError& error) {
  setup_.reply->fail(error_response(error), setup_.is_stream ? setup_.format->failed(error) : "");
}

void AnswerJob::note_end(const RequestReport& report, std::string_view how) const {
  RequestFacts& facts = *setup_.facts;
  facts.is_generation = true;
  facts.n_prompt = report.n_prompt;
  facts.n_cached = report.n_cached;
  facts.n_generated = report.n_generated;
  facts.queue_ms = report.queue_seconds * 1e3;
  facts.first_token_ms = report.first_token_seconds * 1e3;
  facts.end = how;
  log_debug("prompt of {} tokens, {} cached: {}", report.n_prompt, report.n_cached, cache_miss_name(report.miss));
}

}  // namespace tamis::server
