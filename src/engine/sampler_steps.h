// The steps of sampling as pure functions. Two stages: on the logits of the whole vocabulary (bias, penalties, DRY),
// then on candidates, the tokens still in the running (top-k … XTC, temperature, draw). Each states the formula it
// implements.
//
// p_i below is the softmax over the candidates as they come into the step: p_i = exp(l_i) / Σ_j exp(l_j). Where two
// logits are equal the lower token id goes first, so results do not depend on how anything is sorted.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/rng.h"
#include "engine/sampling_params.h"

namespace tamis {

struct Candidate {
  TokenId id;
  float logit;
};
using Candidates = std::vector<Candidate>;

// p_i of each candidate, in order; sums to 1. Requires: finite logits, at least one candidate.
std::vector<double> probabilities(std::span<const Candidate> candidates);

// --- On the logits of the whole vocabulary
// -------------------------------------------------------------------------------------

// l_i ← l_i + bias_i. Ids outside the vocabulary are ignored.
void apply_logit_bias(std::span<float> logits, std::span<const LogitBias> biases);

struct Penalties {
  float repeat = 1.0f, frequency = 0.0f, presence = 0.0f;
};
// For each token that occurs n_i > 0 times: l_i ← l_i / repeat when l_i > 0, else l_i · repeat (Keskar et al. 2019,
// CTRL, arXiv:1909.05858 §4.1, with the sign mended); then l_i ← l_i − n_i · frequency − presence (OpenAI's API
// reference). Ids outside the vocabulary are ignored.
void apply_penalties(std::span<float> logits, const std::unordered_map<TokenId, uint32_t>& counts,
                     const Penalties& penalties);

struct DryParams {
  float multiplier = 0.0f, base = 1.75f;
  uint32_t allowed_length = 2;
};
// DRY ("don't repeat yourself"): for a token that would extend a repeat, n_i = length of the longest suffix of
// `history` that also occurs earlier with that token next; when n_i ≥ allowed_length: l_i ← l_i − multiplier ·
// base^(n_i − allowed_length). The suffix is at most `max_match` tokens long (it may not reach over a sequence
// breaker). The power is capped at the largest float. Linear in history (Z algorithm). Source: P. E. Weidmann,
// text-generation-webui PR 5677 (2024).
void apply_dry(std::span<float> logits, std::span<const TokenId> history, size_t max_match, const DryParams& params);

// --- On candidates
// -------------------------------------------------------------------------------------------------------------

// The `k` largest logits (all when k == 0), and no token of logit −∞; largest first when k > 0. Fan et al. 2018,
// arXiv:1805.04833. One pass over the vocabulary with a heap of k: k ≪ n costs little more than reading the logits.
Candidates top_k_candidates(std::span<const float> logits, size_t k);

// Nucleus: the smallest set of most probable candidates whose Σ p_i ≥ p. Holtzman et al. 2019, arXiv:1904.09751.
void keep_top_p(Candidates& candidates, double p, size_t min_keep = 1);

// Candidates with p_i ≥ min_p · max_j p_j. Nguyen et al. 2024, arXiv:2407.01082.
void keep_min_p(Candidates& candidates, double min_p, size_t min_keep = 1);

// Locally typical: the smallest set with Σ p_i ≥ p of those whose surprise is nearest the entropy: by |−ln p_i − H|, H
// = −Σ p ln p. Meister et al. 2022, arXiv:2202.00666.
void keep_typical(Candidates& candidates, double p, size_t min_keep = 1);

// XTC ("exclude top choices"): of the candidates with p_i ≥ threshold, when at least two, all but the least probable
// are removed. The caller draws whether to apply it. Source: P. E. Weidmann, text-generation-webui PR 6335 (2024).
void exclude_top_choices(Candidates& candidates, double threshold, size_t min_keep = 1);

// l_i ← l_i / temp. Requires: temp > 0.
void apply_temperature(Candidates& candidates, float temp);

// The largest logit. Requires: at least one candidate.
TokenId greedy(std::span<const Candidate> candidates);

// Token i with probability p_i: the first whose cumulated probability, in order, exceeds u. Requires: 0 ≤ u < 1.
TokenId draw(std::span<const Candidate> candidates, double u);

// Mirostat's state: the bound on surprise, in bits, that feedback moves.
struct Mirostat {
  double target;         // τ
  double learning_rate;  // η
  double bound;          // μ, at first 2τ
};
// Mirostat 1 (Basu et al. 2020, arXiv:2007.14966, algorithm 1): estimates Zipf's exponent s from the 100 most probable
// tokens, ŝ = Σ t_i b_i / Σ t_i², t_i = ln((i + 1)/i), b_i = ln(p_i / p_{i+1}); keeps the k most probable, k = ((ŝ − 1)
// 2^μ / (1 − N^(1 − ŝ)))^(1/ŝ), N = n_vocab; draws; μ ← μ − η (surprise − τ), surprise = −log2 of the drawn
// probability.
TokenId draw_mirostat_1(Candidates candidates, size_t n_vocab, Mirostat& state, double u);
// Mirostat 2 (the same paper's authors' simpler form): keeps candidates with −log2 p_i ≤ μ (the most probable always);
// draws; the same feedback.
TokenId draw_mirostat_2(Candidates candidates, Mirostat& state, double u);

}  // namespace tamis
