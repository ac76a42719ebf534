// Half precision, block geometry, shapes and the random generator: facts other rooms build on.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/dtype.h"
#include "base/float16.h"
#include "base/rng.h"
#include "base/shape.h"

namespace tamis {
namespace {

// The value of a half by its definition (IEEE 754 binary16), in double.
double half_value(uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const double mantissa = bits & 0x3ff;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST(Float16, EveryHalfWidensExactlyAndNarrowsBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float wide = f16_to_f32(half);
    if ((bits & 0x7c00) == 0x7c00) {
      EXPECT_EQ(std::isnan(wide), (bits & 0x3ff) != 0);
      EXPECT_EQ(std::isnan(f16_to_f32(f32_to_f16(wide))), std::isnan(wide));
      continue;
    }
    ASSERT_EQ(static_cast<double>(wide), half_value(half)) << bits;
    ASSERT_EQ(std::signbit(wide), (bits & 0x8000) != 0);
    ASSERT_EQ(f32_to_f16(wide), half);
  }
}

// Between two neighbouring halves the nearer one wins, and the even one at the midpoint: checked at every gap.
TEST(Float16, NarrowsToNearestEven) {
  for (uint16_t low = 0; low < 0x7bff; ++low) {
    const auto high = static_cast<uint16_t>(low + 1);
    const auto middle = static_cast<float>((half_value(low) + half_value(high)) / 2);
    ASSERT_EQ(f32_to_f16(middle), (low & 1) == 0 ? low : high) << low;
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 0.0f)), low) << low;
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 1e9f)), high) << low;
    ASSERT_EQ(f32_to_f16(-middle), 0x8000 | ((low & 1) == 0 ? low : high)) << low;
  }
  EXPECT_EQ(f32_to_f16(65519.996f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);  // half a step past the largest half
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::infinity()), 0x7c00);
  EXPECT_EQ(f32_to_f16(-1e30f), 0xfc00);
}

TEST(BFloat16, NarrowsToNearestEvenAndKeepsNan) {
  EXPECT_EQ(f32_to_bf16(1.0f), 0x3f80);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808000u)), 0x3f80);  // tie to even
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f818000u)), 0x3f82);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7f800001u)))));
  for (uint32_t bits = 0; bits < 0x7f80; ++bits) ASSERT_EQ(f32_to_bf16(bf16_to_f32(static_cast<uint16_t>(bits))), bits);
}

TEST(DType, KnowsEveryNumberOfTheTableAndNoOther) {
  size_t n_known = 0;
  for (uint32_t id = 0; id < 300; ++id) {
    const DTypeInfo* info = dtype_info(id);
    const bool is_removed = id == 4 || id == 5 || (id >= 31 && id <= 33) || (id >= 36 && id <= 38);
    EXPECT_EQ(info != nullptr, id < 43 && !is_removed) << id;
    if (info == nullptr) continue;
    ++n_known;
    EXPECT_EQ(static_cast<uint32_t>(info->dtype), id);
    EXPECT_EQ(dtype_from_name(info->name), info->dtype);
  }
  EXPECT_EQ(n_known, 35u);
  EXPECT_EQ(dtype_info(UINT32_MAX), nullptr);
  EXPECT_EQ(dtype_from_name("q4_k"), DType::q4_k);
  EXPECT_FALSE(dtype_from_name("Q4_K_M"));
  EXPECT_FALSE(dtype_from_name(""));
}

TEST(DType, BytesDivideByTheBlockBeforeTheyMultiply) {
  EXPECT_EQ(dtype_bytes(DType::q4_0, 64), 36u);
  EXPECT_EQ(dtype_bytes(DType::q4_0, 0), 0u);
  EXPECT_FALSE(dtype_bytes(DType::q4_0, 33));
  EXPECT_EQ(dtype_bytes(DType::q6_k, 512), 420u);
  EXPECT_FALSE(dtype_bytes(DType::f64, uint64_t{1} << 61));
}

TEST(DType, B01_RowSizesThatWouldWrapKeepTheirTrueSize) {
  // Multiplied first, 1024819115206086208·18 wraps so that the row seems to hold 4 bytes (security.md C092).
  EXPECT_EQ(dtype_bytes(DType::q4_0, 1024819115206086208u), 1024819115206086208u / 32 * 18);
  EXPECT_EQ(dtype_bytes(DType::q4_0, 5124095576030431008u - 5124095576030431008u % 32), 5124095576030431008u / 32 * 18);
}

TEST(Shape, CountsRowsAndElements) {
  const Shape matrix{3, 5};
  EXPECT_EQ(matrix.n_elements(), 15u);
  EXPECT_EQ(matrix.row_len(), 5u);
  EXPECT_EQ(matrix.n_rows(), 3u);
  EXPECT_EQ(matrix.to_string(), "[3, 5]");
  EXPECT_EQ(Shape{}.n_elements(), 1u);
  EXPECT_EQ(Shape{}.to_string(), "[]");
  EXPECT_EQ((Shape{2, 3, 4}.n_rows()), 6u);
  EXPECT_EQ((Shape{4, 0}.n_rows()), 0u);
  EXPECT_FALSE((Shape{2, 3} == Shape{3, 2}));
  EXPECT_FALSE((Shape{2} == Shape{2, 1}));
}

// The first numbers of seed 1, worked out with the published algorithms (splitmix64, then xoshiro256**).
TEST(Rng, SequenceIsFixedForAllTime) {
  Rng rng(1);
  const uint64_t expected[] = {0xb3f2af6d0fc710c5u, 0x853b559647364ceau, 0x92f89756082a4514u, 0x642e1c7bc266a3a7u};
  for (const uint64_t value : expected) EXPECT_EQ(rng.next(), value);
  Rng again(1), other(2);
  EXPECT_EQ(again.next(), expected[0]);
  EXPECT_NE(other.next(), expected[0]);
}

TEST(Rng, DrawsStayInTheirRanges) {
  Rng rng(3);
  double sum = 0, squares = 0;
  constexpr int kDraws = 100000;
  for (int i = 0; i < kDraws; ++i) {
    const double uniform = rng.uniform();
    ASSERT_GE(uniform, 0.0);
    ASSERT_LT(uniform, 1.0);
    ASSERT_LT(rng.below(7), 7u);
    const double normal = rng.normal();
    ASSERT_TRUE(std::isfinite(normal));
    sum += normal;
    squares += normal * normal;
  }
  EXPECT_EQ(rng.below(0), 0u);
  // Six standard errors: of the mean 1/sqrt(n), of the second moment sqrt(2/n).
  EXPECT_NEAR(sum / kDraws, 0.0, 6 / std::sqrt(kDraws));
  EXPECT_NEAR(squares / kDraws, 1.0, 6 * std::sqrt(2.0 / kDraws));
}

}  // namespace
}  // namespace tamis
