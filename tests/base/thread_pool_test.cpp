// The pool covers every item once, survives nesting, exceptions and oversubscription, and never deadlocks when loops
// are short.
#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace tamis {
namespace {

// How often each item was visited by one loop.
std::vector<int> visits(ThreadPool& pool, size_t n_items, size_t grain) {
  std::vector<std::atomic<int>> counts(n_items);
  const Status status = pool.parallel_for(n_items, grain, [&](size_t begin, size_t end, uint32_t thread_idx) {
    EXPECT_LT(thread_idx, pool.n_threads());
    EXPECT_LT(begin, end);
    for (size_t i = begin; i < end; ++i) counts[i].fetch_add(1);
  });
  EXPECT_TRUE(status.has_value());
  return {counts.begin(), counts.end()};
}

TEST(ThreadPool, VisitsEveryItemOnce) {
  for (const uint32_t n_threads : {1u, 2u, 3u, 8u}) {
    const auto pool = ThreadPool::create(n_threads);
    EXPECT_EQ(pool->n_threads(), n_threads);
    for (const size_t n_items : {0u, 1u, 2u, 7u, 64u, 1000u})
      for (const size_t grain : {0u, 1u, 3u, 64u, 5000u})
        EXPECT_EQ(visits(*pool, n_items, grain), std::vector<int>(n_items, 1))
            << n_threads << ' ' << n_items << ' ' << grain;
  }
}

TEST(ThreadPool, RangesKeepTheGrain) {
  const auto pool = ThreadPool::create(4);
  std::atomic<int> n_odd{0};
  const Status status = pool->parallel_for(100, 16, [&](size_t begin, size_t end, uint32_t) {
    if (begin % 16 != 0 || (end - begin != 16 && end != 100)) ++n_odd;
  });
  EXPECT_TRUE(status.has_value());
  EXPECT_EQ(n_odd, 0);
}

// Nodes of one CPU each; CPU 0 is there, the others may not be: a thread then runs where it likes.
Topology nodes_of(const std::vector<uint32_t>& n_cores) {
  Topology topology;
  topology.nodes.clear();
  for (uint32_t i = 0; i < n_cores.size(); ++i)
    topology.nodes.push_back({.number = i, .cpus = {i}, .n_cores = n_cores[i]});
  return topology;
}

// With grain 0 no range is longer than half of what is left of a thread's share when it is taken, so the last are
// single.
TEST(ThreadPool, GuidedRangesShrink) {
  const auto pool = ThreadPool::create(2);
  std::mutex mutex;
  std::vector<std::pair<size_t, size_t>> ranges;
  const Status status = pool->parallel_for(1000, 0, [&](size_t begin, size_t end, uint32_t) {
    const std::lock_guard lock(mutex);
    ranges.emplace_back(begin, end);
  });
  ASSERT_TRUE(status.has_value());
  std::sort(ranges.begin(), ranges.end());
  for (const auto& [begin, end] : ranges)
    EXPECT_EQ(end - begin, std::max<size_t>(1, ((begin < 500 ? 500 : 1000) - begin) / 2)) << begin;
  EXPECT_LT(ranges.size(), 40u);
}

TEST(ThreadPool, SeveralNodesVisitEveryItemOnce) {
  for (const uint32_t n_threads : {1u, 2u, 5u}) {
    const auto pool = ThreadPool::create(n_threads, nodes_of({1, 4, 2}));
    for (const size_t n_items : {0u, 1u, 2u, 7u, 64u, 1000u})
      for (const size_t grain : {0u, 1u, 3u, 64u, 5000u})
        EXPECT_EQ(visits(*pool, n_items, grain), std::vector<int>(n_items, 1))
            << n_threads << ' ' << n_items << ' ' << grain;
  }
}

TEST(ThreadPool, AThreadBeginsWithItsNodesShare) {
  const Topology topology = nodes_of({1, 1});
  const auto pool = ThreadPool::create(2, topology);
  std::atomic<int> n_inside{0};
  std::atomic<size_t> first[2] = {SIZE_MAX, SIZE_MAX};
  const Status status = pool->parallel_for(100, 1, [&](size_t begin, size_t, uint32_t thread_idx) {
    size_t none = SIZE_MAX;
    if (!first[thread_idx].compare_exchange_strong(none, begin)) return;
    for (++n_inside; n_inside < 2;) std::this_thread::yield();  // nobody goes on before both have begun
  });
  EXPECT_TRUE(status.has_value());
  EXPECT_EQ(first[0], 0u);
  EXPECT_EQ(first[1], items_of_node(topology.nodes, 100, 1, 1).begin);
}

// Node 0 has items 0 to 3, two for each of its threads 0 and 1; all but thread 1 stay in the item they begin with.
TEST(ThreadPool, AThreadHelpsItsOwnNodeFirst) {
  const auto pool = ThreadPool::create(4, nodes_of({1, 1}));
  std::vector<size_t> taken;  // by thread 1
  std::atomic<size_t> n_taken{0};
  const Status status = pool->parallel_for(8, 1, [&](size_t begin, size_t, uint32_t thread_idx) {
    if (thread_idx == 1) {
      taken.push_back(begin);
      ++n_taken;
    }
    while (thread_idx != 1 && n_taken < 3) std::this_thread::yield();
  });
  EXPECT_TRUE(status.has_value());
  ASSERT_GE(taken.size(), 3u);
  taken.resize(3);
  EXPECT_EQ(taken, (std::vector<size_t>{2, 3, 1}));
}

TEST(ThreadPool, SharesAreWhatThreadsBeginWith) {
  for (const uint32_t n_threads : {1u, 2u, 3u, 8u}) {
    const auto pool = ThreadPool::create(n_threads);
    for (const size_t n_items : {1u, 7u, 64u, 1000u})
      for (const size_t grain : {0u, 1u, 3u, 64u}) {
        size_t end = 0;
        for (uint32_t i = 0; i < n_threads; ++i) {
          const ItemRange items = pool->share(n_items, grain, i);
          EXPECT_EQ(items.begin, end);
          end = items.end;
        }
        EXPECT_EQ(end, n_items);
      }
  }
  const auto pool = ThreadPool::create(2);
  std::atomic<size_t> first[2] = {SIZE_MAX, SIZE_MAX};
  std::atomic<int> n_inside{0};
  ASSERT_TRUE(pool->parallel_for(101, 0, [&](size_t begin, size_t, uint32_t thread_idx) {
    size_t none = SIZE_MAX;
    if (!first[thread_idx].compare_exchange_strong(none, begin)) return;
    for (++n_inside; n_inside < 2;) std::this_thread::yield();  // nobody goes on before both have begun
  }));
  for (uint32_t i = 0; i < 2; ++i) EXPECT_EQ(first[i], pool->share(101, 0, i).begin);
}

TEST(ThreadPool, WhatIsReadAheadNeedNotBeThere) {
  const auto pool = ThreadPool::create(2);
  const auto* const nowhere = reinterpret_cast<const uint8_t*>(uintptr_t{4096});
  for (int round = 0; round < 200; ++round) {
    const std::vector<ThreadPool::Ahead> ahead(2, {{nowhere, round % 2 != 0 ? nullptr : nowhere}, size_t{1} << 20});
    std::atomic<size_t> n{0};
    ASSERT_TRUE(pool->parallel_for(
        50, 0, [&](size_t begin, size_t end, uint32_t) { n += end - begin; }, ahead));
    EXPECT_EQ(n, 50u);
  }
}

TEST(ThreadPool, ManyShortLoops) {
  const auto pool = ThreadPool::create(4);  // more threads than this machine may have: also the sleeping path
  uint64_t total = 0;
  for (int round = 0; round < 3000; ++round) {
    std::atomic<uint64_t> sum{0};
    ASSERT_TRUE(pool->parallel_for(8, 1, [&](size_t begin, size_t, uint32_t) { sum += begin; }).has_value());
    total += sum;
  }
  EXPECT_EQ(total, 3000u * 28u);
}

TEST(ThreadPool, NestedLoopsRunInline) {
  const auto pool = ThreadPool::create(3);
  std::vector<std::atomic<int>> counts(60);
  std::atomic<int> n_wrong_slot{0};
  const Status status = pool->parallel_for(6, 1, [&](size_t outer, size_t, uint32_t outer_idx) {
    const Status inner = pool->parallel_for(10, 1, [&](size_t begin, size_t end, uint32_t inner_idx) {
      if (inner_idx != outer_idx || begin != 0 || end != 10) ++n_wrong_slot;
      for (size_t i = begin; i < end; ++i) ++counts[outer * 10 + i];
    });
    EXPECT_TRUE(inner.has_value());
  });
  EXPECT_TRUE(status.has_value());
  EXPECT_EQ(n_wrong_slot, 0);
  for (const auto& count : counts) EXPECT_EQ(count, 1);
}

TEST(ThreadPool, SlotsAreExclusive) {
  const auto pool = ThreadPool::create(4);
  std::vector<std::atomic<int>> is_taken(4);
  std::atomic<int> n_shared{0};
  const Status status = pool->parallel_for(2000, 1, [&](size_t, size_t, uint32_t thread_idx) {
    if (is_taken[thread_idx].exchange(1) != 0) ++n_shared;
    is_taken[thread_idx].store(0);
  });
  EXPECT_TRUE(status.has_value());
  EXPECT_EQ(n_shared, 0);
}

TEST(ThreadPool, CallersTakeTurns) {
  const auto pool = ThreadPool::create(2);
  std::atomic<uint64_t> sum{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round)
        EXPECT_TRUE(pool->parallel_for(10, 1, [&](size_t begin, size_t, uint32_t) { sum += begin; }).has_value());
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum, 4u * 200u * 45u);
}

TEST(ThreadPool, ExceptionsBecomeErrors) {
  for (const uint32_t n_threads : {1u, 3u}) {
    const auto pool = ThreadPool::create(n_threads);
    const Status no_memory = pool->parallel_for(100, 1, [](size_t begin, size_t, uint32_t) {
      if (begin == 0) throw std::bad_alloc();
    });
    ASSERT_FALSE(no_memory.has_value());
    EXPECT_EQ(no_memory.error().code, ErrorCode::out_of_memory);
    const Status other = pool->parallel_for(100, 1, [](size_t begin, size_t, uint32_t) {
      if (begin == 0) throw std::runtime_error("foreign");
    });
    ASSERT_FALSE(other.has_value());
    EXPECT_EQ(other.error().code, ErrorCode::internal);
    EXPECT_EQ(visits(*pool, 10, 1), std::vector<int>(10, 1)) << "the pool is usable after a failure";
  }
}

TEST(ThreadPool, ThreadCountIsCapped) {
  const auto pool = ThreadPool::create(0);
  EXPECT_GE(pool->n_threads(), 1u);
  EXPECT_LE(pool->n_threads(), ThreadPool::kMaxThreads);
}

}  // namespace
}  // namespace tamis
