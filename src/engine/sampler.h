// From logits to the next token: the steps of sampler_steps.h in a fixed order, with the memory some of them need.
// Between the decoder's logits and the stream decoder.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "base/rng.h"
#include "engine/sampler_steps.h"
#include "engine/sampling_params.h"

namespace tamis {

// Order: logit bias, repetition/frequency/presence penalties, DRY; then with temp 0 the most probable token; with
// mirostat the temperature and mirostat's own truncation; else top-k, typical, top-p, min-p, XTC, temperature
// (llama.cpp's default order), draw. The same seed, parameters, accepted tokens and logits give the same tokens.
class SamplerChain {
 public:
  // `tokenizer` gives the texts that DRY's sequence breakers are looked for in; without one nothing breaks a sequence.
  // Errors: invalid_argument from SamplingParams::validate.
  static Result<SamplerChain> create(SamplingParams params, size_t n_vocab,
                                     std::shared_ptr<const Tokenizer> tokenizer = nullptr);

  // The next token. Does not record it: call accept() with what is really used.
  //   logits [n_vocab] f32; −∞ marks a token that must not be chosen (a grammar's mask, say)
  // Errors: invalid_argument when the length differs from n_vocab or no token is allowed; internal when a logit is NaN
  // or +∞ (the model's weights are broken): never a token picked from garbage.
  Result<TokenId> sample(std::span<const float> logits);

  // Records a token of the context (of the prompt, too) for the penalties and DRY. Ids outside the vocabulary are
  // ignored.
  void accept(TokenId id);
  // Forgets all tokens and starts the random numbers again at the seed.
  void reset();

  uint64_t seed() const { return seed_; }  // the one asked for, or the one drawn
  const SamplingParams& params() const { return params_; }

 private:
  SamplerChain(SamplingParams params, uint64_t seed, size_t n_vocab, std::shared_ptr<const Tokenizer> tokenizer);
  Status load_logits(std::span<const float> logits);
  TokenId choose();
  void note_breakers(TokenId id);

  SamplingParams params_;
  uint64_t seed_;
  Rng rng_;
  size_t n_vocab_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  Mirostat mirostat_;

  std::vector<float> logits_;                     // working copy
  std::vector<TokenId> history_;                  // accepted tokens, the last kept_ of them at least
  std::unordered_map<TokenId, uint32_t> counts_;  // of the last repeat_last_n tokens
  size_t n_since_breaker_ = 0;                    // tokens after the one that completed the last sequence breaker
  size_t longest_breaker_ = 0;                    // in bytes
  std::string tail_;                              // last bytes of the text, where a breaker may have begun
};

}  // namespace tamis
