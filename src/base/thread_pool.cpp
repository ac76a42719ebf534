// The pool's protocol. The caller writes loop_, sets kOpen in n_inside_ and raises signal_. A worker enters by adding 1
// to n_inside_ while kOpen is set, takes ranges from the queues, its own first, then those of its node, and leaves by
// subtracting 1. The caller takes ranges too, then clears kOpen (nobody can enter any more) and waits until nobody is
// inside. A worker that is still asleep by then is not waited for.
#include "base/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <new>
#include <system_error>

#include "base/cpu_features.h"
#include "base/log.h"
#include "base/topology.h"

namespace tamis {
namespace {

constexpr uint32_t kOpen = uint32_t{1} << 31;
constexpr size_t kGuidedShare = 2;  // a guided range is what its queue has left ÷ this
constexpr uint32_t kSpins = 2000;   // pauses, 40–80 µs: longer than the gaps between the ops of a forward pass

enum Failure : uint8_t { kNone, kBadAlloc, kOther };

// The pool and slot of the loop this thread is running, for calls from inside it.
thread_local const ThreadPool* t_pool = nullptr;
thread_local uint32_t t_thread_idx = 0;

// One poll of a wait: asks for a few lines more, into the second cache, or pauses.
bool prefetch_some(ThreadPool::Ahead& ahead) {
  constexpr size_t kLine = 64, kLines = 4;
  if (ahead.n_bytes < kLine * kLines) return false;
  for (const uint8_t*& at : ahead.at) {
    if (at == nullptr) continue;
    for (size_t i = 0; i < kLines; ++i) __builtin_prefetch(at + i * kLine, 0, 2);
    at += kLines * kLine;
  }
  ahead.n_bytes -= kLines * kLine;
  return true;
}

// All signals but a thread's own faults blocked for the calling thread, as long as it lives.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL})
      ::sigdelset(&all, fault);  // belong to the thread that fails
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

ThreadPool::ThreadPool(std::vector<MemoryNode> nodes) : nodes_(std::move(nodes)) {}

std::unique_ptr<ThreadPool> ThreadPool::create(uint32_t n_threads, const Topology& topology) {
  const uint32_t n_cores = topology.n_usable;
  if (n_threads == 0) n_threads = n_cores;
  n_threads = std::min(n_threads, kMaxThreads);
  static std::atomic_flag has_warned;
  if (n_threads > n_cores && !has_warned.test_and_set())
    log_warning("{} threads on {} usable core{}: they will wait for each other", n_threads, n_cores,
                n_cores == 1 ? "" : "s");
  std::unique_ptr<ThreadPool> pool(new ThreadPool(topology.nodes));
  pool->n_threads_ = n_threads;  // before workers start: they never read it, their scratch owners do
  pool->n_spins_ = n_threads <= n_cores ? kSpins : 0;
  pool->workers_.reserve(n_threads - 1);
  const SignalsBlocked blocked;  // workers inherit the mask: signals go to the threads of whoever owns the process
  for (uint32_t i = 1; i < n_threads; ++i) {
    try {
      pool->workers_.emplace_back(&ThreadPool::work, pool.get(), i);
    } catch (const std::system_error&) {
      log_warning("only {} of {} threads could be started", i, n_threads);
      pool->n_threads_ = i;
      break;
    }
  }
  pool->make_queues();  // workers look at them inside of loops only
  return pool;
}

ThreadPool::~ThreadPool() {
  is_stopping_.store(true, std::memory_order_release);
  signal_.fetch_add(1, std::memory_order_release);
  signal_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

Status ThreadPool::run_alone(const Loop& loop, uint32_t thread_idx) {
  const ThreadPool* const outer_pool = std::exchange(t_pool, this);
  const uint32_t outer_idx = std::exchange(t_thread_idx, thread_idx);
  Status status;
  try {
    loop.call(loop.context, 0, loop.n_items, thread_idx);
  } catch (const std::bad_alloc&) {
    status = fail(ErrorCode::out_of_memory, "out of memory");
  } catch (...) {
    status = fail(ErrorCode::internal, "unexpected exception in a parallel loop");
  }
  t_pool = outer_pool;
  t_thread_idx = outer_idx;
  return status;
}

Status ThreadPool::run(const Loop& loop) {
  if (loop.n_items == 0) return {};
  if (t_pool == this) return run_alone(loop, t_thread_idx);
  const std::lock_guard turn(callers_);
  if (workers_.empty() || loop.n_items <= std::max<size_t>(loop.grain, 1)) return run_alone(loop, 0);
  loop_ = loop;
  failure_.store(kNone, std::memory_order_relaxed);
  fill_queues(loop.n_items, loop.grain);
  n_inside_.store(kOpen, std::memory_order_release);
  signal_.fetch_add(1, std::memory_order_release);
  signal_.notify_all();
  run_ranges(0, ahead_);
  n_inside_.fetch_and(~kOpen, std::memory_order_acq_rel);
  wait_for_workers();
  return loop_status();
}

Status ThreadPool::loop_status() const {
  switch (failure_.load(std::memory_order_relaxed)) {
    case kNone: return {};
    case kBadAlloc: return fail(ErrorCode::out_of_memory, "out of memory");
    default: return fail(ErrorCode::internal, "unexpected exception in a parallel loop");
  }
}

void ThreadPool::run_ranges(uint32_t thread_idx, Ahead& ahead) {
  const ThreadPool* const outer_pool = std::exchange(t_pool, this);
  const uint32_t outer_idx = std::exchange(t_thread_idx, thread_idx);
  const Loop loop = loop_;
  if (!loop.ahead.empty()) ahead = loop.ahead[thread_idx];
  const size_t own = own_queue_[thread_idx], n_queues = places_.size();
  const Place& place = places_[own];
  const auto queue_at = [&place, first = own - place.part, n_queues](size_t i) {  // those of its node first
    return i < place.n_parts ? first + (place.part + i) % place.n_parts : (first + i) % n_queues;
  };
  auto stop = [this, n_queues](Failure failure) {
    failure_.store(failure, std::memory_order_relaxed);
    for (size_t i = 0; i < n_queues; ++i) queues_[i].next.store(queues_[i].end, std::memory_order_relaxed);
  };
  try {
    for (size_t i = 0; i < n_queues; ++i) {
      Queue& queue = queues_[queue_at(i)];
      for (ItemRange range = take(queue, loop.grain); range.begin < range.end; range = take(queue, loop.grain))
        loop.call(loop.context, range.begin, range.end, thread_idx);
    }
  } catch (const std::bad_alloc&) {
    stop(kBadAlloc);
  } catch (...) {
    stop(kOther);
  }
  t_pool = outer_pool;
  t_thread_idx = outer_idx;
}

ItemRange ThreadPool::take(Queue& queue, size_t grain) {
  size_t begin = queue.next.load(std::memory_order_relaxed), end;
  do {
    if (begin >= queue.end) return {};
    const size_t n_left = queue.end - begin;
    end = begin + (grain != 0 ? std::min(grain, n_left) : std::max<size_t>(1, n_left / kGuidedShare));
  } while (!queue.next.compare_exchange_weak(begin, end, std::memory_order_relaxed));
  return {begin, end};
}

void ThreadPool::make_queues() {
  for (size_t node = 0, thread = 0; node < nodes_.size(); ++node) {
    size_t n_own = 0;
    while (thread + n_own < n_threads_ &&
           node_of_thread(nodes_, n_threads_, static_cast<uint32_t>(thread + n_own)) == node)
      ++n_own;
    const size_t n_parts = std::max<size_t>(n_own, 1);
    for (size_t part = 0; part < n_parts; ++part) {
      if (part < n_own) own_queue_.push_back(places_.size());
      places_.push_back({node, part, n_parts});
    }
    thread += n_own;
  }
  queues_ = std::make_unique<Queue[]>(places_.size());
}

ItemRange ThreadPool::items_of(const Place& place, size_t n_items, size_t grain) const {
  const ItemRange of_node = items_of_node(nodes_, n_items, grain, place.node);
  const size_t n_grains = (of_node.end - of_node.begin + grain - 1) / grain;
  const auto border = [&](size_t part) {
    return std::min(of_node.end, of_node.begin + n_grains * part / place.n_parts * grain);
  };
  return {border(place.part), border(place.part + 1)};
}

ItemRange ThreadPool::share(size_t n_items, size_t grain, uint32_t thread_idx) const {
  return items_of(places_[own_queue_[thread_idx]], n_items, std::max<size_t>(grain, 1));
}

void ThreadPool::fill_queues(size_t n_items, size_t grain) {
  for (size_t i = 0; i < places_.size(); ++i) {
    const ItemRange items = items_of(places_[i], n_items, std::max<size_t>(grain, 1));
    queues_[i].next.store(items.begin, std::memory_order_relaxed);
    queues_[i].end = items.end;
  }
}

// The calling thread runs on its node's CPUs only, so that memory it writes first is that node's. A refusal changes
// speed alone.
void ThreadPool::stay_on_node(uint32_t thread_idx) const {
  if (nodes_.size() < 2) return;
  const MemoryNode& node = nodes_[node_of_thread(nodes_, n_threads_, thread_idx)];
  const uint32_t n_cpus = node.cpus.back() + 1;
  cpu_set_t* const set = CPU_ALLOC(n_cpus);
  if (set == nullptr) return;
  const size_t size_bytes = CPU_ALLOC_SIZE(n_cpus);
  CPU_ZERO_S(size_bytes, set);
  for (const uint32_t cpu : node.cpus) CPU_SET_S(cpu, size_bytes, set);
  ::sched_setaffinity(0, size_bytes, set);
  CPU_FREE(set);
}

void ThreadPool::work(uint32_t thread_idx) {
  stay_on_node(thread_idx);
  uint32_t seen = 0;
  Ahead ahead;
  for (;;) {
    wait_for_signal(seen, ahead);
    seen = signal_.load(std::memory_order_acquire);
    if (is_stopping_.load(std::memory_order_acquire)) return;
    uint32_t inside = n_inside_.load(std::memory_order_acquire);
    while ((inside & kOpen) != 0 && !n_inside_.compare_exchange_weak(inside, inside + 1, std::memory_order_acq_rel)) {
    }
    if ((inside & kOpen) == 0) continue;
    run_ranges(thread_idx, ahead);
    if (n_inside_.fetch_sub(1, std::memory_order_acq_rel) == 1) n_inside_.notify_one();
  }
}

void ThreadPool::wait_for_signal(uint32_t seen, Ahead& ahead) {
  for (uint32_t i = 0; i < n_spins_; ++i) {
    if (signal_.load(std::memory_order_acquire) != seen) return;
    if (!prefetch_some(ahead)) cpu_pause();
  }
  signal_.wait(seen, std::memory_order_acquire);
}

void ThreadPool::wait_for_workers() {
  for (uint32_t i = 0; i < n_spins_; ++i) {
    if (n_inside_.load(std::memory_order_acquire) == 0) return;
    if (!prefetch_some(ahead_)) cpu_pause();
  }
  for (uint32_t inside = n_inside_.load(std::memory_order_acquire); inside != 0;
       inside = n_inside_.load(std::memory_order_acquire)) {
    n_inside_.wait(inside, std::memory_order_acquire);
  }
}

}  // namespace tamis
