// Computing a step, drawing the next tokens, telling the listeners, and what ends.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "engine/perplexity.h"
#include "engine/scheduler_loop.h"

namespace tamis {
namespace {

constexpr double kMovingShare = 0.1;  // of the newest value in a moving average

double seconds_between(SchedulerClock::time_point from, SchedulerClock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

void move_average(double& average, double value) { average += kMovingShare * (value - average); }

}  // namespace

void Scheduler::Loop::step() {
  began_ = Clock::now();
  plan();
  if (batch_.empty()) {
    waits_for_spill_ = is_spill_at_work();
    if (waits_for_spill_) return;
    // Nobody could be given a page, which the rules of make_room() exclude: end one request rather than wait for ever.
    if (!running_.empty() && ended_requests_.empty())
      fail_request(running_.front()->request, {ErrorCode::internal, "no room for any running sequence", nullptr});
    return;
  }
  size_t n_tokens = 0;
  for (const Sequence* sequence : batch_) n_tokens += sequence->n_in_step;
  const bool has_prompt =
      std::ranges::any_of(batch_, [](const Sequence* sequence) { return !sequence->is_answering(); });
  const size_t n_before = now_.n_generated_tokens;
  begin_masks();
  auto logits = forward(batch_);
  mask_thread_.wait();
  if (logits) {
    finish_step(batch_, *logits);
  } else if (batch_.size() == 1) {
    fail_request(batch_.front()->request, std::move(logits).error());
  } else {
    compute_apart();
  }
  const double ms = 1000 * seconds_between(began_, Clock::now());
  budget_.note(static_cast<uint32_t>(n_tokens), ms - draft_ms_);
  if (!has_prompt) draft_policy_.note(static_cast<uint32_t>(n_tokens), ms - draft_ms_);
  ++now_.n_steps;
  if (now_.step_ms == 0) now_.step_ms = ms;
  move_average(now_.step_ms, ms);
  if (now_.n_generated_tokens > n_before)
    move_average(now_.tokens_per_second, static_cast<double>(now_.n_generated_tokens - n_before) * 1000 / ms);
}

// What the grammars of those who choose a token in this step allow is found out meanwhile.
void Scheduler::Loop::begin_masks() {
  std::vector<Sequence*> sequences;
  for (Sequence* const sequence : batch_)
    if (sequence->wants_mask() && sequence->n_in_step >= sequence->n_left()) sequences.push_back(sequence);
  mask_thread_.begin(std::move(sequences));
}

Result<std::vector<float>> Scheduler::Loop::forward(std::span<Sequence* const> sequences) {
  try {
    std::vector<TokenId> tokens;
    std::vector<KvSlot> slots;
    std::vector<uint32_t> rows;
    std::vector<LogitsRow> users;  // of the rows
    for (Sequence* const sequence : sequences) {
      const uint32_t begin = sequence->n_computed();
      for (uint32_t i = 0; i < sequence->n_in_step; ++i) {
        const size_t at = begin + i, n_known = sequence->tokens.size();
        tokens.push_back(at < n_known ? sequence->tokens[at] : sequence->guess[at - n_known]);
        slots.push_back({&sequence->cache, begin + i});
        const bool is_scored = sequence->wants_score(at);
        if (at + 1 < n_known && !is_scored) continue;
        rows.push_back(static_cast<uint32_t>(tokens.size() - 1));
        users.push_back({is_scored ? sequence : nullptr, at});
      }
    }
    const bool keeps_hidden =
        std::ranges::any_of(sequences, [](const Sequence* each) { return each->request.params.pooling.has_value(); });
    Probe probe;
    if (keeps_hidden) {
      probe = [&](std::string_view name, int32_t, TensorView states) {
        if (name == "output_norm" && states.n_rows == tokens.size()) keep_hidden(sequences, states);
      };
    }
    Batch batch{.tokens = tokens, .slots = slots, .logits_rows = rows, .keeps_all_rows = keeps_hidden};
    if (std::ranges::none_of(users, [](const LogitsRow& user) { return user.scored != nullptr; }))
      return engine_->forward(batch, probe);
    std::vector<float> kept;
    batch.on_logits = [&](size_t first_row, std::span<const float> logits) {
      return score_rows(std::span(users).subspan(first_row), logits, kept);
    };
    TAMIS_TRY(const auto none, engine_->forward(batch, probe));
    return kept;
  } catch (const std::bad_alloc&) {  // not past step(), which has masks made meanwhile
    return fail(ErrorCode::out_of_memory, "no memory for a step");
  }
}

// What rows of logits, those of the first `users`, say of prompts' tokens; those from which a token will be chosen are
// added to `kept`.
Status Scheduler::Loop::score_rows(std::span<const LogitsRow> users, std::span<const float> logits,
                                   std::vector<float>& kept) {
  const size_t n_vocab = engine_->model().n_vocab(), n = logits.size() / n_vocab;
  std::vector<TokenScore> scores(n);
  TAMIS_TRY_STATUS(for_rows(options_.pool, n, [&](size_t i) {
    if (users[i].scored == nullptr) return;
    const GenerateRequest& params = users[i].scored->request.params;
    scores[i] =
        score_token(logits.subspan(i * n_vocab, n_vocab), params.prompt[users[i].position + 1], params.n_top_logprobs);
  }));
  for (size_t i = 0; i < n; ++i) {
    const std::span<const float> row = logits.subspan(i * n_vocab, n_vocab);
    if (users[i].scored == nullptr)
      kept.insert(kept.end(), row.begin(), row.end());
    else
      users[i].scored->take_score(users[i].position, std::move(scores[i]));
  }
  return {};
}

// Notes the final hidden states of prompts that become embeddings. Some may come again: after a pause, or when the step
// is done again.
void Scheduler::Loop::keep_hidden(std::span<Sequence* const> sequences, TensorView states) {
  size_t row = 0;
  for (Sequence* const sequence : sequences) {
    for (uint32_t i = 0; i < sequence->n_in_step; ++i, ++row)
      if (sequence->pooled) sequence->pooled->add(sequence->n_computed() + i, {states.row(row), states.n_cols});
  }
}

// A step that failed is done again sequence by sequence: the error belongs to those alone who meet it then.
void Scheduler::Loop::compute_apart() {
  const std::vector<Sequence*> sequences = batch_;
  for (Sequence* const sequence : sequences) {
    if (sequence->state != State::running) continue;
    Sequence* const alone[] = {sequence};
    auto logits = forward(alone);
    if (logits) {
      finish_step(alone, *logits);
    } else {
      fail_request(sequence->request, std::move(logits).error());
    }
  }
}

// After the forward of `sequences`: pages are stored, next tokens drawn (all at once) and told.
void Scheduler::Loop::finish_step(std::span<Sequence* const> sequences, std::span<const float> logits) {
  const size_t n_vocab = engine_->model().n_vocab();
  choosing_.clear();
  std::vector<Request*> broken;
  for (Sequence* const sequence : sequences) {
    note_computed(*sequence);
    if (!tell_scores(*sequence)) broken.push_back(&sequence->request);
    if (sequence->n_left() > 0) continue;
    const size_t n_logits = n_vocab * (1 + sequence->n_guessed);
    const std::span<const float> row = logits.first(n_logits);
    logits = logits.subspan(n_logits);
    Request& request = sequence->request;
    choosing_.push_back({sequence, row});
    if (request.is_prompt_done) continue;
    request.is_prompt_done = true;
    request.prompt_done = Clock::now();
    request.report.prompt_seconds = seconds_between(request.first_step, request.prompt_done);
    for (size_t i = 1; i < request.choices.size(); ++i) {
      Sequence& other = *request.choices[i];
      other.share_with(*sequence);
      other.state = State::running;
      running_.push_back(&other);
      choosing_.push_back({&other, row});
    }
  }
  for (Request* const request : broken)
    fail_request(*request, {ErrorCode::internal, "logits are not numbers (NaN or +inf): the model's weights are broken",
                            nullptr});
  // Nothing is drawn for who wants no token.
  for (const auto& [sequence, row] : choosing_) {
    if (sequence->state == State::ended) continue;
    if (sequence->pooled) {
      sequence->request.listener->on_embedding(sequence->pooled->values());
      end_choice(*sequence, GenerationEnd::token_limit);
    } else if (sequence->request.params.n_predict == 0) {
      end_choice(*sequence, GenerationEnd::token_limit);
    }
  }
  std::erase_if(choosing_, [](const auto& entry) { return entry.first->state == State::ended; });
  choose_rows();
}

// One token each, then one more each for those whose guess has held so far.
void Scheduler::Loop::choose_rows() {
  const size_t n_vocab = engine_->model().n_vocab();
  while (!choosing_.empty()) {
    choose_all();
    for (const auto& [sequence, rows] : choosing_)
      if (sequence->state != State::ended) emit(*sequence);
    std::erase_if(choosing_, [&](auto& entry) {
      entry.second = entry.second.subspan(n_vocab);
      return entry.first->state == State::ended || !follow_guess(*entry.first);
    });
  }
}

bool Scheduler::Loop::follow_guess(Sequence& sequence) {
  if (!sequence.follow_guess()) return false;
  sequence.store_full();
  share_.charge(sequence.request.params.tenant, FairShare::kAnswerToken);
  ++sequence.request.report.n_accepted;
  ++now_.n_accepted_tokens;
  return true;
}

void Scheduler::Loop::note_computed(Sequence& sequence) {
  Request& request = sequence.request;
  const uint32_t n = sequence.n_in_step - sequence.n_guessed;
  sequence.n_in_step = 0;
  if (sequence.n_guessed > 0) sequence.forget_guessed();
  request.report.n_drafted += sequence.n_guessed;
  now_.n_drafted_tokens += sequence.n_guessed;
  sequence.store_full();
  const bool is_answer = sequence.n_chosen > 0 && n == 1 && sequence.n_left() == 0;
  share_.charge(request.params.tenant, is_answer ? FairShare::kAnswerToken : FairShare::kPromptToken * n);
  if (is_answer) return;
  now_.n_computed_tokens += n;
  if (!request.is_prompt_done)
    request.listener->on_prompt(sequence.n_computed(), request.report.n_cached, request.report.n_prompt);
}

// False: the model computes no probabilities.
bool Scheduler::Loop::tell_scores(Sequence& sequence) {
  const std::vector<TokenScore> scores = std::exchange(sequence.scores, {});
  if (std::ranges::any_of(scores, [](const TokenScore& score) { return std::isnan(score.logprob.logprob); }))
    return false;
  if (!scores.empty()) sequence.request.listener->on_prompt_scores(scores);
  return true;
}

void Scheduler::Loop::choose_all() {
  const auto choose = [this](size_t begin, size_t end) {
    const size_t n_vocab = engine_->model().n_vocab();
    for (size_t i = begin; i < end; ++i) choosing_[i].first->choose(choosing_[i].second.first(n_vocab));
  };
  if (options_.pool == nullptr || choosing_.size() < 2) {
    choose(0, choosing_.size());
    return;
  }
  const Status status =
      options_.pool->parallel_for(choosing_.size(), 1, [&](size_t begin, size_t end, uint32_t) { choose(begin, end); });
  if (status) return;
  for (const auto& [sequence, row] : choosing_)
    if (sequence->state != State::ended) fail_request(sequence->request, status.error());
}

void Scheduler::Loop::emit(Sequence& sequence) {
  Request& request = sequence.request;
  const Sequence::Chosen& chosen = sequence.chosen();
  if (!chosen.status) {
    fail_request(request, chosen.status.error());
    return;
  }
  if (request.report.first_token_seconds == 0)
    request.report.first_token_seconds = seconds_between(request.arrived, Clock::now());
  if (chosen.is_end_of_text) {
    end_choice(sequence, GenerationEnd::end_of_text);
    return;
  }
  ++request.report.n_generated;
  ++now_.n_generated_tokens;
  request.listener->on_token({.choice_idx = sequence.choice_idx,
                              .id = chosen.id,
                              .text = chosen.text,
                              .logprob = chosen.score.logprob,
                              .top = chosen.score.top});
  if (sequence.is_stopped()) {
    end_choice(sequence, GenerationEnd::stop_string);
  } else if (chosen.is_complete) {
    end_choice(sequence, GenerationEnd::end_of_text);
  } else if (sequence.tokens.size() > n_ctx_) {
    end_choice(sequence, GenerationEnd::context_full);
  } else if (request.params.n_predict >= 0 && sequence.n_chosen >= static_cast<uint64_t>(request.params.n_predict)) {
    end_choice(sequence, GenerationEnd::token_limit);
  }
}

// The sequence takes part in nothing any more.
void Scheduler::Loop::forget(Sequence& sequence) {
  std::erase(running_, &sequence);
  std::erase(paused_, &sequence);
  std::erase(batch_, &sequence);
  sequence.state = State::ended;
  sequence.n_in_step = 0;
  sequence.give_up_pages();
  sequence.spilled = nullptr;
  sequence.chain.reset();
}

void Scheduler::Loop::end_choice(Sequence& sequence, GenerationEnd end) {
  Request& request = sequence.request;
  const std::string text = sequence.finish_text();
  if (sequence.is_stopped()) end = GenerationEnd::stop_string;
  forget(sequence);
  if (end != GenerationEnd::cancelled && !sequence.pooled)
    move_average(mean_answer_, static_cast<double>(sequence.n_chosen));
  const TokenScore end_token = sequence.chosen().is_end_of_text ? sequence.chosen().score : TokenScore();
  request.listener->on_choice_end({.choice_idx = sequence.choice_idx,
                                   .end = end,
                                   .text = text,
                                   .stop_string = sequence.stop_string(),
                                   .seed = sequence.seed(),
                                   .n_tokens = sequence.n_chosen,
                                   .end_token = end_token});
  if (--request.n_open == 0) end_request(request, nullptr);
}

void Scheduler::Loop::fail_request(Request& request, Error error, std::optional<Refusal> refusal) {
  for (const auto& choice : request.choices)
    if (choice->state != State::ended) forget(*choice);
  RequestFailure failure{.error = std::move(error), .is_busy = refusal.has_value()};
  if (refusal) failure.retry_after_seconds = retry_after_seconds();
  end_request(request, &failure, refusal);
}

void Scheduler::Loop::fail_all(const Error& error) {
  const std::vector<std::shared_ptr<Request>> requests = requests_;
  for (const std::shared_ptr<Request>& request : requests) fail_request(*request, error);
}

void Scheduler::Loop::end_request(Request& request, const RequestFailure* failure, std::optional<Refusal> refusal) {
  const auto now = Clock::now();
  share_.leave(request.params.tenant);
  RequestReport& report = request.report;
  if (!request.is_taken_up) report.queue_seconds = seconds_between(request.arrived, now);
  if (request.is_prompt_done) report.generate_seconds = seconds_between(request.prompt_done, now);
  report.failure = failure;
  if (!refusal) ++(failure != nullptr ? now_.n_failed : request.is_cancelled ? now_.n_cancelled : now_.n_finished);
  request.listener->on_end(report);
  report.failure = nullptr;

  const auto it =
      std::ranges::find_if(requests_, [&](const std::shared_ptr<Request>& other) { return other.get() == &request; });
  ended_requests_.push_back(std::move(*it));  // whoever looks at it in this step may go on doing so
  requests_.erase(it);
  are_places_stale_ = true;
  const std::lock_guard lock(mutex_);
  if (refusal) ++n_refused_by_[static_cast<size_t>(*refusal)];
  if (request.is_taken_up) {  // an idle time before its first step is no time it took
    move_average(seconds_per_request_, seconds_between(std::max(last_end_, request.first_step), now));
    last_end_ = now;
  } else {
    leave_queue_locked(request.params.tenant);
  }
  open_.erase(request.id);
  ended_.notify_all();
}

}  // namespace tamis
