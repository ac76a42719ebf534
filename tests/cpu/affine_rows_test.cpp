// Packed codes with scattered inputs: the weights are the codes' own numbers to the bit, on both backends; a matrix
// with an order of inputs gives the bits of the one in order on reordered inputs, whatever stands beside it in an op.
#include "quants/affine_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/rng.h"
#include "base/thread_pool.h"
#include "compute/reference.h"
#include "cpu/backend.h"
#include "tests/cpu/weights.h"

namespace tamis {
namespace {

constexpr uint64_t kIn = 512, kOut = 37, kTokens = 35;

class MadeRows final : public AffineRows {
 public:
  MadeRows(uint32_t group_len, uint32_t code_bits, bool has_offset, std::vector<uint32_t> order, uint64_t seed = 1)
      : order_(std::move(order)) {
    set_shape({kOut, kIn, group_len, code_bits, has_offset});
    Rng rng(seed);
    groups_.resize(kOut * kIn / group_len);
    for (Group& group : groups_) {
      for (int8_t& code : group.codes) {
        const auto byte = static_cast<int>(rng.next() & 255);
        code = static_cast<int8_t>(code_bits == 4 ? byte % 16 - 8 : byte - 128);
      }
      // Twelve bits of scale and eight of zero point: every product and sum is exact.
      group.scale = static_cast<float>(1 + rng.next() % 2000) / 65536;
      if (has_offset) group.offset = group.scale * static_cast<float>(static_cast<int>(rng.next() % 17) - 8);
    }
  }
  std::span<const uint32_t> order() const override { return order_; }
  void read(uint64_t row, uint64_t group_idx, Group& out) const override {
    out = groups_[row * (kIn / shape().group_len) + group_idx];
  }
  void give_back() const override {}

 private:
  std::vector<Group> groups_;
  std::vector<uint32_t> order_;
};

std::vector<uint32_t> shuffled(uint64_t seed) {
  std::vector<uint32_t> order(kIn);
  std::iota(order.begin(), order.end(), 0u);
  Rng rng(seed);
  for (size_t i = kIn; i > 1; --i) std::swap(order[i - 1], order[rng.next() % i]);
  return order;
}

std::vector<float> reordered(const std::vector<float>& x, const std::vector<uint32_t>& order) {
  std::vector<float> out(x.size());
  for (size_t t = 0; t < kTokens; ++t)
    for (size_t k = 0; k < kIn; ++k) out[t * kIn + k] = x[t * kIn + order[k]];
  return out;
}

std::vector<float> multiply(Backend& backend, const WeightStorage& weight, std::vector<float> x, size_t n_together) {
  std::vector<float> out(kTokens * kOut);
  const Linear linear{&weight, nullptr, 1.0f};
  for (size_t t = 0; t < kTokens; t += n_together) {
    const size_t n = std::min<size_t>(n_together, kTokens - t);
    backend.matmul({x.data() + t * kIn, n, kIn}, linear, {out.data() + t * kOut, n, kOut});
  }
  return out;
}

TEST(AffineRows, TheReferenceHoldsTheirNumbers) {
  const std::vector<float> x = test::random_floats(kTokens * kIn, 7);
  const auto backend = make_reference_backend();
  for (const uint32_t group_len : {32u, 64u, 128u, 256u}) {
    const MadeRows rows(group_len, 4, true, shuffled(3));
    std::vector<float> floats(kOut * kIn);
    for (uint64_t r = 0; r < kOut; ++r) decode_affine_row(rows, r, std::span(floats).subspan(r * kIn, kIn));
    const auto packed = backend->load_affine("w", rows, 0, kOut);
    const auto dense = backend->load_weight("w", DType::f32, Shape{kOut, kIn}, std::as_bytes(std::span(floats)));
    ASSERT_TRUE(packed && dense);
    EXPECT_EQ(multiply(*backend, **packed, x, kTokens), multiply(*backend, **dense, x, kTokens));
    EXPECT_EQ((*packed)->resident_bytes(), backend->affine_bytes(rows.shape(), kOut));
  }
}

// Exact activations: float32 sums of the weights' own numbers, as dense matrices have them.
TEST(AffineRows, WithExactActivationsTheyAreDense) {
  const std::vector<float> x = test::random_floats(kTokens * kIn, 8);
  auto backend = make_cpu_backend(nullptr, "", CpuActivations::f32);
  ASSERT_TRUE(backend);
  for (const uint32_t code_bits : {4u, 8u}) {
    const MadeRows rows(64, code_bits, true, {});
    std::vector<float> floats(kOut * kIn);
    for (uint64_t r = 0; r < kOut; ++r) decode_affine_row(rows, r, std::span(floats).subspan(r * kIn, kIn));
    const auto packed = (*backend)->load_affine("w", rows, 0, kOut);
    const auto dense = (*backend)->load_weight("w", DType::f32, Shape{kOut, kIn}, std::as_bytes(std::span(floats)));
    ASSERT_TRUE(packed && dense);
    EXPECT_EQ(multiply(**backend, **packed, x, kTokens), multiply(**backend, **dense, x, kTokens)) << code_bits;
  }
}

TEST(AffineRows, OrdersAreTheInputsOwn) {
  const std::vector<float> x = test::random_floats(kTokens * kIn, 9);
  const std::vector<uint32_t> order = shuffled(5);
  const std::vector<float> x_reordered = reordered(x, order);
  const auto pool = ThreadPool::create(3);
  for (const CpuActivations activations : {CpuActivations::q8, CpuActivations::f32})
    for (const uint32_t group_len : {32u, 64u, 128u, 256u})
      for (const uint32_t code_bits : {4u, 8u})
        for (const bool has_offset : {false, true}) {
          auto alone = make_cpu_backend(nullptr, "", activations);
          auto threaded = make_cpu_backend(pool.get(), "", activations);
          ASSERT_TRUE(alone && threaded);
          const MadeRows scattered(group_len, code_bits, has_offset, order),
              plain(group_len, code_bits, has_offset, {});
          const auto a = (*alone)->load_affine("w", scattered, 0, kOut), b = (*alone)->load_affine("w", plain, 0, kOut);
          const auto c = (*threaded)->load_affine("w", scattered, 0, kOut);
          ASSERT_TRUE(a && b && c);
          const std::vector<float> expected = multiply(**alone, **b, x_reordered, kTokens);
          EXPECT_EQ(multiply(**alone, **a, x, kTokens), expected) << group_len << ' ' << code_bits;
          EXPECT_EQ(multiply(**alone, **a, x, 1), expected) << "token by token";
          EXPECT_EQ(multiply(**threaded, **c, x, kTokens), expected) << "on three threads";
          EXPECT_EQ((*a)->resident_bytes(), (*alone)->affine_bytes(scattered.shape(), kOut));
        }
}

// q, k and v of one op may have orders of their own, or none, beside matrices of other types.
TEST(AffineRows, JobsOfOneOpKeepTheirOrders) {
  std::vector<float> x = test::random_floats(kTokens * kIn, 10);
  auto backend = make_cpu_backend();
  ASSERT_TRUE(backend);
  const MadeRows first(32, 4, true, shuffled(5)), second(128, 4, false, shuffled(6));
  const std::vector<float> floats = test::random_floats(kOut * kIn, 11);
  const auto a = (*backend)->load_affine("a", first, 0, kOut), b = (*backend)->load_affine("b", second, 0, kOut);
  const auto c = (*backend)->load_weight("c", DType::f32, Shape{kOut, kIn}, std::as_bytes(std::span(floats)));
  ASSERT_TRUE(a && b && c);
  const Linear linears[] = {{a->get()}, {b->get()}, {c->get()}};
  std::vector<std::vector<float>> out(3, std::vector<float>(kTokens * kOut));
  const TensorView views[] = {
      {out[0].data(), kTokens, kOut}, {out[1].data(), kTokens, kOut}, {out[2].data(), kTokens, kOut}};
  (*backend)->qkv({x.data(), kTokens, kIn}, linears, views);
  EXPECT_EQ(out[0], multiply(**backend, **a, x, kTokens));
  EXPECT_EQ(out[1], multiply(**backend, **b, x, kTokens));
  EXPECT_EQ(out[2], multiply(**backend, **c, x, kTokens));
}

// Rows [5, 5 + 20) of a matrix, as loaders cut fused ones.
TEST(AffineRows, RowsMayBeCut) {
  std::vector<float> x = test::random_floats(kTokens * kIn, 12);
  auto backend = make_cpu_backend();
  ASSERT_TRUE(backend);
  const MadeRows rows(64, 4, true, shuffled(5));
  const auto whole = (*backend)->load_affine("w", rows, 0, kOut), part = (*backend)->load_affine("w", rows, 5, 20);
  ASSERT_TRUE(whole && part);
  const std::vector<float> all = multiply(**backend, **whole, x, kTokens);
  std::vector<float> out(kTokens * 20);
  const Linear linear{part->get(), nullptr, 1.0f};
  (*backend)->matmul({x.data(), kTokens, kIn}, linear, {out.data(), kTokens, 20});
  for (size_t t = 0; t < kTokens; ++t)
    for (size_t r = 0; r < 20; ++r) ASSERT_EQ(out[t * 20 + r], all[t * kOut + 5 + r]);
}

TEST(AffineRows, FourBitsInGroupsOf128AreFourAndAHalf) {
  auto backend = make_cpu_backend();
  ASSERT_TRUE(backend);
  const auto bytes = (*backend)->affine_bytes({64, 1024, 128, 4, true}, 64);
  EXPECT_EQ(8.0 * static_cast<double>(*bytes) / 65536, 4.5);
}

}  // namespace
}  // namespace tamis
