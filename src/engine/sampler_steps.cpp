// The steps of sampling; formulas and sources in sampler_steps.h.
#include "engine/sampler_steps.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/fault.h"

namespace tamis {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr float kLargestFloat = std::numeric_limits<float>::max();  // no step makes a logit +∞

bool is_before(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

float largest_logit(std::span<const Candidate> candidates) {
  float largest = kMinusInfinity;
  for (const Candidate& candidate : candidates) largest = std::max(largest, candidate.logit);
  return largest;
}

// exp(l_i − max l) of each candidate and their sum: probabilities without the division.
struct Weights {
  std::vector<float> each;
  double sum = 0.0;
};
Weights weights_of(std::span<const Candidate> candidates) {
  const float largest = largest_logit(candidates);
  Weights out;
  out.each.resize(candidates.size());
  for (size_t i = 0; i < candidates.size(); ++i) {
    out.each[i] = std::exp(candidates[i].logit - largest);
    out.sum += static_cast<double>(out.each[i]);
  }
  return out;
}

struct Ranked {
  float key;     // smallest first
  float weight;  // its share of the mass
  Candidate candidate;
};
bool is_ranked_before(const Ranked& a, const Ranked& b) {
  return a.key < b.key || (a.key == b.key && is_before(a.candidate, b.candidate));
}

// The shortest run, in order of rank, whose weights reach `mass`. Only the part that matters is sorted: a histogram of
// the keys (steps of 1/8 up to 32) tells how far it can reach.
Candidates shortest_run(std::vector<Ranked> ranked, double mass, size_t min_keep) {
  constexpr float kPerUnit = 8.0f;
  constexpr size_t kBuckets = 257;  // the last takes the rest
  const auto bucket_of = [](float key) { return static_cast<size_t>(std::min(key * kPerUnit, kBuckets - 1.0f)); };
  struct Bucket {
    double mass = 0.0;
    size_t n = 0;
  };
  std::array<Bucket, kBuckets> buckets{};
  for (const Ranked& item : ranked) {
    Bucket& bucket = buckets[bucket_of(item.key)];
    bucket.mass += static_cast<double>(item.weight);
    ++bucket.n;
  }
  size_t last = 0;
  double reached = 0.0;
  size_t n_reached = 0;
  // One bucket beyond the mass, since the sums here and below round differently.
  for (bool is_enough = false; last < kBuckets && !is_enough; ++last) {
    is_enough = reached >= mass && n_reached >= min_keep;
    reached += buckets[last].mass;
    n_reached += buckets[last].n;
  }
  const auto end =
      std::partition(ranked.begin(), ranked.end(), [&](const Ranked& item) { return bucket_of(item.key) < last; });
  std::sort(ranked.begin(), end, is_ranked_before);
  Candidates out;
  double sum = 0.0;
  for (auto item = ranked.begin(); item != end && (sum < mass || out.size() < min_keep); ++item) {
    sum += static_cast<double>(item->weight);
    out.push_back(item->candidate);
  }
  return out;
}

}  // namespace

std::vector<double> probabilities(std::span<const Candidate> candidates) {
  const float largest = largest_logit(candidates);
  std::vector<double> out(candidates.size());
  double sum = 0.0;
  for (size_t i = 0; i < candidates.size(); ++i)
    sum += out[i] = std::exp(static_cast<double>(candidates[i].logit) - largest);
  for (double& p : out) p /= sum;
  return out;
}

void apply_logit_bias(std::span<float> logits, std::span<const LogitBias> biases) {
  for (const LogitBias& bias : biases)
    if (bias.id >= 0 && static_cast<size_t>(bias.id) < logits.size()) {
      float& logit = logits[static_cast<size_t>(bias.id)];
      logit = std::min(logit + bias.bias, kLargestFloat);
    }
}

void apply_penalties(std::span<float> logits, const std::unordered_map<TokenId, uint32_t>& counts,
                     const Penalties& penalties) {
  for (const auto& [id, n] : counts) {
    if (TAMIS_CHECKED(24, id < 0 || static_cast<size_t>(id) >= logits.size())) continue;
    float& logit = logits[static_cast<size_t>(id)];
    if (logit == kMinusInfinity) continue;  // forbidden: a negative penalty does not bring it back
    logit = logit > 0.0f ? logit / penalties.repeat : logit * penalties.repeat;
    logit = std::min(logit, kLargestFloat) - (static_cast<float>(n) * penalties.frequency + penalties.presence);
    logit = std::min(logit, kLargestFloat);
  }
}

void apply_dry(std::span<float> logits, std::span<const TokenId> history, size_t max_match, const DryParams& params) {
  const size_t n = history.size();
  const auto back = [&](size_t i) { return history[n - 1 - i]; };  // i tokens before the last
  // matched[i]: how many tokens that end i before the last equal as many that end with the last (the Z array of the
  // reversed history).
  std::vector<size_t> matched(n, 0);
  std::unordered_map<TokenId, size_t> longest;
  for (size_t i = 1, left = 0, right = 0; i < n; ++i) {
    size_t length = i < right ? std::min(right - i, matched[i - left]) : 0;
    while (i + length < n && back(length) == back(i + length)) ++length;
    matched[i] = length;
    if (i + length > right) left = i, right = i + length;
    const size_t repeat = std::min(length, max_match);
    if (repeat < params.allowed_length || repeat == 0) continue;
    size_t& best = longest[back(i - 1)];
    best = std::max(best, repeat);
  }
  for (const auto& [id, length] : longest) {
    if (id < 0 || static_cast<size_t>(id) >= logits.size()) continue;
    const double power =
        std::pow(static_cast<double>(params.base), static_cast<double>(length - params.allowed_length));
    const double penalty = std::min(static_cast<double>(params.multiplier) * power, double{kLargestFloat});
    logits[static_cast<size_t>(id)] -= static_cast<float>(penalty);
  }
}

Candidates top_k_candidates(std::span<const float> logits, size_t k) {
  Candidates out;
  if (k == 0 || k >= logits.size()) {
    out.reserve(logits.size());
    for (size_t i = 0; i < logits.size(); ++i)
      if (logits[i] > kMinusInfinity) out.push_back({static_cast<TokenId>(i), logits[i]});
    if (k != 0) std::sort(out.begin(), out.end(), is_before);
    return out;
  }
  // A heap whose front is the weakest of the k best so far. Ids rise, so an equal logit never displaces an earlier one.
  float weakest = kMinusInfinity;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] > weakest)) continue;
    if (out.size() == k) {
      std::pop_heap(out.begin(), out.end(), is_before);
      out.pop_back();
    }
    out.push_back({static_cast<TokenId>(i), logits[i]});
    std::push_heap(out.begin(), out.end(), is_before);
    if (out.size() == k) weakest = out.front().logit;
  }
  std::sort_heap(out.begin(), out.end(), is_before);
  return out;
}

void keep_top_p(Candidates& candidates, double p, size_t min_keep) {
  if (p >= 1.0) return;
  const float largest = largest_logit(candidates);
  const Weights weights = weights_of(candidates);
  std::vector<Ranked> ranked(candidates.size());
  for (size_t i = 0; i < candidates.size(); ++i)
    ranked[i] = {largest - candidates[i].logit, weights.each[i], candidates[i]};
  candidates = shortest_run(std::move(ranked), p * weights.sum, std::max<size_t>(min_keep, 1));
}

void keep_min_p(Candidates& candidates, double min_p, size_t min_keep) {
  if (min_p <= 0.0) return;
  const double least = largest_logit(candidates) + std::log(min_p);
  const auto is_kept = [least](const Candidate& candidate) { return static_cast<double>(candidate.logit) >= least; };
  const auto n_kept = static_cast<size_t>(std::count_if(candidates.begin(), candidates.end(), is_kept));
  if (n_kept >= min_keep) {
    std::erase_if(candidates, [&](const Candidate& candidate) { return !is_kept(candidate); });
    return;
  }
  std::sort(candidates.begin(), candidates.end(), is_before);
  candidates.resize(std::min(candidates.size(), min_keep));
}

void keep_typical(Candidates& candidates, double p, size_t min_keep) {
  if (p >= 1.0) return;
  const float largest = largest_logit(candidates);
  const Weights weights = weights_of(candidates);
  // With w_i = exp(l_i − max), S = Σ w: −ln p_i = ln S − (l_i − max) and H = ln S − Σ w_i (l_i − max) / S, so that ln S
  // cancels.
  double mean = 0.0;
  for (size_t i = 0; i < candidates.size(); ++i)
    if (weights.each[i] > 0.0f)
      mean += static_cast<double>(weights.each[i]) * (static_cast<double>(candidates[i].logit) - largest);
  mean /= weights.sum;
  std::vector<Ranked> ranked(candidates.size());
  for (size_t i = 0; i < candidates.size(); ++i) {
    const double distance = std::fabs(mean - (static_cast<double>(candidates[i].logit) - largest));
    ranked[i] = {static_cast<float>(distance), weights.each[i], candidates[i]};
  }
  candidates = shortest_run(std::move(ranked), p * weights.sum, std::max<size_t>(min_keep, 1));
}

void exclude_top_choices(Candidates& candidates, double threshold, size_t min_keep) {
  const Weights weights = weights_of(candidates);
  size_t n_top = 0;
  const Candidate* least = nullptr;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (static_cast<double>(weights.each[i]) < threshold * weights.sum) continue;
    ++n_top;
    if (least == nullptr || is_before(*least, candidates[i])) least = &candidates[i];
  }
  if (n_top < 2 || candidates.size() - (n_top - 1) < min_keep) return;
  const Candidate kept =
      *least;  // every candidate before it in rank is at least as probable, so above the threshold too
  std::erase_if(candidates, [&](const Candidate& candidate) { return is_before(candidate, kept); });
}

void apply_temperature(Candidates& candidates, float temp) {
  // Relative to the largest logit, which stays 0: a tiny temperature cannot make it infinite.
  const float largest = largest_logit(candidates);
  for (Candidate& candidate : candidates) candidate.logit = (candidate.logit - largest) / temp;
}

TokenId greedy(std::span<const Candidate> candidates) {
  return std::min_element(candidates.begin(), candidates.end(), is_before)->id;
}

TokenId draw(std::span<const Candidate> candidates, double u) {
  const Weights weights = weights_of(candidates);
  double rest = u * weights.sum;
  for (size_t i = 0; i < candidates.size(); ++i) {
    rest -= static_cast<double>(weights.each[i]);
    if (rest < 0.0) return candidates[i].id;
  }
  return greedy(candidates);  // rounding left a crumb of mass beyond the last
}

namespace {

// Draws from the candidates and feeds the surprise back into the bound.
TokenId draw_with_feedback(std::span<const Candidate> candidates, Mirostat& state, double u) {
  const TokenId id = draw(candidates, u);
  const std::vector<double> p = probabilities(candidates);
  for (size_t i = 0; i < candidates.size(); ++i)
    if (candidates[i].id == id) state.bound -= state.learning_rate * (-std::log2(p[i]) - state.target);
  return id;
}

}  // namespace

TokenId draw_mirostat_1(Candidates candidates, size_t n_vocab, Mirostat& state, double u) {
  constexpr size_t kForEstimate = 100;
  Candidates best(std::min(kForEstimate, candidates.size()));
  std::partial_sort_copy(candidates.begin(), candidates.end(), best.begin(), best.end(), is_before);
  double sum_tb = 0.0, sum_tt = 0.0;
  for (size_t i = 0; i + 1 < best.size(); ++i) {
    const double t = std::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    const double b = static_cast<double>(best[i].logit) - static_cast<double>(best[i + 1].logit);
    sum_tb += t * b;
    sum_tt += t * t;
  }
  const double s = sum_tt > 0.0 ? sum_tb / sum_tt : 1.0;
  const double epsilon = s - 1.0;
  const double k =
      std::pow(epsilon * std::exp2(state.bound) / (1.0 - std::pow(static_cast<double>(n_vocab), -epsilon)), 1.0 / s);
  // ŝ = 0 or 1 makes k meaningless (NaN, infinite): then nothing is cut.
  const auto n_all = static_cast<double>(candidates.size());
  if (std::isfinite(k) && k < n_all) {
    const auto end = candidates.begin() + static_cast<ptrdiff_t>(std::max(k, 1.0));
    std::nth_element(candidates.begin(), end, candidates.end(), is_before);
    candidates.erase(end, candidates.end());
    std::sort(candidates.begin(), candidates.end(), is_before);
  }
  return draw_with_feedback(candidates, state, u);
}

TokenId draw_mirostat_2(Candidates candidates, Mirostat& state, double u) {
  const TokenId most_probable = greedy(candidates);
  const std::vector<double> p = probabilities(candidates);
  Candidates kept;
  for (size_t i = 0; i < candidates.size(); ++i)
    if (-std::log2(p[i]) <= state.bound || candidates[i].id == most_probable) kept.push_back(candidates[i]);
  return draw_with_feedback(kept, state, u);
}

}  // namespace tamis
