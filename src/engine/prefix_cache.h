// Pages of keys and values by the tokens that led to them, so that prompts that begin alike are computed once. Beside
// the scheduler, which stores every page that is full and follows the stored ones before it computes anything.
//
// Stored blocks form a forest: a block is one page, the kPageTokens tokens in it, and the block before it. It is found
// by a hash of all of that, and then every token is compared: a hash alone never decides. Sequences that use a block
// hold it; blocks that nobody holds stay until evict() needs their page, the one not used for the longest time first
// and never one that others follow. For one thread at a time. Source: vLLM's automatic prefix caching (hash chain),
// SGLang's RadixAttention (Zheng et al. 2024, arXiv:2312.07104; leaves go first).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "compute/kv_cache.h"
#include "text/tokenizer.h"

namespace tamis {

// Why no more of a prompt was found among stored pages.
enum class CacheMiss : uint8_t {
  none,      // everything that can be shared was: all whole pages before the last token
  unknown,   // its beginning was never stored (or not under this salt)
  diverged,  // its beginning was found; what follows was never stored
  evicted,   // what follows was stored once, and gave way to something else
  bypassed,  // it was not looked for: all of the prompt had to be computed
};
inline constexpr size_t kNCacheMisses = 5;
std::string_view cache_miss_name(CacheMiss miss);

class PrefixCache {
 public:
  static constexpr size_t kBlockTokens = KvCache::kPageTokens;

  // `hash_seed`: nobody who does not know it can make blocks collide.
  explicit PrefixCache(uint64_t hash_seed) : hash_seed_(hash_seed) {}
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  size_t n_blocks() const { return blocks_.size(); }
  size_t n_unused() const { return n_unused_; }  // held by no chain: evict() gets at all of them, one after another
  size_t n_evicted() const { return n_evicted_; }

  // Forgets the block that was not used for the longest time among those that no chain holds and no block follows.
  // False: there is none.
  bool evict();
  // Forgets the blocks that `tokens` begin with under a salt, from the last of them up to one that a chain holds or a
  // block follows. Returns how many.
  size_t forget(std::span<const TokenId> tokens, std::string_view salt);

 private:
  friend class PrefixChain;

  struct Block {
    Block* parent = nullptr;  // null: the root of a salt
    uint64_t hash = 0;        // of the salt and all tokens up to this block's end
    std::vector<TokenId> tokens;
    KvPage page;
    size_t n_users = 0, n_children = 0;
    uint64_t last_use = 0;
  };
  struct Root : Block {
    std::string salt;
  };

  Root* root(std::string_view salt);
  Block* find(const Block& parent, std::span<const TokenId> tokens);
  Block* insert(Block& parent, std::span<const TokenId> tokens, KvPage page);
  void hold(Block& block);
  void let_go(Block& block);
  void drop_root_if_idle(Root& root);
  void drop(Block& leaf);
  uint64_t hash_of(const Block& parent, std::span<const TokenId> tokens) const;
  bool was_evicted(uint64_t hash) const { return evicted_.contains(hash); }
  void note_evicted(uint64_t hash);

  uint64_t hash_seed_;
  std::unordered_map<std::string, std::unique_ptr<Root>> roots_;  // by salt
  std::unordered_multimap<uint64_t, std::unique_ptr<Block>> blocks_;
  std::set<std::pair<uint64_t, Block*>> leaves_;  // by last use: held by nobody, followed by none
  size_t n_unused_ = 0, n_evicted_ = 0;
  uint64_t clock_ = 0;
  std::deque<uint64_t> evicted_order_;  // hashes of the last evicted blocks
  std::unordered_multiset<uint64_t> evicted_;
};

// The stored blocks that one sequence goes through, from its first token on; it holds them until it is cleared. Does
// not outlive the cache.
class PrefixChain {
 public:
  PrefixChain(PrefixCache& cache, std::string_view salt);
  ~PrefixChain();
  PrefixChain(const PrefixChain&) = delete;
  PrefixChain& operator=(const PrefixChain&) = delete;

  size_t n_blocks() const { return blocks_.size(); }
  // How many of them, from the first on, other chains hold too.
  size_t n_shared_blocks() const;
  // Equal for chains of the same salt that went through the same tokens.
  const void* end() const { return end_; }

  // The page of `tokens` (kBlockTokens of them) if they are stored as what follows; the chain then goes on behind them.
  // Null: they are not.
  KvPage follow(std::span<const TokenId> tokens);
  // How many blocks of `tokens` follow() would find in turn, and how many of those a chain holds already.
  struct Found {
    size_t n_blocks = 0, n_in_use = 0;
  };
  Found look_ahead(std::span<const TokenId> tokens) const;
  // Why follow(tokens) found nothing.
  CacheMiss miss(std::span<const TokenId> tokens) const;
  // Stores `page` as what follows, and goes on behind it. Returns the page to use from now on: an equal one when the
  // tokens are stored already.
  KvPage store(std::span<const TokenId> tokens, KvPage page);
  // Back to before the first token.
  void clear();

 private:
  PrefixCache& cache_;
  PrefixCache::Root* root_;
  PrefixCache::Block* end_;
  std::vector<PrefixCache::Block*> blocks_;
};

}  // namespace tamis
