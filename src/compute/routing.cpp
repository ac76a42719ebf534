// The choice of experts from router logits: scores in double, best first.
#include "compute/routing.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tamis {
namespace {

// Below this a sum of weights counts as this: half precision's least normal number, as the models were trained with.
constexpr double kLeastWeightSum = 6.103515625e-5;

void score_experts(const float* logits, RouterScore score, std::vector<double>& out) {
  if (score == RouterScore::sigmoid) {
    for (size_t e = 0; e < out.size(); ++e) out[e] = 1.0 / (1.0 + std::exp(-static_cast<double>(logits[e])));
    return;
  }
  double highest = -std::numeric_limits<double>::infinity(), total = 0;
  for (size_t e = 0; e < out.size(); ++e) highest = std::max<double>(highest, logits[e]);
  for (size_t e = 0; e < out.size(); ++e) total += out[e] = std::exp(logits[e] - highest);
  for (double& value : out) value /= total;
}

}  // namespace

Routing choose_experts(TensorView logits, const RouterParams& params) {
  Routing routing{params.n_used, {}, {}};
  routing.expert.reserve(logits.n_rows * params.n_used);
  routing.weight.reserve(logits.n_rows * params.n_used);
  std::vector<double> scores(logits.n_cols);
  std::vector<bool> is_taken(logits.n_cols);
  for (size_t i = 0; i < logits.n_rows; ++i) {
    score_experts(logits.row(i), params.score, scores);
    std::fill(is_taken.begin(), is_taken.end(), false);
    double sum = 0;
    const size_t start = routing.expert.size();
    for (uint32_t rank = 0; rank < params.n_used; ++rank) {
      size_t best = logits.n_cols;
      for (size_t e = 0; e < logits.n_cols; ++e) {
        if (is_taken[e]) continue;
        if (best == logits.n_cols || scores[e] > scores[best] || (std::isnan(scores[best]) && !std::isnan(scores[e])))
          best = e;
      }
      is_taken[best] = true;
      sum += scores[best];
      routing.expert.push_back(static_cast<uint32_t>(best));
    }
    const double divisor = params.is_normalised ? std::max(sum, kLeastWeightSum) : 1.0;
    for (size_t j = start; j < routing.expert.size(); ++j) {
      routing.weight.push_back(static_cast<float>(scores[routing.expert[j]] / divisor * params.scale));
    }
  }
  return routing;
}

}  // namespace tamis
