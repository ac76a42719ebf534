// Layouts of the CPU backend: the size said beforehand is the size had, and every layout holds the same weights.
#include "cpu/layout.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "base/thread_pool.h"
#include "cpu/dispatch.h"
#include "quants/registry.h"
#include "tests/cpu/weights.h"

namespace tamis {
namespace {

using test::random_floats;

constexpr CpuLayout kLayouts[] = {CpuLayout::automatic, CpuLayout::planes, CpuLayout::affine, CpuLayout::dense};
constexpr size_t kIn = 1280, kOut = 37, kTokens = 35;

std::vector<DType> all_types() {
  std::vector<DType> out = test::matrix_types();
  for (const DType dtype : {DType::iq3_s, DType::tq1_0, DType::mxfp4, DType::iq1_m}) out.push_back(dtype);
  return out;
}

std::vector<uint32_t> bits(std::span<const float> values) {
  std::vector<uint32_t> out;
  for (const float value : values) out.push_back(std::bit_cast<uint32_t>(value));
  return out;
}

std::vector<float> multiply(Backend& backend, const WeightStorage& weight, const std::vector<float>& x,
                            size_t n_together) {
  std::vector<float> in = x, out(kTokens * kOut);
  const Linear linear{&weight, nullptr, 1.0f};
  for (size_t t = 0; t < kTokens; t += n_together) {
    const size_t n = std::min(n_together, kTokens - t);
    backend.matmul({in.data() + t * kIn, n, kIn}, linear, {out.data() + t * kOut, n, kOut});
  }
  return out;
}

TEST(CpuLayout, SizesAreKnownBeforehand) {
  for (const CpuActivations activations : {CpuActivations::q8, CpuActivations::f32})
    for (const CpuLayout layout : kLayouts) {
      const auto backend = make_cpu_backend(nullptr, "", activations, layout);
      for (const DType dtype : all_types())
        for (const size_t n_out : {1u, 16u, 37u}) {
          const std::vector<std::byte> bytes(*dtype_bytes(dtype, n_out * kIn));
          const auto weight = (*backend)->load_weight("w", dtype, Shape{n_out, kIn}, bytes);
          ASSERT_TRUE(weight.has_value());
          EXPECT_EQ((*weight)->resident_bytes(), (*backend)->weight_bytes(dtype, Shape{n_out, kIn}))
              << dtype_name(dtype) << ' ' << n_out;
        }
    }
  const auto backend = make_cpu_backend();
  EXPECT_FALSE((*backend)->weight_bytes(DType::f32, Shape{uint64_t{1} << 40, uint64_t{1} << 22}).has_value());
  EXPECT_FALSE((*backend)->weight_bytes(DType::q4_0, Shape{2, 33}).has_value());
}

TEST(CpuLayout, AffineIsSixAndTenBits) {
  const auto bits_of = [](DType dtype) {
    return 8.0 * static_cast<double>(*cpu::matrix_bytes(dtype, Shape{64, 1024}, cpu::MatrixForm::affine)) / 65536;
  };
  EXPECT_EQ(bits_of(DType::q4_k), 6.0);
  EXPECT_EQ(bits_of(DType::q8_0), 10.0);
}

TEST(CpuLayout, NamesOfUnknownFormsFallBack) {
  using cpu::MatrixForm;
  const auto form = [](DType dtype, CpuLayout layout, CpuActivations activations = CpuActivations::q8) {
    return cpu::matrix_form(dtype, layout, activations);
  };
  EXPECT_EQ(form(DType::q4_k, CpuLayout::automatic), MatrixForm::planes);
  EXPECT_EQ(form(DType::q4_k, CpuLayout::affine), MatrixForm::affine);
  EXPECT_EQ(form(DType::q4_k, CpuLayout::affine, CpuActivations::f32), MatrixForm::affine);
  EXPECT_EQ(form(DType::q4_k, CpuLayout::planes, CpuActivations::f32), MatrixForm::file);
  EXPECT_EQ(form(DType::iq2_xxs, CpuLayout::affine), MatrixForm::planes);
  EXPECT_EQ(form(DType::bf16, CpuLayout::affine), MatrixForm::floats);
  EXPECT_EQ(form(DType::q4_k, CpuLayout::dense), MatrixForm::floats);
}

// With exact activations every layout multiplies the same floats in the same order.
TEST(CpuLayout, ExactProductsAreTheSameBitsInEveryLayout) {
  const std::vector<float> x = random_floats(kTokens * kIn, 3);
  for (const DType dtype : all_types()) {
    if (quant_type(dtype).encode_plain == nullptr && dtype != DType::q2_k && dtype != DType::q3_k) continue;
    const std::vector<std::byte> bytes = test::random_weights(dtype, kOut, kIn, 1);
    std::vector<uint32_t> first;
    for (const cpu::KernelTable* target : cpu::available_targets())
      for (const CpuLayout layout : kLayouts) {
        const auto pool = ThreadPool::create(layout == CpuLayout::planes ? 1 : 2);
        const auto backend = make_cpu_backend(pool.get(), target->name, CpuActivations::f32, layout);
        const auto weight = (*backend)->load_weight("w", dtype, Shape{kOut, kIn}, bytes);
        const size_t n_together = layout == CpuLayout::affine ? 1 : kTokens;
        const std::vector<uint32_t> got = bits(multiply(**backend, **weight, x, n_together));
        if (first.empty()) first = got;
        EXPECT_EQ(got, first) << target->name << ' ' << dtype_name(dtype) << ' ' << static_cast<int>(layout);
      }
  }
}

// Both forms multiply the same weights with the same 8-bit codes and round alike.
TEST(CpuLayout, AffineGivesTheBitsOfPlanes) {
  const std::vector<float> x = random_floats(kTokens * kIn, 3);
  for (const DType dtype : {DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1, DType::q8_0, DType::q2_k, DType::q3_k,
                            DType::q4_k, DType::q5_k, DType::q6_k}) {
    const std::vector<std::byte> bytes = test::random_weights(dtype, kOut, kIn, 1);
    std::vector<uint32_t> first;
    for (const cpu::KernelTable* target : cpu::available_targets()) {
      const auto pool = ThreadPool::create(2);
      const auto affine = make_cpu_backend(pool.get(), target->name, CpuActivations::q8, CpuLayout::affine);
      const auto planes = make_cpu_backend(pool.get(), target->name, CpuActivations::q8, CpuLayout::planes);
      const auto weight = (*affine)->load_weight("w", dtype, Shape{kOut, kIn}, bytes);
      const auto other = (*planes)->load_weight("w", dtype, Shape{kOut, kIn}, bytes);
      const std::vector<float> got = multiply(**affine, **weight, x, kTokens);
      EXPECT_EQ(bits(got), bits(multiply(**affine, **weight, x, 1))) << dtype_name(dtype);
      if (first.empty()) first = bits(got);
      EXPECT_EQ(bits(got), first) << target->name << ' ' << dtype_name(dtype);
      const std::vector<float> expected = multiply(**planes, **other, x, kTokens);
      EXPECT_EQ(bits(got), bits(expected)) << target->name << ' ' << dtype_name(dtype);
    }
  }
}

}  // namespace
}  // namespace tamis
