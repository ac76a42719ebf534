// Running tokens through the decoder in chunks, keeping the cache in step.
#include "engine/session.h"

#include <algorithm>
#include <numeric>

#include "models/decoder.h"

namespace tamis {
namespace {

// Logits handed out at once: large enough to amortise a step, small enough for any machine.
constexpr size_t kLogitBytes = size_t{64} << 20;

// Who may want to stop should not wait for a long chunk; results do not depend on the cut, and speed hardly.
constexpr size_t kStoppableTokens = 64;

}  // namespace

Result<std::vector<float>> Session::step(std::span<const TokenId> tokens, std::span<const uint32_t> logits_rows) {
  slots_.clear();
  const auto position = static_cast<uint32_t>(tokens_.size());
  for (size_t i = 0; i < tokens.size(); ++i) slots_.push_back({&cache_, position + static_cast<uint32_t>(i)});
  const Batch batch{
      .tokens = tokens, .slots = slots_, .logits_rows = logits_rows, .keeps_all_rows = probe_ || expert_probe_};
  TAMIS_TRY(std::vector<float> logits, engine_->forward(batch, probe_, expert_probe_));
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  return logits;
}

Result<std::vector<float>> Session::append(std::span<const TokenId> tokens, const std::atomic<bool>* stop,
                                           const OnProgress& on_progress) {
  if (tokens.empty()) return fail(ErrorCode::invalid_argument, "no tokens to compute");
  if (tokens.size() > n_left()) {
    return fail(ErrorCode::invalid_argument, "{} tokens do not fit: the context holds {} and {} are taken",
                tokens.size(), engine_->n_ctx(), tokens_.size());
  }
  const size_t n_batch = std::min<size_t>(engine_->n_batch(), stop != nullptr ? kStoppableTokens : SIZE_MAX);
  for (size_t begin = 0;; begin += n_batch) {
    if (stop != nullptr && stop->load())
      return fail(ErrorCode::cancelled, "stopped after {} of {} tokens", begin, tokens.size());
    const size_t n = std::min(n_batch, tokens.size() - begin);
    const bool is_last = begin + n == tokens.size();
    const auto last_row = static_cast<uint32_t>(n - 1);
    TAMIS_TRY(std::vector<float> logits,
              step(tokens.subspan(begin, n), std::span<const uint32_t>(&last_row, is_last ? 1 : 0)));
    if (on_progress) on_progress(begin + n);
    if (is_last) return logits;
  }
}

size_t Session::n_rows_together() const {
  const size_t row_bytes = size_t{engine_->model().n_vocab()} * sizeof(float);
  return std::clamp<size_t>(kLogitBytes / std::max<size_t>(row_bytes, 1), 1, engine_->n_batch());
}

Result<std::vector<float>> Session::append_step(std::span<const TokenId> tokens, size_t first_wanted) {
  if (tokens.size() > n_left()) {
    return fail(ErrorCode::invalid_argument, "{} tokens do not fit: the context holds {} and {} are taken",
                tokens.size(), engine_->n_ctx(), tokens_.size());
  }
  std::vector<uint32_t> rows(tokens.size() - std::min(first_wanted, tokens.size()));
  std::iota(rows.begin(), rows.end(), static_cast<uint32_t>(first_wanted));
  return step(tokens, rows);
}

Status Session::append_all(std::span<const TokenId> tokens, size_t first_wanted, const OnLogits& on_logits) {
  if (tokens.size() > n_left()) {
    return fail(ErrorCode::invalid_argument, "{} tokens do not fit: the context holds {} and {} are taken",
                tokens.size(), engine_->n_ctx(), tokens_.size());
  }
  for (size_t begin = 0; begin < tokens.size();) {
    const bool is_wanted = begin >= first_wanted;
    size_t n = std::min<size_t>(is_wanted ? n_rows_together() : engine_->n_batch(), tokens.size() - begin);
    if (!is_wanted) n = std::min(n, first_wanted - begin);
    TAMIS_TRY(const std::vector<float> logits, append_step(tokens.subspan(begin, n), is_wanted ? 0 : n));
    if (is_wanted) TAMIS_TRY_STATUS(on_logits(begin, logits));
    begin += n;
  }
  return {};
}

void Session::truncate(size_t n) {
  if (n >= tokens_.size()) return;
  tokens_.resize(n);
  cache_.truncate(static_cast<uint32_t>(n));
}

size_t Session::keep_common_prefix(std::span<const TokenId> prompt) {
  const auto [mine, theirs] = std::ranges::mismatch(tokens_, prompt);
  size_t n_common = static_cast<size_t>(mine - tokens_.begin());
  if (n_common == prompt.size() && n_common > 0) --n_common;
  truncate(n_common);
  return n_common;
}

}  // namespace tamis
