// Prompt tokens in, an answer out: the loop of decoder, sampler, stream decoder and stop matcher.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/sampling_params.h"
#include "engine/session.h"
#include "text/grammar/grammar.h"

namespace tamis {

// Where guesses of the next tokens come from. The model computes a few of them in the step of the token before, and
// each that is what it then chooses saves a step; what is chosen never depends on them.
enum class Speculation : uint8_t {
  off,
  ngram,  // from the tokens so far (engine/ngram_draft.h), and from a draft model where there is one
};

enum class GenerationEnd : uint8_t { end_of_text, stop_string, token_limit, context_full, cancelled, time_limit };

struct GenerationOptions {
  SamplingParams sampling;
  int64_t n_predict = -1;  // tokens at most; < 0 = until the model ends or the context is full
  std::vector<std::string> stop;
  bool ignore_eos = false;
  std::shared_ptr<const TokenMasks> grammar;  // what the answer may be; null = anything
  Speculation speculation = Speculation::ngram;
  double draft_margin = 1.2;  // a guessed token must bring that many times its cost (engine/draft_policy.h); 0: all are
                              // computed
  const std::atomic<bool>* cancel = nullptr;
};

struct Generation {
  std::string text;
  std::vector<TokenId> tokens;  // chosen ones; the end-of-generation token is not among them
  GenerationEnd end = GenerationEnd::end_of_text;
  uint64_t seed = 0;
  size_t n_prompt = 0, n_cached = 0;
  size_t n_drafted = 0, n_accepted = 0;  // guessed tokens computed, and those of them that were chosen
  double prompt_seconds = 0, first_token_seconds = 0, generate_seconds = 0;
};

// Brings the session to `prompt` (tokens it already holds in common are kept) and generates. When the context is full
// the answer ends; nothing is shifted out. The last chosen token is in the answer but not yet in the session. Errors:
// invalid_argument for parameters that make no sense, an empty prompt, a prompt longer than the context, a grammar that
// the vocabulary has no token for; unsupported when the grammar gives up (GrammarMatcher::fill_mask); internal when the
// model computes NaN; what on_text returns; those of Session::append. Cancelling is no error.
Result<Generation> generate(Session& session, std::span<const TokenId> prompt, const GenerationOptions& options,
                            const std::function<Status(std::string_view)>& on_text);

}  // namespace tamis
