// Who takes part in the next step with how many tokens, and the pages for them.
#include <algorithm>
#include <cmath>

#include "engine/scheduler_loop.h"

namespace tamis {
namespace {

constexpr size_t kPageTokens = KvCache::kPageTokens;
constexpr size_t kMostGuessed = 64;  // tokens of a step: each has a row of logits

double seconds_between(SchedulerClock::time_point from, SchedulerClock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

void Scheduler::Loop::plan() {
  batch_.clear();
  draft_ms_ = 0;
  end_cancelled();
  give_places();
  end_returns();
  take_up();
  add_answers();
  const auto n_answers = static_cast<uint32_t>(batch_.size());
  const uint32_t n_tokens = budget_.n_tokens(n_answers);
  now_.step_tokens = n_answers > 0 ? n_tokens : now_.step_tokens;
  add_prompts(n_tokens - n_answers);
  // A prompt has a better use for rows than guesses have.
  if (options_.speculation != Speculation::off && batch_.size() == n_answers) add_guesses(n_tokens - n_answers);
}

void Scheduler::Loop::end_cancelled() {
  const double timeout = options_.queue_timeout_seconds;
  const auto is_late = [&](const Request& request) {
    const double limit = request.params.time_limit_seconds;
    return limit > 0 && seconds_between(request.arrived, began_) > limit;
  };
  const auto waits_in_vain = [&](const Request& request) {
    if (request.is_taken_up) return false;
    return refuses_waiting_now_ || (timeout > 0 && seconds_between(request.arrived, began_) > timeout);
  };
  std::vector<Request*> ending;
  for (const std::shared_ptr<Request>& request : requests_)
    if (request->is_cancelled || waits_in_vain(*request) || is_late(*request)) ending.push_back(request.get());
  for (Request* const request : ending) {
    if (!request->is_cancelled && !request->is_taken_up) {
      const double waited = seconds_between(request->arrived, began_);
      std::string why = refuses_waiting_now_ ? "no more requests are taken up"
                                             : fmt::format("waited for {:.1f} seconds without being taken up", waited);
      fail_request(*request, {ErrorCode::out_of_memory, std::move(why), nullptr},
                   refuses_waiting_now_ ? Refusal::draining : Refusal::waited);
      continue;
    }
    for (const auto& choice : request->choices)
      if (choice->state != State::ended)
        end_choice(*choice, request->is_cancelled ? GenerationEnd::cancelled : GenerationEnd::time_limit);
  }
}

double Scheduler::Loop::effective_priority(const Request& request) const {
  const double waited = seconds_between(request.arrived, began_);
  return request.params.priority + (options_.aging_seconds > 0 ? std::floor(waited / options_.aging_seconds) : 0);
}

bool Scheduler::Loop::goes_before(const Sequence& a, const Sequence& b) const {
  // Shares first, so that no tenant gets more by what it calls urgent; those of one tenant have the same.
  const double served_a = share_.served(a.request.params.tenant), served_b = share_.served(b.request.params.tenant);
  if (served_a != served_b) return served_a < served_b;
  if (a.request.tenant_place != b.request.tenant_place) return a.request.tenant_place < b.request.tenant_place;
  const double priority_a = effective_priority(a.request), priority_b = effective_priority(b.request);
  if (priority_a != priority_b) return priority_a > priority_b;
  // Highest response ratio next: waiting time against work.
  const double ratio_a = seconds_between(a.request.arrived, began_) / static_cast<double>(a.n_left());
  const double ratio_b = seconds_between(b.request.arrived, began_) / static_cast<double>(b.n_left());
  if (ratio_a != ratio_b) return ratio_a > ratio_b;
  return is_more_important(a, b);
}

// The order of who gives way when pages are short: a tenant's requests stand in the places in which they arrived among
// those of others; which of them stands in which, their priority says. With one tenant that is priority, then arrival.
void Scheduler::Loop::give_places() {
  if (!are_places_stale_) return;
  std::vector<Request*> arrived, ranked;  // tenant by tenant
  for (const std::shared_ptr<Request>& request : requests_) arrived.push_back(request.get());
  std::ranges::stable_sort(arrived, {},
                           [](const Request* request) { return std::string_view(request->params.tenant); });
  for (size_t i = 0; i < arrived.size(); ++i) {
    const bool is_first = i == 0 || arrived[i - 1]->params.tenant != arrived[i]->params.tenant;
    arrived[i]->tenant_place = is_first ? arrived[i]->id : arrived[i - 1]->tenant_place;
  }
  ranked = arrived;
  std::ranges::stable_sort(ranked, [](const Request* a, const Request* b) {
    if (a->params.tenant != b->params.tenant) return a->params.tenant < b->params.tenant;
    return a->params.priority > b->params.priority;
  });
  for (size_t i = 0; i < ranked.size(); ++i) ranked[i]->place = arrived[i]->id;
  are_places_stale_ = false;
}

// Whether a paused sequence keeps a waiting request waiting: only what its own tenant calls more urgent passes it.
bool Scheduler::Loop::is_held_up(const Request& waiting) const {
  return std::ranges::any_of(paused_, [&](const Sequence* paused) {
    const GenerateRequest& other = paused->request.params;
    return other.tenant != waiting.params.tenant || other.priority >= waiting.params.priority;
  });
}

// How long a sequence is likely to become.
size_t Scheduler::Loop::expected_tokens(const Sequence& sequence) const {
  const GenerateRequest& params = sequence.request.params;
  size_t n_answer = std::max(sequence.n_chosen + kPageTokens, static_cast<size_t>(mean_answer_));
  if (params.pooling) return sequence.tokens.size();
  if (params.n_predict >= 0) n_answer = std::min(n_answer, static_cast<size_t>(params.n_predict));
  return std::min<size_t>(n_ctx_, sequence.tokens.size() - sequence.n_chosen + std::max(n_answer, sequence.n_chosen));
}

size_t Scheduler::Loop::pages_wanted_by_running() const {
  size_t n = 0;
  for (const Sequence* sequence : running_) {
    const size_t n_expected = KvCache::pages_of(expected_tokens(*sequence));
    n += n_expected - std::min(n_expected, sequence->cache.pages().size());
  }
  return n;
}

bool Scheduler::Loop::fits(const Request& request) const {
  if (running_.empty()) return true;
  const Sequence& first = *request.choices.front();
  const size_t n_prompt = KvCache::pages_of(first.tokens.size());
  size_t n_wanted = n_prompt + request.choices.size() * (KvCache::pages_of(expected_tokens(first)) + 1 - n_prompt);
  if (first.chain) n_wanted -= first.chain->look_ahead(first.tokens).n_in_use;
  return n_wanted + pages_wanted_by_running() <= n_pages_at_hand();
}

bool Scheduler::Loop::fits_again(const Sequence& paused) const {
  if (running_.empty()) return true;
  const size_t n_wanted = KvCache::pages_of(expected_tokens(paused)) + 1;
  const size_t n_in_use = paused.chain ? paused.chain->look_ahead(paused.tokens).n_in_use : 0;
  return n_wanted - std::min(n_wanted, n_in_use) + pages_wanted_by_running() <= n_pages_at_hand();
}

Scheduler::Loop::Request* Scheduler::Loop::next_waiting() {
  Request* best = nullptr;
  for (const std::shared_ptr<Request>& request : requests_) {
    if (request->is_taken_up) continue;
    if (best == nullptr || goes_before(*request->choices.front(), *best->choices.front())) best = request.get();
  }
  return best;
}

void Scheduler::Loop::take_up() {
  size_t n_open = 0;
  for (const std::shared_ptr<Request>& request : requests_) n_open += request->is_taken_up ? request->n_open : 0;
  // Who was running before comes first.
  std::ranges::sort(paused_, [](const Sequence* a, const Sequence* b) { return is_more_important(*a, *b); });
  while (!paused_.empty() && !is_leaving(*paused_.front()) && fits_again(*paused_.front())) {
    Sequence& sequence = *paused_.front();
    sequence.follow_stored();
    if (!begin_return(sequence)) {
      sequence.give_up_pages();  // who is paused keeps nobody from anything
      break;
    }
    paused_.erase(paused_.begin());
    if (sequence.state == State::paused) sequence.state = State::running;
    running_.push_back(&sequence);
  }
  while (Request* const request = next_waiting()) {
    if (is_held_up(*request) || n_open + request->n_open > options_.max_seqs) return;
    if (options_.has_prefix_cache && !request->params.needs_whole_prompt() && !request->choices.front()->chain)
      for (const auto& choice : request->choices) choice->chain.emplace(stored_, request->params.cache_salt);
    if (!fits(*request)) return;
    n_open += request->n_open;
    start(*request);
  }
}

void Scheduler::Loop::start(Request& request) {
  request.is_taken_up = true;
  request.first_step = Clock::now();
  request.report.queue_seconds = seconds_between(request.arrived, request.first_step);
  now_.n_prompt_tokens += request.params.prompt.size();
  ++now_.n_requests;
  Sequence& first = *request.choices.front();
  first.state = State::running;
  running_.push_back(&first);
  {
    const std::lock_guard lock(mutex_);
    leave_queue_locked(request.params.tenant);
  }
}

void Scheduler::Loop::pause(Sequence& sequence) {
  std::erase(running_, &sequence);
  paused_.push_back(&sequence);
  sequence.state = State::paused;
  spill(sequence);
  sequence.give_up_pages();
  ++sequence.request.report.n_pauses;
  ++now_.n_pauses;
}

Scheduler::Loop::Sequence* Scheduler::Loop::least_important_but(const Sequence& sequence) const {
  Sequence* least = nullptr;
  for (Sequence* const other : running_) {
    if (other->n_in_step > 0 || other->state != State::running || other->cache.pages().empty() ||
        !is_more_important(sequence, *other))
      continue;
    if (least == nullptr || is_more_important(*least, *other)) least = other;
  }
  return least;
}

// Makes n pages free: stored ones go first, then those of less important sequences.
bool Scheduler::Loop::free_pages(const Sequence& sequence, size_t n) {
  while (pages_->n_free() < n) {
    if (spill_ != nullptr && pages_->n_free() + spill_->n_leaving() >= n) return false;  // soon
    if (stored_.evict()) continue;
    Sequence* const victim = least_important_but(sequence);
    if (victim == nullptr) return false;
    pause(*victim);
  }
  return true;
}

// Reserves pages for up to n more tokens of a sequence; returns for how many there are.
uint32_t Scheduler::Loop::make_room(Sequence& sequence, uint32_t n) {
  KvCache& cache = sequence.cache;
  const uint32_t n_computed = cache.n_tokens();
  if (!free_pages(sequence, cache.n_pages_to_take(n_computed + n))) {
    while (n > 0 && cache.n_pages_to_take(n_computed + n) > pages_->n_free()) --n;
  }
  if (n == 0) return 0;
  if (Status status = cache.reserve(n_computed + n); !status) {
    // The pool has the page, the system has not.
    fail_request(sequence.request, std::move(status).error());
    return 0;
  }
  return n;
}

void Scheduler::Loop::add_answers() {
  std::vector<Sequence*> answers;
  for (Sequence* const sequence : running_) {
    sequence->n_in_step = sequence->n_guessed = 0;
    if (sequence->is_answering()) answers.push_back(sequence);
  }
  std::ranges::sort(answers, [](const Sequence* a, const Sequence* b) { return is_more_important(*a, *b); });
  for (Sequence* const sequence : answers) {
    if (sequence->state != State::running) continue;  // made room for one before it
    sequence->n_in_step = make_room(*sequence, 1);
    if (sequence->n_in_step > 0) batch_.push_back(sequence);
  }
}

// Guessed tokens behind those of the answers, n_tokens at most. Requires: only answers take part in the step.
void Scheduler::Loop::add_guesses(uint32_t n_tokens) {
  const size_t n_answers = batch_.size();
  size_t n_left = std::min<size_t>(n_tokens, kMostGuessed);
  for (Sequence* const sequence : batch_) sequence->make_guess();
  ask_draft();
  for (Sequence* const sequence : batch_) {
    if (sequence->guess.empty()) continue;
    // What a draft model was asked for was worth its price then.
    const size_t n_worth = sequence->is_guess_drafted() ? sequence->guess.size()
                                                        : draft_policy_.n_worth(sequence->chance_of_guess(), n_answers);
    add_guess(*sequence, std::min(n_left, n_worth));
    n_left -= sequence->n_guessed;
  }
}

// Tokens behind the last one that may be computed and chosen from.
size_t Scheduler::Loop::n_guessable(const Sequence& sequence) const {
  const size_t n = n_ctx_ - sequence.tokens.size();
  const int64_t n_predict = sequence.request.params.n_predict;
  // The last token wanted is not computed.
  return n_predict < 0 ? n : std::min(n, static_cast<size_t>(n_predict) - sequence.n_chosen - 1);
}

void Scheduler::Loop::ask_draft() {
  if (draft_ == nullptr) return;
  const auto begin = Clock::now();
  const double guess_ms = draft_->round_ms() / static_cast<double>(batch_.size());
  std::vector<DraftModel::Ask> asks;
  std::vector<Sequence*> asking;
  for (Sequence* const sequence : batch_) {
    if (!sequence->wants_draft()) continue;
    const size_t n =
        std::min(n_guessable(*sequence), draft_policy_.n_worth(sequence->chance_of_draft(), batch_.size(), guess_ms));
    if (n == 0) continue;
    asks.push_back(sequence->ask_draft(n));
    asking.push_back(sequence);
  }
  draft_->guess(asks);
  for (size_t i = 0; i < asks.size(); ++i) {
    const bool catches_up = asks[i].guess.empty() && !asks[i].state->is_left_out;
    if (catches_up) draft_policy_.put_off_trial();
    asking[i]->take_draft(std::move(asks[i].guess));
  }
  draft_ms_ = 1000 * seconds_between(begin, Clock::now());
}

void Scheduler::Loop::add_guess(Sequence& sequence, size_t n_most) {
  const size_t n = std::min({n_most, sequence.guess.size(), n_guessable(sequence)});
  const auto n_wanted = static_cast<uint32_t>(sequence.tokens.size() + n);
  // Nobody gives way for a guess.
  if (n == 0 || sequence.cache.n_pages_to_take(n_wanted) > pages_->n_free() || !sequence.cache.reserve(n_wanted))
    return;
  sequence.n_guessed = static_cast<uint32_t>(n);
  sequence.n_in_step += sequence.n_guessed;
}

// Whether the next block of tokens is being computed by a sequence of this step, so that it will be there to share.
bool Scheduler::Loop::is_computed_by_another(const Sequence& sequence) const {
  const std::span<const TokenId> block = sequence.next_block();
  if (!sequence.chain || block.empty()) return false;
  return std::ranges::any_of(batch_, [&](const Sequence* other) {
    return other->chain && other->chain->end() == sequence.chain->end() && !other->is_answering() &&
           std::ranges::equal(other->next_block(), block);
  });
}

void Scheduler::Loop::add_prompts(uint32_t n_tokens) {
  std::vector<Sequence*> prompts;
  for (Sequence* const sequence : running_)
    if (!sequence->is_answering()) prompts.push_back(sequence);
  std::ranges::sort(prompts, [this](const Sequence* a, const Sequence* b) { return goes_before(*a, *b); });
  for (Sequence* const sequence : prompts) {
    if (n_tokens == 0) return;
    if (sequence->state != State::running) continue;
    Request& request = sequence->request;
    const size_t n_found = sequence->follow_stored();
    if (!request.is_prompt_done && request.report.n_pauses == 0) {
      request.report.n_cached += n_found;
      now_.n_cached_tokens += n_found;
    }
    if (is_computed_by_another(*sequence)) continue;
    const auto n_wanted = static_cast<uint32_t>(std::min<size_t>(n_tokens, sequence->n_left()));
    const uint32_t n = make_room(*sequence, n_wanted);
    if (n == 0) continue;
    if (!request.has_computed) {
      request.has_computed = true;
      const std::span<const TokenId> block = sequence->next_block();
      request.report.miss = request.params.needs_whole_prompt() ? CacheMiss::bypassed
                            : !sequence->chain || block.empty() ? CacheMiss::none
                                                                : sequence->chain->miss(block);
      ++now_.n_misses_by[static_cast<size_t>(request.report.miss)];
    }
    sequence->n_in_step = n;
    batch_.push_back(sequence);
    n_tokens -= n;
  }
}

}  // namespace tamis
