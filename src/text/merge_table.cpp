// Two ways to the same result: a scan over all pairs for the short words text is made of, a heap for long ones.
#include "text/merge_table.h"

#include <algorithm>
#include <functional>

namespace tamis {
namespace {

constexpr size_t kScanMax = 32;  // symbols up to which scanning beats the heap
constexpr uint32_t kEnd = 0xffffffff;

void merge_by_scan(const MergeTable& table, std::vector<TokenId>& ids, MergeScratch& scratch) {
  auto& ranks = scratch.ranks;    // of the pair (i, i + 1)
  auto& merged = scratch.merged;  // what that pair becomes
  size_t n = ids.size();
  ranks.resize(n);
  merged.resize(n);
  const auto look_up = [&](size_t i) {
    const MergeTable::Merge merge = table.find(ids[i], ids[i + 1]);
    ranks[i] = merge.rank;
    merged[i] = merge.merged;
    ++scratch.n_steps;
  };
  for (size_t i = 0; i + 1 < n; ++i) look_up(i);
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; ++i)
      if (ranks[i] < ranks[best]) best = i;
    scratch.n_steps += n;
    if (ranks[best] == MergeTable::kNoRank) break;
    ids[best] = merged[best];
    for (size_t i = best + 1; i + 1 < n; ++i) {
      ids[i] = ids[i + 1];
      ranks[i] = ranks[i + 1];
      merged[i] = merged[i + 1];
    }
    --n;
    if (best + 1 < n) look_up(best);
    if (best > 0) look_up(best - 1);
  }
  ids.resize(n);
}

// Heap entries are rank << 32 | position of the left symbol; stale ones are recognised by a rank that no longer fits.
class HeapMerger {
 public:
  HeapMerger(const MergeTable& table, std::vector<TokenId>& ids, MergeScratch& scratch)
      : table_(table), ids_(ids), scratch_(scratch) {}

  void run() {
    const size_t n = ids_.size();
    scratch_.previous.resize(n);
    scratch_.next.resize(n);
    scratch_.heap.clear();
    for (size_t i = 0; i < n; ++i) {
      scratch_.previous[i] = i == 0 ? kEnd : static_cast<uint32_t>(i - 1);
      scratch_.next[i] = i + 1 == n ? kEnd : static_cast<uint32_t>(i + 1);
    }
    for (size_t i = 0; i + 1 < n; ++i) {
      const auto merge = pair_at(static_cast<uint32_t>(i));
      if (merge.rank != MergeTable::kNoRank) scratch_.heap.push_back(entry(merge.rank, static_cast<uint32_t>(i)));
    }
    std::make_heap(scratch_.heap.begin(), scratch_.heap.end(), std::greater<>());
    while (!scratch_.heap.empty()) merge_next();
    compact();
  }

 private:
  static uint64_t entry(uint32_t rank, uint32_t position) { return (static_cast<uint64_t>(rank) << 32) | position; }

  MergeTable::Merge pair_at(uint32_t left) {
    ++scratch_.n_steps;
    const uint32_t right = scratch_.next[left];
    return right == kEnd ? MergeTable::Merge{} : table_.find(ids_[left], ids_[right]);
  }

  void push(uint32_t left) {
    const auto merge = pair_at(left);
    if (merge.rank == MergeTable::kNoRank) return;
    scratch_.heap.push_back(entry(merge.rank, left));
    std::push_heap(scratch_.heap.begin(), scratch_.heap.end(), std::greater<>());
  }

  void merge_next() {
    std::pop_heap(scratch_.heap.begin(), scratch_.heap.end(), std::greater<>());
    const uint64_t top = scratch_.heap.back();
    scratch_.heap.pop_back();
    const auto left = static_cast<uint32_t>(top);
    if (ids_[left] == kGone) return;
    const auto merge = pair_at(left);
    if (merge.rank != static_cast<uint32_t>(top >> 32)) return;
    const uint32_t right = scratch_.next[left];
    ids_[left] = merge.merged;
    ids_[right] = kGone;
    scratch_.next[left] = scratch_.next[right];
    if (scratch_.next[left] != kEnd) scratch_.previous[scratch_.next[left]] = left;
    push(left);
    if (scratch_.previous[left] != kEnd) push(scratch_.previous[left]);
  }

  void compact() { std::erase(ids_, kGone); }

  static constexpr TokenId kGone = -2;
  const MergeTable& table_;
  std::vector<TokenId>& ids_;
  MergeScratch& scratch_;
};

}  // namespace

MergeTable::MergeTable(size_t n_merges) {
  unsigned bits = 1;
  while ((size_t{1} << bits) < n_merges + n_merges / 2 + 2) ++bits;
  entries_.assign(size_t{1} << bits, {});
  mask_ = entries_.size() - 1;
  shift_ = 64 - bits;
}

void MergeTable::insert(TokenId left, TokenId right, Merge merge) {
  const uint64_t key = key_of(left, right);
  size_t slot = slot_of(key);
  while (entries_[slot].key != kEmpty && entries_[slot].key != key) slot = (slot + 1) & mask_;
  if (entries_[slot].key == kEmpty) entries_[slot] = {key, merge};
}

void merge_symbols(const MergeTable& table, std::vector<TokenId>& ids, MergeScratch& scratch) {
  if (ids.size() < 2) return;
  if (ids.size() <= kScanMax)
    merge_by_scan(table, ids, scratch);
  else
    HeapMerger(table, ids, scratch).run();
}

}  // namespace tamis
