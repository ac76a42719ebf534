// Guessing in rounds.
#include "engine/draft_model.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <new>

namespace tamis {
namespace {

constexpr double kMovingShare = 0.1;   // of the newest round
constexpr size_t kMostPadding = 1024;  // tokens behind the last real one, which models of one family pad differently

Status check_same_vocabulary(const Tokenizer& draft, const Tokenizer& target) {
  const auto [n_least, n_most] = std::minmax({draft.n_vocab(), target.n_vocab()});
  if (n_most - n_least > kMostPadding)
    return fail(ErrorCode::invalid_argument, "draft model: got a vocabulary of {} tokens, expected the model's {}",
                draft.n_vocab(), target.n_vocab());
  for (size_t i = 0; i < n_least; ++i) {
    const auto id = static_cast<TokenId>(i);
    if (draft.token_text(id) != target.token_text(id))
      return fail(ErrorCode::invalid_argument, "draft model: got \"{}\" for token {}, expected the model's \"{}\"",
                  escape_for_display(draft.token_text(id)), id, escape_for_display(target.token_text(id)));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<DraftModel>> DraftModel::create(std::shared_ptr<const Engine> engine, const Engine& target,
                                                       size_t n_pages) {
  if (engine->tokenizer() == nullptr) return fail(ErrorCode::invalid_argument, "draft model: no tokenizer was loaded");
  TAMIS_TRY_STATUS(check_same_vocabulary(*engine->tokenizer(), *target.tokenizer()));
  const auto page_bytes = engine->model().make_cache(engine->kv_types()).page_bytes();
  if (!page_bytes) return fail(ErrorCode::out_of_memory, "draft model: a page takes more than 2^64 bytes");
  return std::unique_ptr<DraftModel>(new DraftModel(std::move(engine), target.model().n_vocab(), n_pages, *page_bytes));
}

DraftModel::DraftModel(std::shared_ptr<const Engine> engine, size_t n_vocab, size_t n_pages, size_t page_bytes)
    : engine_(std::move(engine)), n_vocab_(n_vocab), pages_(std::make_shared<KvPagePool>(page_bytes, n_pages)) {}

// Keeps of what was computed for a sequence what it begins with; the last token is always computed.
void DraftModel::meet(Ask& ask) const {
  DraftState& state = *ask.state;
  if (!state.cache) state.cache.emplace(kv_shapes(engine_->model().hyper), engine_->kv_types(), pages_);
  const auto [mine, theirs] = std::ranges::mismatch(state.tokens, ask.tokens);
  const size_t n = std::min(static_cast<size_t>(mine - state.tokens.begin()), ask.tokens.size() - 1);
  state.tokens.resize(n);
  state.cache->truncate(static_cast<uint32_t>(n));
}

// False: there is no room for them.
bool DraftModel::add(Rows& rows, Ask& ask, std::span<const TokenId> tokens, bool is_wanted) const {
  KvCache& cache = *ask.state->cache;
  const auto begin = static_cast<uint32_t>(ask.state->tokens.size());
  const auto end = static_cast<uint32_t>(begin + tokens.size());
  const auto n_vocab = static_cast<int64_t>(engine_->model().n_vocab());
  if (std::ranges::any_of(tokens, [=](TokenId id) { return id >= n_vocab; })) return false;
  if (end > engine_->n_ctx() || cache.n_pages_to_take(end) > pages_->n_free() || !cache.reserve(end)) return false;
  for (uint32_t i = 0; i < tokens.size(); ++i) {
    rows.tokens.push_back(tokens[i]);
    rows.slots.push_back({&cache, begin + i});
  }
  ask.state->tokens.insert(ask.state->tokens.end(), tokens.begin(), tokens.end());
  if (!is_wanted) return true;
  rows.wanted.push_back(static_cast<uint32_t>(rows.tokens.size() - 1));
  rows.asks.push_back(&ask);
  return true;
}

bool DraftModel::compute(const Rows& rows) {
  const auto logits = engine_->forward({.tokens = rows.tokens, .slots = rows.slots, .logits_rows = rows.wanted});
  if (!logits) return false;
  const size_t n_row = engine_->model().n_vocab();
  std::vector<float> row(n_vocab_);
  for (size_t i = 0; i < rows.asks.size(); ++i) {
    // Vocabularies may be padded differently behind their last token.
    std::ranges::fill(row, -std::numeric_limits<float>::infinity());
    std::copy_n(logits->begin() + static_cast<ptrdiff_t>(i * n_row), std::min(n_row, n_vocab_), row.begin());
    const Result<TokenId> id = rows.asks[i]->sampler.sample(row);
    if (!id) return false;
    rows.asks[i]->sampler.accept(*id);
    rows.asks[i]->guess.push_back(*id);
  }
  return true;
}

void DraftModel::guess(std::span<Ask> asks) {
  if (asks.empty()) return;
  const auto leave_out = [](Ask& ask) {
    ask.guess.clear();
    ask.state->give_up_pages();
    ask.state->is_left_out = true;
  };
  const auto leave_all_out = [&] { std::ranges::for_each(asks, leave_out); };
  try {
    Rows rows;
    for (Ask& ask : asks) {
      ask.guess.clear();
      if (ask.state->is_left_out) continue;
      meet(ask);
      const std::span<const TokenId> missing = ask.tokens.subspan(ask.state->tokens.size());
      const size_t n = std::min(missing.size(), kCatchUp);
      if (!add(rows, ask, missing.first(n), n == missing.size())) leave_out(ask);
    }
    if (rows.tokens.empty()) return;
    if (!compute(rows)) return leave_all_out();
    for (;;) {
      Rows next;
      for (Ask* const ask : rows.asks) {
        if (ask->guess.size() >= ask->n_most) continue;
        if (!add(next, *ask, std::span(ask->guess).last(1), true)) ask->n_most = ask->guess.size();
      }
      if (next.tokens.empty()) return;
      const auto begin = std::chrono::steady_clock::now();
      if (!compute(next)) return leave_all_out();
      const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
      round_ms_ += (round_ms_ == 0 ? 1 : kMovingShare) * (took.count() - round_ms_);
      rows = std::move(next);
    }
  } catch (const std::bad_alloc&) {
    leave_all_out();
  }
}

}  // namespace tamis
