// Speed of the plane kernels (src/cpu/kernels/plane_*.inl), each measured against a plain read loop or a plain int8
// loop of the same run: variants take turns in rounds of a few milliseconds, so that a machine that changes under us
// changes for all of them. Prints p10 and p50 of the rounds. usage: bench_planes stream [TYPE …]     matrix × vector
// over 640 MB of panels, GB/s, 1 and 2 threads
//        bench_planes columns [TYPE …]    matrix × 1 … 512 columns, GMAC/s a thread, panels in the second-level cache
// Environment as for the program: TAMIS_CPU_TARGET chooses the kernels.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/env.h"
#include "base/float16.h"
#include "base/rng.h"
#include "cpu/dispatch.h"
#include "cpu/plane_weight.h"
#include "cpu/planes.h"

namespace {

using namespace tamis;
using namespace tamis::cpu;
using Clock = std::chrono::steady_clock;

constexpr size_t kStreamBytes = size_t{640} << 20;
constexpr size_t kSlices = 16;
constexpr size_t kChunkPanels = 8;
constexpr uint8_t kFiniteBits = 0x7b;  // of every byte: no f16 then has all exponent bits

// fn(thread_idx) on n threads that start together; seconds from the first start to the last end.
double timed(size_t n_threads, const std::function<void(size_t)>& fn) {
  std::atomic<size_t> n_ready{0};
  std::vector<std::thread> threads;
  std::vector<Clock::time_point> begins(n_threads), ends(n_threads);
  auto body = [&](size_t i) {
    n_ready.fetch_add(1);
    while (n_ready.load() < n_threads) {
    }
    begins[i] = Clock::now();
    fn(i);
    ends[i] = Clock::now();
  };
  for (size_t i = 1; i < n_threads; ++i) threads.emplace_back(body, i);
  body(0);
  for (std::thread& thread : threads) thread.join();
  return std::chrono::duration<double>(*std::max_element(ends.begin(), ends.end()) -
                                       *std::min_element(begins.begin(), begins.end()))
      .count();
}

struct Huge {
  explicit Huge(size_t n) : n_bytes((n + (size_t{2} << 20)) & ~((size_t{2} << 20) - 1)) {
    data = static_cast<uint8_t*>(std::aligned_alloc(size_t{2} << 20, n_bytes));
    ::madvise(data, n_bytes, MADV_HUGEPAGE);
  }
  ~Huge() { std::free(data); }
  Huge(const Huge&) = delete;
  size_t n_bytes;
  uint8_t* data;
};

// One panel of random codes with small finite scales.
std::vector<uint8_t> random_panel(const PlaneType& type, size_t n_blocks) {
  Rng rng(7);
  const size_t row_bytes = *dtype_bytes(type.dtype, n_blocks * type.block_len);
  std::vector<uint8_t> rows(kPanelRows * row_bytes);
  for (uint8_t& byte : rows) byte = static_cast<uint8_t>(rng.next()) & kFiniteBits;
  std::vector<uint8_t> panel(n_blocks * type.plane_block_bytes + 4096);
  pack_panel(type, rows.data(), row_bytes, kPanelRows, panel.data());
  return panel;
}

std::vector<int8_t> random_columns(const KernelTable& kernels, const PlaneType& type, size_t n_blocks, size_t n) {
  Rng rng(8);
  std::vector<float> x(n * n_blocks * type.block_len);
  for (float& value : x) value = static_cast<float>(rng.normal());
  std::vector<int8_t> out(n * n_blocks * (type.block_len == 256 ? kActs256Bytes : kActs32Bytes) + 64);
  kernels.pack_columns({x.data(), n_blocks * type.block_len, n, n_blocks, type.block_len, out.data()}, 0, n_blocks);
  return out;
}

typedef uint64_t Words __attribute__((vector_size(32)));
volatile uint64_t sink;

__attribute__((target("avx2"))) void read_all(const uint8_t* p, size_t n_bytes) {
  Words a{}, b{}, c{}, d{};
  for (const auto *v = reinterpret_cast<const Words*>(p), *end = v + n_bytes / 128 * 4; v != end; v += 4) {
    a += v[0], b += v[1], c += v[2], d += v[3];
    asm volatile("" : "+x"(a), "+x"(b), "+x"(c), "+x"(d));
  }
  a += b + c + d;
  sink = a[0] + a[1] + a[2] + a[3];
}

struct Variant {
  std::string name;
  std::function<void(size_t slice, size_t thread_idx, size_t n_threads)> run;
  double work;  // of one slice
  std::vector<double> rates;
};

double percentile(std::vector<double> values, double p) {
  std::sort(values.begin(), values.end(), std::greater<>());
  return values[static_cast<size_t>(p * static_cast<double>(values.size() - 1))];
}

void take_turns(std::vector<Variant>& variants, size_t n_threads, size_t n_rounds, size_t n_slices) {
  for (Variant& variant : variants) variant.rates.clear();
  for (size_t round = 0; round < n_rounds; ++round)
    for (Variant& variant : variants) {
      const double seconds = timed(n_threads, [&](size_t i) { variant.run(round % n_slices, i, n_threads); });
      variant.rates.push_back(variant.work / seconds * 1e-9);
    }
}

std::vector<DType> types_of(int n, char** names) {
  std::vector<DType> out;
  for (int i = 0; i < n; ++i)
    if (const auto dtype = dtype_from_name(names[i])) out.push_back(*dtype);
  if (out.empty()) out = {DType::q4_k, DType::q6_k, DType::q5_0, DType::q8_0};
  return out;
}

// A matrix of n_panels panels, all of the same random rows.
std::unique_ptr<PlaneWeight> large_matrix(const KernelTable& kernels, DType dtype, size_t n_in, size_t n_panels) {
  const size_t row_bytes = *dtype_bytes(dtype, n_in);
  std::vector<std::byte> rows(n_panels * kPanelRows * row_bytes);
  Rng rng(7);
  for (size_t i = 0; i < kPanelRows * row_bytes; ++i) rows[i] = static_cast<std::byte>(rng.next() & kFiniteBits);
  for (size_t p = 1; p < n_panels; ++p)
    std::memcpy(rows.data() + p * kPanelRows * row_bytes, rows.data(), kPanelRows * row_bytes);
  const auto pool = ThreadPool::create(0);
  PanelMemory memory;
  auto weight =
      PlaneWeight::pack(dtype, Shape{n_panels * kPanelRows, n_in}, rows.data(), kernels, {memory, pool.get()});
  return weight ? std::move(*weight) : nullptr;
}

Variant stream_of(const KernelTable& kernels, DType dtype, size_t k) {
  const PlaneType& type = *plane_type(dtype);
  const size_t n_blocks = k / type.block_len, panel_bytes = n_blocks * type.plane_block_bytes;
  const size_t per_slice = kStreamBytes / kSlices / panel_bytes / (2 * kChunkPanels) * (2 * kChunkPanels);
  const std::shared_ptr<PlaneWeight> weight = large_matrix(kernels, dtype, k, kSlices * per_slice);
  const auto packed = std::make_shared<std::vector<int8_t>>(random_columns(kernels, type, n_blocks, 1));
  const auto scratch = std::make_shared<std::array<PanelScratch, 2>>();
  auto run = [=](size_t slice, size_t i, size_t n) {
    float tiles[kChunkPanels * kPanelRows];
    const Columns columns{.x = nullptr, .x_stride = 0, .packed = packed->data(), .n = 1};
    const size_t share = per_slice / n;
    for (size_t p = slice * per_slice + i * share, end = p + share; p < end; p += kChunkPanels)
      weight->multiply({p, kChunkPanels, 0, 1}, columns, (*scratch)[i], tiles);
    sink = static_cast<uint64_t>(tiles[0]);
  };
  return {std::string(dtype_name(dtype)), run, static_cast<double>(per_slice * panel_bytes), {}};
}

void bench_stream(const KernelTable& kernels, const std::vector<DType>& dtypes) {
  const size_t slice_bytes = kStreamBytes / kSlices;
  const auto plain = std::make_shared<Huge>(kStreamBytes);
  std::memset(plain->data, 1, plain->n_bytes);
  for (const size_t k : {size_t{1536}, size_t{8960}}) {
    auto read = [=](size_t slice, size_t i, size_t n) {
      read_all(plain->data + slice * slice_bytes + i * (slice_bytes / n), slice_bytes / n);
    };
    std::vector<Variant> variants{{"read loop", read, static_cast<double>(slice_bytes), {}}};
    for (const DType dtype : dtypes) variants.push_back(stream_of(kernels, dtype, k));
    for (const size_t n_threads : {size_t{1}, size_t{2}}) {
      take_turns(variants, n_threads, 64, kSlices);
      const double best = percentile(variants[0].rates, 0.1), typical = percentile(variants[0].rates, 0.5);
      for (const Variant& v : variants)
        std::printf("%-7s K %5zu, %zu thread(s)  %-10s GB/s p10 %5.1f (%3.0f %%)  p50 %5.1f (%3.0f %%)\n", kernels.name,
                    k, n_threads, v.name.c_str(), percentile(v.rates, 0.1), 100 * percentile(v.rates, 0.1) / best,
                    percentile(v.rates, 0.5), 100 * percentile(v.rates, 0.5) / typical);
    }
  }
}

void bench_columns(const KernelTable& kernels, const std::vector<DType>& dtypes) {
  constexpr size_t k = 1536;
  for (const DType dtype : dtypes) {
    const PlaneType& type = *plane_type(dtype);
    const size_t n_blocks = k / type.block_len;
    const size_t panel_bytes = n_blocks * type.plane_block_bytes;
    const auto planes = std::make_shared<Huge>(16 * panel_bytes + 8192);
    const std::vector<uint8_t> panel = random_panel(type, n_blocks);
    for (size_t p = 0; p < 16; ++p) std::memcpy(planes->data + p * panel_bytes, panel.data(), panel_bytes);
    std::vector<Variant> variants;
    for (const size_t n : {1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 12u, 15u, 16u, 24u, 31u, 32u, 64u, 512u}) {
      const auto columns = std::make_shared<std::vector<int8_t>>(random_columns(kernels, type, n_blocks, n));
      const auto scratch = std::make_shared<Huge>(kPanelBytes);
      const auto acc = std::make_shared<std::vector<float>>(n * kPanelRows);
      const size_t n_repeats = std::max<size_t>(1, 512 / n);
      variants.push_back({std::to_string(n),
                          [=, &kernels](size_t, size_t, size_t) {
                            for (size_t r = 0; r < n_repeats; ++r)
                              for (size_t p = 0; p < 16; ++p)
                                kernels.multiply_panel[type.kind]({planes->data + p * panel_bytes, columns->data(), n,
                                                                   n_blocks, scratch->data, acc->data(), false});
                          },
                          static_cast<double>(n * n_repeats * 16 * k * kPanelRows),
                          {}});
    }
    take_turns(variants, 1, 40, 1);
    const double best = percentile(variants.back().rates, 0.1), typical = percentile(variants.back().rates, 0.5);
    for (const Variant& v : variants)
      std::printf("%-7s %-8s %4s columns  GMAC/s p10 %5.1f (%3.0f %%)  p50 %5.1f (%3.0f %%)\n", kernels.name,
                  std::string(dtype_name(dtype)).c_str(), v.name.c_str(), percentile(v.rates, 0.1),
                  100 * percentile(v.rates, 0.1) / best, percentile(v.rates, 0.5),
                  100 * percentile(v.rates, 0.5) / typical);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const auto target = find_target(env::cpu_target());
  if (!target || (mode != "stream" && mode != "columns"))
    return std::fprintf(stderr, "usage: bench_planes stream|columns [TYPE ...]\n"), 2;
  const std::vector<DType> dtypes = types_of(argc - 2, argv + 2);
  mode == "stream" ? bench_stream(**target, dtypes) : bench_columns(**target, dtypes);
  return 0;
}
