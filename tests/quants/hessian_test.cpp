// The factorisation against its definition; codes that put_codes() writes against the decoder; error feedback against
// the search that sees the diagonal alone.
#include "quants/hessian.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"
#include "quants/hessian_rows.h"
#include "quants/registry.h"

namespace tamis {
namespace {

// E[x xᵀ] of `n_tokens` inputs that lie near a space of `rank` dimensions, with columns of unequal size.
std::vector<float> correlated(uint64_t n, uint64_t rank, uint64_t n_tokens, uint64_t seed) {
  Rng rng(seed);
  std::vector<double> mix(rank * n), size(n);
  for (double& value : mix) value = rng.normal();
  for (double& value : size) value = std::exp(0.7 * rng.normal());
  std::vector<double> sums(n * n);
  std::vector<double> x(n);
  for (uint64_t t = 0; t < n_tokens; ++t) {
    for (double& value : x) value = 0.3 * rng.normal();
    for (uint64_t r = 0; r < rank; ++r) {
      const double factor = rng.normal();
      for (uint64_t k = 0; k < n; ++k) x[k] += factor * mix[r * n + k];
    }
    for (uint64_t k = 0; k < n; ++k) x[k] *= size[k];
    for (uint64_t i = 0; i < n; ++i)
      for (uint64_t j = 0; j < n; ++j) sums[i * n + j] += x[i] * x[j];
  }
  std::vector<float> out(n * n);
  for (uint64_t i = 0; i < n * n; ++i) out[i] = static_cast<float>(sums[i] / static_cast<double>(n_tokens));
  return out;
}

std::vector<float> weights(uint64_t n, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> out(n);
  for (float& value : out) value = static_cast<float>(rng.normal() * 0.05);
  return out;
}

TEST(InputHessian, FactorsMultiplyBackToTheMatrix) {
  const auto pool = ThreadPool::create(2);
  for (const uint64_t n : {1u, 3u, 64u, 65u, 200u}) {
    const auto made = InputHessian::create(correlated(n, 5, 400, n), n, {}, *pool);
    ASSERT_TRUE(made) << made.error().to_string();
    for (uint64_t i = 0; i < n; ++i) {
      for (uint64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (uint64_t k = std::max(i, j); k < n; ++k) {
          const double u = i == k ? 1 : static_cast<double>(made->factor(i)[k]);
          const double v = j == k ? 1 : static_cast<double>(made->factor(j)[k]);
          sum += u * v * static_cast<double>(made->conditional(k));
        }
        const double scale = std::sqrt(static_cast<double>(made->diagonal(i)) * static_cast<double>(made->diagonal(j)));
        EXPECT_NEAR(sum, static_cast<double>(made->row(i)[j]), 2e-5 * scale) << n << ": " << i << ", " << j;
        EXPECT_TRUE(j > i || made->factor(i)[j] == 0.0f);
      }
    }
  }
}

TEST(InputHessian, DeadColumnsAndNoInputsAtAllAreSound) {
  const auto pool = ThreadPool::create(1);
  std::vector<float> h = correlated(40, 3, 10, 1);
  for (uint64_t k = 0; k < 40; ++k) h[7 * 40 + k] = h[k * 40 + 7] = 0;
  const auto dead = InputHessian::create(std::move(h), 40, {}, *pool);
  ASSERT_TRUE(dead) << dead.error().to_string();
  EXPECT_GT(dead->conditional(7), 0);
  EXPECT_TRUE(InputHessian::create(std::vector<float>(16), 4, {}, *pool));
}

TEST(InputHessian, WhatNoInputsCanGiveIsRefused) {
  const auto pool = ThreadPool::create(1);
  EXPECT_FALSE(InputHessian::create({1, 9, 9, 1}, 2, {}, *pool));
  EXPECT_FALSE(InputHessian::create({1, 0, NAN, 1}, 2, {}, *pool));
  EXPECT_FALSE(InputHessian::create({INFINITY, 0, 0, 1}, 2, {}, *pool));
  EXPECT_FALSE(InputHessian::create({-1, 0, 0, -1}, 2, {}, *pool));
}

// Independent inputs leave nothing to gain; inputs of few dimensions much.
TEST(InputHessian, RoomSaysWhatPredecessorsExplain) {
  const auto pool = ThreadPool::create(1);
  std::vector<float> even(64 * 64);
  for (uint64_t k = 0; k < 64; ++k) even[65 * k] = 2;
  EXPECT_NEAR(InputHessian::create(std::move(even), 64, {}, *pool)->room(), 1, 1e-3);
  const double room = InputHessian::create(correlated(64, 4, 4000, 2), 64, {}, *pool)->room();
  EXPECT_GT(room, 0.02);
  EXPECT_LT(room, 0.3);
}

class FeedbackTypes : public ::testing::TestWithParam<DType> {};

// Blocks with the same scales and other codes decode to the values of those codes, group by group, and to all of them.
TEST_P(FeedbackTypes, CodesAreWhatTheDecoderReads) {
  const QuantType& type = quant_type(GetParam());
  const DTypeInfo& info = dtype_info(GetParam());
  const std::vector<float> values = weights(info.block_len, 3);
  std::vector<std::byte> block(info.block_bytes);
  type.encode_fast(values.data(), nullptr, block.data(), 1);
  std::vector<std::vector<float>> meanings(type.codes.n_codes, std::vector<float>(info.block_len));
  std::vector<uint8_t> codes(info.block_len);
  for (uint32_t code = 0; code < type.codes.n_codes; ++code) {
    std::fill(codes.begin(), codes.end(), static_cast<uint8_t>(code));
    type.codes.put_codes(codes.data(), block.data());
    type.decode(block.data(), meanings[code].data(), 1);
    for (uint32_t k = 0; k < info.block_len; ++k)
      EXPECT_EQ(meanings[code][k], meanings[code][k / type.codes.group_len * type.codes.group_len]) << code << " " << k;
  }
  Rng rng(4);
  for (uint8_t& code : codes) code = static_cast<uint8_t>(rng.below(type.codes.n_codes));
  type.codes.put_codes(codes.data(), block.data());
  std::vector<float> decoded(info.block_len);
  type.decode(block.data(), decoded.data(), 1);
  for (uint32_t k = 0; k < info.block_len; ++k) EXPECT_EQ(decoded[k], meanings[codes[k]][k]) << k;
}

// (ŵ − w)ᵀ H (ŵ − w) of one row.
double output_error(std::span<const float> row, std::span<const float> decoded, const InputHessian& hessian) {
  double sum = 0;
  for (size_t i = 0; i < row.size(); ++i)
    for (size_t k = 0; k < row.size(); ++k)
      sum += (static_cast<double>(decoded[i]) - static_cast<double>(row[i])) * static_cast<double>(hessian.row(i)[k]) *
             (static_cast<double>(decoded[k]) - static_cast<double>(row[k]));
  return sum;
}

double total_error(DType dtype, std::span<const float> values, std::span<const std::byte> blocks,
                   const InputHessian& hessian) {
  std::vector<float> decoded(values.size());
  decode(dtype, blocks.data(), decoded);
  double sum = 0;
  for (size_t at = 0; at < values.size(); at += hessian.n_cols())
    sum +=
        output_error(values.subspan(at, hessian.n_cols()), std::span(decoded).subspan(at, hessian.n_cols()), hessian);
  return sum;
}

// Scales read and stored again leave the block as it is, and mean what the decoder makes of them.
TEST_P(FeedbackTypes, ScalesAreWhatTheDecoderReads) {
  const QuantType& type = quant_type(GetParam());
  if (type.codes.get_scales == nullptr) {  // MXFP4, NVFP4: their scales are no f16 and integers
    EXPECT_TRUE(GetParam() == DType::mxfp4 || GetParam() == DType::nvfp4);
    return;
  }
  const DTypeInfo& info = dtype_info(GetParam());
  const std::vector<float> values = weights(info.block_len, 9);
  std::vector<std::byte> block(info.block_bytes);
  type.encode_fast(values.data(), nullptr, block.data(), 1);
  const std::vector<std::byte> before = block;
  BlockScales scales;
  type.codes.get_scales(block.data(), scales);
  type.codes.put_scales(scales, block.data());
  EXPECT_EQ(block, before);

  // Another d, dmin and, where there are integers, one group's: the codes' levels stay.
  std::vector<float> decoded(info.block_len), moved(info.block_len);
  type.decode(block.data(), decoded.data(), 1);
  BlockScales other = scales;
  other.d = 2 * scales.d;
  other.dmin = 4 * scales.dmin;
  const ScaleRange& range = type.codes.range;
  if (range.highest > range.lowest) other.scale[3] = scales.scale[3] > 1 ? scales.scale[3] - 1 : scales.scale[3] + 1;
  if (range.highest_minimum > range.lowest_minimum) other.minimum[5] = scales.minimum[5] > 1 ? 1 : 2;
  type.codes.put_scales(other, block.data());
  type.decode(block.data(), moved.data(), 1);
  for (uint32_t k = 0; k < info.block_len; ++k) {
    const auto group = k / type.codes.group_len;
    if (scales.scale[group] == 0) continue;
    const float level = (decoded[k] + scales.dmin * static_cast<float>(scales.minimum[group])) /
                        (scales.d * static_cast<float>(scales.scale[group]));
    const float expected = other.d * static_cast<float>(other.scale[group]) * level -
                           other.dmin * static_cast<float>(other.minimum[group]);
    EXPECT_NEAR(moved[k], expected, 1e-5f * (std::fabs(expected) + std::fabs(other.dmin) * 63)) << k;
  }
}

TEST_P(FeedbackTypes, OutputsErrIsFarBelowTheDiagonalSearch) {
  const DType dtype = GetParam();
  constexpr uint64_t kCols = 512, kRows = 40;
  const auto pool = ThreadPool::create(2);
  const auto hessian = InputHessian::create(correlated(kCols, 24, 3000, 5), kCols, {}, *pool);
  ASSERT_TRUE(hessian);
  const std::vector<float> values = weights(kCols * kRows, 6);
  std::vector<float> importance(kCols);
  for (uint64_t k = 0; k < kCols; ++k) importance[k] = hessian->diagonal(k);
  const DTypeInfo& info = dtype_info(dtype);
  std::vector<std::byte> fast(kRows * kCols / info.block_len * info.block_bytes), fed(fast.size());
  ASSERT_TRUE(encode_rows(dtype, EncodeMethod::fast, values, kCols, importance, fast));
  ASSERT_TRUE(encode_rows_with_feedback(dtype, values, *hessian, {}, fed));
  const double ratio = total_error(dtype, values, fed, *hessian) / total_error(dtype, values, fast, *hessian);
  RecordProperty("ratio", std::to_string(ratio));
  EXPECT_LT(ratio, hessian->room() * 2);
  EXPECT_GT(ratio, 0);

  // Each step pays, and a row's bytes do not depend on those beside it.
  std::vector<std::byte> less(fed.size()), alone(fed.size() / kRows);
  ASSERT_TRUE(encode_rows_with_feedback(dtype, values, *hessian, {.n_sweeps = 0, .n_rounds = 0}, less));
  EXPECT_LT(total_error(dtype, values, fed, *hessian), total_error(dtype, values, less, *hessian));
  ASSERT_TRUE(encode_rows_with_feedback(dtype, std::span(values).subspan(35 * kCols, kCols), *hessian, {}, alone));
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), fed.begin() + static_cast<std::ptrdiff_t>(35 * alone.size())));
}

INSTANTIATE_TEST_SUITE_P(All, FeedbackTypes, ::testing::ValuesIn([] {
                           std::vector<DType> out;
                           for (const QuantType& type : all_quant_types())
                             if (has_feedback_encoder(type.dtype)) out.push_back(type.dtype);
                           return out;
                         }()),
                         [](const auto& type) { return std::string(dtype_name(type.param)); });

TEST(Feedback, OddValuesGiveCodesInRange) {
  const auto pool = ThreadPool::create(1);
  const auto hessian = InputHessian::create(correlated(256, 8, 500, 7), 256, {}, *pool);
  for (const float odd : {0.0f, 1e-30f, 1e30f, -3e38f}) {
    std::vector<float> values(256, odd);
    values[3] = 1;
    for (const QuantType& type : all_quant_types()) {
      if (!has_feedback_encoder(type.dtype)) continue;
      std::vector<std::byte> blocks(256 / dtype_info(type.dtype).block_len * dtype_info(type.dtype).block_bytes);
      EXPECT_TRUE(encode_rows_with_feedback(type.dtype, values, *hessian, {}, blocks)) << dtype_name(type.dtype);
    }
  }
}

TEST(Feedback, ShapesAndTypesThatDoNotFitAreRefused) {
  const auto pool = ThreadPool::create(1);
  const auto hessian = InputHessian::create(correlated(64, 8, 500, 8), 64, {}, *pool);
  const std::vector<float> values(128);
  std::vector<std::byte> blocks(200);
  EXPECT_EQ(encode_rows_with_feedback(DType::iq3_s, values, *hessian, {}, blocks).error().code, ErrorCode::unsupported);
  EXPECT_EQ(encode_rows_with_feedback(DType::q4_k, values, *hessian, {}, blocks).error().code, ErrorCode::shape);
  EXPECT_EQ(encode_rows_with_feedback(DType::q4_0, std::span(values).first(100), *hessian, {}, blocks).error().code,
            ErrorCode::shape);
  EXPECT_EQ(encode_rows_with_feedback(DType::q8_0, values, *hessian, {}, std::span(blocks).first(100)).error().code,
            ErrorCode::shape);
}

}  // namespace
}  // namespace tamis
