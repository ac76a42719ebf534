// One choice of a request while the scheduler has it: its tokens, the pages of those computed, and what turns logits
// into text. Private to the scheduler.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/draft_model.h"
#include "engine/draft_policy.h"
#include "engine/kv_spill.h"
#include "engine/ngram_draft.h"
#include "engine/pooled_states.h"
#include "engine/prefix_cache.h"
#include "engine/sampler.h"
#include "engine/scheduler.h"
#include "engine/stop_matcher.h"

namespace tamis {

using SchedulerClock = std::chrono::steady_clock;

struct ScheduledRequest;

class ScheduledSequence {
 public:
  enum class State : uint8_t {
    waiting,  // the request was not taken up yet, or its first choice reads the prompt for all
    running,
    returning,  // is among the running ones, but its pages are still being read back
    paused,     // was running; gave up its pages
    ended,
  };

  // Errors: invalid_argument for sampling parameters that make no sense.
  static Result<std::unique_ptr<ScheduledSequence>> create(ScheduledRequest& request, uint32_t choice_idx,
                                                           const Engine& engine, KvCache cache);

  // What came of one row of logits.
  struct Chosen {
    Status status;
    TokenId id = kNoToken;
    bool is_end_of_text = false;  // `id` ends the answer and is no part of it
    bool is_complete = false;     // nothing may follow `id`
    std::string text;
    TokenScore score;
  };
  // Whether a grammar decides what comes next.
  bool wants_mask() const { return grammar_ && !is_mask_ready_ && !(reasoning_ && reasoning_->is_open()); }
  // Finds out what its grammar allows next, so that choose() need not. Touches nothing but this sequence.
  void prepare_mask();
  // Draws the next token from logits [n_vocab] and takes it in. Touches nothing but this sequence.
  void choose(std::span<const float> logits);
  const Chosen& chosen() const { return chosen_; }
  // The text held back; afterwards is_stopped() may have become true.
  std::string finish_text();
  bool is_stopped() const { return matcher_.matched(); }
  std::string_view stop_string() const { return matcher_.matched_stop(); }
  uint64_t seed() const { return sampler_.seed(); }

  uint32_t n_computed() const { return cache.n_tokens(); }
  size_t n_left() const { return tokens.size() - cache.n_tokens(); }  // to compute before the next token can be chosen
  bool is_answering() const { return n_chosen > 0 && n_left() == 1; }
  // Bytes of the block after the stored ones; empty when it has no token left behind it, which must be computed.
  std::span<const TokenId> next_block() const;

  // Guesses what comes next: guess(), and the chance that each token of it holds.
  void make_guess();
  double chance_of_guess() const { return record_.chance(n_agreeing_); }
  // Whether a draft model is likely to guess better, and the chance that a token of its guess holds.
  bool wants_draft() const { return !grammar_ && !draft.is_left_out && n_agreeing_ < NgramDraft::kTrusted; }
  double chance_of_draft() const { return record_.chance(DraftRecord::kByModel); }
  // Asks a draft model for n tokens, and takes what it guessed in place of the guess made; where that is nothing, the
  // guess made stays.
  DraftModel::Ask ask_draft(size_t n);
  void take_draft(std::vector<TokenId> drafted);
  bool is_guess_drafted() const { return n_agreeing_ == DraftRecord::kByModel; }
  // Forgets what was computed behind the last token. Requires: a step in which all tokens were.
  void forget_guessed() { cache.truncate(static_cast<uint32_t>(tokens.size())); }
  // Compares the token just chosen with the guess. True: they are equal, and the token was computed in this step, so
  // that the next can be chosen from the next row.
  bool follow_guess();

  // Goes through stored pages as far as the tokens are there. Returns the number of tokens that need not be computed.
  size_t follow_stored();
  // Stores the pages that have become full.
  void store_full();
  // Begins where `other` is, with its pages. Requires: nothing computed yet.
  void share_with(const ScheduledSequence& other);
  void give_up_pages();

  ScheduledRequest& request;
  const uint32_t choice_idx;
  State state = State::waiting;
  std::vector<TokenId> tokens;  // prompt and chosen ones
  size_t n_chosen = 0;
  KvCache cache;
  std::optional<PrefixChain> chain;       // none: no pages are stored
  std::shared_ptr<SpilledPages> spilled;  // of a paused or returning one; null: it is computed again
  uint32_t n_in_step = 0;                 // tokens of the running step, guessed ones too
  uint32_t n_guessed = 0;                 // of them, the last: the first tokens of the guess
  DraftState draft;
  std::vector<TokenId> guess;          // of what follows `tokens`, as far as it has not turned out wrong
  std::optional<PooledStates> pooled;  // of a prompt that becomes an embedding
  // Whether the logits at a position are wanted for how probable the prompt's next token is.
  bool wants_score(size_t position) const;
  // How probable the token behind `position` is, from the logits there. A position that came before is passed over:
  // a prompt may be computed again.
  void take_score(size_t position, TokenScore score);
  std::vector<TokenScore> scores;  // of the prompt's tokens, those not told yet

 private:
  ScheduledSequence(ScheduledRequest& of, uint32_t choice, SamplerChain sampler, const Engine& engine, KvCache own);
  Result<std::span<const float>> allowed(std::span<const float> logits);
  Status follow_form(TokenId id);
  std::string text_of(TokenId id);

  const Tokenizer& tokenizer_;
  SamplerChain sampler_;
  NgramDraft ngram_;
  DraftRecord record_;
  size_t n_agreeing_ = 0;  // how good the guess looks
  size_t n_followed_ = 0;  // tokens of it that were chosen since
  size_t n_scored_ = 0;    // tokens of the prompt
  StreamDecoder decoder_;
  StopMatcher matcher_;
  std::optional<GrammarMatcher> grammar_;
  std::optional<ReasoningGate> reasoning_;
  std::vector<uint32_t> mask_;
  Status mask_status_;
  bool is_mask_ready_ = false;  // mask_ and mask_status_ are of the next token
  std::vector<float> masked_;
  Chosen chosen_;
};

struct ScheduledRequest {
  RequestId id = 0;
  RequestId place = 0;         // in the order of who gives way, first to last; the id of one of the same tenant
  RequestId tenant_place = 0;  // id of the tenant's oldest request that has not ended
  GenerateRequest params;
  std::shared_ptr<GenerateListener> listener;
  std::atomic<bool> is_cancelled{false};
  SchedulerClock::time_point arrived, first_step, prompt_done;
  std::vector<std::unique_ptr<ScheduledSequence>> choices;
  size_t n_open = 0;            // choices that have not ended
  bool is_taken_up = false;     // its choices count as running
  bool is_prompt_done = false;  // every choice has (or had) its pages
  bool has_computed = false;    // some of its prompt, so that what is missing from the stored pages is known
  RequestReport report;
};

// How probable logits [n_vocab] make `id`, and the n_top most probable tokens. Natural logarithms; the first is not a
// number where the logits are none.
TokenScore score_token(std::span<const float> logits, TokenId id, uint32_t n_top);

// Whether a goes before b when pages are short.
bool is_more_important(const ScheduledSequence& a, const ScheduledSequence& b);

}  // namespace tamis
