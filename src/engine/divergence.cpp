// Means, errors and percentiles as llama-perplexity computes them from its lists of values.
#include "engine/divergence.h"

#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "engine/distribution.h"

namespace tamis {
namespace {

// Indices of DivergenceSums::sums_.
enum Sum : size_t { kNll, kNll2, kBase, kBase2, kNllBase, kKl, kKl2, kChange2, kChange4, kSameTop };

constexpr uint32_t kResamples = 2000;
constexpr double kTail = 0.025;

// Mean and its standard error from Σ v and Σ v².
Estimate estimate(double sum, double sum_of_squares, double n) {
  Estimate out{sum / n, 0};
  const double variance = sum_of_squares / n - out.value * out.value;
  if (variance > 0 && n > 1) out.error = std::sqrt(variance / (n - 1));
  return out;
}

// Linear between the neighbours of rank `fraction` · (n − 1). Requires: sorted, not empty.
double quantile(const std::vector<double>& sorted, double fraction) {
  const double rank = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(rank);
  if (below + 1 >= sorted.size()) return sorted.back();
  const double part = rank - static_cast<double>(below);
  return (1 - part) * sorted[below] + part * sorted[below + 1];
}

Spread spread_of(std::vector<double> values) {
  Spread spread;
  if (values.empty()) return spread;
  std::ranges::sort(values);
  spread.max = values.back();
  spread.min = values.front();
  for (size_t i = 0; i < std::size(kPercentiles); ++i) spread.percentiles[i] = quantile(values, kPercentiles[i] / 100);
  return spread;
}

// Of the mean of window values, windows drawn with replacement; the same draws for every model. Source: Efron 1979,
// "Bootstrap methods: another look at the jackknife", percentile interval.
Interval bootstrap(const std::vector<double>& windows) {
  if (windows.empty()) return {};
  Rng rng(1);
  std::vector<double> means(kResamples);
  for (double& mean : means) {
    double sum = 0;
    for (size_t i = 0; i < windows.size(); ++i) sum += windows[rng.below(windows.size())];
    mean = sum / static_cast<double>(windows.size());
  }
  std::ranges::sort(means);
  return {quantile(means, kTail), quantile(means, 1 - kTail)};
}

struct BaseRow {
  double shift = 0, norm = 0;  // maximum; log Σ exp(logit)
  size_t top = 0;
};

BaseRow read_base(std::span<const float> row) {
  const size_t top = top_index(row);
  return {static_cast<double>(row[top]), log_sum_exp(row), top};
}

// KL = Σ p (a − b) − (norm a − norm b) with p = exp(a − norm a): one exponential a value for each side.
TokenDivergence compare(const BaseRow& known, std::span<const float> base, std::span<const float> other, size_t token) {
  const size_t top = top_index(other);
  const double shift = static_cast<double>(other[top]);
  double base_sum = 0, other_sum = 0, gap_sum = 0;
  for (size_t i = 0; i < base.size(); ++i) {
    const double a = static_cast<double>(base[i]), b = static_cast<double>(other[i]);
    const double weight = std::exp(a - known.shift);
    base_sum += weight;
    gap_sum += weight * (a - b);
    other_sum += std::exp(b - shift);
  }
  const double other_norm = shift + std::log(other_sum);
  TokenDivergence out;
  out.nll = other_norm - static_cast<double>(other[token]);
  out.base_nll = known.norm - static_cast<double>(base[token]);
  out.kl = std::max(0.0, gap_sum / base_sum - (known.norm - other_norm));
  out.is_same_top = top == known.top;
  return out;
}

}  // namespace

double TokenDivergence::probability_change() const { return std::exp(-nll) - std::exp(-base_nll); }

TokenDivergence compare_rows(std::span<const float> base, std::span<const float> other, size_t token) {
  return compare(read_base(base), base, other, token);
}

void DivergenceSums::add(std::span<const TokenDivergence> window) {
  double kl = 0, ln_ratio = 0;
  for (const TokenDivergence& token : window) {
    const double change2 = token.probability_change() * token.probability_change();
    const double terms[] = {token.nll,
                            token.nll * token.nll,
                            token.base_nll,
                            token.base_nll * token.base_nll,
                            token.nll * token.base_nll,
                            token.kl,
                            token.kl * token.kl,
                            change2,
                            change2 * change2,
                            token.is_same_top ? 1.0 : 0.0};
    for (size_t i = 0; i < std::size(terms); ++i) sums_[i] += terms[i];
    kl += token.kl;
    ln_ratio += token.nll - token.base_nll;
  }
  tokens_.insert(tokens_.end(), window.begin(), window.end());
  window_kl_.push_back(kl / static_cast<double>(window.size()));
  window_ln_ratio_.push_back(ln_ratio / static_cast<double>(window.size()));
}

Divergence DivergenceSums::running() const {
  Divergence out;
  out.n_windows = static_cast<uint32_t>(window_kl_.size());
  out.n_scored = tokens_.size();
  if (tokens_.empty()) return out;
  const auto n = static_cast<double>(tokens_.size());
  const Estimate nll = estimate(sums_[kNll], sums_[kNll2], n), base = estimate(sums_[kBase], sums_[kBase2], n);
  // Covariance of the two means; their errors are not independent, the text is the same.
  const double covariance = n > 1 ? (sums_[kNllBase] / n - nll.value * base.value) / (n - 1) : 0;
  out.perplexity = {std::exp(nll.value), std::exp(nll.value) * nll.error};
  out.base_perplexity = {std::exp(base.value), std::exp(base.value) * base.error};
  if (nll.error > 0 && base.error > 0) out.correlation = covariance / (nll.error * base.error);
  const double q = out.perplexity.value, b = out.base_perplexity.value;
  const auto root = [](double x) { return x > 0 ? std::sqrt(x) : 0.0; };
  out.ln_ratio = {nll.value - base.value, root(nll.error * nll.error + base.error * base.error - 2 * covariance)};
  out.ratio = {std::exp(out.ln_ratio.value), std::exp(out.ln_ratio.value) * out.ln_ratio.error};
  out.difference = {q - b, root(out.perplexity.error * out.perplexity.error +
                                out.base_perplexity.error * out.base_perplexity.error - 2 * q * b * covariance)};
  out.kl = estimate(sums_[kKl], sums_[kKl2], n);
  double change = 0;
  for (const TokenDivergence& token : tokens_) change += token.probability_change();
  out.change = estimate(change, sums_[kChange2], n);
  const Estimate square = estimate(sums_[kChange2], sums_[kChange4], n);
  const double rms = std::sqrt(square.value);
  out.change_rms = {rms, rms > 0 ? 0.5 / rms * square.error : 0};
  out.same_top = estimate(sums_[kSameTop], sums_[kSameTop], n);
  return out;
}

Divergence DivergenceSums::finish() const {
  Divergence out = running();
  std::vector<double> kl, change;
  for (const TokenDivergence& token : tokens_) {
    kl.push_back(token.kl);
    change.push_back(token.probability_change());
  }
  out.kl_spread = spread_of(std::move(kl));
  out.change_spread = spread_of(std::move(change));
  out.kl_interval = bootstrap(window_kl_);
  out.ratio_interval = bootstrap(window_ln_ratio_);
  out.ratio_interval = {std::exp(out.ratio_interval.low), std::exp(out.ratio_interval.high)};
  return out;
}

Result<std::vector<std::vector<TokenDivergence>>> compare_window(std::span<Session> sessions,
                                                                 std::span<const TokenId> window, ThreadPool* pool) {
  const size_t first = window.size() / 2, n_tokens = window.size() - 1;  // the last token has no successor here
  const size_t n_vocab = sessions[0].engine().model().n_vocab();
  std::vector<std::vector<TokenDivergence>> out(sessions.size() - 1, std::vector<TokenDivergence>(n_tokens - first));
  for (Session& session : sessions) {
    session.truncate(0);
    TAMIS_TRY_STATUS(session.append_all(window.first(first), first, nullptr));
  }
  std::vector<BaseRow> known;
  for (size_t begin = first; begin < n_tokens;) {
    const size_t n = std::min(sessions[0].n_rows_together(), n_tokens - begin);
    const auto tokens = window.subspan(begin, n);
    TAMIS_TRY(const std::vector<float> base, sessions[0].append_step(tokens, 0));
    const auto base_row = [&](size_t i) { return std::span(base).subspan(i * n_vocab, n_vocab); };
    known.resize(n);
    TAMIS_TRY_STATUS(for_rows(pool, n, [&](size_t i) { known[i] = read_base(base_row(i)); }));
    for (size_t m = 1; m < sessions.size(); ++m) {
      TAMIS_TRY(const std::vector<float> rows, sessions[m].append_step(tokens, 0));
      TAMIS_TRY_STATUS(for_rows(pool, n, [&](size_t i) {
        out[m - 1][begin - first + i] = compare(known[i], base_row(i), std::span(rows).subspan(i * n_vocab, n_vocab),
                                                static_cast<size_t>(window[begin + i + 1]));
      }));
    }
    begin += n;
  }
  return out;
}

}  // namespace tamis
