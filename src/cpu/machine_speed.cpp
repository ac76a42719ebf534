// Passes over one large buffer and over a few lines of the nearest cache, by the loops of the running target.
#include "cpu/machine_speed.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "cpu/dispatch.h"
#include "cpu/plane_weight.h"

namespace tamis {
namespace {

constexpr size_t kReadBytes = size_t{256} << 20;
constexpr size_t kPartBytes = size_t{1} << 20;  // what a thread takes at a time
constexpr int kPasses = 4;
constexpr size_t kProductParts = 64;
constexpr uint64_t kRounds = 20000;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

struct MachineMeter::State {
  ThreadPool* pool;
  const cpu::KernelTable* kernels;
  cpu::AlignedBytes bytes;
  std::vector<uint64_t> sums;  // [n_threads · 8]: one a cache line

  double read_once() {
    const auto start = std::chrono::steady_clock::now();
    const auto* const words = reinterpret_cast<const uint64_t*>(bytes.data());
    constexpr size_t kPartWords = kPartBytes / sizeof(uint64_t);
    const Status done = pool->parallel_for(kReadBytes / kPartBytes, 4, [&](size_t begin, size_t end, uint32_t thread) {
      sums[thread * 8] += kernels->read_loop(words + begin * kPartWords, (end - begin) * kPartWords);
    });
    return done ? static_cast<double>(kReadBytes) / seconds_since(start) : 0;
  }

  double multiply_once() {
    std::vector<uint64_t> n_macs(pool->n_threads() * size_t{8});
    const auto start = std::chrono::steady_clock::now();
    const Status done = pool->parallel_for(kProductParts, 1, [&](size_t begin, size_t end, uint32_t thread) {
      alignas(64) uint8_t codes[512];
      alignas(64) int8_t quads[64];
      std::memset(codes, 3, sizeof codes);
      std::memset(quads, 5, sizeof quads);
      n_macs[thread * 8] += kernels->int8_loop(codes, quads, kRounds * (end - begin));
    });
    double total = 0;
    for (const uint64_t n : n_macs) total += static_cast<double>(n);
    return done ? total / seconds_since(start) : 0;
  }
};

MachineMeter::MachineMeter(std::unique_ptr<State> state) : state_(std::move(state)) {}
MachineMeter::MachineMeter(MachineMeter&&) noexcept = default;
MachineMeter::~MachineMeter() = default;

Result<MachineMeter> MachineMeter::create(ThreadPool* pool, std::string_view target) {
  auto state = std::make_unique<State>();
  state->pool = pool;
  TAMIS_TRY(state->kernels, cpu::find_target(target));
  state->sums.resize(pool->n_threads() * size_t{8});
  return MachineMeter(std::move(state));
}

Result<MachineSpeed> MachineMeter::measure() {
  cpu::PanelMemory memory;
  TAMIS_TRY(state_->bytes, cpu::AlignedBytes::allocate(kReadBytes, memory));
  std::memset(state_->bytes.data(), 1, kReadBytes);
  MachineSpeed best;
  for (int pass = 0; pass < kPasses; ++pass) {
    best.read_bytes_per_s = std::max(best.read_bytes_per_s, state_->read_once());
    best.int8_macs_per_s = std::max(best.int8_macs_per_s, state_->multiply_once());
  }
  state_->bytes = {};
  return best;
}

}  // namespace tamis
