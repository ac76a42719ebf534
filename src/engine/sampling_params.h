// How the next token is chosen: the numbers, with the names and defaults of llama.cpp's command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/tokenizer.h"

namespace tamis {

struct LogitBias {
  TokenId id;
  float bias;  // added to the token's logit; −∞ forbids it
};

struct SamplingParams {
  std::optional<uint64_t> seed;  // --seed; none = from the system's random source
  float temp = 0.8f;             // --temp, ≥ 0; 0 = greedy: the most probable token after the penalties
  int32_t top_k = 40;            // --top-k; ≤ 0 = all
  float top_p = 0.95f;           // --top-p, 0 … 1; 1 = all
  float min_p = 0.05f;           // --min-p, 0 … 1; 0 = all
  float typical_p = 1.0f;        // --typical, 0 … 1; 1 = all
  float xtc_probability = 0.0f;  // --xtc-probability, 0 … 1; 0 = never
  float xtc_threshold = 0.1f;    // --xtc-threshold, 0 … 1; above 0.5 it can never apply
  int32_t min_keep = 1;          // candidates that top-p, min-p, typical and XTC leave at least, ≥ 1

  int32_t repeat_last_n = 64;      // --repeat-last-n: tokens the penalties look at; 0 = none, −1 = all
  float repeat_penalty = 1.0f;     // --repeat-penalty, > 0; 1 = none
  float frequency_penalty = 0.0f;  // --frequency-penalty
  float presence_penalty = 0.0f;   // --presence-penalty

  float dry_multiplier = 0.0f;      // --dry-multiplier, ≥ 0; 0 = none
  float dry_base = 1.75f;           // --dry-base, ≥ 1
  int32_t dry_allowed_length = 2;   // --dry-allowed-length, ≥ 0: repeats shorter than this are free
  int32_t dry_penalty_last_n = -1;  // --dry-penalty-last-n; 0 = none, −1 = all
  std::vector<std::string> dry_sequence_breakers = {"\n", ":", "\"", "*"};  // --dry-sequence-breaker

  int32_t mirostat = 0;       // --mirostat: 0 = none; 1 or 2 replace every truncation above
  float mirostat_lr = 0.1f;   // --mirostat-lr (η), > 0
  float mirostat_ent = 5.0f;  // --mirostat-ent (τ), target surprise in bits, > 0

  std::vector<LogitBias> logit_bias;  // --logit-bias

  // Errors: invalid_argument naming the parameter, what it is and what it may be. `n_vocab` bounds the ids of
  // logit_bias.
  Status validate(size_t n_vocab) const;
};

}  // namespace tamis
