// Attention of the CPU backend by itself, in the shape of Qwen2.5-1.5B (12 query heads, 2 key heads of 128): GFLOP/s of
// a 512-token chunk at the end of a prompt (2 per multiply-add of scores and sums), GB/s of keys and values read while
// decoding. Layers take turns, so that decoding reads memory and not a cache.
// usage: bench_attention [THREADS] [K_TYPE V_TYPE] [TARGET]
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/thread_pool.h"
#include "cpu/backend.h"

namespace {

using namespace tamis;

constexpr uint32_t kHeads = 12, kKvHeads = 2, kDim = 128, kLayers = 8, kChunk = 512;
constexpr AttentionParams kParams{
    .n_head = kHeads, .n_head_kv = kKvHeads, .k_dim = kDim, .v_dim = kDim, .scale = 0.0884f};

// One thread: its processor time, which neighbours on the machine disturb less.
double seconds(bool is_alone) {
  timespec now{};
  clock_gettime(is_alone ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

std::vector<float> random_values(size_t n, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> out(n);
  for (float& value : out) value = static_cast<float>(rng.normal());
  return out;
}

// `depth` tokens stored, the last `n` attended to: seconds a layer, p10 and p50.
struct Times {
  double p10, p50;
};
Times time_attention(Backend& backend, KvCache& cache, bool is_alone, uint32_t depth, uint32_t n) {
  const int rounds = n == 1 ? 64 * kLayers : kLayers;
  std::vector<float> q = random_values(size_t{n} * kHeads * kDim, 1), out(q.size());
  std::vector<KvSlot> slots;
  for (uint32_t i = 0; i < n; ++i) slots.push_back({&cache, depth - n + i});
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    const auto layer = static_cast<uint32_t>(round) % kLayers;
    const double begin = seconds(is_alone);
    backend.attention({q.data(), n, kHeads * kDim}, slots, layer, kParams, {out.data(), n, kHeads * kDim});
    times.push_back(seconds(is_alone) - begin);
  }
  std::ranges::sort(times);
  return {times[times.size() / 10], times[times.size() / 2]};
}

int run(uint32_t n_threads, const KvTypes& types, const std::string& target) {
  const auto pool = ThreadPool::create(n_threads);
  const auto backend = make_cpu_backend(pool.get(), target);
  if (!backend) return fmt::print(stderr, "{}\n", backend.error().to_string()), 2;
  constexpr uint32_t kDeepest = 8192;
  const KvLayerShape shape{kKvHeads, kDim, kDim};
  KvCache cache(std::vector<KvLayerShape>(kLayers, shape), types);
  if (!cache.reserve(kDeepest)) return 1;
  std::vector<float> k = random_values(kKvHeads * kDim * 97, 2), v = random_values(kKvHeads * kDim * 97, 3);
  for (uint32_t layer = 0; layer < kLayers; ++layer)
    for (uint32_t p = 0; p < kDeepest; ++p)
      cache.store(layer, p, k.data() + p % 97 * kKvHeads * kDim, v.data() + p % 89 * kKvHeads * kDim);
  const double token_bytes = static_cast<double>(*kv_token_bytes(types, shape));
  for (const uint32_t depth : {512u, 4096u, 8192u}) {
    const Times prefill = time_attention(**backend, cache, n_threads == 1, depth, kChunk);
    const Times decode = time_attention(**backend, cache, n_threads == 1, depth, 1);
    double n_pairs = 0;
    for (uint32_t i = 0; i < kChunk; ++i) n_pairs += depth - kChunk + i + 1;
    const double flops = 4 * n_pairs * kHeads * kDim, bytes = token_bytes * depth;
    fmt::print(
        "depth {:5}: prefill {:7.2f} ms a layer, {:6.1f} / {:6.1f} GFLOP/s (p10 / p50); decode {:7.1f} us a layer, "
        "{:5.2f} / {:5.2f} GB/s\n",
        depth, prefill.p50 * 1e3, flops / prefill.p10 * 1e-9, flops / prefill.p50 * 1e-9, decode.p50 * 1e6,
        bytes / decode.p10 * 1e-9, bytes / decode.p50 * 1e-9);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const auto types = tamis::kv_types_from_names(argc > 3 ? argv[2] : "f16", argc > 3 ? argv[3] : "f16");
  if (!types) return fmt::print(stderr, "{}\n", types.error().to_string()), 2;
  return run(argc > 1 ? static_cast<uint32_t>(std::atoi(argv[1])) : 2, *types, argc > 4 ? argv[4] : "");
}
