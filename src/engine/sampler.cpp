// The sampler chain: order of the steps, memory of the tokens so far.
#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace tamis {
namespace {

uint64_t random_seed() {
  std::random_device device;
  return static_cast<uint64_t>(device()) << 32 | device();
}

// A window parameter (−1 = all) as a number of tokens.
size_t window(int32_t last_n) { return last_n < 0 ? std::numeric_limits<size_t>::max() : static_cast<size_t>(last_n); }

}  // namespace

Result<SamplerChain> SamplerChain::create(SamplingParams params, size_t n_vocab,
                                          std::shared_ptr<const Tokenizer> tokenizer) {
  TAMIS_TRY_STATUS(params.validate(n_vocab));
  const uint64_t seed = params.seed.has_value() ? *params.seed : random_seed();
  return SamplerChain(std::move(params), seed, n_vocab, std::move(tokenizer));
}

SamplerChain::SamplerChain(SamplingParams params, uint64_t seed, size_t n_vocab,
                           std::shared_ptr<const Tokenizer> tokenizer)
    : params_(std::move(params)), seed_(seed), rng_(seed), n_vocab_(n_vocab), tokenizer_(std::move(tokenizer)) {
  for (const std::string& breaker : params_.dry_sequence_breakers)
    longest_breaker_ = std::max(longest_breaker_, breaker.size());
  reset();
}

void SamplerChain::reset() {
  rng_ = Rng(seed_);
  mirostat_ = {
      .target = params_.mirostat_ent, .learning_rate = params_.mirostat_lr, .bound = 2.0 * params_.mirostat_ent};
  history_.clear();
  counts_.clear();
  n_since_breaker_ = 0;
  tail_.clear();
}

void SamplerChain::accept(TokenId id) {
  if (id < 0 || static_cast<size_t>(id) >= n_vocab_) return;
  history_.push_back(id);
  const size_t last_n = window(params_.repeat_last_n);
  if (last_n > 0) {
    ++counts_[id];
    if (history_.size() > last_n) {
      const auto oldest = counts_.find(history_[history_.size() - 1 - last_n]);
      if (--oldest->second == 0) counts_.erase(oldest);
    }
  }
  if (params_.dry_multiplier > 0.0f) note_breakers(id);
  // Tokens that no window reaches any more go, half of the history at a time.
  const size_t n_needed = std::max(last_n, params_.dry_multiplier > 0.0f ? window(params_.dry_penalty_last_n) : 0);
  if (history_.size() / 2 > n_needed)
    history_.erase(history_.begin(), history_.end() - static_cast<ptrdiff_t>(n_needed));
}

// A breaker may span tokens: it is looked for in the text, and counts at the token that completes it.
void SamplerChain::note_breakers(TokenId id) {
  ++n_since_breaker_;
  if (tokenizer_ == nullptr || longest_breaker_ == 0) return;
  const size_t n_before = tail_.size();
  tail_ += tokenizer_->token_bytes(id, true);
  for (const std::string& breaker : params_.dry_sequence_breakers) {
    if (breaker.empty()) continue;
    const size_t at = tail_.rfind(breaker);
    if (at != std::string::npos && at + breaker.size() > n_before) n_since_breaker_ = 0;
  }
  if (tail_.size() >= longest_breaker_) tail_.erase(0, tail_.size() - (longest_breaker_ - 1));
}

Status SamplerChain::load_logits(std::span<const float> logits) {
  if (logits.size() != n_vocab_)
    return fail(ErrorCode::invalid_argument, "{} logits for a vocabulary of {}", logits.size(), n_vocab_);
  size_t n_bad = 0;
  for (const float logit : logits) n_bad += !(logit <= std::numeric_limits<float>::max()) ? 1 : 0;
  if (n_bad != 0)
    return fail(ErrorCode::internal, "{} of {} logits are not numbers (NaN or +inf): the model's weights are broken",
                n_bad, logits.size());
  logits_.assign(logits.begin(), logits.end());
  return {};
}

Result<TokenId> SamplerChain::sample(std::span<const float> logits) {
  TAMIS_TRY_STATUS(load_logits(logits));
  apply_logit_bias(logits_, params_.logit_bias);
  const Penalties penalties{params_.repeat_penalty, params_.frequency_penalty, params_.presence_penalty};
  if (penalties.repeat != 1.0f || penalties.frequency != 0.0f || penalties.presence != 0.0f)
    apply_penalties(logits_, counts_, penalties);
  if (params_.dry_multiplier > 0.0f) {
    const size_t n = std::min(history_.size(), window(params_.dry_penalty_last_n));
    apply_dry(logits_, std::span(history_).last(n), n_since_breaker_,
              {params_.dry_multiplier, params_.dry_base, static_cast<uint32_t>(params_.dry_allowed_length)});
  }
  if (std::none_of(logits_.begin(), logits_.end(), [](float logit) { return std::isfinite(logit); }))
    return fail(ErrorCode::invalid_argument, "no token is allowed: every logit is -inf");
  return choose();
}

// Requires: at least one finite logit in logits_.
TokenId SamplerChain::choose() {
  const auto top_k = static_cast<size_t>(std::max(params_.top_k, 0));
  if (params_.temp == 0.0f) return top_k_candidates(logits_, 1).front().id;
  if (params_.mirostat != 0) {
    Candidates candidates = top_k_candidates(logits_, 0);
    apply_temperature(candidates, params_.temp);
    return params_.mirostat == 1 ? draw_mirostat_1(std::move(candidates), n_vocab_, mirostat_, rng_.uniform())
                                 : draw_mirostat_2(std::move(candidates), mirostat_, rng_.uniform());
  }
  const auto min_keep = static_cast<size_t>(params_.min_keep);
  Candidates candidates = top_k_candidates(logits_, top_k);
  keep_typical(candidates, params_.typical_p, min_keep);
  keep_top_p(candidates, params_.top_p, min_keep);
  keep_min_p(candidates, params_.min_p, min_keep);
  if (params_.xtc_probability > 0.0f && rng_.uniform() < params_.xtc_probability)
    exclude_top_choices(candidates, params_.xtc_threshold, min_keep);
  apply_temperature(candidates, params_.temp);
  return draw(candidates, rng_.uniform());
}

}  // namespace tamis
