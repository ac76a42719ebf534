// A fixed set of worker threads for data-parallel loops. Every CPU op of a forward pass is one or a few parallel_for
// calls, so a call costs no allocation and, while workers still spin, no system call.
//
// Results never depend on the number of threads: the caller's function computes each item by itself, whichever thread
// runs it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/result.h"
#include "base/topology.h"

namespace tamis {

class ThreadPool {
 public:
  static constexpr uint32_t kMaxThreads = 1024;

  // `n_threads` counts the calling thread; 0 = the cores this process may use (`topology`). More than those is said
  // once in the log. When the system refuses to start that many threads the pool has fewer, and says so in the log.
  // With several memory nodes each worker stays on one of them and takes that node's share of every loop first.
  static std::unique_ptr<ThreadPool> create(uint32_t n_threads, const Topology& topology = read_topology());
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  uint32_t n_threads() const { return n_threads_; }

  // Where a thread will begin to read: up to two streams, of which it asks for the first `n_bytes` each while it waits.
  struct Ahead {
    const uint8_t* at[2] = {nullptr, nullptr};
    size_t n_bytes = 0;
  };

  // Calls fn(begin, end, thread_idx) until [0, n_items) is covered once, in ranges of at most `grain` items (0 =
  // guided: long ranges first, then ever shorter ones, so that each thread walks long stretches and all end together).
  // Each thread begins with share() and helps others when that is done. `ahead`: empty or an entry for each thread,
  // what it will read after this loop; addresses that need not be there any more by then.
  // thread_idx < n_threads() names a slot no other running call of this loop has: use it for scratch. A call from
  // inside fn runs at once on the same thread under the same thread_idx, as a single range. Calls from several outside
  // threads take turns. Errors: out_of_memory when fn throws std::bad_alloc, internal for any other exception; the rest
  // of the ranges are then skipped.
  template <class Fn>
  Status parallel_for(size_t n_items, size_t grain, Fn&& fn, std::span<const Ahead> ahead = {}) {
    auto call = [](void* context, size_t begin, size_t end, uint32_t thread_idx) {
      (*static_cast<std::remove_reference_t<Fn>*>(context))(begin, end, thread_idx);
    };
    return run({n_items, grain, call, const_cast<void*>(static_cast<const void*>(std::addressof(fn))), ahead});
  }
  // The items of a loop that thread `thread_idx` takes first; those of memory nodes without a thread are in no share.
  ItemRange share(size_t n_items, size_t grain, uint32_t thread_idx) const;

 private:
  using Call = void (*)(void* context, size_t begin, size_t end, uint32_t thread_idx);

  // What one loop is; written by the caller before it opens the loop to workers, read-only from then on.
  struct Loop {
    size_t n_items = 0;
    size_t grain = 1;
    Call call = nullptr;
    void* context = nullptr;
    std::span<const Ahead> ahead;
  };

  // Items that nobody has taken, [next, end): of one thread, or of a memory node that has none.
  struct alignas(64) Queue {
    std::atomic<size_t> next{0};
    size_t end = 0;
  };

  // A queue's place: part `part` of `n_parts` of a node's items.
  struct Place {
    size_t node, part, n_parts;
  };

  explicit ThreadPool(std::vector<MemoryNode> nodes);
  void make_queues();
  ItemRange items_of(const Place& place, size_t n_items, size_t grain) const;
  static ItemRange take(Queue& queue, size_t grain);  // empty when nothing is left
  void fill_queues(size_t n_items, size_t grain);
  Status run(const Loop& loop);
  Status run_alone(const Loop& loop, uint32_t thread_idx);
  void work(uint32_t thread_idx);
  void stay_on_node(uint32_t thread_idx) const;
  void run_ranges(uint32_t thread_idx, Ahead& ahead);
  void wait_for_signal(uint32_t seen, Ahead& ahead);
  void wait_for_workers();
  Status loop_status() const;

  uint32_t n_threads_ = 1;
  uint32_t n_spins_ = 0;  // polls before a waiting thread sleeps; 0 when threads outnumber cores
  const std::vector<MemoryNode> nodes_;
  std::vector<std::thread> workers_;
  std::mutex callers_;

  Loop loop_;
  std::atomic<bool> is_stopping_{false};
  std::atomic<uint8_t> failure_{0};  // a Failure of the running loop
  std::vector<Place> places_;        // of the queues, nodes in order
  std::vector<size_t> own_queue_;    // [n_threads]
  std::unique_ptr<Queue[]> queues_;
  Ahead ahead_;                                    // of the calling thread
  alignas(64) std::atomic<uint32_t> signal_{0};    // counts loops; workers sleep on it
  alignas(64) std::atomic<uint32_t> n_inside_{0};  // kOpen | number of workers inside the loop; the caller sleeps on it
};

}  // namespace tamis
