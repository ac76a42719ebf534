// Perplexity of a text under a model, by llama-perplexity's rules: windows of n_ctx tokens laid end to end; the first
// token of each is replaced by BOS when the vocabulary adds one; the second half of each window is scored, given the
// tokens before it. Source: llama.cpp, tools/perplexity (documented behaviour of `llama-perplexity -c N`).
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/thread_pool.h"
#include "engine/engine.h"

namespace tamis {

struct PerplexityOptions {
  uint32_t n_ctx = 512;        // tokens a window; at least 4
  uint32_t n_chunks = 0;       // windows at most; 0 = all
  ThreadPool* pool = nullptr;  // for the softmax of large vocabularies
};

// The state after a window; the last one is the result.
struct Perplexity {
  uint32_t n_windows = 0;     // so far
  uint64_t n_scored = 0;      // tokens scored so far
  double window_nll = 0;      // mean negative log-likelihood of this window, nats a token
  double mean_nll = 0;        // of all windows so far
  double perplexity = 0;      // exp(mean_nll)
  double standard_error = 0;  // of `perplexity`: exp(mean_nll) · sqrt(variance of the nll / (n_scored − 1))
};

// Windows that `n_tokens` tokens give.
uint32_t n_perplexity_windows(size_t n_tokens, const PerplexityOptions& options);

// `tokens`: the whole text, with BOS in front when the vocabulary adds one. Errors: invalid_argument for fewer than one
// window or n_ctx < 4; cancelled when on_window returns false; those of the forward pass.
Result<Perplexity> measure_perplexity(const std::shared_ptr<const Engine>& engine, std::span<const TokenId> tokens,
                                      const PerplexityOptions& options,
                                      const std::function<bool(const Perplexity&)>& on_window);

}  // namespace tamis
