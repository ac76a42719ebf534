// Every op of the reference backend against its formula written out in double, at odd sizes; blocking and threads
// change no bit.
#include "compute/reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/rng.h"
#include "base/thread_pool.h"
#include "compute/routing.h"
#include "quants/registry.h"

namespace tamis {
namespace {

std::vector<float> random_values(size_t n, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> out(n);
  for (float& value : out) value = static_cast<float>(rng.normal());
  return out;
}

TensorView view_of(std::vector<float>& values, size_t n_cols) {
  return {values.data(), values.size() / n_cols, n_cols};
}

// f32 rounding of a result computed in double: half a unit in the last place, and a little for the double's own error.
void expect_rounded(float got, double exact, double magnitude) {
  EXPECT_NEAR(got, exact, std::fabs(exact) * 0x1p-24 + magnitude * 1e-13 + 1e-40);
}

class Reference : public ::testing::Test {
 protected:
  std::unique_ptr<Backend> backend = make_reference_backend();

  std::unique_ptr<WeightStorage> weight(const std::vector<float>& values, size_t n_out, size_t n_in) {
    auto loaded = backend->load_weight("w", DType::f32, Shape{n_out, n_in}, std::as_bytes(std::span(values)));
    EXPECT_TRUE(loaded.has_value());
    return std::move(*loaded);
  }
};

TEST_F(Reference, MatmulAtOddSizes) {
  for (const size_t n_in : {1, 2, 3, 31, 64}) {
    for (const size_t n_out : {1, 2, 15, 16, 17, 33}) {
      for (const size_t n_tokens : {1, 2, 3, 4, 5, 9}) {
        std::vector<float> x = random_values(n_tokens * n_in, 1), out(n_tokens * n_out);
        const std::vector<float> w = random_values(n_out * n_in, 2), bias = random_values(n_out, 3);
        const auto storage = weight(w, n_out, n_in);
        backend->matmul(view_of(x, n_in), {storage.get(), bias.data(), 1.5f}, view_of(out, n_out));
        for (size_t t = 0; t < n_tokens; ++t) {
          for (size_t r = 0; r < n_out; ++r) {
            double sum = 0, magnitude = 0;
            for (size_t k = 0; k < n_in; ++k) {
              sum += static_cast<double>(x[t * n_in + k]) * w[r * n_in + k];
              magnitude += std::fabs(static_cast<double>(x[t * n_in + k]) * w[r * n_in + k]);
            }
            expect_rounded(out[t * n_out + r], sum * 1.5 + bias[r], magnitude + 4);
          }
        }
      }
    }
  }
}

TEST_F(Reference, MatmulDoesNotDependOnTheBatchOrThreads) {
  const size_t n_in = 77, n_out = 53, n_tokens = 11;
  std::vector<float> x = random_values(n_tokens * n_in, 1), all(n_tokens * n_out), one(n_out),
                     threaded(n_tokens * n_out);
  const std::vector<float> w = random_values(n_out * n_in, 2);
  const auto storage = weight(w, n_out, n_in);
  backend->matmul(view_of(x, n_in), {storage.get()}, view_of(all, n_out));
  for (size_t t = 0; t < n_tokens; ++t) {
    backend->matmul({x.data() + t * n_in, 1, n_in}, {storage.get()}, view_of(one, n_out));
    EXPECT_EQ(0, std::memcmp(one.data(), all.data() + t * n_out, n_out * sizeof(float)));
  }
  const auto pool = ThreadPool::create(4);
  make_reference_backend(pool.get())->matmul(view_of(x, n_in), {storage.get()}, view_of(threaded, n_out));
  EXPECT_EQ(threaded, all);
}

// Weights of every type that can be encoded are what their decoder says.
TEST_F(Reference, MatmulOfQuantizedWeightsEqualsTheDecodedOnes) {
  const size_t n_in = 512, n_out = 5;
  std::vector<float> x = random_values(2 * n_in, 1);
  const std::vector<float> values = random_values(n_out * n_in, 2);
  for (const QuantType& type : all_quant_types()) {
    if (type.encode_plain == nullptr) continue;
    std::vector<std::byte> blocks(*dtype_bytes(type.dtype, values.size()));
    ASSERT_TRUE(encode_plain(type.dtype, values, blocks).has_value());
    std::vector<float> decoded(values.size()), got(2 * n_out), expected(2 * n_out);
    decode(type.dtype, blocks.data(), decoded);
    const auto storage = backend->load_weight("w", type.dtype, Shape{n_out, n_in}, blocks);
    ASSERT_TRUE(storage.has_value());
    const auto plain = weight(decoded, n_out, n_in);
    backend->matmul(view_of(x, n_in), {storage->get()}, view_of(got, n_out));
    backend->matmul(view_of(x, n_in), {plain.get()}, view_of(expected, n_out));
    EXPECT_EQ(got, expected) << dtype_name(type.dtype);
    std::vector<float> rows(2 * n_in);
    const std::vector<int32_t> ids = {4, 1};
    backend->embed_rows(**storage, ids, 2.0f, view_of(rows, n_in));
    for (size_t k = 0; k < n_in; ++k) {
      EXPECT_EQ(rows[k], decoded[4 * n_in + k] * 2.0f);
      EXPECT_EQ(rows[n_in + k], decoded[n_in + k] * 2.0f);
    }
  }
}

TEST_F(Reference, AWeightOfTheWrongSizeIsRefused) {
  const std::vector<float> values(12);
  const auto bytes = std::as_bytes(std::span(values));
  EXPECT_EQ(backend->load_weight("w", DType::f32, Shape{3, 5}, bytes).error().code, ErrorCode::shape);
  EXPECT_EQ(backend->load_weight("w", DType::q4_0, Shape{1, 31}, bytes).error().code, ErrorCode::shape);
}

TEST_F(Reference, Norms) {
  for (const size_t n : {1, 2, 5, 64}) {
    const std::vector<float> x = random_values(3 * n, 4), gain = random_values(n, 5), bias = random_values(n, 6);
    std::vector<float> rms = x, layer(3 * n), source = x;
    backend->rms_norm(view_of(rms, n), gain.data(), 1e-5f, view_of(rms, n));
    backend->layer_norm(view_of(source, n), gain.data(), bias.data(), 1e-5f, view_of(layer, n));
    for (size_t i = 0; i < 3; ++i) {
      double squares = 0, sum = 0, variance = 0;
      for (size_t k = 0; k < n; ++k) squares += static_cast<double>(x[i * n + k]) * x[i * n + k], sum += x[i * n + k];
      const double count = static_cast<double>(n), mean = sum / count;
      for (size_t k = 0; k < n; ++k) variance += (x[i * n + k] - mean) * (x[i * n + k] - mean) / count;
      for (size_t k = 0; k < n; ++k) {
        expect_rounded(rms[i * n + k], x[i * n + k] / std::sqrt(squares / count + 1e-5f) * gain[k], 10);
        expect_rounded(layer[i * n + k], (x[i * n + k] - mean) / std::sqrt(variance + 1e-5f) * gain[k] + bias[k], 1000);
      }
    }
  }
}

TEST_F(Reference, Activations) {
  const std::vector<float> x = {-1000, -20, -1, -0.0f, 0, 0.5f, 3, 20, 1000};
  std::vector<float> factor(x.size(), 2.0f);
  const auto activated = [&](Activation activation) {
    std::vector<float> out = x;
    backend->activate(view_of(out, x.size()), activation, view_of(factor, x.size()));
    return out;
  };
  const auto silu = activated(Activation::silu), tanh = activated(Activation::gelu_tanh),
             erf = activated(Activation::gelu_erf), relu = activated(Activation::relu);
  for (size_t i = 0; i < x.size(); ++i) {
    const double v = x[i];
    expect_rounded(silu[i], 2 * v / (1 + std::exp(-v)), 1);
    expect_rounded(tanh[i], v * (1 + std::tanh(0.7978845608028654 * (v + 0.044715 * v * v * v))), 1);
    expect_rounded(erf[i], v * (1 + std::erf(v / 1.4142135623730951)), 1);
    EXPECT_EQ(relu[i], v > 0 ? 2 * v : 0);
  }
}

TEST_F(Reference, RopeTurnsBothKindsOfPairs) {
  const std::vector<double> inv_freq = {1.0, 0.25};
  const std::vector<uint32_t> positions = {0, 3, 5000};
  for (const RopePairs pairs : {RopePairs::interleaved, RopePairs::halves}) {
    const std::vector<float> x =
        random_values(3 * 2 * 6, 7);  // three tokens, two heads of six: the last two elements stay
    std::vector<float> out = x;
    backend->rope(view_of(out, 12), 6, positions, {pairs, inv_freq, 1.25});
    for (size_t head = 0; head < 6; ++head) {
      const float* from = x.data() + head * 6;
      const float* to = out.data() + head * 6;
      for (size_t i = 0; i < 2; ++i) {
        const size_t a = pairs == RopePairs::interleaved ? 2 * i : i,
                     b = pairs == RopePairs::interleaved ? 2 * i + 1 : i + 2;
        const double angle = positions[head / 2] * inv_freq[i];
        expect_rounded(to[a], 1.25 * (from[a] * std::cos(angle) - from[b] * std::sin(angle)), 10);
        expect_rounded(to[b], 1.25 * (from[a] * std::sin(angle) + from[b] * std::cos(angle)), 10);
      }
      EXPECT_EQ(to[4], from[4]);
      EXPECT_EQ(to[5], from[5]);
    }
  }
}

// Attention over a cache longer than a page, grouped heads, values narrower than keys, with and without window and cap.
TEST_F(Reference, Attention) {
  const uint32_t n = KvCache::kPageTokens + 9, n_head = 6, n_head_kv = 2, k_dim = 5, v_dim = 3;
  std::vector<float> q = random_values(n * n_head * k_dim, 8), k = random_values(n * n_head_kv * k_dim, 9),
                     v = random_values(n * n_head_kv * v_dim, 10), out(n * n_head * v_dim);
  KvCache cache({{1, 1, 1}, {n_head_kv, k_dim, v_dim}});
  ASSERT_TRUE(cache.reserve(n).has_value());
  std::vector<KvSlot> slots;
  for (uint32_t i = 0; i < n; ++i) slots.push_back({&cache, i});
  backend->store_kv(slots, 1, view_of(k, n_head_kv * k_dim), view_of(v, n_head_kv * v_dim));
  for (const uint32_t window : {0u, 1u, 7u, n, n + 1}) {
    for (const float cap : {0.0f, 2.0f}) {
      backend->attention(view_of(q, n_head * k_dim), slots, 1, {n_head, n_head_kv, k_dim, v_dim, 0.3f, cap, window},
                         view_of(out, n_head * v_dim));
      for (uint32_t t = 0; t < n; ++t) {
        for (uint32_t h = 0; h < n_head; ++h) {
          double total = 0, sums[v_dim] = {};
          for (uint32_t s = 0; s <= t; ++s) {
            if (window != 0 && t - s >= window) continue;
            double score = 0;
            for (uint32_t d = 0; d < k_dim; ++d) {
              score += static_cast<double>(q[(t * n_head + h) * k_dim + d]) * k[(s * n_head_kv + h / 3) * k_dim + d];
            }
            score *= 0.3f;
            if (cap > 0) score = cap * std::tanh(score / cap);
            total += std::exp(score);
            for (uint32_t d = 0; d < v_dim; ++d) sums[d] += std::exp(score) * v[(s * n_head_kv + h / 3) * v_dim + d];
          }
          for (uint32_t d = 0; d < v_dim; ++d) expect_rounded(out[(t * n_head + h) * v_dim + d], sums[d] / total, 10);
        }
      }
    }
  }
}

TEST_F(Reference, AttentionOfHugeScoresStaysFinite) {
  std::vector<float> q = {1e19f}, k = {1e19f, 1e18f}, v = {3, 5}, out(1);
  KvCache cache({{1, 1, 1}});
  ASSERT_TRUE(cache.reserve(2).has_value());
  const std::vector<KvSlot> slots = {{&cache, 0}, {&cache, 1}};
  backend->store_kv(slots, 0, view_of(k, 1), view_of(v, 1));
  backend->attention(view_of(q, 1), std::span(slots).last(1), 0, {1, 1, 1, 1, 1.0f, 0, 0}, view_of(out, 1));
  EXPECT_EQ(out[0], 3);
}

TEST_F(Reference, SmallOps) {
  std::vector<float> x = {1, -2, 3, 4}, y = {0.5f, 0.5f, 0.5f, 0.5f}, picked(4);
  backend->add(view_of(x, 2), view_of(y, 2));
  EXPECT_EQ(x, (std::vector<float>{1.5f, -1.5f, 3.5f, 4.5f}));
  backend->scale(view_of(x, 2), 2);
  EXPECT_EQ(x, (std::vector<float>{3, -3, 7, 9}));
  const std::vector<uint32_t> rows = {1, 1};
  backend->gather_rows(view_of(x, 2), rows, view_of(picked, 2));
  EXPECT_EQ(picked, (std::vector<float>{7, 9, 7, 9}));
  backend->softcap(view_of(x, 2), 4);
  for (size_t i = 0; i < 4; ++i) expect_rounded(x[i], 4 * std::tanh(std::vector<double>{3, -3, 7, 9}[i] / 4), 1);
}

TEST(Routing, BestFirstTiesToTheLowerIndex) {
  std::vector<float> logits = {1, 3, 3, 0, 2};
  const Routing routing = choose_experts({logits.data(), 1, 5}, {.n_used = 3});
  EXPECT_EQ(routing.expert, (std::vector<uint32_t>{1, 2, 4}));
  const double e3 = std::exp(3.0), e2 = std::exp(2.0), total = 2 * e3 + e2;
  EXPECT_FLOAT_EQ(routing.weight[0], static_cast<float>(e3 / total));
  EXPECT_FLOAT_EQ(routing.weight[2], static_cast<float>(e2 / total));
  EXPECT_FLOAT_EQ(routing.weight[0] + routing.weight[1] + routing.weight[2], 1.0f);
}

TEST(Routing, WithoutNormalisationTheWeightsAreTheScores) {
  std::vector<float> logits = {0, 1, -1};
  const Routing softmax = choose_experts({logits.data(), 1, 3}, {.n_used = 1, .is_normalised = false, .scale = 2});
  EXPECT_FLOAT_EQ(softmax.weight[0], static_cast<float>(2 * std::exp(1.0) / (1 + std::exp(1.0) + std::exp(-1.0))));
  const Routing sigmoid =
      choose_experts({logits.data(), 1, 3}, {.score = RouterScore::sigmoid, .n_used = 2, .is_normalised = false});
  EXPECT_EQ(sigmoid.expert, (std::vector<uint32_t>{1, 0}));
  EXPECT_FLOAT_EQ(sigmoid.weight[0], static_cast<float>(1 / (1 + std::exp(-1.0))));
}

TEST(Routing, ScoresThatAreNotNumbersStillChooseDistinctExperts) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (std::vector<float> logits :
       {std::vector<float>{nan, nan, nan}, {nan, 1, 2}, {inf, inf, 0}, {-inf, -inf, -inf}}) {
    const Routing routing = choose_experts({logits.data(), 1, 3}, {.n_used = 3});
    std::vector<uint32_t> sorted = routing.expert;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(sorted, (std::vector<uint32_t>{0, 1, 2}));
  }
  std::vector<float> logits = {nan, 1, 2};
  EXPECT_EQ(choose_experts({logits.data(), 1, 3}, {.score = RouterScore::sigmoid, .n_used = 2}).expert,
            (std::vector<uint32_t>{2, 1}));
}

}  // namespace
}  // namespace tamis
