// One conversation: its tokens and their stored keys and values. Between tokenizer and decoder.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/engine.h"

namespace tamis {

class Session {
 public:
  explicit Session(std::shared_ptr<const Engine> engine)
      : engine_(std::move(engine)), cache_(engine_->model().make_cache(engine_->kv_types())) {}

  const Engine& engine() const { return *engine_; }
  const std::vector<TokenId>& tokens() const { return tokens_; }
  uint32_t n_left() const { return engine_->n_ctx() - static_cast<uint32_t>(tokens_.size()); }  // of the context
  bool is_full() const { return n_left() == 0; }

  // Called after each chunk with the number of tokens done.
  using OnProgress = std::function<void(size_t n_done)>;

  // Takes in `tokens` (n ≥ 1), n_batch at a time (fewer with `stop`); returns the logits [n_vocab] after the last one.
  // `stop` (may be null) is looked at between chunks. Errors: invalid_argument when they do not fit the context
  // (nothing is taken in) or are not in the vocabulary; cancelled (what was computed so far stays); out_of_memory,
  // device.
  Result<std::vector<float>> append(std::span<const TokenId> tokens, const std::atomic<bool>* stop = nullptr,
                                    const OnProgress& on_progress = nullptr);

  // The same, handing out the logits of every token from index first_wanted on: rows [n, n_vocab] of consecutive
  // tokens, a few megabytes at a time. An error of on_logits ends the call.
  using OnLogits = std::function<Status(size_t first_token, std::span<const float> rows)>;
  Status append_all(std::span<const TokenId> tokens, size_t first_wanted, const OnLogits& on_logits);

  // One step of at most n_batch tokens: the logits of those from index first_wanted on, rows [n, n_vocab]. Errors:
  // those of append_all.
  Result<std::vector<float>> append_step(std::span<const TokenId> tokens, size_t first_wanted);
  // Rows of logits worth computing together: a few megabytes, at most n_batch.
  size_t n_rows_together() const;

  // From now on every step is shown to the probes (models/decoder.h; null: to nobody), every token of it to the end.
  void watch(Probe probe, ExpertProbe expert_probe) {
    probe_ = std::move(probe);
    expert_probe_ = std::move(expert_probe);
  }

  // Forgets all tokens but the first n.
  void truncate(size_t n);

  // Makes the session hold a prefix of `prompt`: keeps what it has in common with what is stored, forgets the rest; at
  // least one token of the prompt stays to be appended. Returns the number kept. Results do not depend on it.
  size_t keep_common_prefix(std::span<const TokenId> prompt);

 private:
  Result<std::vector<float>> step(std::span<const TokenId> tokens, std::span<const uint32_t> logits_rows);

  std::shared_ptr<const Engine> engine_;
  KvCache cache_;
  std::vector<TokenId> tokens_;
  std::vector<KvSlot> slots_;  // of the running step
  Probe probe_;
  ExpertProbe expert_probe_;
};

}  // namespace tamis
