// The searching encoders: never worse than the textbook ones, near the best by exhaustive search, sound on any floats
// and any importance.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/float16.h"
#include "tests/quants/draws.h"
#include "tests/quants/golden.h"

namespace tamis {
namespace {

using test::gaussian;
using test::importance_of;
using test::uniform;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

enum class Kind { gaussian, heavy_tail, constant, outlier, zero, negative, subnormal, huge };
constexpr Kind kKinds[] = {Kind::gaussian, Kind::heavy_tail, Kind::constant,  Kind::outlier,
                           Kind::zero,     Kind::negative,   Kind::subnormal, Kind::huge};

std::vector<float> values_of(Kind kind, size_t n, uint64_t seed) {
  std::vector<float> out(n);
  for (size_t i = 0; i < n; ++i) {
    const double x = 0.02 * gaussian(seed, i);
    const double tail = 0.02 * std::tan(3.0 * (uniform(seed + 77, i) - 0.5));
    out[i] = static_cast<float>(kind == Kind::heavy_tail ? tail : x);
    if (kind == Kind::constant) out[i] = static_cast<float>(0.02 + 0.01 * uniform(seed, 0));
    if (kind == Kind::outlier && i == n / 3) out[i] = 1.0f;
    if (kind == Kind::zero) out[i] = 0.0f;
    if (kind == Kind::negative) out[i] = -std::fabs(out[i]);
    if (kind == Kind::subnormal) out[i] *= 1e-40f;
    if (kind == Kind::huge) out[i] *= 1e38f;
  }
  return out;
}

std::vector<std::byte> encoded(DType dtype, EncodeMethod method, std::span<const float> values, size_t row_len,
                               std::span<const float> importance) {
  std::vector<std::byte> out(*dtype_bytes(dtype, values.size()));
  const Status status = encode_rows(dtype, method, values, row_len, importance, out);
  EXPECT_TRUE(status.has_value()) << dtype_name(dtype) << ": " << (status ? "" : status.error().message);
  return out;
}

std::vector<float> decoded(DType dtype, std::span<const std::byte> blocks, size_t n) {
  std::vector<float> out(n);
  decode(dtype, blocks.data(), out);
  return out;
}

// What the encoders of the types below weigh with (quants/importance.h), sigma2 over the block, which is a row here.
struct Weighting {
  DType dtype;
  double exponent;
  bool is_unbiased;  // d keeps the weighted energy after the search: only codes are compared
};
constexpr Weighting kWeightings[] = {
    {DType::q4_0, 0.25, false}, {DType::q5_0, 0.25, true},   {DType::q8_0, 0.25, false},  {DType::q4_1, 0.25, false},
    {DType::q5_1, 0.25, false}, {DType::iq4_nl, 0.25, true}, {DType::iq4_xs, 0.25, true}, {DType::tq1_0, 0.25, true},
    {DType::tq2_0, 0.25, true}, {DType::q2_0, 0.25, true},   {DType::mxfp4, 0.5, false},  {DType::nvfp4, 0.5, false},
};

std::vector<double> weights_of(std::span<const float> x, std::span<const float> importance, double exponent) {
  double sigma2 = 0;
  for (const float v : x) sigma2 += static_cast<double>(v) * v / static_cast<double>(x.size());
  std::vector<double> out(x.size(), 1.0);
  for (size_t i = 0; i < x.size() && !importance.empty(); ++i)
    out[i] = importance[i] * std::pow(sigma2 + static_cast<double>(x[i]) * x[i], exponent);
  return out;
}

struct Error {
  double squares;  // Σ w x²
  double error;    // Σ w (x − y)², y times its best factor where only codes are compared
};

Error error_of(std::span<const float> x, std::span<const float> y, std::span<const double> w, bool is_scale_free) {
  double xx = 0, xy = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xx += w[i] * x[i] * x[i];
    xy += w[i] * x[i] * y[i];
    yy += w[i] * y[i] * y[i];
  }
  return {xx, is_scale_free ? (yy > 0 ? xx - xy * xy / yy : xx) : xx - 2 * xy + yy};
}

// The search tries the textbook encoder's codes with their best scale, and then stores that scale as an f16: half an
// ulp, 2^-11 of d, costs Σwqq·d²·2^-22, at most about Σwx²·2^-22, and its own sums are of floats, 2^-24 a step; with a
// minimum there are two such scales. IQ4_XS does not try the textbook's scales: where any level fits (a constant) its
// groups may take different ones, and their scales are then rounded to one part in 50 or more, (1/50)² of Σwx².
TEST(EncodeFast, NeverWorseThanTextbook) {
  for (const Weighting& type : kWeightings) {
    const size_t len = dtype_info(type.dtype).block_len;
    for (const Kind kind : kKinds) {
      if (kind == Kind::huge || kind == Kind::subnormal) continue;  // beyond f16: below
      for (uint64_t seed = 1; seed <= 24; ++seed) {
        const auto x = values_of(kind, len, seed);
        const auto importance = seed % 3 == 0 ? std::vector<float>{} : importance_of(len, seed);
        const auto w = weights_of(x, importance, type.exponent);
        const auto fast = decoded(type.dtype, encoded(type.dtype, EncodeMethod::fast, x, len, importance), len);
        const auto plain = decoded(type.dtype, encoded(type.dtype, EncodeMethod::plain, x, len, {}), len);
        const Error ours = error_of(x, fast, w, type.is_unbiased);
        const Error textbook = error_of(x, plain, w, type.is_unbiased);
        ASSERT_LE(ours.error, textbook.error + ours.squares * (type.dtype == DType::iq4_xs ? 1.0 / 2500 : 0x1p-19))
            << dtype_name(type.dtype) << " kind " << static_cast<int>(kind) << " seed " << seed;
      }
    }
  }
}

// Every f16 scale of both signs with its nearest codes.
double best_error(std::span<const float> x, std::span<const double> w, std::span<const double> levels) {
  double best = 0;
  double top = 0, extreme = 0;
  for (const double level : levels) top = std::max(top, std::fabs(level));
  for (size_t i = 0; i < x.size(); ++i)
    best += w[i] * x[i] * x[i], extreme = std::max(extreme, std::fabs(double{x[i]}));
  const double squares = best;
  for (uint32_t bits = 1; bits < 0x7c00; ++bits) {
    const double d = f16_to_f32(static_cast<uint16_t>(bits));
    if (d * top * 4 < extreme || d * top > extreme * 4) continue;
    for (const double scale : {d, -d}) {
      double xq = 0, qq = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        const double v = x[i] / scale;
        const auto above = std::lower_bound(levels.begin() + 1, levels.end() - 1, v);
        const double q = v - *(above - 1) < *above - v ? *(above - 1) : *above;
        xq += w[i] * x[i] * q;
        qq += w[i] * q * q;
      }
      if (qq > 0) best = std::min(best, squares - xq * xq / qq);
    }
  }
  return best;
}

// The grid of trial scales may pass over the best arc: one in some thousand blocks ends a few per cent above the best,
// and over blocks that is far below 1 %.
TEST(EncodeFast, NearTheBestScale) {
  struct Case {
    DType dtype;
    std::vector<double> levels;
  };
  std::vector<Case> cases = {
      {DType::q4_0, {}}, {DType::q5_0, {}}, {DType::q2_0, {-1, 0, 1, 2}}, {DType::tq2_0, {-1, 0, 1}}};
  for (int q = -8; q < 8; ++q) cases[0].levels.push_back(q);
  for (int q = -16; q < 16; ++q) cases[1].levels.push_back(q);
  cases.push_back({DType::iq4_nl, {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}});
  for (const Case& type : cases) {
    const size_t len = dtype_info(type.dtype).block_len;
    double total = 0, best_total = 0;
    for (uint64_t seed = 1; seed <= 8; ++seed) {
      const auto x = values_of(seed % 2 == 0 ? Kind::gaussian : Kind::heavy_tail, len, 100 + seed);
      const auto importance = importance_of(len, seed);
      const auto w = weights_of(x, importance, 0.25);
      const auto y = decoded(type.dtype, encoded(type.dtype, EncodeMethod::fast, x, len, importance), len);
      const double ours = error_of(x, y, w, true).error;
      const double best = best_error(x, w, type.levels);
      EXPECT_LE(ours, best * 1.15) << dtype_name(type.dtype) << " seed " << seed;
      total += ours, best_total += best;
    }
    EXPECT_LE(total, best_total * 1.01) << dtype_name(type.dtype);
  }
}

std::vector<DType> searched_types() {
  std::vector<DType> out;
  for (const QuantType& type : all_quant_types())
    if (type.encode_fast != nullptr) out.push_back(type.dtype);
  return out;
}

// Zeros in an importance matrix made scales NaN in llama.cpp (its issue 8661); every type, both kinds of holes.
TEST(EncodeFast, ImportanceWithHolesGivesFiniteBlocks) {
  constexpr size_t kLen = 256, kRows = 4;
  const auto x = values_of(Kind::gaussian, kLen * kRows, 5);
  std::vector<float> ones(kLen, 1.0f), hole(kLen, 1.0f), zeros(kLen, 0.0f), tiny(kLen, 1e-42f), bad(kLen, 1.0f);
  std::fill(hole.begin(), hole.begin() + 32, 0.0f);
  for (const DType dtype : searched_types()) {
    for (const auto& importance : {ones, hole, zeros, tiny, std::vector<float>{}}) {
      const auto y = decoded(dtype, encoded(dtype, EncodeMethod::fast, x, kLen, importance), x.size());
      double error = 0, squares = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        ASSERT_TRUE(std::isfinite(y[i])) << dtype_name(dtype);
        error += (x[i] - y[i]) * (x[i] - y[i]);
        squares += x[i] * x[i];
      }
      EXPECT_LT(error, 0.8 * squares) << dtype_name(dtype) << ": columns without importance still get their values";
    }
    std::vector<std::byte> blocks(*dtype_bytes(dtype, x.size()));
    for (const float value : {kNan, kInf, -1.0f}) {
      bad[7] = value;
      const auto status = encode_rows(dtype, EncodeMethod::fast, x, kLen, bad, blocks);
      ASSERT_FALSE(status.has_value());
      EXPECT_EQ(status.error().code, ErrorCode::invalid_argument);
      EXPECT_THAT(status.error().message, ::testing::HasSubstr("column 7"));
    }
  }
}

// All 0 and all 1 are the same weights.
TEST(EncodeFast, NoImportanceAnywhereIsEvenImportance) {
  const auto x = values_of(Kind::gaussian, 256, 6);
  const std::vector<float> ones(256, 1.0f), zeros(256, 0.0f);
  for (const Weighting& type : kWeightings)
    EXPECT_EQ(encoded(type.dtype, EncodeMethod::fast, x, 256, zeros),
              encoded(type.dtype, EncodeMethod::fast, x, 256, ones))
        << dtype_name(type.dtype);
}

TEST(EncodeFast, AnyFiniteValuesGiveFiniteBlocks) {
  for (const DType dtype : searched_types()) {
    for (const Kind kind : kKinds) {
      const auto x = values_of(kind, 256, 9);
      for (const float y : decoded(dtype, encoded(dtype, EncodeMethod::fast, x, 256, importance_of(256, 9)), 256))
        ASSERT_TRUE(std::isfinite(y)) << dtype_name(dtype) << " kind " << static_cast<int>(kind);
    }
    const float extremes[] = {3.4e38f, -3.4e38f, 1e-45f, -1e-45f, 65504.0f, 65520.0f, 1e30f, 0.0f};
    for (const float special : extremes) {
      for (const float rest : {0.0f, 1.0f, special}) {
        std::vector<float> x(256, rest);
        x[85] = special;
        for (const float y : decoded(dtype, encoded(dtype, EncodeMethod::fast, x, 256, {}), 256))
          ASSERT_TRUE(std::isfinite(y)) << dtype_name(dtype) << " " << special << " among " << rest;
      }
    }
  }
}

TEST(EncodeFast, NanAndInfinityDoNotSpread) {
  for (const DType dtype : searched_types()) {
    for (const float special : {kNan, kInf, -kInf}) {
      auto x = values_of(Kind::gaussian, 512, 11);
      x[3] = special;
      const auto y = decoded(dtype, encoded(dtype, EncodeMethod::fast, x, 512, importance_of(512, 11)), 512);
      for (size_t i = 256; i < 512; ++i) ASSERT_TRUE(std::isfinite(y[i])) << dtype_name(dtype);
    }
  }
}

// A row's bytes do not depend on the rows encoded with it: rows may be split over threads anywhere.
TEST(EncodeFast, RowsAreIndependent) {
  constexpr size_t kLen = 512, kRows = 5;
  const auto x = values_of(Kind::heavy_tail, kLen * kRows, 13);
  const auto importance = importance_of(kLen, 13);
  for (const DType dtype : searched_types()) {
    const auto together = encoded(dtype, EncodeMethod::fast, x, kLen, importance);
    const size_t row_bytes = together.size() / kRows;
    for (size_t row = 0; row < kRows; ++row) {
      const auto alone = encoded(dtype, EncodeMethod::fast, std::span(x).subspan(row * kLen, kLen), kLen, importance);
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(), together.begin() + static_cast<ptrdiff_t>(row * row_bytes)))
          << dtype_name(dtype) << " row " << row;
    }
  }
}

// Every machine, instruction set and compiler gives the same bytes. A change of a search changes its hashes; they are
// then replaced by what this test prints, once two compilers agree on it.
TEST(EncodeFast, BytesAreTheSameEverywhere) {
  constexpr size_t kLen = 1024;
  struct Hashes {
    DType dtype;
    uint64_t without, with;  // importance
  };
  constexpr Hashes kHashes[] = {
      {DType::q4_0, 0x61ec0e57f2b2e4d7u, 0x62312214a2894f73u},
      {DType::q4_1, 0xdb8078df11da1d10u, 0xc976e1ff935cb154u},
      {DType::q5_0, 0x199835aded4c1733u, 0xee9ec32f0af2005fu},
      {DType::q5_1, 0x99f73dddf4413008u, 0x3ad1c3c52c6224d7u},
      {DType::q8_0, 0x0f736b2ff5946fd1u, 0x281409849be50a89u},
      {DType::iq4_nl, 0x09f7dcb0edc10a5bu, 0x23b52475d3a5acc2u},
      {DType::iq4_xs, 0x8c5aedff346e0af3u, 0x2b064b4a204cebdbu},
      {DType::tq1_0, 0x55637485ec1ad891u, 0x2452d2542f7b5a47u},
      {DType::tq2_0, 0xee4917d74d86d606u, 0x8dff768ea08985ebu},
      {DType::mxfp4, 0x743f1640ed20e127u, 0x743f1640ed20e127u},
      {DType::nvfp4, 0xf810929ce12a8749u, 0xf1f9b92d06fcf000u},
      {DType::q1_0, 0xbe6df9e07b6d1399u, 0x3ff6772184ffc670u},
      {DType::q2_0, 0x4ad71f367015bc7bu, 0x933cc1bd46a3664fu},
  };
  std::vector<float> x(64 * kLen), importance(kLen);
  for (size_t i = 0; i < x.size(); ++i) {
    const auto draw = static_cast<int64_t>(golden::word(7, i) >> 40) - (1 << 23);
    const float u = static_cast<float>(draw) * 0x1p-23f;
    x[i] = u * u * u * 0.1f;
  }
  for (size_t i = 0; i < kLen; ++i) importance[i] = static_cast<float>(golden::word(9, i) >> 40) * 0x1p-24f;
  for (const Hashes& row : kHashes) {
    const auto hash = [&](std::span<const float> weights) {
      return golden::hash_of(std::span<const std::byte>(encoded(row.dtype, EncodeMethod::fast, x, kLen, weights)));
    };
    EXPECT_EQ(hash({}), row.without) << dtype_name(row.dtype) << std::hex << " 0x" << hash({});
    EXPECT_EQ(hash(importance), row.with) << dtype_name(row.dtype) << std::hex << " 0x" << hash(importance);
  }
}

// Every column's importance moves the codes its way: with nearly all of it on one half of each block, that half's error
// falls below what even importance leaves there.
TEST(EncodeFast, ImportanceMovesTheErrorAway) {
  constexpr size_t kLen = 256, kRows = 32;
  const auto x = values_of(Kind::gaussian, kLen * kRows, 17);
  std::vector<float> even(kLen, 1.0f), half(kLen, 1e-4f);
  for (size_t i = 0; i < kLen; ++i)
    if (i % 2 == 0) half[i] = 1.0f;
  for (const Weighting& type : kWeightings) {
    double error[2] = {};
    for (int which = 0; which < 2; ++which) {
      const auto y =
          decoded(type.dtype, encoded(type.dtype, EncodeMethod::fast, x, kLen, which == 0 ? even : half), x.size());
      for (size_t i = 0; i < x.size(); i += 2) error[which] += (x[i] - y[i]) * (x[i] - y[i]);
    }
    EXPECT_LT(error[1], error[0]) << dtype_name(type.dtype);
  }
}

}  // namespace
}  // namespace tamis
