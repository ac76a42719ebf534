// The CPU backend against the reference backend within derived bounds; and its promise: the same bits for any batch,
// number of threads and target.
#include "cpu/backend.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <numeric>

#include "base/thread_pool.h"
#include "compute/reference.h"
#include "cpu/dispatch.h"
#include "quants/registry.h"
#include "tests/cpu/weights.h"

namespace tamis {
namespace {

using test::random_floats;

constexpr double kHalfUlp = 0x1p-24;

// A matrix on host memory that views can point to.
struct Matrix {
  Matrix(size_t n_rows, size_t n_cols, uint64_t seed)
      : values(random_floats(n_rows * n_cols, seed)), rows(n_rows), cols(n_cols) {}
  TensorView view() { return {values.data(), rows, cols}; }
  TensorView row(size_t i) { return {values.data() + i * cols, 1, cols}; }
  std::vector<float> values;
  size_t rows, cols;
};

std::vector<uint32_t> bits(std::span<const float> values) {
  std::vector<uint32_t> out;
  for (const float value : values) out.push_back(std::bit_cast<uint32_t>(value));
  return out;
}

// Runs `compute` on every target with 1 and 3 threads: all results must have the same bits. Returns them.
std::vector<float> same_everywhere(const std::function<std::vector<float>(Backend&)>& compute,
                                   CpuActivations activations = CpuActivations::q8) {
  std::vector<float> first;
  for (const cpu::KernelTable* target : cpu::available_targets()) {
    for (const uint32_t n_threads : {1u, 3u}) {
      const auto pool = ThreadPool::create(n_threads);
      const auto backend = make_cpu_backend(pool.get(), target->name, activations);
      const std::vector<float> result = compute(**backend);
      EXPECT_TRUE((*backend)->finish().has_value());
      if (first.empty()) first = result;
      EXPECT_EQ(bits(result), bits(first)) << target->name << ", " << n_threads << " threads";
    }
  }
  return first;
}

std::vector<float> multiply(Backend& backend, DType dtype, std::span<const std::byte> bytes, size_t n_out, Matrix& x,
                            const float* bias, bool one_by_one) {
  const auto weight = backend.load_weight("w", dtype, Shape{n_out, x.cols}, bytes);
  const Linear linear{weight->get(), bias, 0.5f};
  Matrix out(x.rows, n_out, 99);
  if (!one_by_one) backend.matmul(x.view(), linear, out.view());
  for (size_t t = 0; one_by_one && t < x.rows; ++t) backend.matmul(x.row(t), linear, out.row(t));
  return out.values;
}

// The error of `out` against `truth` may be what rounding in float32 explains and, with 8-bit activations, half a step
// of the largest element of each token's block times every weight.
void expect_matmul(DType dtype, size_t n_in, CpuActivations activations) {
  constexpr size_t kOut = 37, kTokens = 6;
  const std::vector<std::byte> bytes = test::random_weights(dtype, kOut, n_in, 1);
  const std::vector<float> bias = random_floats(kOut, 2);
  Matrix x(kTokens, n_in, 3);
  const auto run = [&](bool one_by_one) {
    return same_everywhere([&](Backend& b) { return multiply(b, dtype, bytes, kOut, x, bias.data(), one_by_one); },
                           activations);
  };
  const std::vector<float> out = run(false);
  EXPECT_EQ(bits(out), bits(run(true))) << dtype_name(dtype) << ": a token's bits must not depend on the batch";
  const std::vector<float> truth = multiply(*make_reference_backend(), dtype, bytes, kOut, x, bias.data(), false);
  std::vector<float> w(kOut * n_in);
  decode(dtype, bytes.data(), w);
  for (size_t t = 0; t < kTokens; ++t) {
    const float* const row = x.values.data() + t * n_in;
    float largest = 0;
    for (size_t i = 0; i < n_in; ++i) largest = std::max(largest, std::abs(row[i]));
    for (size_t r = 0; r < kOut; ++r) {
      double magnitude = std::abs(bias[r]), weights = 0;
      for (size_t i = 0; i < n_in; ++i) {
        magnitude += std::abs(0.5 * w[r * n_in + i] * row[i]);
        weights += std::abs(0.5 * w[r * n_in + i]);
      }
      // Roundings on the way of a term: product, 64 lane additions of a chunk, 4 of the tree, 2 chunks, scale, bias;
      // and one of the reference's.
      double bound = 1.01 * (1 + 64 + 4 + 2 + 2 + 1) * kHalfUlp * magnitude;
      if (activations == CpuActivations::q8) bound += 1.01 * weights * largest / 254;
      EXPECT_NEAR(out[t * kOut + r], truth[t * kOut + r], bound) << dtype_name(dtype);
    }
  }
}

TEST(CpuBackend, MatmulOfEveryType) {
  for (const DType dtype : test::matrix_types())
    for (const size_t n_in : {size_t{256}, size_t{1280}})
      for (const CpuActivations activations : {CpuActivations::f32, CpuActivations::q8})
        expect_matmul(dtype, n_in, activations);
}

TEST(CpuBackend, AwkwardWidths) {
  // Rows of 1, 15, 17, 1025 elements; rows of the matrix 1, 15, 16, 17.
  for (const size_t n_in : {1u, 15u, 17u, 1025u}) {
    for (const size_t n_out : {1u, 15u, 16u, 17u}) {
      const std::vector<std::byte> bytes = test::random_weights(DType::f32, n_out, n_in, n_in);
      Matrix x(5, n_in, 4);
      const auto together =
          same_everywhere([&](Backend& b) { return multiply(b, DType::f32, bytes, n_out, x, nullptr, false); });
      const auto alone =
          same_everywhere([&](Backend& b) { return multiply(b, DType::f32, bytes, n_out, x, nullptr, true); });
      EXPECT_EQ(bits(together), bits(alone)) << n_in << ' ' << n_out;
    }
  }
}

TEST(CpuBackend, UnalignedFloatsAreReadAllTheSame) {
  std::vector<std::byte> bytes = test::random_weights(DType::f32, 3, 40, 1);
  Matrix x(2, 40, 2);
  const auto backend = make_cpu_backend();
  const std::vector<float> aligned = multiply(**backend, DType::f32, bytes, 3, x, nullptr, false);
  bytes.insert(bytes.begin(), std::byte{0});
  const std::vector<float> shifted = multiply(**backend, DType::f32, std::span(bytes).subspan(1), 3, x, nullptr, false);
  EXPECT_EQ(bits(aligned), bits(shifted));
}

TEST(CpuBackend, FusedOpsEqualTheirParts) {
  constexpr size_t kIn = 256, kOut = 50;
  Matrix x(7, kIn, 1);
  const auto bytes = test::random_weights(DType::q4_k, kOut, kIn, 2),
             more = test::random_weights(DType::q6_k, kOut, kIn, 3);
  for (const Activation activation :
       {Activation::silu, Activation::gelu_tanh, Activation::gelu_erf, Activation::relu}) {
    const auto run = [&](Backend& backend, bool is_fused) {
      const auto gate = backend.load_weight("gate", DType::q4_k, Shape{kOut, kIn}, bytes);
      const auto up = backend.load_weight("up", DType::q6_k, Shape{kOut, kIn}, more);
      Matrix out(7, kOut, 4), scratch(7, kOut, 5);
      if (is_fused) {
        backend.gate_up(x.view(), {gate->get()}, {up->get()}, activation, out.view(), scratch.view());
      } else {
        backend.matmul(x.view(), {gate->get()}, out.view());
        backend.matmul(x.view(), {up->get()}, scratch.view());
        backend.activate(out.view(), activation, scratch.view());
      }
      return out.values;
    };
    const auto fused = same_everywhere([&](Backend& b) { return run(b, true); });
    const auto parts = same_everywhere([&](Backend& b) { return run(b, false); });
    EXPECT_EQ(bits(fused), bits(parts)) << static_cast<int>(activation);
  }
}

TEST(CpuBackend, Norms) {
  for (const size_t width : {1u, 40u, 576u, 2000u}) {
    Matrix x(9, width, 1);
    const std::vector<float> weight = random_floats(width, 2), bias = random_floats(width, 3);
    const auto rms = [&](Backend& backend) {
      Matrix out(9, width, 4);
      backend.rms_norm(x.view(), weight.data(), 1e-5f, out.view());
      return out.values;
    };
    const auto layer = [&](Backend& backend) {
      Matrix out(9, width, 4);
      backend.layer_norm(x.view(), weight.data(), bias.data(), 1e-5f, out.view());
      return out.values;
    };
    const auto reference = make_reference_backend();
    const std::vector<float> got = same_everywhere(rms), truth = rms(*reference);
    // The mean square carries (1 + 64 + 4 + chunks) roundings, the root halves them; then factor, two products, the
    // reference's own.
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], truth[i], (36 + 4) * kHalfUlp * std::abs(truth[i]));
    EXPECT_EQ(bits(same_everywhere(layer)), bits(layer(*reference)));
  }
}

TEST(CpuBackend, RopeAndElementwise) {
  const std::vector<double> inv_freq = {1.0, 0.1, 0.01};
  const std::vector<uint32_t> positions = {0, 1, 5, 100000};
  for (const RopePairs pairs : {RopePairs::interleaved, RopePairs::halves}) {
    const auto rope = [&](Backend& backend) {
      Matrix x(4, 16, 1);
      const RopeParams params{.pairs = pairs, .inv_freq = inv_freq, .magnitude = 1.25};
      backend.rope(x.view(), 8, positions, params);
      backend.rope(x.row(2), 8, std::span(positions).subspan(2, 1), params);  // another set of positions
      backend.rope(x.view(), 8, positions, params);                           // and back: both tables are in use
      return x.values;
    };
    const auto reference = make_reference_backend();
    const std::vector<float> got = same_everywhere(rope), truth = rope(*reference);
    // Each rotation: cosine and sine rounded, two products, one sum; values stay below 4 · 1.25^3 · √2.
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], truth[i], 3 * 4 * 2 * kHalfUlp * 12) << i;
  }
  const auto elementwise = [&](Backend& backend) {
    Matrix x(3, 5000, 1), y(3, 5000, 2);
    backend.add(x.view(), y.view());
    backend.scale(x.view(), 1.7f);
    backend.softcap(x.view(), 3.0f);
    return x.values;
  };
  const auto reference = make_reference_backend();
  EXPECT_EQ(bits(same_everywhere(elementwise)), bits(elementwise(*reference)));
}

// Rows of a packed matrix are looked up in the file's bytes, which nothing else reads: they are told of, and the rows
// stay what they are.
TEST(CpuBackend, TellsOfLookedUpRows) {
  constexpr size_t kRows = 40, kWidth = 64;
  const std::vector<float> values = random_floats(kRows * kWidth, 3);
  const auto bytes = std::as_bytes(std::span(values));
  for (const bool is_table : {false, true}) {
    const auto backend = make_cpu_backend(nullptr, "");
    size_t n_told = 0;
    (*backend)->set_on_taken([&](std::span<const std::byte> told) { n_told += told.size(); });
    const auto load = is_table ? &Backend::load_table : &Backend::load_weight;
    const auto weight = ((**backend).*load)("w", DType::f32, Shape{kRows, kWidth}, bytes);
    ASSERT_TRUE(weight.has_value());
    (*backend)->set_on_taken(nullptr);
    EXPECT_EQ(n_told, is_table ? 0 : bytes.size());
    std::vector<int32_t> ids(17);
    std::iota(ids.begin(), ids.end(), 20);
    Matrix out(ids.size(), kWidth, 4);
    n_told = 0;
    (*backend)->embed_rows(**weight, ids, 2.0f, out.view());
    EXPECT_EQ(n_told, 4 * bytes.size());
    for (size_t i = 0; i < out.values.size(); ++i) ASSERT_EQ(out.values[i], 2.0f * values[20 * kWidth + i]) << i;
  }
}

TEST(CpuBackend, RefusesWhatDoesNotFit) {
  const auto backend = make_cpu_backend();
  const std::vector<std::byte> bytes(64);
  EXPECT_FALSE((*backend)->load_weight("w", DType::f32, Shape{4, 5}, bytes).has_value()) << "80 bytes needed";
  EXPECT_FALSE((*backend)->load_weight("w", DType::q4_0, Shape{2, 33}, bytes).has_value())
      << "no whole number of blocks";
  EXPECT_FALSE(
      (*backend)->load_weight("w", DType::f32, Shape{uint64_t{1} << 32, uint64_t{1} << 32}, bytes).has_value());
  const auto huge = (*backend)->alloc(SIZE_MAX / 2);
  ASSERT_FALSE(huge.has_value());
  EXPECT_EQ(huge.error().code, ErrorCode::out_of_memory);
  EXPECT_FALSE(make_cpu_backend(nullptr, "no-such-target").has_value());
}

}  // namespace
}  // namespace tamis
