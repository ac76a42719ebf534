// A small model that guesses what a large one of the same vocabulary will say. Beside the scheduler: guesses of all
// answers are made together, a token each at a time, before the step that checks them.
//
// The guess of a token is drawn as the token itself will be: by a copy of the answer's sampler, with the same random
// number, from the small model's logits. Where the two distributions are alike the draws then mostly agree, also at
// temperatures at which the most probable token is often not the one drawn.
// Source: Leviathan et al. 2023 (arXiv:2211.17192), Chen et al. 2023 (arXiv:2302.01318), but for the check: there a
// guess may be kept that would not have been drawn, here an answer is the same text with guesses and without.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "engine/sampler.h"

namespace tamis {

// What the small model has computed of one sequence.
struct DraftState {
  std::optional<KvCache> cache;
  std::vector<TokenId> tokens;  // whose keys and values the cache holds
  bool is_left_out = false;     // there was no room for it once, or it could not be computed

  void give_up_pages() {
    cache.reset();
    tokens.clear();
  }
};

class DraftModel {
 public:
  // `n_pages`: of keys and values of all sequences at most. Errors: invalid_argument, naming the first token that
  // differs, when the vocabulary is not the target's (but for padding at its end).
  static Result<std::unique_ptr<DraftModel>> create(std::shared_ptr<const Engine> engine, const Engine& target,
                                                    size_t n_pages);

  struct Ask {
    DraftState* state = nullptr;
    std::span<const TokenId> tokens;  // the sequence so far
    SamplerChain sampler;             // as it will be when the token after them is drawn
    size_t n_most = 0;
    std::vector<TokenId> guess;  // the answer: n_most tokens, fewer where room ends; or none
  };
  // A sequence that is new here, or was not asked about for a while, is caught up with first, kCatchUp tokens at most a
  // call; until then nothing is guessed for it. One that there is no room for, or that cannot be computed, is left out
  // from then on: it would cost as much again and again, and bring nothing.
  static constexpr size_t kCatchUp = 64;
  void guess(std::span<Ask> asks);

  double round_ms() const { return round_ms_; }  // a token for every sequence, moving average

 private:
  DraftModel(std::shared_ptr<const Engine> engine, size_t n_vocab, size_t n_pages, size_t page_bytes);
  struct Rows {
    std::vector<TokenId> tokens;
    std::vector<KvSlot> slots;
    std::vector<uint32_t> wanted;
    std::vector<Ask*> asks;  // of the rows wanted
  };
  void meet(Ask& ask) const;
  bool add(Rows& rows, Ask& ask, std::span<const TokenId> tokens, bool is_wanted) const;
  bool compute(const Rows& rows);

  std::shared_ptr<const Engine> engine_;
  size_t n_vocab_;  // of the target model
  std::shared_ptr<KvPagePool> pages_;
  double round_ms_ = 0;
};

}  // namespace tamis
