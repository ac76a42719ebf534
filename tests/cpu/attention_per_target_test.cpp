// Attention of the CPU backend. The promise: a token's bits depend on its own query and the keys it sees, never on the
// batch, the chunks of the prompt, what was cached before, the number of threads or the target. And the size: within a
// derived bound of the reference, which computes in double from the same stored keys and values.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/rng.h"
#include "base/thread_pool.h"
#include "compute/reference.h"
#include "cpu/backend.h"
#include "cpu/cpu_backend.h"
#include "cpu/dispatch.h"
#include "tests/cpu/targets.h"
#include "tests/cpu/weights.h"

namespace tamis {
namespace {

using test::random_floats;

constexpr double kHalfUlp = 0x1p-24;  // relative error of one float rounding

std::vector<uint32_t> bits(std::span<const float> values) {
  std::vector<uint32_t> out;
  for (const float value : values) out.push_back(std::bit_cast<uint32_t>(value));
  return out;
}

// Queries of the last n_new of n_past + n_new tokens.
struct Shape {
  AttentionParams params;
  KvTypes types;
  uint32_t n_past = 0, n_new = 1;

  uint32_t n() const { return n_past + n_new; }
  KvLayerShape layer() const { return {params.n_head_kv, params.k_dim, params.v_dim}; }
  size_t q_width() const { return size_t{params.n_head} * params.k_dim; }
  size_t k_width() const { return size_t{params.n_head_kv} * params.k_dim; }
  size_t v_width() const { return size_t{params.n_head_kv} * params.v_dim; }
  size_t out_width() const { return size_t{params.n_head} * params.v_dim; }
};

std::string describe(const Shape& s) {
  const AttentionParams& p = s.params;
  return fmt::format("{}/{} heads of {} and {}, {} + {} tokens, window {}, softcap {}, {} {}", p.n_head, p.n_head_kv,
                     p.k_dim, p.v_dim, s.n_past, s.n_new, p.window, p.softcap, dtype_name(s.types.k),
                     dtype_name(s.types.v));
}

struct Inputs {
  Inputs(const Shape& s, uint64_t seed)
      : q(random_floats(s.n() * s.q_width(), seed)),
        k(random_floats(s.n() * s.k_width(), seed + 1)),
        v(random_floats(s.n() * s.v_width(), seed + 2)) {}
  std::vector<float> q, k, v;
};

// Tokens first … first + n - 1 of a sequence: stored, and attended to when they are new.
void take_in(Backend& backend, const Shape& s, Inputs& in, KvCache& cache, uint32_t first, uint32_t n, float* out) {
  ASSERT_TRUE(cache.reserve(first + n).has_value());
  std::vector<KvSlot> slots;
  for (uint32_t i = 0; i < n; ++i) slots.push_back({&cache, first + i});
  backend.store_kv(slots, 0, {in.k.data() + first * s.k_width(), n, s.k_width()},
                   {in.v.data() + first * s.v_width(), n, s.v_width()});
  if (first >= s.n_past)
    backend.attention({in.q.data() + first * s.q_width(), n, s.q_width()}, slots, 0, s.params,
                      {out + (first - s.n_past) * s.out_width(), n, s.out_width()});
  ASSERT_TRUE(backend.finish().has_value());
}

std::vector<float> attend(Backend& backend, const Shape& s, Inputs& in, uint32_t chunk) {
  KvCache cache({s.layer()}, s.types);
  std::vector<float> out(s.n_new * s.out_width());
  if (s.n_past > 0) take_in(backend, s, in, cache, 0, s.n_past, nullptr);
  for (uint32_t first = s.n_past; first < s.n(); first += chunk)
    take_in(backend, s, in, cache, first, std::min(chunk, s.n() - first), out.data());
  return out;
}

// A sequence that took another turn first: infinities behind the tokens that count must not be seen.
std::vector<float> attend_after_truncation(Backend& backend, const Shape& s, Inputs& in) {
  KvCache cache({s.layer()}, s.types);
  Shape other = s;
  other.n_past += s.n_new + 70;
  Inputs wrong(other, 77);
  std::fill(wrong.k.begin(), wrong.k.end(), std::numeric_limits<float>::infinity());
  std::fill(wrong.v.begin(), wrong.v.end(), std::numeric_limits<float>::quiet_NaN());
  take_in(backend, other, wrong, cache, 0, other.n_past, nullptr);
  std::vector<float> out(s.n_new * s.out_width());
  if (s.n_past > 0) take_in(backend, s, in, cache, 0, s.n_past, nullptr);
  take_in(backend, s, in, cache, s.n_past, s.n_new, out.data());
  return out;
}

// 17 sequences that share nothing, the last token of each in one batch; returns what sequence 5, the real one, got.
std::vector<float> attend_in_a_crowd(Backend& backend, const Shape& s, Inputs& in) {
  std::vector<KvCache> caches;
  std::vector<KvSlot> slots;
  std::vector<float> q;
  for (uint32_t i = 0; i < 17; ++i) {
    Shape mine = s;
    mine.n_past = i == 5 ? s.n_past + s.n_new - 1 : (s.n_past + 97 * i) % 300;
    mine.n_new = 1;
    Inputs others(mine, 100 + i);
    Inputs& use = i == 5 ? in : others;
    KvCache& cache = caches.emplace_back(std::vector{s.layer()}, s.types);
    take_in(backend, {s.params, s.types, mine.n() + 1, 0}, use, cache, 0, mine.n(), nullptr);
    slots.push_back({nullptr, mine.n() - 1});
    q.insert(q.end(), use.q.begin() + static_cast<ptrdiff_t>((mine.n() - 1) * s.q_width()),
             use.q.begin() + static_cast<ptrdiff_t>(mine.n() * s.q_width()));
  }
  for (size_t i = 0; i < slots.size(); ++i) slots[i].cache = &caches[i];
  std::vector<float> out(17 * s.out_width());
  backend.attention({q.data(), 17, s.q_width()}, slots, 0, s.params, {out.data(), 17, s.out_width()});
  return {out.begin() + static_cast<ptrdiff_t>(5 * s.out_width()),
          out.begin() + static_cast<ptrdiff_t>(6 * s.out_width())};
}

double norm(const float* x, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * x[i];
  return std::sqrt(sum);
}

// Largest norm of a head's row, as stored.
struct Largest {
  double k = 0, v = 0;  // of keys: their norm; of values: any element
};
Largest largest_stored(const Shape& s, Inputs& in) {
  KvCache cache({s.layer()}, s.types);
  EXPECT_TRUE(cache.reserve(s.n()).has_value());
  std::vector<float> row(std::max(s.params.k_dim, s.params.v_dim));
  Largest out;
  for (uint32_t p = 0; p < s.n(); ++p) {
    cache.store(0, p, in.k.data() + p * s.k_width(), in.v.data() + p * s.v_width());
    for (uint32_t head = 0; head < s.params.n_head_kv; ++head) {
      cache.read_key(0, p, head, row.data());
      out.k = std::max(out.k, norm(row.data(), s.params.k_dim));
      cache.read_value(0, p, head, row.data());
      for (uint32_t d = 0; d < s.params.v_dim; ++d) out.v = std::max(out.v, std::abs(double{row[d]}));
    }
  }
  return out;
}

// What float32 rounding explains, of any output element.
double error_bound(const Shape& s, Inputs& in) {
  const AttentionParams& p = s.params;
  const Largest stored = largest_stored(s, in);
  double q = 0;
  for (size_t i = 0; i < in.q.size(); i += p.k_dim) q = std::max(q, norm(in.q.data() + i, p.k_dim));
  // |score| ≤ |q|·|k|·scale. Its error: the scaled query's rounding and one for each step of the chain of fused
  // multiply-adds, of Σ|q·k| ≤ |q|·|k|; soft capping halves no slope and adds its own roundings: exp 4, its argument's
  // (times x·e^x/(1+e^x)² < 1), sum, quotient, difference, product, each of twice the cap at most.
  const double most = q * stored.k * p.scale;
  double score = (p.k_dim + 1) * kHalfUlp * most;
  if (p.softcap > 0) score += 16 * kHalfUlp * p.softcap;
  const double range = 2 * (p.softcap > 0 ? std::min<double>(p.softcap, most) : most);
  // A weight e^(score − maximum), relative: the scores' errors, the difference's rounding, exp; then every rescaling
  // of a tile or split: exp, its argument's rounding, the product. The arguments of all together are below the range.
  const double n_rescalings = s.n() / 64.0 + s.n() / 256.0 + 4;
  const double weight = 2 * score + (2 * range + 5 + 6 * n_rescalings) * kHalfUlp;
  // Numerator and divisor both carry it; their chains of sums add a rounding a key, and one lane's of the divisor.
  return 1.01 * stored.v * (2 * weight + (s.n() + s.n() / 16.0 + 10) * kHalfUlp);
}

void expect_same_bits_and_near(const Shape& s, uint64_t seed) {
  SCOPED_TRACE(describe(s));
  Inputs in(s, seed);
  std::vector<uint32_t> first;
  std::vector<float> out;
  const size_t last_row = (s.n_new - 1) * s.out_width();
  for (const cpu::KernelTable* target : cpu::available_targets()) {
    SCOPED_TRACE(target->name);
    for (const uint32_t n_threads : {1u, 3u}) {
      const auto pool = ThreadPool::create(n_threads);
      const auto backend = make_cpu_backend(pool.get(), target->name);
      out = attend(**backend, s, in, s.n_new);
      if (first.empty()) first = bits(out);
      ASSERT_EQ(bits(out), first) << n_threads << " threads";
      if (n_threads == 1) continue;
      for (const uint32_t chunk : {1u, 7u, 64u}) ASSERT_EQ(bits(attend(**backend, s, in, chunk)), first) << chunk;
      ASSERT_EQ(bits(attend_after_truncation(**backend, s, in)), first);
      const std::vector<uint32_t> last(first.begin() + static_cast<ptrdiff_t>(last_row), first.end());
      ASSERT_EQ(bits(attend_in_a_crowd(**backend, s, in)), last);
    }
  }
  const auto pool = ThreadPool::create(2);
  const std::vector<float> truth = attend(*make_reference_backend(pool.get()), s, in, s.n_new);
  const double bound = error_bound(s, in);
  for (size_t i = 0; i < truth.size(); ++i) ASSERT_NEAR(out[i], truth[i], bound) << i;
}

TEST(Attention, ChosenShapes) {
  const Shape shapes[] = {
      {{.n_head = 1, .n_head_kv = 1, .k_dim = 1, .v_dim = 1, .scale = 1}, {}, 0, 1},
      {{.n_head = 4, .n_head_kv = 4, .k_dim = 16, .v_dim = 16, .scale = 0.25f}, {}, 0, 3},
      {{.n_head = 12, .n_head_kv = 2, .k_dim = 128, .v_dim = 128, .scale = 0.09f}, {DType::f16, DType::f16}, 500, 20},
      {{.n_head = 14, .n_head_kv = 2, .k_dim = 64, .v_dim = 64, .scale = 0.125f}, {DType::q8_0, DType::q4_0}, 250, 30},
      {{.n_head = 20, .n_head_kv = 1, .k_dim = 17, .v_dim = 1, .scale = 0.24f}, {DType::bf16, DType::f32}, 63, 2},
      {{.n_head = 2, .n_head_kv = 1, .k_dim = 40, .v_dim = 80, .scale = 0.16f, .window = 50}, {}, 290, 40},
      {{.n_head = 2, .n_head_kv = 2, .k_dim = 1100, .v_dim = 8, .scale = 0.03f}, {}, 10, 3},
      {{.n_head = 200, .n_head_kv = 1, .k_dim = 16, .v_dim = 32, .scale = 0.25f}, {DType::f16, DType::q8_0}, 70, 2},
      {{.n_head = 3, .n_head_kv = 1, .k_dim = 96, .v_dim = 96, .scale = 0.1f, .softcap = 2, .window = 1}, {}, 64, 9},
  };
  for (const Shape& shape : shapes) expect_same_bits_and_near(shape, 1);
}

TEST(Attention, RandomShapes) {
  constexpr uint32_t kGroups[] = {1, 2, 3, 6, 7, 8}, kDims[] = {8, 24, 32, 40, 64, 80, 96, 128};
  constexpr DType kTypes[] = {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_0};
  Rng rng(20);
  const auto pick = [&](const auto& from) { return from[rng.below(std::size(from))]; };
  for (int round = 0; round < 24; ++round) {
    Shape s;
    s.params.n_head_kv = 1 + static_cast<uint32_t>(rng.below(2));
    s.params.n_head = s.params.n_head_kv * pick(kGroups);
    s.types = {pick(kTypes), pick(kTypes)};
    s.params.k_dim = pick(kDims);
    s.params.v_dim = rng.below(2) == 0 ? s.params.k_dim : pick(kDims);
    if (!check_kv_types(s.types, s.layer())) s.types = {DType::f16, DType::bf16};
    s.params.scale = 1 / std::sqrt(static_cast<float>(s.params.k_dim));
    if (rng.below(3) == 0) s.params.softcap = 1 + static_cast<float>(rng.below(50));
    s.n_past = static_cast<uint32_t>(rng.below(round % 6 == 0 ? 2500 : 400));
    s.n_new = 1 + static_cast<uint32_t>(rng.below(round % 6 == 0 ? 10 : 150));
    if (rng.below(3) == 0) s.params.window = 1 + static_cast<uint32_t>(rng.below(s.n() + 20));
    expect_same_bits_and_near(s, 1000 + static_cast<uint64_t>(round));
  }
}

// Targets that are emulated here, on little work: they are slow.
TEST(Attention, EveryTargetThatTestsKnow) {
  for (const KvTypes types : {KvTypes{DType::f16, DType::bf16}, KvTypes{DType::q8_0, DType::q4_0}, KvTypes{}}) {
    const Shape s{
        {.n_head = 7, .n_head_kv = 1, .k_dim = 32, .v_dim = 96, .scale = 0.2f, .softcap = 20}, types, 250, 12};
    Inputs in(s, 5);
    std::vector<uint32_t> first;
    for (const cpu::KernelTable* target : test::tested_targets()) {
      cpu::CpuBackend backend(nullptr, *target, CpuActivations::q8, CpuLayout::automatic);
      for (const uint32_t chunk : {1u, 12u}) {
        const std::vector<uint32_t> got = bits(attend(backend, s, in, chunk));
        if (first.empty()) first = got;
        EXPECT_EQ(got, first) << target->name << ' ' << describe(s);
      }
    }
  }
}

// Scores as large as float32 holds, and growing from tile to tile so that every one rescales.
TEST(Attention, HugeAndRisingScores) {
  const Shape s{{.n_head = 1, .n_head_kv = 1, .k_dim = 1, .v_dim = 1, .scale = 1}, {}, 699, 1};
  Inputs in(s, 3);
  for (uint32_t p = 0; p < s.n(); ++p)
    in.k[p] = 1e19f * static_cast<float>(p + 1) / 700, in.v[p] = static_cast<float>(p);
  in.q.back() = 1e19f;
  for (const cpu::KernelTable* target : cpu::available_targets()) {
    const auto backend = make_cpu_backend(nullptr, target->name);
    EXPECT_EQ(attend(**backend, s, in, 1)[0], 699.0f) << target->name;
    in.k[3] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_TRUE(std::isnan(attend(**backend, s, in, 1)[0])) << "NaN is not hidden";
    in.k[3] = 0;
  }
}

// The weights that a split of keys gets: a query of 1, keys that are the scores, the maximum 0.
std::vector<float> exps(const cpu::KernelTable& kernels, const std::vector<float>& scores) {
  using namespace cpu;
  alignas(64) static float keys[kTileKeys], values[16 * kTileKeys], weights[kTileKeys], maximum[1], sums[16], acc[16];
  std::vector<float> out;
  for (size_t begin = 0; begin < scores.size(); begin += kTileKeys - 1) {
    const size_t n = std::min<size_t>(kTileKeys - 1, scores.size() - begin);
    float k[kTileKeys] = {}, v[kTileKeys] = {};
    std::copy_n(scores.begin() + static_cast<ptrdiff_t>(begin), n, k);
    const float one[1] = {1.0f}, *const columns[] = {one};
    float q[16];
    kernels.pack_queries({columns, 1, 1, 1.0f, q});
    const uint32_t first = 0, n_seen = kTileKeys;
    AttentionTask task{};
    task.q = q;
    task.n_columns = task.k_dim = task.v_dim = 1;
    task.v_stride = 16;
    task.first = &first;
    task.n_seen = &n_seen;
    task.end = kTileKeys;
    for (uint32_t i = 0; i < kTileKeys / kPageKeys; ++i) {
      task.pages[i].k = reinterpret_cast<const uint8_t*>(k + i * kPageKeys);
      task.pages[i].v = reinterpret_cast<const uint8_t*>(v + i * kPageKeys);
    }
    task.keys = keys;
    task.values = values;
    task.scores = weights;
    task.part = {maximum, sums, acc};
    kernels.attend(task);
    out.insert(out.end(), weights, weights + n);
  }
  return out;
}

TEST(Attention, ExpIsWithinTwoUlp) {
  std::vector<float> scores;
  for (int i = 0; i <= 87 * 1024; ++i) scores.push_back(-static_cast<float>(i) / 1024);
  const std::vector<float> out = exps(**cpu::find_target("baseline"), scores);
  double worst = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    const double truth = std::exp(static_cast<double>(scores[i]));
    worst = std::max(worst, std::abs(out[i] - truth) / std::ldexp(1.0, std::ilogb(truth) - 23));
  }
  EXPECT_LE(worst, 2.0);
  for (const cpu::KernelTable* target : test::tested_targets())
    EXPECT_EQ(bits(exps(*target, scores)), bits(out)) << target->name;
}

}  // namespace
}  // namespace tamis
