// Stored blocks: what is found, what is never taken for something else, who goes first, and why something is missing.
#include "engine/prefix_cache.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "base/rng.h"

namespace tamis {
namespace {

constexpr size_t kBlock = PrefixCache::kBlockTokens;

std::vector<TokenId> block(TokenId id) { return std::vector<TokenId>(kBlock, id); }
KvPage page() { return *allocate_kv_page(64); }

// Stores a path of blocks and lets go of it.
void store(PrefixCache& cache, const std::vector<TokenId>& path, std::string_view salt = "") {
  PrefixChain chain(cache, salt);
  for (const TokenId id : path) chain.store(block(id), page());
}
size_t found(PrefixCache& cache, const std::vector<TokenId>& path, std::string_view salt = "") {
  PrefixChain chain(cache, salt);
  size_t n = 0;
  while (n < path.size() && chain.follow(block(path[n])) != nullptr) ++n;
  return n;
}

TEST(PrefixCache, FindsWhatBeginsAlikeAndNothingElse) {
  PrefixCache cache(1);
  store(cache, {1, 2, 3});
  store(cache, {1, 2, 4});
  EXPECT_EQ(cache.n_blocks(), 4u);
  EXPECT_EQ(found(cache, {1, 2, 3, 4}), 3u);
  EXPECT_EQ(found(cache, {1, 2, 4}), 3u);
  EXPECT_EQ(found(cache, {2, 3}), 0u) << "the same tokens after others are something else";
  EXPECT_EQ(found(cache, {1, 3}), 1u);
  EXPECT_EQ(found(cache, {1, 2, 3}, "salt"), 0u);
  store(cache, {1}, "salt");
  EXPECT_EQ(found(cache, {1, 2}, "salt"), 1u);
  EXPECT_EQ(cache.n_unused(), cache.n_blocks());
}

TEST(PrefixCache, ForgetsWhatNothingElseNeeds) {
  PrefixCache cache(1);
  store(cache, {1, 2, 3, 4});
  store(cache, {1, 2, 5});
  store(cache, {1}, "salt");
  const auto tokens = [](const std::vector<TokenId>& path) {
    std::vector<TokenId> out;
    for (const TokenId id : path) out.insert(out.end(), kBlock, id);
    out.push_back(9);  // the beginning of a block
    return out;
  };
  EXPECT_EQ(cache.forget(tokens({1, 2, 3, 4}), "other"), 0u);
  EXPECT_EQ(cache.forget(tokens({1, 2, 3, 4, 6}), ""), 2u) << "up to where something else goes on";
  EXPECT_EQ(found(cache, {1, 2, 3}), 2u);
  {
    PrefixChain user(cache, "");
    for (const TokenId id : {1, 2}) user.follow(block(id));
    EXPECT_EQ(cache.forget(tokens({1, 2, 5}), ""), 1u) << "up to what is in use";
    EXPECT_EQ(cache.forget(tokens({1, 2}), ""), 0u);
    EXPECT_EQ(user.miss(block(5)), CacheMiss::diverged) << "none that gave way";
  }
  EXPECT_EQ(cache.forget(tokens({1, 2}), ""), 2u);
  EXPECT_EQ(cache.n_blocks(), 1u);
  EXPECT_EQ(cache.n_unused(), 1u);
  EXPECT_EQ(cache.n_evicted(), 0u);
  EXPECT_TRUE(cache.evict());
  EXPECT_FALSE(cache.evict());
}

TEST(PrefixCache, WhatIsStoredTwiceIsOnePage) {
  PrefixCache cache(1);
  PrefixChain a(cache, ""), b(cache, "");
  EXPECT_EQ(a.end(), b.end());
  const KvPage first = page();
  EXPECT_EQ(a.store(block(1), first), first);
  EXPECT_NE(a.end(), b.end());
  EXPECT_EQ(b.look_ahead(block(1)).n_in_use, 1u);
  EXPECT_EQ(b.store(block(1), page()), first);
  EXPECT_EQ(a.end(), b.end());
  EXPECT_EQ(cache.n_blocks(), 1u);
  EXPECT_EQ(cache.n_unused(), 0u);
}

TEST(PrefixCache, TheOldestLeafGoesFirstAndWhatIsHeldStays) {
  PrefixCache cache(1);
  store(cache, {1, 2, 3});
  store(cache, {5});
  PrefixChain holder(cache, "");
  ASSERT_NE(holder.follow(block(1)), nullptr);
  ASSERT_NE(holder.follow(block(2)), nullptr);
  EXPECT_EQ(cache.n_unused(), 2u);
  ASSERT_TRUE(cache.evict());
  EXPECT_EQ(found(cache, {1, 2, 3}), 2u) << "3 is a leaf and was used before 5";
  EXPECT_EQ(found(cache, {5}), 1u);
  EXPECT_EQ(holder.miss(block(3)), CacheMiss::evicted);
  EXPECT_EQ(holder.miss(block(4)), CacheMiss::diverged);
  EXPECT_EQ(PrefixChain(cache, "").miss(block(4)), CacheMiss::unknown);
  ASSERT_TRUE(cache.evict());
  EXPECT_FALSE(cache.evict()) << "the rest is in use";
  EXPECT_EQ(cache.n_blocks(), 2u);
  holder.clear();
  EXPECT_EQ(cache.n_unused(), 2u);
  ASSERT_TRUE(cache.evict());
  EXPECT_EQ(found(cache, {1, 2}), 1u) << "a block goes before the one it follows";
  ASSERT_TRUE(cache.evict());
  EXPECT_FALSE(cache.evict());
  EXPECT_EQ(cache.n_blocks(), 0u);
  EXPECT_EQ(cache.n_evicted(), 4u);
}

TEST(PrefixCache, RandomUseKeepsItsCounts) {
  // Against a model: a set of paths that must be there because a chain holds them.
  for (uint64_t seed = 0; seed < 20; ++seed) {
    PrefixCache cache(seed);
    Rng rng(seed);
    std::map<int, std::pair<std::unique_ptr<PrefixChain>, std::vector<TokenId>>> chains;
    for (int i = 0; i < 400; ++i) {
      const int id = static_cast<int>(rng.below(6));
      auto& [chain, path] = chains[id];
      if (chain == nullptr) chain = std::make_unique<PrefixChain>(cache, id % 2 == 0 ? "" : "s");
      switch (rng.below(4)) {
        case 0:
          chain->clear();
          path.clear();
          break;
        case 1: cache.evict(); break;
        default: path.push_back(static_cast<TokenId>(rng.below(3))); chain->store(block(path.back()), page());
      }
      std::map<std::pair<int, std::vector<TokenId>>, int> held;
      for (const auto& [other, entry] : chains) {
        ASSERT_EQ(entry.first->n_blocks(), entry.second.size());
        EXPECT_EQ(found(cache, entry.second, other % 2 == 0 ? "" : "s"), entry.second.size()) << "held";
        for (size_t n = 1; n <= entry.second.size(); ++n)
          ++held[{other % 2, {entry.second.begin(), entry.second.begin() + static_cast<ptrdiff_t>(n)}}];
      }
      ASSERT_EQ(cache.n_blocks() - cache.n_unused(), held.size());
    }
    chains.clear();
    EXPECT_EQ(cache.n_unused(), cache.n_blocks());
    while (cache.evict()) {
    }
    EXPECT_EQ(cache.n_blocks(), 0u);
  }
}

}  // namespace
}  // namespace tamis
