// The scheduler as callers see it: requests checked and queued, cancelled, counted, drained; and the thread's own loop.
#include "engine/scheduler.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "base/memory.h"
#include "engine/scheduler_loop.h"

namespace tamis {
namespace {

constexpr uint64_t kSpilledByDefault = 4;  // times what memory holds
constexpr const char* kNoMore = "no more requests are taken in";

uint64_t random_seed() {
  std::random_device device;
  return static_cast<uint64_t>(device()) << 32 | device();
}

// The pool's size when nothing is said.
uint64_t default_kv_bytes(const Engine& engine) {
  const uint64_t wanted = kContextsByDefault * engine.kv_bytes_of_context();
  const uint64_t usable = usable_memory_bytes(), used = resident_memory_bytes();
  return usable == 0 ? wanted : std::min(wanted, (usable - std::min(used, usable)) / 2);
}

SchedulerOptions completed(SchedulerOptions options, const Engine& engine) {
  if (options.max_batched_tokens == 0) options.max_batched_tokens = engine.n_batch();
  // Every running answer gets its token in every step.
  options.max_batched_tokens = std::max(options.max_batched_tokens, options.max_seqs);
  if (options.kv_bytes == 0) options.kv_bytes = default_kv_bytes(engine);
  if (options.spill_bytes == 0) options.spill_bytes = kSpilledByDefault * options.kv_bytes;
  return options;
}

// As it is told: one whose pages are being read back has its place among the running ones.
SequenceInfo::State told_state(ScheduledSequence::State state) {
  using State = ScheduledSequence::State;
  if (state == State::running || state == State::returning) return SequenceInfo::State::running;
  return state == State::paused ? SequenceInfo::State::paused : SequenceInfo::State::waiting;
}

void note_sequences(const ScheduledRequest& request, std::vector<SequenceInfo>& out) {
  for (const auto& choice : request.choices) {
    if (choice->state == ScheduledSequence::State::ended) continue;
    out.push_back({.request_id = request.id,
                   .choice_idx = choice->choice_idx,
                   .slot = request.params.slot,
                   .state = told_state(choice->state),
                   .n_prompt = request.params.prompt.size(),
                   .n_computed = choice->n_computed(),
                   .n_generated = choice->n_chosen});
  }
}

}  // namespace

std::string_view refusal_name(Refusal refusal) {
  constexpr std::string_view kNames[] = {"invalid", "queue_full", "key_full", "waited", "draining"};
  static_assert(std::size(kNames) == kNRefusals);
  return kNames[static_cast<size_t>(refusal)];
}

Result<std::unique_ptr<Scheduler>> Scheduler::create(std::shared_ptr<const Engine> engine,
                                                     const SchedulerOptions& asked) {
  if (asked.itl_target_ms == 0 || asked.max_seqs == 0)
    return fail(ErrorCode::invalid_argument, "scheduler: got a target of {} ms and {} sequences, expected at least 1",
                asked.itl_target_ms, asked.max_seqs);
  if (engine->tokenizer() == nullptr) return fail(ErrorCode::invalid_argument, "scheduler: no tokenizer was loaded");
  const SchedulerOptions options = completed(asked, *engine);
  const auto page_bytes = engine->model().make_cache(engine->kv_types()).page_bytes();
  const uint64_t n_pages = page_bytes && *page_bytes > 0 ? options.kv_bytes / *page_bytes : 0;
  if (n_pages < 2) {
    return fail(ErrorCode::invalid_argument,
                "pages of keys and values: got {} bytes, expected at least two pages of {}", options.kv_bytes,
                page_bytes.value_or(0));
  }
  // No more than all sequences can fill with a whole context each.
  const uint64_t n_most = (uint64_t{engine->n_ctx()} / KvCache::kPageTokens + 1) * (options.max_seqs + 1);
  const uint64_t n = options.has_prefix_cache ? n_pages : std::min(n_pages, n_most);
  std::unique_ptr<KvSpill> spill;
  if (!options.spill_dir.empty()) {
    TAMIS_TRY(spill, KvSpill::create(options.spill_dir, *page_bytes, options.spill_bytes / *page_bytes));
  }
  std::unique_ptr<DraftModel> draft;
  if (options.draft != nullptr) {
    TAMIS_TRY(draft, DraftModel::create(options.draft, *engine, static_cast<size_t>(n)));
  }
  auto pages = std::make_shared<KvPagePool>(*page_bytes, static_cast<size_t>(n));
  return std::unique_ptr<Scheduler>(new Scheduler(
      std::make_unique<Loop>(std::move(engine), options, std::move(pages), std::move(spill), std::move(draft))));
}

Scheduler::Scheduler(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}
Scheduler::~Scheduler() = default;

tl::expected<RequestId, RequestFailure> Scheduler::submit(GenerateRequest request,
                                                          std::shared_ptr<GenerateListener> listener) {
  return loop_->submit(std::move(request), std::move(listener));
}
void Scheduler::cancel(RequestId id) { loop_->cancel(id); }
uint32_t Scheduler::n_ctx() const { return loop_->n_ctx(); }
const Engine& Scheduler::engine() const { return loop_->engine(); }
SchedulerStats Scheduler::stats() const { return loop_->stats(); }
std::vector<SequenceInfo> Scheduler::sequences() const { return loop_->sequences(); }
double Scheduler::retry_after_seconds() const { return loop_->retry_after_seconds(); }
void Scheduler::refuse_waiting() { loop_->refuse_waiting(); }
bool Scheduler::drain(double seconds) { return loop_->drain(seconds); }

Scheduler::Loop::Loop(std::shared_ptr<const Engine> engine, const SchedulerOptions& options,
                      std::shared_ptr<KvPagePool> pages, std::unique_ptr<KvSpill> spill,
                      std::unique_ptr<DraftModel> draft)
    : engine_(std::move(engine)),
      options_(options),
      n_ctx_(static_cast<uint32_t>(
          std::min<uint64_t>(engine_->n_ctx(), uint64_t{pages->n_pages()} * KvCache::kPageTokens))),
      pages_(std::move(pages)),
      stored_(random_seed()),
      budget_(options.itl_target_ms, options.max_batched_tokens),
      draft_policy_(options.draft_margin),
      draft_(std::move(draft)),
      last_end_(Clock::now()),
      spill_(std::move(spill)) {
  publish_stats();
  if (spill_ != nullptr) {
    spill_->notify([this] {
      const std::lock_guard lock(mutex_);
      wake_locked();
    });
  }
  thread_ = std::thread([this] { run(); });
}

Scheduler::Loop::~Loop() {
  {
    const std::lock_guard lock(mutex_);
    is_draining_ = is_stopping_ = true;
    for (const auto& [id, request] : open_) request->is_cancelled = true;
    wake_locked();
  }
  thread_.join();
}

void Scheduler::Loop::wake_locked() {
  has_news_ = true;
  wake_.notify_all();
}

Status Scheduler::Loop::check(const GenerateRequest& request) const {
  const size_t n = request.prompt.size();
  if (n == 0) return fail(ErrorCode::invalid_argument, "prompt: got no tokens, expected at least one");
  if (n > n_ctx_) {
    return fail(ErrorCode::invalid_argument, "prompt: got {} tokens, expected at most {}, {}", n, n_ctx_,
                n_ctx_ < engine_->n_ctx() ? "what the pages of keys and values hold" : "the context (-c)");
  }
  const auto n_vocab = static_cast<int64_t>(engine_->model().n_vocab());
  for (const TokenId id : request.prompt)
    if (id < 0 || id >= n_vocab)
      return fail(ErrorCode::invalid_argument, "prompt: token {} is not in the vocabulary of {}", id, n_vocab);
  const uint32_t most = std::min(options_.max_seqs, GenerateRequest::kMaxChoices);
  if (request.n_choices == 0 || request.n_choices > most)
    return fail(ErrorCode::invalid_argument, "n: got {}, expected 1 to {}", request.n_choices, most);
  if (request.pooling && request.n_choices != 1)
    return fail(ErrorCode::invalid_argument, "n: got {}, expected 1 embedding", request.n_choices);
  if (request.n_top_logprobs > GenerateRequest::kMaxTopLogprobs)
    return fail(ErrorCode::invalid_argument, "top_logprobs: got {}, expected at most {}", request.n_top_logprobs,
                GenerateRequest::kMaxTopLogprobs);
  return {};
}

KvCache Scheduler::Loop::make_cache() const {
  return KvCache(kv_shapes(engine_->model().hyper), engine_->kv_types(), pages_);
}

double Scheduler::Loop::retry_after_locked() const {
  return std::clamp(seconds_per_request_ * (n_queued_ + 1), 1.0, 300.0);
}

void Scheduler::Loop::leave_queue_locked(const std::string& tenant) {
  --n_queued_;
  const auto own = n_queued_of_.find(tenant);
  if (--own->second == 0) n_queued_of_.erase(own);
}

RequestFailure Scheduler::Loop::busy_locked(Refusal refusal, std::string why) {
  ++n_refused_by_[static_cast<size_t>(refusal)];
  return {.error = {ErrorCode::out_of_memory, std::move(why), nullptr},
          .is_busy = true,
          .is_greedy = refusal == Refusal::tenant_full,
          .retry_after_seconds = retry_after_locked()};
}

tl::expected<RequestId, RequestFailure> Scheduler::Loop::submit(GenerateRequest params,
                                                                std::shared_ptr<GenerateListener> listener) {
  if (const Status status = check(params); !status) {
    const std::lock_guard lock(mutex_);
    ++n_refused_by_[static_cast<size_t>(Refusal::invalid)];
    return tl::unexpected(RequestFailure{.error = status.error()});
  }
  const std::string tenant = params.tenant;
  {  // before the work that a full queue should not cost
    const std::lock_guard lock(mutex_);
    if (is_draining_) return tl::unexpected(busy_locked(Refusal::draining, kNoMore));
    if (n_queued_ >= options_.max_queue)
      return tl::unexpected(busy_locked(Refusal::queue_full, fmt::format("{} requests wait already", n_queued_)));
    uint32_t& n_own = n_queued_of_[tenant];
    if (options_.max_queue_per_tenant > 0 && n_own >= options_.max_queue_per_tenant)
      return tl::unexpected(
          busy_locked(Refusal::tenant_full, fmt::format("{} requests of this key wait already", n_own)));
    ++n_queued_;
    ++n_own;
  }
  // Gives the place back wherever this ends without a request in the queue, an end of memory included.
  struct Place {
    Loop& loop;
    const std::string& tenant;
    bool is_kept = false;
    ~Place() {
      if (is_kept) return;
      const std::lock_guard lock(loop.mutex_);
      loop.leave_queue_locked(tenant);
    }
  } place{*this, tenant};
  auto request = make_request(std::move(params), std::move(listener));
  const std::lock_guard lock(mutex_);
  if (!request) {
    ++n_refused_by_[static_cast<size_t>(Refusal::invalid)];
    return tl::unexpected(RequestFailure{.error = std::move(request).error()});
  }
  if (is_draining_) return tl::unexpected(busy_locked(Refusal::draining, kNoMore));
  inbox_.reserve(inbox_.size() + 1);
  (*request)->id = ++last_id_;
  if (open_.empty()) progress_ = Clock::now();
  open_.emplace((*request)->id, *request);
  inbox_.push_back(*request);
  place.is_kept = true;
  wake_locked();
  return (*request)->id;
}

Result<std::shared_ptr<Scheduler::Loop::Request>> Scheduler::Loop::make_request(
    GenerateRequest params, std::shared_ptr<GenerateListener> listener) {
  auto request = std::make_shared<Request>();
  request->params = std::move(params);
  request->listener = std::move(listener);
  request->arrived = Clock::now();
  request->report.n_prompt = request->params.prompt.size();
  request->n_open = request->params.n_choices;
  for (uint32_t i = 0; i < request->params.n_choices; ++i) {
    TAMIS_TRY(auto sequence, Sequence::create(*request, i, *engine_, make_cache()));
    request->choices.push_back(std::move(sequence));
  }
  return request;
}

void Scheduler::Loop::cancel(RequestId id) {
  const std::lock_guard lock(mutex_);
  const auto it = open_.find(id);
  if (it == open_.end()) return;
  it->second->is_cancelled = true;
  wake_locked();
}

SchedulerStats Scheduler::Loop::stats() const {
  const std::lock_guard lock(mutex_);
  SchedulerStats stats = published_;
  stats.n_queued = n_queued_;
  stats.n_refused_by = n_refused_by_;
  stats.n_refused = std::accumulate(n_refused_by_.begin(), n_refused_by_.end(), uint64_t{0});
  if (!open_.empty()) stats.stalled_seconds = std::chrono::duration<double>(Clock::now() - progress_).count();
  return stats;
}

std::vector<SequenceInfo> Scheduler::Loop::sequences() const {
  const std::lock_guard lock(mutex_);
  std::vector<SequenceInfo> out = published_sequences_;
  for (const std::shared_ptr<Request>& request : inbox_) note_sequences(*request, out);
  return out;
}

double Scheduler::Loop::retry_after_seconds() const {
  const std::lock_guard lock(mutex_);
  return retry_after_locked();
}

void Scheduler::Loop::refuse_waiting() {
  const std::lock_guard lock(mutex_);
  is_draining_ = refuses_waiting_ = true;
}

bool Scheduler::Loop::drain(double seconds) {
  std::unique_lock lock(mutex_);
  is_draining_ = true;
  const auto has_ended = [this] { return open_.empty(); };
  if (ended_.wait_for(lock, std::chrono::duration<double>(seconds), has_ended)) return true;
  for (const auto& [id, request] : open_) request->is_cancelled = true;
  wake_locked();
  ended_.wait(lock, has_ended);
  return false;
}

bool Scheduler::Loop::wait_for_work() {
  std::unique_lock lock(mutex_);
  do {
    // What came may still be there without news of it: memory may have ended while it was taken up.
    wake_.wait(lock, [this] {
      return is_stopping_ || has_news_ || !errands_.empty() || !inbox_.empty() ||
             (!requests_.empty() && !waits_for_spill_);
    });
    has_news_ = waits_for_spill_ = false;
    run_errands(lock);
    if (spill_ == nullptr || !requests_.empty()) continue;
    lock.unlock();
    spill_->collect();
    publish_stats();
    lock.lock();
  } while (!errands_.empty() || (!is_stopping_ && inbox_.empty() && requests_.empty()));
  requests_.reserve(requests_.size() + inbox_.size());
  are_places_stale_ |= !inbox_.empty();
  while (!inbox_.empty()) {  // one by one: where memory ends, the rest stays
    const std::shared_ptr<Request>& request = inbox_.front();
    published_sequences_.reserve(published_sequences_.size() + request->choices.size());
    share_.arrive(request->params.tenant);
    note_sequences(*request, published_sequences_);
    requests_.push_back(request);
    inbox_.erase(inbox_.begin());
  }
  refuses_waiting_now_ = refuses_waiting_;
  return !requests_.empty();
}

void Scheduler::Loop::run() {
  for (;;) {
    try {
      if (!wait_for_work()) return;
      step();
      for (const std::shared_ptr<Request>& request : requests_) note_sequences(*request, sequences_now_);
    } catch (const std::bad_alloc&) {
      fail_all({ErrorCode::out_of_memory, "no memory for the next step", nullptr});
    }
    ended_requests_.clear();
    if (spill_ != nullptr && requests_.empty()) spill_->collect();  // every step does so with its beginning
    publish_stats();
  }
}

void Scheduler::Loop::publish_stats() {
  now_.n_running = static_cast<uint32_t>(running_.size());
  now_.n_paused = static_cast<uint32_t>(paused_.size());
  now_.kv_pages = pages_->n_pages();
  now_.kv_page_bytes = pages_->page_bytes();
  now_.kv_pages_stored = stored_.n_unused();
  now_.kv_pages_used = pages_->n_used() - stored_.n_unused();
  now_.n_pages_evicted = stored_.n_evicted();
  if (spill_ != nullptr) {
    now_.kv_pages_spilled = spill_->n_stored();
    now_.n_pages_spilled = spill_->n_written();
    now_.n_pages_restored = spill_->n_restored();
  }
  const std::lock_guard lock(mutex_);
  // A step that finds everybody waiting for the disk is no progress; a page that comes or goes is.
  const bool has_moved =
      now_.n_pages_spilled != published_.n_pages_spilled || now_.n_pages_restored != published_.n_pages_restored;
  if (!waits_for_spill_ || has_moved) progress_ = Clock::now();
  published_ = now_;
  published_sequences_.swap(sequences_now_);
  sequences_now_.clear();
}

}  // namespace tamis
