// Stored blocks of keys and values out of the scheduler, back into it, and forgotten: what others ask of the step
// thread, done between its steps.
#include <cstring>

#include "engine/scheduler_loop.h"

namespace tamis {
namespace {

constexpr size_t kBlock = PrefixCache::kBlockTokens;

std::span<const TokenId> block_of(std::span<const TokenId> tokens, size_t block_idx) {
  return tokens.subspan(block_idx * kBlock, kBlock);
}

}  // namespace

Result<std::vector<std::byte>> Scheduler::copy_stored(std::span<const TokenId> tokens, std::string_view salt,
                                                      size_t first_block, size_t n_most) {
  return loop_->copy_stored(tokens, salt, first_block, n_most);
}

Result<size_t> Scheduler::store(std::span<const TokenId> tokens, std::string_view salt, size_t first_block,
                                std::span<const std::byte> pages) {
  return loop_->store(tokens, salt, first_block, pages);
}

Result<size_t> Scheduler::forget_stored(std::span<const TokenId> tokens, std::string_view salt) {
  return loop_->forget_stored(tokens, salt);
}

Status Scheduler::Loop::between_steps(const std::function<void()>& what) {
  Errand errand{.what = &what};
  std::unique_lock lock(mutex_);
  if (is_stopping_) return fail(ErrorCode::cancelled, "the scheduler ends");
  errands_.push_back(&errand);
  wake_locked();
  errand_done_.wait(lock, [&] { return errand.is_done; });
  return std::move(errand.status);
}

void Scheduler::Loop::run_errands(std::unique_lock<std::mutex>& lock) {
  while (!errands_.empty()) {
    Errand& errand = *errands_.front();
    errands_.pop_front();
    lock.unlock();
    try {
      if (spill_ != nullptr) spill_->collect();
      (*errand.what)();
    } catch (const std::bad_alloc&) {
      errand.status = fail(ErrorCode::out_of_memory, "no memory for stored keys and values");
    }
    if (requests_.empty()) publish_stats();
    lock.lock();
    errand.is_done = true;
    errand_done_.notify_all();
  }
}

Result<std::vector<std::byte>> Scheduler::Loop::copy_stored(std::span<const TokenId> tokens, std::string_view salt,
                                                            size_t first_block, size_t n_most) {
  const size_t page_bytes = pages_->page_bytes();
  std::vector<std::byte> out(n_most * page_bytes);
  size_t n = 0;
  TAMIS_TRY_STATUS(between_steps([&] {
    PrefixChain chain(stored_, salt);
    for (size_t i = 0; n < n_most && (i + 1) * kBlock <= tokens.size(); ++i) {
      const KvPage page = chain.follow(block_of(tokens, i));
      if (page == nullptr) break;
      if (i >= first_block) std::memcpy(out.data() + n++ * page_bytes, page.get(), page_bytes);
    }
  }));
  out.resize(n * page_bytes);
  return out;
}

Result<size_t> Scheduler::Loop::store(std::span<const TokenId> tokens, std::string_view salt, size_t first_block,
                                      std::span<const std::byte> pages) {
  const size_t page_bytes = pages_->page_bytes(), end = first_block + pages.size() / page_bytes;
  size_t n_stored = 0;  // blocks from the beginning
  // Pages that are free as soon as they are written are waited for, here and not between two steps; once for a block:
  // others may take them.
  size_t n_waited = 0;  // blocks that have been waited for
  for (;;) {
    bool is_waiting = false;
    n_stored = 0;
    TAMIS_TRY_STATUS(between_steps([&] {
      PrefixChain chain(stored_, salt);
      for (; n_stored < end && (n_stored + 1) * kBlock <= tokens.size(); ++n_stored) {
        const std::span<const TokenId> block = block_of(tokens, n_stored);
        if (chain.follow(block) != nullptr) continue;
        if (n_stored < first_block) break;  // has given way since
        is_waiting = pages_->n_free() == 0 && n_stored >= n_waited && spill_ != nullptr && spill_->n_leaving() > 0;
        if (is_waiting) break;
        while (pages_->n_free() == 0 && stored_.evict()) {
        }
        auto page = pages_->take();
        if (!page) break;
        std::memcpy(page->get(), pages.data() + (n_stored - first_block) * page_bytes, page_bytes);
        chain.store(block, *std::move(page));
      }
    }));
    if (!is_waiting) break;
    n_waited = n_stored + 1;
    spill_->wait();
  }
  return n_stored * kBlock;
}

Result<size_t> Scheduler::Loop::forget_stored(std::span<const TokenId> tokens, std::string_view salt) {
  size_t n_blocks = 0;
  TAMIS_TRY_STATUS(between_steps([&] { n_blocks = stored_.forget(tokens, salt); }));
  return n_blocks * kBlock;
}

}  // namespace tamis
