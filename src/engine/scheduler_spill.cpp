// What becomes of a paused sequence's pages: spilled to a file and read back when that is sooner done than computing
// them again.
#include <algorithm>

#include "engine/scheduler_loop.h"

namespace tamis {

// Requires: the sequence is about to give up its pages.
void Scheduler::Loop::spill(Sequence& sequence) {
  if (spill_ == nullptr) return;
  // What others hold too stays in memory, and is found there again as long as they do.
  const size_t first_page = sequence.chain ? sequence.chain->n_shared_blocks() : 0;
  const uint32_t n_tokens = sequence.n_computed();
  const std::vector<KvPage>& pages = sequence.cache.pages();
  const size_t n_pages = KvCache::pages_of(n_tokens);
  if (first_page >= n_pages) return;
  const double tokens_per_second = budget_.prompt_tokens_per_second();
  const double n_again = n_tokens - static_cast<double>(first_page * KvCache::kPageTokens);
  const double seconds_to_compute = tokens_per_second > 0 ? n_again / tokens_per_second : 0;
  if (seconds_to_compute < options_.spill_margin * spill_->seconds_for(n_pages - first_page)) return;
  const auto begin = pages.begin() + static_cast<ptrdiff_t>(first_page);
  sequence.spilled = spill_->write({begin, pages.begin() + static_cast<ptrdiff_t>(n_pages)}, first_page, n_tokens);
}

bool Scheduler::Loop::is_leaving(const Sequence& sequence) const {
  return sequence.spilled != nullptr && spill_->state(*sequence.spilled) == SpilledPages::State::writing;
}

// Begins to read back what was spilled of a sequence that has just followed the stored pages. False: there is no room
// for it now, but there will be once others' pages are written.
bool Scheduler::Loop::begin_return(Sequence& sequence) {
  const std::shared_ptr<SpilledPages> spilled = sequence.spilled;
  if (spilled == nullptr) return true;
  const size_t page_idx = sequence.n_computed() / KvCache::kPageTokens;
  const uint32_t n_tokens = spilled->n_tokens();
  const bool is_of_use = spill_->state(*spilled) == SpilledPages::State::stored && page_idx >= spilled->first_page() &&
                         sequence.n_computed() < n_tokens;
  if (is_of_use) {
    const size_t n_to_take = sequence.cache.n_pages_to_take(n_tokens);
    // Stored pages go only where that makes room; not for pages that are free as soon as they are written.
    while (pages_->n_free() < n_to_take && pages_->n_free() + spill_->n_leaving() < n_to_take &&
           n_pages_at_hand() >= n_to_take && stored_.evict()) {
    }
    if (pages_->n_free() < n_to_take && (spill_->is_busy() || spill_->n_leaving() > 0)) return false;
    if (pages_->n_free() >= n_to_take && sequence.cache.reserve(n_tokens)) {
      const std::vector<KvPage>& pages = sequence.cache.pages();
      const size_t n_pages = KvCache::pages_of(n_tokens);
      spill_->read(*spilled,
                   {pages.begin() + static_cast<ptrdiff_t>(page_idx), pages.begin() + static_cast<ptrdiff_t>(n_pages)});
      sequence.state = State::returning;
      return true;
    }
  }
  sequence.spilled = nullptr;
  return true;
}

// Those whose pages have come back go on; those whose pages are lost are computed again.
void Scheduler::Loop::end_returns() {
  if (spill_ == nullptr) return;
  spill_->collect();
  for (Sequence* const sequence : running_) {
    if (sequence->state != State::returning) continue;
    const SpilledPages::State state = spill_->state(*sequence->spilled);
    if (state == SpilledPages::State::reading) continue;
    sequence->state = State::running;
    if (state == SpilledPages::State::restored) {
      sequence->cache.commit(sequence->spilled->n_tokens());
      sequence->store_full();
    }
    sequence->spilled = nullptr;
  }
}

// Whether pages are on their way, which may be why there is nobody to compute.
bool Scheduler::Loop::is_spill_at_work() const {
  if (spill_ == nullptr) return false;
  const bool has_returning =
      std::ranges::any_of(running_, [](const Sequence* sequence) { return sequence->state == State::returning; });
  return has_returning || spill_->is_busy() || spill_->n_leaving() > 0;
}

}  // namespace tamis
