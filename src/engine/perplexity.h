// Perplexity of a text under a model, by llama-perplexity's rules: windows of n_ctx tokens laid end to end; the first
// token of each is replaced by BOS when the vocabulary adds one; the second half of each window is scored, given the
// tokens before it. Source: llama.cpp, tools/perplexity (documented behaviour of `llama-perplexity -c N`).
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/thread_pool.h"
#include "engine/session.h"

namespace tamis {

using OnRows = std::function<Status(std::span<const float> rows)>;

struct PerplexityOptions {
  uint32_t n_ctx = 512;        // tokens a window; at least 4
  uint32_t n_chunks = 0;       // windows at most; 0 = all
  ThreadPool* pool = nullptr;  // for the softmax of large vocabularies
  OnRows on_rows;              // given the logits of every scored token, in order; may be null
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

// Collects scores, window by window.
class PerplexitySums {
 public:
  // Negative log-likelihoods of the scored tokens of a window, in nats.
  void add(std::span<const double> window_nll);
  const Perplexity& state() const { return state_; }

 private:
  Perplexity state_;
  double sum_ = 0, sum_of_squares_ = 0;
};

// fn(row) for each of n rows, on all threads of `pool` (may be null). Errors: those of parallel_for.
template <class Fn>
Status for_rows(ThreadPool* pool, size_t n, const Fn& fn) {
  const auto rows = [&](size_t begin, size_t end, uint32_t) {
    for (size_t i = begin; i < end; ++i) fn(i);
  };
  if (pool != nullptr) return pool->parallel_for(n, 1, rows);
  rows(0, n, 0);
  return {};
}

// The second half of one window, scored: negative log-likelihoods in nats, in order. Forgets what the session held; in
// the end it holds all tokens but the last. `pool` (may be null): for the softmax. `on_rows` (may be null) is given the
// logits of the scored tokens in order, some rows at a time. Errors: those of append_all and on_rows.
Result<std::vector<double>> score_window(Session& session, std::span<const TokenId> window, ThreadPool* pool,
                                         const OnRows& on_rows = nullptr);

// Window `i` of a text: BOS in the first place when the vocabulary adds one. Requires: the text has it.
std::vector<TokenId> window_of(std::span<const TokenId> tokens, uint32_t n_ctx, uint32_t i,
                               const SpecialTokens& special);

// Windows that `n_tokens` tokens give.
uint32_t n_perplexity_windows(size_t n_tokens, const PerplexityOptions& options);

// `tokens`: the whole text, with BOS in front when the vocabulary adds one. Errors: invalid_argument for fewer than one
// window or n_ctx < 4; cancelled when on_window returns false; those of the forward pass.
Result<Perplexity> measure_perplexity(const std::shared_ptr<const Engine>& engine, std::span<const TokenId> tokens,
                                      const PerplexityOptions& options,
                                      const std::function<bool(const Perplexity&)>& on_window);

}  // namespace tamis
