// Panels of plain numbers: within the bound that rounding explains, the same bits on every target and for any number of
// columns.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "base/float16.h"
#include "cpu/dispatch.h"
#include "cpu/kernels.h"
#include "tests/cpu/targets.h"
#include "tests/cpu/weights.h"

namespace tamis::cpu {
namespace {

using test::random_floats;

constexpr double kHalfUlp = 0x1p-24;  // relative error of one float rounding

// [k][16] of `kind`, and the numbers it holds.
struct Panel {
  Panel(FloatKind kind_in, size_t k) : kind(kind_in), values(random_floats(k * kPanelRows, k)) {
    bytes.resize(values.size() * float_bytes(kind));
    for (size_t i = 0; i < values.size(); ++i) {
      if (kind == FloatKind::f32) {
        std::memcpy(&bytes[4 * i], &values[i], 4);
        continue;
      }
      const uint16_t half = kind == FloatKind::f16 ? f32_to_f16(values[i]) : f32_to_bf16(values[i]);
      values[i] = kind == FloatKind::f16 ? f16_to_f32(half) : bf16_to_f32(half);
      std::memcpy(&bytes[2 * i], &half, 2);
    }
  }
  FloatKind kind;
  std::vector<float> values;
  std::vector<uint8_t> bytes;
};

std::vector<float> multiply(const KernelTable& kernels, const Panel& panel, size_t k, const std::vector<float>& x,
                            size_t n_columns) {
  std::vector<float> out(n_columns * kPanelRows);
  kernels.multiply_floats({panel.bytes.data(), panel.kind, x.data(), k + 3, n_columns, k, out.data(), false});
  return out;
}

TEST(FloatsPerTarget, WithinTheBoundAndTheSameEverywhere) {
  constexpr size_t kColumns = 19;
  for (const FloatKind kind : {FloatKind::f32, FloatKind::f16, FloatKind::bf16}) {
    for (const size_t k : {1u, 17u, 256u, 300u, 1100u}) {
      const Panel panel(kind, k);
      const std::vector<float> x = random_floats(kColumns * (k + 3), 2);
      const std::vector<float> first = multiply(*test::tested_targets().front(), panel, k, x, kColumns);
      for (size_t c = 0; c < kColumns; ++c)
        for (size_t r = 0; r < kPanelRows; ++r) {
          double sum = 0, magnitude = 0;
          for (size_t i = 0; i < k; ++i) {
            const double product = static_cast<double>(panel.values[i * kPanelRows + r]) * x[c * (k + 3) + i];
            sum += product;
            magnitude += std::abs(product);
          }
          // Higham: a term meets its product's rounding, at most a run's additions, and one addition a run.
          const double n = 1 + static_cast<double>(std::min<size_t>(k, kFloatRun) + k / kFloatRun + 1);
          ASSERT_NEAR(first[c * kPanelRows + r], sum, 1.01 * n * kHalfUlp * magnitude) << k;
        }
      for (const KernelTable* target : test::tested_targets())
        for (size_t n_columns = 1; n_columns <= kColumns; ++n_columns) {
          const std::vector<float> out = multiply(*target, panel, k, x, n_columns);
          for (size_t i = 0; i < out.size(); ++i)
            ASSERT_EQ(std::bit_cast<uint32_t>(out[i]), std::bit_cast<uint32_t>(first[i]))
                << target->name << ' ' << k << ' ' << n_columns;
        }
    }
  }
}

TEST(FloatsPerTarget, StepsOfWholeRunsGiveTheSameBits) {
  constexpr size_t kLen = 700, kColumns = 5;
  const Panel panel(FloatKind::f16, kLen);
  const std::vector<float> x = random_floats(kColumns * (kLen + 3), 2);
  for (const KernelTable* target : test::tested_targets()) {
    const std::vector<float> whole = multiply(*target, panel, kLen, x, kColumns);
    std::vector<float> steps(whole.size());
    for (size_t k = 0; k < kLen; k += kFloatRun)
      target->multiply_floats({panel.bytes.data() + k * kPanelRows * 2, panel.kind, x.data() + k, kLen + 3, kColumns,
                               std::min(kFloatRun, kLen - k), steps.data(), k != 0});
    EXPECT_EQ(steps, whole) << target->name;
  }
}

}  // namespace
}  // namespace tamis::cpu
