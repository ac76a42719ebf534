// A sequence's own part of a step: drawing a token, its text, and its pages.
#include "engine/scheduler_sequence.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>

#include "engine/distribution.h"
#include "engine/sampler_steps.h"

namespace tamis {
namespace {

constexpr float kForbidden = -std::numeric_limits<float>::infinity();

SamplingParams sampling_of(const GenerateRequest& request, uint32_t choice_idx, const Tokenizer& tokenizer) {
  SamplingParams params = request.sampling;
  if (params.seed) *params.seed += choice_idx;
  if (request.ignore_eos)
    for (const TokenId id : tokenizer.special().end_of_generation) params.logit_bias.push_back({id, kForbidden});
  return params;
}

}  // namespace

Result<std::unique_ptr<ScheduledSequence>> ScheduledSequence::create(ScheduledRequest& request, uint32_t choice_idx,
                                                                     const Engine& engine, KvCache cache) {
  TAMIS_TRY(SamplerChain sampler, SamplerChain::create(sampling_of(request.params, choice_idx, *engine.tokenizer()),
                                                       engine.model().n_vocab(), engine.tokenizer()));
  for (const TokenId id : request.params.prompt) sampler.accept(id);
  return std::unique_ptr<ScheduledSequence>(
      new ScheduledSequence(request, choice_idx, std::move(sampler), engine, std::move(cache)));
}

ScheduledSequence::ScheduledSequence(ScheduledRequest& of, uint32_t choice, SamplerChain sampler, const Engine& engine,
                                     KvCache own)
    : request(of),
      choice_idx(choice),
      tokens(of.params.prompt),
      cache(std::move(own)),
      tokenizer_(*engine.tokenizer()),
      sampler_(std::move(sampler)),
      // Under a grammar each byte of a token counts, a space before the first word too.
      decoder_(engine.tokenizer(), of.params.masks != nullptr),
      matcher_(of.params.stop) {
  if (of.params.masks != nullptr) grammar_.emplace(of.params.masks);
  if (of.params.reasoning) reasoning_.emplace(*of.params.reasoning);
  if (of.params.pooling) pooled.emplace(*of.params.pooling);
}

void ScheduledSequence::prepare_mask() {
  is_mask_ready_ = true;
  try {
    mask_.resize(grammar_->masks().trie().n_words());
    mask_status_ = grammar_->fill_mask(mask_);
  } catch (const std::bad_alloc&) {
    mask_status_ = fail(ErrorCode::out_of_memory, "no memory for a mask of the grammar");
  }
}

// The logits with −∞ for what must not come now.
Result<std::span<const float>> ScheduledSequence::allowed(std::span<const float> logits) {
  const bool is_reasoning = reasoning_ && reasoning_->is_open();
  const bool may_end = n_chosen >= request.params.min_tokens && !(grammar_ && is_reasoning);
  if (may_end && !grammar_) return logits;
  masked_.assign(logits.begin(), logits.end());
  if (grammar_ && !is_reasoning) {
    if (!is_mask_ready_) prepare_mask();
    is_mask_ready_ = false;
    TAMIS_TRY_STATUS(mask_status_);
    const TokenId begin = reasoning_ && reasoning_->may_begin() ? request.params.reasoning->begin_token : kNoToken;
    if (begin != kNoToken) mask_[static_cast<size_t>(begin) / 32] |= uint32_t{1} << (begin % 32);
    apply_token_mask(masked_, mask_);
  }
  if (may_end) return masked_;
  for (const TokenId id : tokenizer_.special().end_of_generation)
    if (id >= 0 && static_cast<size_t>(id) < masked_.size()) masked_[static_cast<size_t>(id)] = kForbidden;
  return masked_;
}

void ScheduledSequence::choose(std::span<const float> logits) {
  chosen_ = {};
  const TokenId forced = reasoning_ ? reasoning_->forced() : kNoToken;
  const auto draw = [&]() -> Result<TokenId> {
    TAMIS_TRY(const std::span<const float> masked, allowed(logits));
    return sampler_.sample(masked);
  };
  const Result<TokenId> id = forced != kNoToken ? forced : draw();
  if (!id) {
    chosen_.status = tl::unexpected(id.error());
    return;
  }
  sampler_.accept(*id);
  chosen_.id = *id;
  chosen_.is_end_of_text = tokenizer_.is_end_of_generation(*id);
  if (request.params.has_logprobs || request.params.n_top_logprobs > 0)
    chosen_.score = score_token(logits, *id, request.params.n_top_logprobs);
  if (chosen_.is_end_of_text) return;
  chosen_.status = follow_form(*id);
  if (!chosen_.status) return;
  tokens.push_back(*id);
  ++n_chosen;
  chosen_.text = matcher_.push(text_of(*id));
}

// What became certain of the answer's text with a token.
std::string ScheduledSequence::text_of(TokenId id) {
  const std::vector<TokenId>& shown = request.params.shown_tokens;
  if (std::find(shown.begin(), shown.end(), id) == shown.end()) return decoder_.push(id);
  std::string text = decoder_.finish();  // no control token completes a character
  return text + tokenizer_.token_bytes(id, true);
}

// Takes a token into what the answer must be.
Status ScheduledSequence::follow_form(TokenId id) {
  const bool was_reasoning = reasoning_ && reasoning_->is_open();
  if (reasoning_ && grammar_ && !was_reasoning && id != request.params.reasoning->begin_token)
    reasoning_->close();  // the grammar's text, whatever it looks like
  else if (reasoning_)
    reasoning_->accept(tokenizer_.token_bytes(id, true));
  const bool is_reasoning = reasoning_ && reasoning_->is_open();
  if (!grammar_ || was_reasoning || is_reasoning) return {};
  TAMIS_TRY_STATUS(grammar_->accept(id));
  chosen_.is_complete = grammar_->must_end();
  return {};
}

TokenScore score_token(std::span<const float> logits, TokenId id, uint32_t n_top) {
  const double log_sum = log_sum_exp(logits);
  const auto logprob = [&](TokenId of) -> TokenLogprob {
    return {of, static_cast<float>(logits[static_cast<size_t>(of)] - log_sum)};
  };
  TokenScore score{.logprob = logprob(id), .top = {}};
  if (n_top == 0 || std::isnan(log_sum)) return score;
  for (const Candidate& candidate : top_k_candidates(logits, n_top)) score.top.push_back(logprob(candidate.id));
  return score;
}

bool ScheduledSequence::wants_score(size_t position) const {
  const GenerateRequest& params = request.params;
  return params.scores_prompt && choice_idx == 0 && position >= n_scored_ && position + 1 < params.prompt.size();
}

void ScheduledSequence::take_score(size_t position, TokenScore score) {
  if (position != n_scored_) return;
  scores.push_back(std::move(score));
  ++n_scored_;
}

void ScheduledSequence::make_guess() {
  ngram_.extend(tokens);
  n_agreeing_ = ngram_.guess(tokens, DraftPolicy::kMostTokens, guess);
  n_followed_ = 0;
}

DraftModel::Ask ScheduledSequence::ask_draft(size_t n) {
  return {.state = &draft, .tokens = tokens, .sampler = sampler_, .n_most = n, .guess = {}};
}

void ScheduledSequence::take_draft(std::vector<TokenId> drafted) {
  if (drafted.empty()) return;
  guess = std::move(drafted);
  n_agreeing_ = DraftRecord::kByModel;
}

bool ScheduledSequence::follow_guess() {
  if (n_followed_ >= guess.size()) return false;
  const bool has_held = guess[n_followed_] == chosen_.id;
  record_.note(n_agreeing_, has_held);
  if (!has_held || n_followed_ >= n_guessed) {
    guess.clear();
    return false;
  }
  ++n_followed_;
  cache.commit(static_cast<uint32_t>(tokens.size()));
  return true;
}

std::string ScheduledSequence::finish_text() {
  std::string text = matcher_.push(decoder_.finish());
  return text + matcher_.finish();
}

std::span<const TokenId> ScheduledSequence::next_block() const {
  constexpr size_t kBlock = PrefixCache::kBlockTokens;
  const size_t begin = n_computed() / kBlock * kBlock;
  if (begin + kBlock >= tokens.size()) return {};
  return std::span(tokens).subspan(begin, kBlock);
}

size_t ScheduledSequence::follow_stored() {
  if (!chain) return 0;
  const uint32_t n_before = n_computed();
  for (std::span<const TokenId> block = next_block(); !block.empty(); block = next_block()) {
    const size_t page_idx = chain->n_blocks();
    KvPage page = chain->follow(block);
    if (page == nullptr) break;
    cache.put_page(page_idx, std::move(page));
    cache.commit(static_cast<uint32_t>((page_idx + 1) * PrefixCache::kBlockTokens));
  }
  return n_computed() - n_before;
}

void ScheduledSequence::store_full() {
  if (!chain) return;
  constexpr size_t kBlock = PrefixCache::kBlockTokens;
  for (size_t i = chain->n_blocks(); (i + 1) * kBlock <= n_computed(); ++i)
    cache.put_page(i, chain->store(std::span(tokens).subspan(i * kBlock, kBlock), cache.pages()[i]));
}

void ScheduledSequence::share_with(const ScheduledSequence& other) {
  const size_t n_pages = KvCache::pages_of(other.n_computed());
  for (size_t i = 0; i < n_pages; ++i) cache.put_page(i, other.cache.pages()[i]);
  cache.commit(other.n_computed());
  store_full();  // goes through the blocks that `other` has stored
}

void ScheduledSequence::give_up_pages() {
  if (chain) chain->clear();
  cache.clear();
  draft.give_up_pages();
}

bool is_more_important(const ScheduledSequence& a, const ScheduledSequence& b) {
  if (a.request.place != b.request.place) return a.request.place < b.request.place;
  return a.choice_idx < b.choice_idx;
}

}  // namespace tamis
