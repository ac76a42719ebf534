// Many requests on one engine: whoever asks gets a share of every step. Between a server's requests and the decoder.
//
// One thread runs step after step; there are no phases of prompts and of answers. A step has a budget of tokens: every
// running answer gets one, the rest goes to prompts, and the budget follows the measured time of steps, so that no
// answer pauses for longer than wanted while a long prompt is read (engine/step_budget.h). Order: the tenant who got
// least so far (engine/fair_share.h); among requests of one tenant priority; then waiting time against what is left to
// compute, so that short prompts pass long ones and nobody waits for ever.
//
// Keys and values lie in pages of a common pool. Sequences that begin alike share the pages of what they have in common
// while they run and afterwards (engine/prefix_cache.h); the choices of one request share their prompt. When pages run
// out, stored ones that nobody uses go first, then new requests wait, then the least important sequence is paused: its
// pages go to a file, if there is one, and come back later, or it is computed again. None of this changes a bit of any
// answer, and no request makes another one fail.
//
// Source: Yu et al. 2022 (Orca), Agrawal et al. 2024 (Sarathi-Serve, arXiv:2403.02310), Kwon et al. 2023
// (PagedAttention, arXiv:2309.06180), Sheng et al. 2024 (VTC, arXiv:2401.00588).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "engine/engine.h"
#include "engine/generate.h"
#include "engine/prefix_cache.h"
#include "engine/reasoning_gate.h"
#include "engine/sampling_params.h"
#include "text/grammar/grammar.h"

namespace tamis {

using RequestId = uint64_t;

// What an embedding is made of: the final hidden states of a prompt's tokens, after the last norm.
enum class Pooling : uint8_t { mean, first, last };

struct GenerateRequest {
  static constexpr uint32_t kMaxChoices = 128, kMaxTopLogprobs = 20;

  std::vector<TokenId> prompt;  // at least one token
  SamplingParams sampling;      // choice i of several draws with seed + i
  int64_t n_predict = -1;       // tokens a choice at most; < 0 = until the model ends or the context is full
  uint32_t min_tokens = 0;      // before that many tokens the end of generation is not chosen
  std::vector<std::string> stop;
  bool ignore_eos = false;
  bool has_logprobs = false;                // TokenEvent::logprob is wanted
  uint32_t n_top_logprobs = 0;              // most probable tokens reported with each one; implies has_logprobs
  uint32_t n_choices = 1;                   // answers to the same prompt
  std::shared_ptr<const TokenMasks> masks;  // what every answer must be, over the engine's vocabulary; null: anything
  std::optional<ReasoningRule> reasoning;   // what may stand before that, and how long; none: nothing is known of it
  std::vector<TokenId> shown_tokens;        // control tokens that are part of the answers' text
  // Set: nothing is generated; the listener hears the prompt's embedding instead. All of the prompt is computed then,
  // whatever pages are stored.
  std::optional<Pooling> pooling;
  // The listener hears how probable the prompt's own tokens are (n_top_logprobs beside each). All of the prompt is
  // computed then, too.
  bool scores_prompt = false;
  std::string tenant;             // whose share this is taken from, an API key's id, say; "" is one like any other
  int32_t priority = 0;           // larger is sooner, among requests of one tenant; waiting raises it, see
                                  // SchedulerOptions::aging_seconds
  std::string cache_salt;         // stored pages are shared only among requests of one salt
  std::optional<uint32_t> slot;   // a name that SequenceInfo tells; no more
  double time_limit_seconds = 0;  // from submit; then it ends as it is, or is refused while it waits; 0 = none

  bool needs_whole_prompt() const { return pooling.has_value() || scores_prompt; }
};

struct TokenLogprob {
  TokenId id = kNoToken;
  float logprob = 0;  // natural logarithm, of the model's own distribution: before bias, penalties and temperature
};

// How probable a token is, and which ones are most probable in its place.
struct TokenScore {
  TokenLogprob logprob;
  std::vector<TokenLogprob> top;  // most probable first
};

// One chosen token. The views hold during the call.
struct TokenEvent {
  uint32_t choice_idx = 0;
  TokenId id = kNoToken;
  std::string_view text;   // whole characters that became certain not to belong to a stop string: often of this token,
                           // sometimes of earlier ones, or ""
  TokenLogprob logprob{};  // of `id`; 0 unless asked for
  std::span<const TokenLogprob> top;  // most probable first
};

// A choice is complete.
struct ChoiceEnd {
  uint32_t choice_idx = 0;
  GenerationEnd end = GenerationEnd::end_of_text;
  std::string_view text;         // the last of it, held back until now
  std::string_view stop_string;  // that matched; "" when none did
  uint64_t seed = 0;             // that it was drawn with
  size_t n_tokens = 0;           // chosen, the end-of-generation token not counted
  TokenScore end_token{};        // of an end-of-generation token that was chosen; id kNoToken: none, or not asked for
};

// Why a request was refused.
enum class Refusal : uint8_t {
  invalid,      // it makes no sense
  queue_full,   // too many wait
  tenant_full,  // too many of its own tenant wait
  waited,       // for too long
  draining,     // no more are taken
};
inline constexpr size_t kNRefusals = 5;
std::string_view refusal_name(Refusal refusal);

// A request refused or failed.
struct RequestFailure {
  Error error;
  bool is_busy = false;            // nothing is wrong with the request: too many wait, or it waited for too long
  bool is_greedy = false;          // too many of its own tenant wait
  double retry_after_seconds = 0;  // when is_busy: how long until the queue is likely to have moved
};

struct RequestReport {
  size_t n_prompt = 0;  // tokens
  size_t n_cached = 0;  // of them, taken from stored pages instead of computed
  CacheMiss miss = CacheMiss::none;
  size_t n_generated = 0;                   // tokens of all choices
  uint32_t n_pauses = 0;                    // times a choice gave up its pages
  size_t n_drafted = 0, n_accepted = 0;     // guessed tokens computed, and those of them that were chosen
  double queue_seconds = 0;                 // from submit to the first step
  double prompt_seconds = 0;                // from there to the logits of the last prompt token
  double first_token_seconds = 0;           // from submit to the first token; 0 when there was none
  double generate_seconds = 0;              // from the prompt's end to the end
  const RequestFailure* failure = nullptr;  // during the call; null: every choice has ended (cancelled ones included)
};

// Called by the step thread, one call at a time, while it keeps everybody waiting: note it down, hand it to another
// thread, return. Calls may come before submit() returns. No call follows on_end, and no exception may leave one.
class GenerateListener {
 public:
  virtual ~GenerateListener() = default;
  virtual void on_token(const TokenEvent& event) = 0;
  virtual void on_choice_end(const ChoiceEnd& event) = 0;
  // For a request with pooling, before its choice ends: [n_embd], of length 1, the same bits whatever else is computed.
  virtual void on_embedding(std::span<const float> values) { (void)values; }
  // For a request with scores_prompt, before any token: how probable the prompt's tokens are from the second one on,
  // each after all before it, the same bits whatever else is computed; each token once, in order, several at a time.
  virtual void on_prompt_scores(std::span<const TokenScore> scores) { (void)scores; }
  // Once a request, last: all choices have ended, or it failed.
  virtual void on_end(const RequestReport& report) = 0;
  // After each step that took in a part of the prompt: tokens done, of them from stored pages.
  virtual void on_prompt(size_t n_done, size_t n_cached, size_t n_prompt) {
    (void)n_done, (void)n_cached, (void)n_prompt;
  }
};

// Full contexts of keys and values that a scheduler's pages hold when nothing is said, if memory allows.
inline constexpr uint32_t kContextsByDefault = 4;

struct SchedulerOptions {
  uint32_t itl_target_ms = 250;       // --itl-target-ms: longest time wanted between two tokens of an answer
  uint32_t max_batched_tokens = 0;    // --max-batched-tokens: tokens of one step at most; 0 = the engine's n_batch
  uint32_t max_seqs = 32;             // --max-seqs: sequences (choices) computed in turn; others wait
  uint64_t kv_bytes = 0;              // of all pages; 0 = four full contexts, at most half of what memory is left
  uint32_t max_queue = 512;           // --max-queue: requests that wait; more are refused
  uint32_t max_queue_per_tenant = 0;  // of them, of one tenant; 0 = all
  double queue_timeout_seconds = 0;   // a request that waited that long is refused; 0 = it waits
  std::string spill_dir;              // --kv-spill-dir: where pages of paused sequences go; "": they are computed again
  uint64_t spill_bytes = 0;           // --kv-spill-bytes: of them at most; 0 = four times kv_bytes
  double spill_margin = 1;            // pages are spilled where computing them again takes longer than that many times
                                      // writing and reading them; 0: always
  double aging_seconds = 20;          // each such time of waiting counts as one step of priority
  bool has_prefix_cache = true;       // false: pages are shared only among the choices of a request
  Speculation speculation = Speculation::ngram;  // --spec
  std::shared_ptr<const Engine> draft;  // -md: a small model of the same vocabulary that guesses too; null: none
  double draft_margin = 1.2;            // as GenerationOptions::draft_margin
  ThreadPool* pool = nullptr;           // samples several sequences at once; outlives the scheduler; null: one by one
};

struct SchedulerStats {
  // now
  uint32_t n_queued = 0;          // requests, paused sequences' ones not counted
  uint32_t n_running = 0;         // sequences with pages
  uint32_t n_paused = 0;          // sequences without, that had some
  uint64_t kv_pages = 0;          // of the pool
  uint64_t kv_pages_used = 0;     // by running sequences
  uint64_t kv_pages_stored = 0;   // by nobody, kept for prompts that begin alike
  uint64_t kv_pages_spilled = 0;  // in the file
  uint64_t kv_page_bytes = 0;
  uint32_t step_tokens = 0;      // budget of the next step while answers run
  double step_ms = 0;            // moving average
  double stalled_seconds = 0;    // without the end of a step, or any other progress, while there are requests
  double tokens_per_second = 0;  // generated, moving average over steps that generate
  // since the start
  uint64_t n_requests = 0, n_finished = 0, n_failed = 0, n_refused = 0, n_cancelled = 0;
  std::array<uint64_t, kNRefusals> n_refused_by{};    // n_refused, by Refusal
  std::array<uint64_t, kNCacheMisses> n_misses_by{};  // prompts by CacheMiss, once a part of them has been computed
  uint64_t n_steps = 0;
  uint64_t n_prompt_tokens = 0;    // of prompts taken up
  uint64_t n_cached_tokens = 0;    // of them, not computed
  uint64_t n_computed_tokens = 0;  // prompt tokens computed, those of paused sequences again
  uint64_t n_generated_tokens = 0;
  uint64_t n_pauses = 0, n_pages_evicted = 0;
  uint64_t n_pages_spilled = 0, n_pages_restored = 0;
  uint64_t n_drafted_tokens = 0;   // guessed tokens computed
  uint64_t n_accepted_tokens = 0;  // of them, chosen

  double kv_utilisation() const {
    return kv_pages == 0 ? 0 : static_cast<double>(kv_pages_used) / static_cast<double>(kv_pages);
  }
};

// A choice of a request that has not ended: numbers alone, nothing of what it says.
struct SequenceInfo {
  enum class State : uint8_t { waiting, running, paused };
  RequestId request_id = 0;
  uint32_t choice_idx = 0;
  std::optional<uint32_t> slot;  // of the request
  State state = State::waiting;
  size_t n_prompt = 0;     // tokens
  size_t n_computed = 0;   // tokens whose keys and values are there, stored pages included
  size_t n_generated = 0;  // tokens chosen so far
};

// All member functions may be called from any thread.
class Scheduler {
 public:
  // Starts the step thread. The engine may serve others beside it, at the cost of its steps' times. Errors:
  // invalid_argument for options that make no sense (a pool smaller than two pages, a budget of 0);
  // out_of_memory; those of ScratchFile::create for spill_dir, those of DraftModel::create.
  static Result<std::unique_ptr<Scheduler>> create(std::shared_ptr<const Engine> engine,
                                                   const SchedulerOptions& options = {});
  // Cancels what is left and ends the thread; every listener has heard on_end when it returns.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Queues a request. Errors: invalid_argument for parameters that make no sense, an empty prompt, one longer than
  // n_ctx() or with ids outside the vocabulary, more choices than max_seqs; with is_busy when max_queue requests wait
  // or drain() was called.
  tl::expected<RequestId, RequestFailure> submit(GenerateRequest request, std::shared_ptr<GenerateListener> listener);

  // Ends a request at the next step: its choices end as `cancelled`. Nothing happens when it has ended already.
  void cancel(RequestId id);

  // Tokens of one sequence at most: the engine's context, or what the pool holds if that is less.
  uint32_t n_ctx() const;
  const Engine& engine() const;
  SchedulerStats stats() const;
  std::vector<SequenceInfo> sequences() const;  // as of the last step's end, in order of arrival
  double retry_after_seconds() const;           // as a refused request would be told now

  // --- stored blocks of keys and values (engine/prefix_cache.h), for what keeps them elsewhere (engine/kv_file.h).
  // Each of these waits for the end of a step, and keeps the next one waiting while it copies. Errors: out_of_memory;
  // cancelled when the scheduler ends.

  // Pages of the blocks that `tokens` begin with under a salt, one after another, from number first_block on: as many
  // as are stored without a gap, n_most of them at most.
  Result<std::vector<std::byte>> copy_stored(std::span<const TokenId> tokens, std::string_view salt, size_t first_block,
                                             size_t n_most);
  // Stores `pages` as those blocks, in place of what was not used for the longest time, as far as there is room and
  // the blocks before are stored. Waits for pages that are being written to a file. Returns how many of the
  // tokens are stored then, from the first on. Requires: pages computed by this engine (kv_fingerprint).
  Result<size_t> store(std::span<const TokenId> tokens, std::string_view salt, size_t first_block,
                       std::span<const std::byte> pages);
  // Forgets the blocks of `tokens`, from the last to the first that something else goes on behind or uses now. Returns
  // how many tokens are forgotten.
  Result<size_t> forget_stored(std::span<const TokenId> tokens, std::string_view salt);

  // Refuses new requests from now on, and at the next step those that have not been taken up: they end as busy.
  void refuse_waiting();

  // Refuses new requests from now on, lets all others end; those that have not after `seconds` are cancelled. Returns
  // when all have ended: true when nothing had to be cancelled.
  bool drain(double seconds);

 private:
  class Loop;
  explicit Scheduler(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

}  // namespace tamis
