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

  // Calls fn(begin, end, thread_idx) until [0, n_items) is covered once, in ranges of at most `grain` items (0 =
  // guided: long ranges first, then ever shorter ones, so that each thread walks long stretches and all end together).
  // thread_idx < n_threads() names a slot no other running call of this loop has: use it for scratch. A call from
  // inside fn runs at once on the same thread under the same thread_idx, as a single range. Calls from several outside
  // threads take turns. Errors: out_of_memory when fn throws std::bad_alloc, internal for any other exception; the rest
  // of the ranges are then skipped.
  template <class Fn>
  Status parallel_for(size_t n_items, size_t grain, Fn&& fn) {
    auto call = [](void* context, size_t begin, size_t end, uint32_t thread_idx) {
      (*static_cast<std::remove_reference_t<Fn>*>(context))(begin, end, thread_idx);
    };
    return run(n_items, grain, call, const_cast<void*>(static_cast<const void*>(std::addressof(fn))));
  }

 private:
  using Call = void (*)(void* context, size_t begin, size_t end, uint32_t thread_idx);

  // What one loop is; written by the caller before it opens the loop to workers, read-only from then on.
  struct Loop {
    size_t n_items = 0;
    size_t grain = 1;
    Call call = nullptr;
    void* context = nullptr;
  };

  // Items of one memory node that nobody has taken: [next, end).
  struct alignas(64) Queue {
    std::atomic<size_t> next{0};
    size_t end = 0;
  };

  explicit ThreadPool(std::vector<MemoryNode> nodes);
  ItemRange take(Queue& queue, size_t grain) const;  // empty when nothing is left
  void fill_queues(size_t n_items, size_t grain);
  Status run(size_t n_items, size_t grain, Call call, void* context);
  void work(uint32_t thread_idx);
  void stay_on_node(uint32_t thread_idx) const;
  void run_ranges(uint32_t thread_idx);
  void wait_for_signal(uint32_t seen);
  void wait_for_workers();
  Status loop_status() const;

  uint32_t n_threads_ = 1;
  uint32_t n_spins_ = 0;  // polls before a waiting thread sleeps; 0 when threads outnumber cores
  const std::vector<MemoryNode> nodes_;
  std::vector<std::thread> workers_;
  std::mutex callers_;

  Loop loop_;
  std::atomic<bool> is_stopping_{false};
  std::atomic<uint8_t> failure_{0};                // a Failure of the running loop
  std::unique_ptr<Queue[]> queues_;                // one a node
  alignas(64) std::atomic<uint32_t> signal_{0};    // counts loops; workers sleep on it
  alignas(64) std::atomic<uint32_t> n_inside_{0};  // kOpen | number of workers inside the loop; the caller sleeps on it
};

}  // namespace tamis
