// The record of guesses and the price of rows.
#include "engine/draft_policy.h"

#include <algorithm>

namespace tamis {
namespace {

constexpr double kMovingShare = 0.1;  // of the newest guess in a chance
constexpr double kLikely = 0.5;       // a guess worth trying now and then, though rows are said to cost too much
constexpr size_t kTokensOfTrial = 2;

}  // namespace

void DraftRecord::note(size_t n_agreeing, bool has_held) {
  double& chance = chances_[class_of(n_agreeing)];
  chance += kMovingShare * ((has_held ? 1.0 : 0.0) - chance);
}

size_t DraftPolicy::n_worth(double chance, size_t n_answers, double guess_ms) {
  if (margin_ <= 0) return kMostTokens;
  const auto n_tokens = static_cast<double>(n_answers);
  const double price = margin_ * (time_.cost_ms() + guess_ms) * n_tokens / time_.expected_ms(n_tokens);
  size_t n = 0;
  for (double likely = chance; time_.is_known() && n < kMostTokens && likely > price; likely *= chance) ++n;
  if (n > 0 || chance < kLikely || ++n_since_tried_ < kTryEvery) return n;
  n_since_tried_ = 0;
  return kTokensOfTrial;
}

}  // namespace tamis
