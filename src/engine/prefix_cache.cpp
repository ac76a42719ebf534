// The forest of stored blocks: finding, storing, holding, and forgetting the least recently used leaves.
#include "engine/prefix_cache.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

namespace tamis {
namespace {

constexpr size_t kEvictedKept = 16384;  // hashes remembered to tell why something is missing

}  // namespace

std::string_view cache_miss_name(CacheMiss miss) {
  constexpr std::string_view kNames[] = {"none", "unknown", "diverged", "evicted", "bypassed"};
  static_assert(std::size(kNames) == kNCacheMisses);
  return kNames[static_cast<size_t>(miss)];
}

uint64_t PrefixCache::hash_of(const Block& parent, std::span<const TokenId> tokens) const {
  return XXH3_64bits_withSeed(tokens.data(), tokens.size_bytes(), parent.hash);
}

PrefixCache::Root* PrefixCache::root(std::string_view salt) {
  std::unique_ptr<Root>& root = roots_[std::string(salt)];
  if (root == nullptr) {
    root = std::make_unique<Root>();
    root->salt = salt;
    root->hash = XXH3_64bits_withSeed(salt.data(), salt.size(), hash_seed_);
  }
  return root.get();
}

void PrefixCache::drop_root_if_idle(Root& root) {
  if (root.n_users > 0 || root.n_children > 0) return;
  roots_.erase(std::string(root.salt));  // a copy: the key dies with the root
}

PrefixCache::Block* PrefixCache::find(const Block& parent, std::span<const TokenId> tokens) {
  const auto [begin, end] = blocks_.equal_range(hash_of(parent, tokens));
  for (auto it = begin; it != end; ++it)
    if (it->second->parent == &parent && std::ranges::equal(it->second->tokens, tokens)) return it->second.get();
  return nullptr;
}

PrefixCache::Block* PrefixCache::insert(Block& parent, std::span<const TokenId> tokens, KvPage page) {
  auto block = std::make_unique<Block>();
  block->parent = &parent;
  block->hash = hash_of(parent, tokens);
  block->tokens.assign(tokens.begin(), tokens.end());
  block->page = std::move(page);
  block->last_use = ++clock_;
  Block* const stored = block.get();
  blocks_.emplace(stored->hash, std::move(block));
  ++parent.n_children;  // the chain that stores it holds the parent, which so is no leaf that could go
  ++n_unused_;
  leaves_.emplace(stored->last_use, stored);
  return stored;
}

void PrefixCache::hold(Block& block) {
  if (block.n_users++ > 0) return;
  --n_unused_;
  if (block.n_children == 0) leaves_.erase({block.last_use, &block});
}

void PrefixCache::let_go(Block& block) {
  if (--block.n_users > 0) return;
  ++n_unused_;
  block.last_use = ++clock_;
  if (block.n_children == 0) leaves_.emplace(block.last_use, &block);
}

void PrefixCache::note_evicted(uint64_t hash) {
  evicted_order_.push_back(hash);
  evicted_.insert(hash);
  if (evicted_order_.size() <= kEvictedKept) return;
  evicted_.erase(evicted_.find(evicted_order_.front()));
  evicted_order_.pop_front();
}

bool PrefixCache::evict() {
  if (leaves_.empty()) return false;
  Block& block = *leaves_.begin()->second;
  note_evicted(block.hash);
  drop(block);
  ++n_evicted_;
  return true;
}

size_t PrefixCache::forget(std::span<const TokenId> tokens, std::string_view salt) {
  const auto root = roots_.find(std::string(salt));
  if (root == roots_.end()) return 0;
  std::vector<Block*> chain;
  const Block* end = root->second.get();
  for (; tokens.size() >= kBlockTokens; tokens = tokens.subspan(kBlockTokens)) {
    Block* const block = find(*end, tokens.first(kBlockTokens));
    if (block == nullptr) break;
    chain.push_back(block);
    end = block;
  }
  size_t n = 0;
  for (; !chain.empty() && chain.back()->n_users == 0 && chain.back()->n_children == 0; chain.pop_back(), ++n)
    drop(*chain.back());
  return n;
}

// Requires: held by nobody, followed by none.
void PrefixCache::drop(Block& leaf) {
  Block& parent = *leaf.parent;
  leaves_.erase({leaf.last_use, &leaf});
  const auto [begin, end] = blocks_.equal_range(leaf.hash);
  blocks_.erase(std::find_if(begin, end, [&](const auto& entry) { return entry.second.get() == &leaf; }));
  --n_unused_;
  if (--parent.n_children == 0) {
    if (parent.parent == nullptr) {
      drop_root_if_idle(static_cast<Root&>(parent));
    } else if (parent.n_users == 0) {
      leaves_.emplace(parent.last_use, &parent);
    }
  }
}

PrefixChain::PrefixChain(PrefixCache& cache, std::string_view salt)
    : cache_(cache), root_(cache.root(salt)), end_(root_) {
  ++root_->n_users;
}

PrefixChain::~PrefixChain() {
  clear();
  --root_->n_users;
  cache_.drop_root_if_idle(*root_);
}

size_t PrefixChain::n_shared_blocks() const {
  const auto own = std::ranges::find_if(blocks_, [](const PrefixCache::Block* block) { return block->n_users == 1; });
  return static_cast<size_t>(own - blocks_.begin());
}

KvPage PrefixChain::follow(std::span<const TokenId> tokens) {
  PrefixCache::Block* const block = cache_.find(*end_, tokens);
  if (block == nullptr) return nullptr;
  cache_.hold(*block);
  blocks_.push_back(block);
  end_ = block;
  return block->page;
}

PrefixChain::Found PrefixChain::look_ahead(std::span<const TokenId> tokens) const {
  Found found;
  const PrefixCache::Block* end = end_;
  for (; tokens.size() >= PrefixCache::kBlockTokens; tokens = tokens.subspan(PrefixCache::kBlockTokens)) {
    end = cache_.find(*end, tokens.first(PrefixCache::kBlockTokens));
    if (end == nullptr) break;
    ++found.n_blocks;
    found.n_in_use += end->n_users > 0 ? 1 : 0;
  }
  return found;
}

CacheMiss PrefixChain::miss(std::span<const TokenId> tokens) const {
  if (cache_.was_evicted(cache_.hash_of(*end_, tokens))) return CacheMiss::evicted;
  return blocks_.empty() ? CacheMiss::unknown : CacheMiss::diverged;
}

KvPage PrefixChain::store(std::span<const TokenId> tokens, KvPage page) {
  if (KvPage stored = follow(tokens)) return stored;
  cache_.insert(*end_, tokens, std::move(page));
  return follow(tokens);
}

void PrefixChain::clear() {
  // From the end, so that the last blocks become the oldest leaves.
  for (; !blocks_.empty(); blocks_.pop_back()) cache_.let_go(*blocks_.back());
  end_ = root_;
}

}  // namespace tamis
