// The step loop behind a Scheduler: what requests there are, who takes part in a step, and what becomes of it. Private
// to the scheduler. scheduler.cpp is what callers see of it, scheduler_plan.cpp chooses a step's tokens and their
// pages, scheduler_spill.cpp moves pages to a file and back, scheduler_step.cpp computes the step and tells the
// listeners, scheduler_stored.cpp is what others may do with stored pages between steps.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "engine/draft_policy.h"
#include "engine/fair_share.h"
#include "engine/kv_spill.h"
#include "engine/mask_thread.h"
#include "engine/scheduler_sequence.h"
#include "engine/step_budget.h"

namespace tamis {

class Scheduler::Loop {
 public:
  // `spill`, `draft`: null when there is none.
  Loop(std::shared_ptr<const Engine> engine, const SchedulerOptions& options, std::shared_ptr<KvPagePool> pages,
       std::unique_ptr<KvSpill> spill, std::unique_ptr<DraftModel> draft);
  ~Loop();  // cancels, waits for the end

  // As the Scheduler's functions of the same names.
  tl::expected<RequestId, RequestFailure> submit(GenerateRequest request, std::shared_ptr<GenerateListener> listener);
  void cancel(RequestId id);
  SchedulerStats stats() const;
  std::vector<SequenceInfo> sequences() const;
  double retry_after_seconds() const;
  void refuse_waiting();
  bool drain(double seconds);
  Result<std::vector<std::byte>> copy_stored(std::span<const TokenId> tokens, std::string_view salt, size_t first_block,
                                             size_t n_most);
  Result<size_t> store(std::span<const TokenId> tokens, std::string_view salt, size_t first_block,
                       std::span<const std::byte> pages);
  Result<size_t> forget_stored(std::span<const TokenId> tokens, std::string_view salt);
  uint32_t n_ctx() const { return n_ctx_; }
  const Engine& engine() const { return *engine_; }

 private:
  using Request = ScheduledRequest;
  using Sequence = ScheduledSequence;
  using State = Sequence::State;
  using Clock = SchedulerClock;

  // --- any thread (scheduler.cpp)
  Status check(const GenerateRequest& request) const;
  void leave_queue_locked(const std::string& tenant);
  RequestFailure busy_locked(Refusal refusal, std::string why);
  double retry_after_locked() const;
  KvCache make_cache() const;
  void wake_locked();  // the step thread, which has news

  // --- between steps (scheduler_stored.cpp)
  struct Errand {
    const std::function<void()>* what = nullptr;
    Status status;
    bool is_done = false;
  };
  // Has the step thread do it, and waits. Errors: out_of_memory; cancelled when the thread ends.
  Status between_steps(const std::function<void()>& what);
  void run_errands(std::unique_lock<std::mutex>& lock);

  // --- the step thread (scheduler.cpp)
  void run();
  Result<std::shared_ptr<Request>> make_request(GenerateRequest params, std::shared_ptr<GenerateListener> listener);
  bool wait_for_work();
  void publish_stats();

  // --- the step thread: who takes part (scheduler_plan.cpp)
  void plan();
  void end_cancelled();
  void give_places();
  void take_up();  // requests and paused sequences that there is room for
  Request* next_waiting();
  bool is_held_up(const Request& waiting) const;
  bool fits(const Request& request) const;
  bool fits_again(const Sequence& paused) const;
  size_t pages_wanted_by_running() const;
  size_t n_pages_at_hand() const { return pages_->n_free() + stored_.n_unused(); }
  size_t expected_tokens(const Sequence& sequence) const;
  void start(Request& request);
  void add_answers();
  void add_prompts(uint32_t n_tokens);
  void add_guesses(uint32_t n_tokens);
  size_t n_guessable(const Sequence& sequence) const;
  void ask_draft();
  void add_guess(Sequence& sequence, size_t n_most);
  bool is_computed_by_another(const Sequence& sequence) const;
  uint32_t make_room(Sequence& sequence, uint32_t n);
  bool free_pages(const Sequence& sequence, size_t n);
  Sequence* least_important_but(const Sequence& sequence) const;
  void pause(Sequence& sequence);
  // --- the step thread: a paused sequence's pages (scheduler_spill.cpp)
  void spill(Sequence& sequence);
  bool is_leaving(const Sequence& sequence) const;
  bool begin_return(Sequence& sequence);
  void end_returns();
  bool is_spill_at_work() const;

  double effective_priority(const Request& request) const;
  // Whether a waiting or half-read prompt goes before another one.
  bool goes_before(const Sequence& a, const Sequence& b) const;

  // --- the step thread: the step (scheduler_step.cpp)
  void step();
  void begin_masks();
  Result<std::vector<float>> forward(std::span<Sequence* const> sequences);
  // Whose a row of logits is: a prompt's that is scored, at that position of it; null: a token is chosen from it.
  struct LogitsRow {
    Sequence* scored = nullptr;
    size_t position = 0;
  };
  Status score_rows(std::span<const LogitsRow> users, std::span<const float> logits, std::vector<float>& kept);
  bool tell_scores(Sequence& sequence);
  void keep_hidden(std::span<Sequence* const> sequences, TensorView states);
  void compute_apart();
  void finish_step(std::span<Sequence* const> sequences, std::span<const float> logits);
  void note_computed(Sequence& sequence);
  void choose_rows();
  void choose_all();
  bool follow_guess(Sequence& sequence);
  void emit(Sequence& sequence);
  void end_choice(Sequence& sequence, GenerationEnd end);
  void end_request(Request& request, const RequestFailure* failure, std::optional<Refusal> refusal = std::nullopt);
  void fail_request(Request& request, Error error, std::optional<Refusal> refusal = std::nullopt);
  void fail_all(const Error& error);
  void forget(Sequence& sequence);

  const std::shared_ptr<const Engine> engine_;
  const SchedulerOptions options_;
  const uint32_t n_ctx_;
  const std::shared_ptr<KvPagePool> pages_;

  // The step thread's own.
  PrefixCache stored_;
  FairShare share_;
  StepBudget budget_;
  DraftPolicy draft_policy_;
  const std::unique_ptr<DraftModel> draft_;  // null: none
  double draft_ms_ = 0;                      // that it took before the running step
  MaskThread mask_thread_;
  std::vector<std::shared_ptr<Request>> requests_;  // that have not ended, in order of arrival
  bool are_places_stale_ = false;                   // requests came or went since give_places()
  std::vector<Sequence*> running_, paused_;
  std::vector<Sequence*> batch_;  // of the running step
  // Next token due, by rows of logits: of the last token, and of the guessed ones after it.
  std::vector<std::pair<Sequence*, std::span<const float>>> choosing_;
  std::vector<std::shared_ptr<Request>> ended_requests_;  // in the running step
  bool refuses_waiting_now_ = false;                      // refuses_waiting_, as the running step saw it
  bool waits_for_spill_ = false;                          // the next step can do nothing before there is news
  Clock::time_point began_;                               // of the running step
  double mean_answer_ = 128;                              // tokens of a choice, moving average
  Clock::time_point last_end_;
  SchedulerStats now_;
  std::vector<SequenceInfo> sequences_now_;

  // Everybody's.
  mutable std::mutex mutex_;
  std::condition_variable wake_, ended_, errand_done_;
  std::deque<Errand*> errands_;
  std::vector<std::shared_ptr<Request>> inbox_;
  std::unordered_map<RequestId, std::shared_ptr<Request>> open_;
  RequestId last_id_ = 0;
  uint32_t n_queued_ = 0;
  std::unordered_map<std::string, uint32_t> n_queued_of_;  // by tenant, those with any
  std::array<uint64_t, kNRefusals> n_refused_by_{};
  double seconds_per_request_ = 1;
  bool is_draining_ = false, refuses_waiting_ = false, is_stopping_ = false;
  bool has_news_ = false;       // for the step thread: an arrival, a cancel, an errand, moved pages, the end
  Clock::time_point progress_;  // last end of a step, or the first request after none
  SchedulerStats published_;
  std::vector<SequenceInfo> published_sequences_;

  const std::unique_ptr<KvSpill> spill_;  // the step thread's, null: none; what its own thread wakes is there
  std::thread thread_;                    // last: everything else is there when it starts
};

}  // namespace tamis
