// The chains of equal endings.
#include "engine/ngram_draft.h"

#include <algorithm>
#include <bit>

namespace tamis {
namespace {

constexpr size_t kLinks = 16;        // of a chain that are looked at
constexpr size_t kLeastPlaces = 64;  // of the table

size_t n_equal_before(std::span<const TokenId> tokens, size_t a, size_t b, size_t n_most) {
  size_t n = 0;
  while (n < n_most && n < a && n < b && tokens[a - 1 - n] == tokens[b - 1 - n]) ++n;
  return n;
}

}  // namespace

size_t NgramDraft::place(std::span<const TokenId> tokens, size_t end) const {
  uint64_t hash = 0;
  for (size_t i = end - kLeast; i < end; ++i)
    hash = (hash ^ static_cast<uint32_t>(tokens[i])) * 0x9e3779b97f4a7c15;  // 2^64 / golden ratio
  return static_cast<size_t>(hash >> (64 - std::bit_width(newest_.size() - 1)));
}

void NgramDraft::link(std::span<const TokenId> tokens, size_t end) {
  uint32_t& newest = newest_[place(tokens, end)];
  before_[end] = newest;
  newest = static_cast<uint32_t>(end);
}

void NgramDraft::extend(std::span<const TokenId> tokens) {
  size_t begin = std::max(before_.size(), kLeast);
  before_.resize(tokens.size() + 1);
  if (newest_.size() < tokens.size() || newest_.empty()) {
    newest_.assign(std::bit_ceil(std::max(kLeastPlaces, 2 * tokens.size())), 0);
    begin = kLeast;  // all again, in a larger table
  }
  for (size_t end = begin; end <= tokens.size(); ++end) link(tokens, end);
}

size_t NgramDraft::guess(std::span<const TokenId> tokens, size_t n_most, std::vector<TokenId>& out) const {
  out.clear();
  const size_t end = tokens.size();
  if (end <= kLeast) return 0;
  size_t best = 0, n_best = kLeast - 1;
  uint32_t at = before_[end];
  for (size_t i = 0; i < kLinks && at != 0; ++i, at = before_[at]) {
    const size_t n = n_equal_before(tokens, at, end, kMostAgreeing);
    if (n <= n_best) continue;
    best = at;
    n_best = n;
  }
  if (best == 0) return 0;
  for (size_t i = 0; i < n_most; ++i) out.push_back(best + i < end ? tokens[best + i] : out[best + i - end]);
  return n_best;
}

}  // namespace tamis
