// Checked arithmetic at the edges where plain operators wrap.
#include "base/checked.h"

#include <gtest/gtest.h>

#include <limits>

namespace tamis {
namespace {

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

TEST(Checked, AddAndMulKnowTheEdge) {
  EXPECT_EQ(checked_add(kMax - 1, 1), kMax);
  EXPECT_EQ(checked_add(kMax, 1), std::nullopt);
  EXPECT_EQ(checked_mul(uint64_t{1} << 32, (uint64_t{1} << 32) - 1), kMax - (uint64_t{1} << 32) + 1);
  EXPECT_EQ(checked_mul(uint64_t{1} << 32, uint64_t{1} << 32), std::nullopt);
  EXPECT_EQ(checked_mul((uint64_t{1} << 61) + 1, 8), std::nullopt);  // wraps to 8
  EXPECT_EQ(checked_mul(kMax, 0), 0u);
}

TEST(Checked, PadKnowsTheEdge) {
  EXPECT_EQ(checked_pad(0, 32), 0u);
  EXPECT_EQ(checked_pad(1, 32), 32u);
  EXPECT_EQ(checked_pad(32, 32), 32u);
  EXPECT_EQ(checked_pad(5, 1), 5u);
  EXPECT_EQ(checked_pad(kMax - 31, 32), kMax - 31);
  EXPECT_EQ(checked_pad(kMax - 30, 32), std::nullopt);
}

TEST(Checked, CastRefusesWhatDoesNotFit) {
  EXPECT_EQ(checked_cast<int32_t>(uint64_t{0x7fffffff}), 0x7fffffff);
  EXPECT_EQ(checked_cast<int32_t>(uint64_t{0x80000000}), std::nullopt);
  EXPECT_EQ(checked_cast<uint32_t>(int64_t{-1}), std::nullopt);
  EXPECT_EQ(checked_cast<uint64_t>(int64_t{-1}), std::nullopt);
  EXPECT_EQ(checked_cast<int64_t>(kMax), std::nullopt);
  EXPECT_EQ(checked_cast<uint8_t>(256), std::nullopt);
  EXPECT_EQ(checked_cast<int8_t>(-128), -128);
}

}  // namespace
}  // namespace tamis
