// What this machine can do at most, to set beside an engine's speed: the best of three read loops over 2 GiB, the
// length of a clock cycle (from a chain of dependent adds: virtual machines hide the counters), multiply-adds of bytes
// a cycle, by a bare loop and by the Q4_K kernel on data in the nearest cache, and what a parallel loop costs beyond
// its items. usage: bench_machine [THREADS]           one JSON line
//        bench_machine [THREADS] --serve   a line for every line on stdin, so that bench/peers can ask between its runs
#include <fmt/core.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/env.h"
#include "base/rng.h"
#include "base/thread_pool.h"
#include "base/topology.h"
#include "cpu/dispatch.h"
#include "cpu/planes.h"

namespace {

using namespace tamis;
using namespace tamis::cpu;
using Clock = std::chrono::steady_clock;

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kReadBytes = size_t{2} << 30;
constexpr int kPasses = 3, kShortPasses = 12;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// fn(thread_idx) on n threads that start together; seconds until the last has ended.
double timed(size_t n_threads, const std::function<void(size_t)>& fn) {
  std::atomic<size_t> n_ready{0};
  std::vector<std::thread> threads;
  Clock::time_point start;
  auto body = [&](size_t i) {
    n_ready.fetch_add(1);
    while (n_ready.load() < n_threads) {
    }
    if (i == 0) start = Clock::now();
    fn(i);
  };
  for (size_t i = 1; i < n_threads; ++i) threads.emplace_back(body, i);
  body(0);
  for (std::thread& thread : threads) thread.join();
  return seconds_since(start);
}

struct Free {
  void operator()(uint8_t* p) const { std::free(p); }
};
using Bytes = std::unique_ptr<uint8_t, Free>;

Bytes huge(size_t n_bytes) {
  const size_t padded = (n_bytes + kHugePage - 1) / kHugePage * kHugePage;
  Bytes out(static_cast<uint8_t*>(std::aligned_alloc(kHugePage, padded)));
  if (out == nullptr) {
    fmt::print(stderr, "bench_machine: no memory for {} bytes\n", n_bytes);
    std::exit(4);
  }
  ::madvise(out.get(), padded, MADV_HUGEPAGE);
  return out;
}

uint64_t read_with_prefetch(const uint8_t* p, size_t n) {
  typedef uint64_t Vector __attribute__((vector_size(32), aligned(8), may_alias));
  Vector a = {}, b = {};
  for (size_t i = 0; i < n; i += 64) {
    __builtin_prefetch(p + i + 1024);
    a += *reinterpret_cast<const Vector*>(p + i);
    b += *reinterpret_cast<const Vector*>(p + i + 32);
  }
  a += b;
  return a[0] + a[1] + a[2] + a[3];
}

class Machine {
 public:
  Machine(size_t n_threads, const KernelTable& kernels)
      : n_threads_(n_threads),
        kernels_(kernels),
        pool_(ThreadPool::create(static_cast<uint32_t>(n_threads))),
        data_(huge(kReadBytes)) {
    timed(n_threads, [&](size_t i) { std::memset(data_.get() + i * part(), 1, part()); });
    Rng rng(1);
    type_ = plane_type(DType::q4_k);
    panel_.resize(kBlocks * type_->plane_block_bytes);
    std::vector<uint8_t> rows(kPanelRows * kBlocks * dtype_info(DType::q4_k).block_bytes);
    for (uint8_t& byte : rows) byte = static_cast<uint8_t>(rng.next() & 0x3f);  // small scales: no infinities
    pack_panel(*type_, rows.data(), kBlocks * dtype_info(DType::q4_k).block_bytes, kPanelRows, panel_.data());
    std::vector<float> x(kColumns * kBlocks * type_->block_len);
    for (float& value : x) value = static_cast<float>(rng.normal());
    columns_.resize(x.size() / 256 * kActs256Bytes + 64);
    kernels.pack_columns({x.data(), kBlocks * 256, kColumns, kBlocks, 256, columns_.data()}, 0, kBlocks);
  }

  std::string measure() {
    double sum = 0, prefetch = 0, find = 0, bare = 0, kernel = 0, hertz = 0, loop_s = 1;
    for (int pass = 0; pass < kPasses; ++pass) {
      sum = std::max(sum, read([&](const uint8_t* p, size_t n) {
                       return kernels_.read_loop(reinterpret_cast<const uint64_t*>(p), n / 8);
                     }));
      prefetch = std::max(prefetch, read(read_with_prefetch));
      find = std::max(find, read([](const uint8_t* p, size_t n) { return uint64_t{std::memchr(p, 7, n) != nullptr}; }));
    }
    for (int pass = 0; pass < kShortPasses; ++pass) {
      hertz = std::max(hertz, clock_rate());
      bare = std::max(bare, bare_macs());
      kernel = std::max(kernel, kernel_macs());
      loop_s = std::min(loop_s, loop_overhead());
    }
    const double per_cycle = hertz * static_cast<double>(n_threads_);
    return fmt::format(
        "{{\"threads\":{},\"target\":\"{}\",\"read_sum\":{:.4g},\"read_prefetch\":{:.4g},\"read_memchr\":{:.4g},"
        "\"read_best\":{:.4g},\"hertz\":{:.4g},\"int8_macs_per_s\":{:.4g},\"int8_macs_per_cycle\":{:.2f},"
        "\"q4_k_macs_per_s\":{:.4g},\"q4_k_macs_per_cycle\":{:.2f},\"q4_k_share\":{:.3f},\"loop_overhead_s\":{:.3g}}}",
        n_threads_, kernels_.name, sum, prefetch, find, std::max({sum, prefetch, find}), hertz, bare, bare / per_cycle,
        kernel, kernel / per_cycle, kernel / bare, loop_s);
  }

 private:
  static constexpr size_t kBlocks = 1, kColumns = 32;  // 4 KiB of codes unpacked, 13 KiB of columns: the nearest cache
  static constexpr uint64_t kRounds = 20000, kPanels = 1000;

  size_t part() const { return kReadBytes / n_threads_ / 4096 * 4096; }

  template <class Fn>
  double read(const Fn& fn) {
    const double seconds = timed(n_threads_, [&](size_t i) { sink_ += fn(data_.get() + i * part(), part()); });
    return static_cast<double>(part() * n_threads_) / seconds;
  }

  // Adds that wait for each other: one a cycle.
  static double clock_rate() {
    constexpr uint64_t kTurns = 50000;
    uint64_t x = 0;
    const auto start = Clock::now();
    for (uint64_t i = 0; i < kTurns; ++i) {
#pragma GCC unroll 64
      for (int k = 0; k < 64; ++k) {
        x += i;
        asm volatile("" : "+r"(x));
      }
    }
    return static_cast<double>(kTurns * 64) / seconds_since(start);
  }

  double bare_macs() {
    std::atomic<uint64_t> n_macs{0};
    const double seconds = timed(n_threads_, [&](size_t) {
      alignas(64) uint8_t codes[512];
      alignas(64) int8_t quads[64];
      std::memset(codes, 3, sizeof codes);
      std::memset(quads, 5, sizeof quads);
      n_macs += kernels_.int8_loop(codes, quads, kRounds);
    });
    return static_cast<double>(n_macs) / seconds;
  }

  double kernel_macs() {
    const double seconds = timed(n_threads_, [&](size_t) {
      alignas(64) uint8_t codes[kPanelBytes];
      float acc[kColumns * kPanelRows];
      for (uint64_t i = 0; i < kPanels; ++i)
        kernels_.multiply_panel[type_->kind]({panel_.data(), columns_.data(), kColumns, kBlocks, codes, acc, false});
      sink_ += static_cast<uint64_t>(acc[0] != 0.0f);
    });
    return static_cast<double>(kPanels * kBlocks * 256 * kPanelRows * kColumns * n_threads_) / seconds;
  }

  // What a loop takes beyond its items, one of two microseconds for each thread: a token pays it five times a layer.
  double loop_overhead() {
    constexpr int kLoops = 500;
    constexpr double kItemSeconds = 2e-6;
    const auto start = Clock::now();
    for (int i = 0; i < kLoops; ++i) {
      const Status done = pool_->parallel_for(n_threads_, 1, [](size_t, size_t, uint32_t) {
        for (const auto begin = Clock::now(); seconds_since(begin) < kItemSeconds;) {
        }
      });
      if (!done) return 1;
    }
    return seconds_since(start) / kLoops - kItemSeconds;
  }

  size_t n_threads_;
  const KernelTable& kernels_;
  std::unique_ptr<ThreadPool> pool_;
  Bytes data_;
  std::atomic<uint64_t> sink_{0};
  const PlaneType* type_ = nullptr;
  std::vector<uint8_t> panel_;
  std::vector<int8_t> columns_;
};

}  // namespace

int main(int argc, char** argv) {
  size_t n_threads = read_topology().n_usable;
  bool is_serving = false;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--serve")
      is_serving = true;
    else
      n_threads = std::max(1, std::atoi(argv[i]));
  }
  const auto kernels = find_target(env::cpu_target());
  if (!kernels) return fmt::print(stderr, "{}\n", kernels.error().to_string()), 2;
  Machine machine(n_threads, **kernels);
  std::string line;
  do {
    if (is_serving && !std::getline(std::cin, line)) break;
    fmt::print("{}\n", machine.measure());
    std::fflush(stdout);
  } while (is_serving);
  return 0;
}
