// Encoders of IQ1, IQ2 and IQ3: the codes are packed as searched, the search is exhaustive where it says so, no input
// breaks it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>
#include <vector>

#include "base/float16.h"
#include "quants/grid_formats.h"
#include "quants/registry.h"
#include "tests/quants/golden.h"

namespace tamis {
namespace {

struct GridType {
  DType dtype;
  const GridFormat* format;
};
const GridType kGridTypes[] = {
    {DType::iq1_s, &kFormatIQ1S},   {DType::iq1_m, &kFormatIQ1M}, {DType::iq2_xxs, &kFormatIQ2XXS},
    {DType::iq2_xs, &kFormatIQ2XS}, {DType::iq2_s, &kFormatIQ2S}, {DType::iq3_xxs, &kFormatIQ3XXS},
    {DType::iq3_s, &kFormatIQ3S},
};

float uniform(uint64_t seed, uint64_t i) { return (static_cast<float>(golden::word(seed, i) >> 40) + 0.5f) * 0x1p-24f; }

// Bell-shaped values of groups of different sizes, as rows of matrices are.
std::vector<float> row_values(uint64_t seed, size_t n) {
  std::vector<float> out(n);
  for (size_t i = 0; i < n; ++i) {
    const float size = 0.02f * (0.5f + uniform(seed + 1000, i / 32));
    const float radius = std::sqrt(-2 * std::log(uniform(seed, 2 * i)));
    out[i] = size * radius * std::cos(6.2831853f * uniform(seed, 2 * i + 1));
  }
  return out;
}

std::vector<float> row_importance(uint64_t seed, size_t n) {
  std::vector<float> out(n);
  for (size_t i = 0; i < n; ++i) out[i] = std::exp(4 * uniform(seed + 2000, i) - 2);
  return out;
}

std::vector<float> weights_of(const GridFormat& format, const std::vector<float>& values, const float* importance) {
  std::vector<float> out(values.size());
  value_weights(values.data(), importance, values.size(), mean_square(values.data(), values.size()), format.rule,
                out.data());
  return out;
}

double weighted_error(const std::vector<float>& values, const std::vector<float>& other,
                      const std::vector<float>& weights) {
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i)
    sum += static_cast<double>(weights[i]) * (values[i] - other[i]) * (values[i] - other[i]);
  return sum;
}

std::vector<std::byte> encoded(DType dtype, const std::vector<float>& values, const std::vector<float>& importance,
                               EncodeMethod method = EncodeMethod::fast) {
  std::vector<std::byte> out(values.size() / 256 * dtype_info(dtype).block_bytes);
  const Status status = encode_rows(dtype, method, values, values.size(), importance, out);
  EXPECT_TRUE(status.has_value()) << status.error().message;
  return out;
}

std::vector<float> decoded(DType dtype, const std::vector<std::byte>& blocks) {
  std::vector<float> out(blocks.size() / dtype_info(dtype).block_bytes * 256);
  decode(dtype, blocks.data(), out);
  return out;
}

std::vector<float> values_of(const GridFormat& format, const GridCodes& codes) {
  const PointTable& table = format.points();
  const auto dims = static_cast<size_t>(table.dims);
  std::vector<float> out(256);
  const float step = f16_to_f32(codes.d) / format.unit;
  for (size_t i = 0; i < 256; ++i) {
    float point = table.point(codes.index[i / dims])[i % dims];
    if (format.shift != GridShift::none) point += codes.is_minus[i / dims] != 0 ? -0.125f : 0.125f;
    if ((codes.signs[i / 8] >> (i % 8) & 1) != 0) point = -point;
    out[i] = step * static_cast<float>(2 * codes.codes[i / format.group_len] + 1) * point;
  }
  return out;
}

// Decoding gives what the search chose, to the roundings of three products, and the error it believed: a difference of
// sums of 256 products, so to 256 · 2^-23 of Σ w x² and a few more roundings.
TEST(GridEncode, DecodesToWhatWasSearched) {
  for (const GridType& type : kGridTypes) {
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      const auto values = row_values(seed, 256), importance = row_importance(seed, 256);
      const GridCodes codes = search_super_block(*type.format, values.data(), importance.data());
      const auto expected = values_of(*type.format, codes);
      const auto back = decoded(type.dtype, encoded(type.dtype, values, importance));
      for (size_t i = 0; i < 256; ++i)
        ASSERT_NEAR(back[i], expected[i], std::fabs(expected[i]) * 4 * 0x1p-24f) << dtype_name(type.dtype) << " " << i;
      const auto weights = weights_of(*type.format, values, importance.data());
      const double energy = weighted_error(values, std::vector<float>(256), weights);
      EXPECT_NEAR(codes.error, weighted_error(values, back, weights), energy * 260 * 0x1p-23) << dtype_name(type.dtype);
    }
  }
}

// At the scale of least error the search is never behind the textbook encoder, in the error it minimises.
TEST(GridEncode, NeverWorseThanPlain) {
  for (const GridType& type : kGridTypes) {
    GridFormat format = *type.format;
    format.unbias = 0;
    for (uint64_t seed = 11; seed <= 26; ++seed) {
      const auto values = row_values(seed, 256), importance = row_importance(seed, 256);
      const auto weights = weights_of(format, values, importance.data());
      const auto plain = decoded(type.dtype, encoded(type.dtype, values, {}, EncodeMethod::plain));
      const double energy = weighted_error(values, std::vector<float>(256), weights);
      const GridCodes codes = search_super_block(format, values.data(), importance.data());
      const double plain_error = weighted_error(values, plain, weights);
      EXPECT_LE(codes.error, plain_error) << dtype_name(type.dtype) << " seed " << seed;
      EXPECT_LT(plain_error, 0.4 * energy) << dtype_name(type.dtype);  // a ternary code of normal values leaves .2
    }
  }
}

// The kernel finds the best of all points: its order is by errors whose low bits are cut, 2^-12 at most, plus the
// roundings of eight sums.
TEST(GridEncode, NearestPointsAreNearest) {
  for (const GridType& type : kGridTypes) {
    const PointTable& table = type.format->points();
    const auto dims = static_cast<size_t>(table.dims), n = 256 / dims;
    const float shift = type.format->shift == GridShift::none ? 0.0f : 0.125f;
    const auto values = row_values(31, 256), weights = row_importance(31, 256);
    GridTargets targets;
    std::copy(values.begin(), values.end(), targets.values);
    std::copy(weights.begin(), weights.end(), targets.weights);
    alignas(64) float scales[64];
    for (size_t t = 0; t < n; ++t) scales[t] = 0.02f / type.format->unit * (0.3f + uniform(32, t)) / 2;
    NearestPoints found;
    nearest_points(table, targets, scales, shift, found);
    const auto error_of = [&](size_t t, size_t point) {
      double sum = 0;
      for (size_t j = 0; j < dims; ++j) {
        const double miss = values[j * n + t] - scales[t] * (table.point(point)[j] + shift);
        sum += weights[j * n + t] * miss * miss;
      }
      return sum;
    };
    for (size_t t = 0; t < n; ++t) {
      double best = error_of(t, 0);
      for (size_t point = 1; point < table.ids.size(); ++point) best = std::min(best, error_of(t, point));
      EXPECT_LE(error_of(t, found.index[t]), best * (1 + 0x1p-11)) << dtype_name(type.dtype) << " " << t;
    }
  }
}

// The least error of eight values over all points and permitted signs: with an odd number of minus signs, the cheapest
// change of one.
double best_of_eight(const GridFormat& format, const float* values, const float* weights, float scale) {
  const PointTable& table = format.points();
  const size_t n = table.ids.size(), halves = table.dims == 8 ? 1 : n;
  unsigned odd = 0;
  for (size_t j = 0; j < 8; ++j) odd ^= values[j] < 0 ? 1u : 0u;
  const bool flips = format.signs == GridSigns::even && odd != 0;
  double best = std::numeric_limits<double>::max();
  for (size_t a = 0; a < n; ++a)
    for (size_t b = 0; b < halves; ++b) {
      double error = 0, flip = std::numeric_limits<double>::max();
      for (size_t j = 0; j < 8; ++j) {
        const float point = table.dims == 8 || j < 4 ? table.point(a)[j] : table.point(b)[j - 4];
        const double y = static_cast<double>(scale) * point, x = std::fabs(values[j]);
        error += weights[j] * (x - y) * (x - y);
        flip = std::min(flip, 4 * weights[j] * x * y);
      }
      best = std::min(best, flips ? error + flip : error);
    }
  return best;
}

// All points and all signs, at the scales chosen. Free signs: nothing better. Even ones: the sign to change is one of
// three guesses, which costs less than 1 % of a super-block's error.
TEST(GridEncode, ExhaustiveSearchFindsNothingBetter) {
  for (const GridType& type : kGridTypes) {
    if (type.format->signs == GridSigns::none) continue;
    GridFormat format = *type.format;
    format.unbias = 0;
    const auto values = row_values(41, 256), importance = row_importance(41, 256);
    const auto weights = weights_of(format, values, importance.data());
    const GridCodes codes = search_super_block(format, values.data(), importance.data());
    double best = 0;
    for (size_t eight = 0; eight < 32; ++eight) {
      const int odd = 2 * codes.codes[8 * eight / format.group_len] + 1;
      const float scale = f16_to_f32(codes.d) / format.unit * static_cast<float>(odd);
      best += best_of_eight(format, values.data() + 8 * eight, weights.data() + 8 * eight, scale);
    }
    EXPECT_LE(codes.error, best * 1.01) << dtype_name(type.dtype);
  }
}

// The scale last chosen takes back most of what least squares shrinks.
TEST(GridEncode, UnbiasedScaleKeepsTheSizeOfWeights) {
  for (const GridType& type : kGridTypes) {
    GridFormat format = *type.format;
    const auto values = row_values(51, 256), importance = row_importance(51, 256);
    const auto weights = weights_of(format, values, importance.data());
    const auto shrinkage = [&](float unbias) {
      format.unbias = unbias;
      const auto back = values_of(format, search_super_block(format, values.data(), importance.data()));
      double xy = 0, xx = 0;
      for (size_t i = 0; i < 256; ++i) {
        xy += static_cast<double>(weights[i]) * values[i] * back[i];
        xx += static_cast<double>(weights[i]) * values[i] * values[i];
      }
      return xy / xx;
    };
    EXPECT_LT(shrinkage(0), 0.995) << dtype_name(type.dtype);
    EXPECT_NEAR(shrinkage(1), 1, 0x1p-10) << dtype_name(type.dtype);  // the rounding of the f16 scale
  }
}

// Columns that calibration never saw: groups of them, one of each pair, and all.
TEST(GridEncode, ImportanceOfZeroIsHarmless) {
  for (const GridType& type : kGridTypes) {
    const auto values = row_values(61, 512);
    for (const int pattern : {0, 1, 2}) {
      auto importance = row_importance(61, 512);
      for (size_t i = 0; i < 512; ++i)
        if (pattern == 0 || (pattern == 1 && i % 2 == 0) || (pattern == 2 && i / 32 % 3 == 0)) importance[i] = 0;
      const auto back = decoded(type.dtype, encoded(type.dtype, values, importance));
      double energy = 0, error = 0;
      for (size_t i = 0; i < 512; ++i) {
        ASSERT_TRUE(std::isfinite(back[i]));
        if (pattern == 1 && importance[i] == 0) continue;  // nothing binds these to their values
        energy += static_cast<double>(values[i]) * values[i];
        error += static_cast<double>(values[i] - back[i]) * (values[i] - back[i]);
      }
      EXPECT_LT(error, 0.5 * energy) << dtype_name(type.dtype) << " pattern " << pattern;
    }
  }
}

TEST(GridEncode, AnyFloatsGiveFiniteWeights) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const float odd[] = {nan, inf, -inf, 1e-42f, -1e-45f, 3e38f, -3e38f, 0.0f, -0.0f, 65520.0f, 1e-20f};
  for (const GridType& type : kGridTypes)
    for (const EncodeMethod method : {EncodeMethod::plain, EncodeMethod::fast})
      for (const float special : odd)
        for (const float rest : {0.0f, 1.0f, special})
          for (const bool weighted : {false, true}) {
            std::vector<float> values(256, rest);
            values[77] = special;
            const auto importance = weighted ? row_importance(71, 256) : std::vector<float>();
            for (const float value : decoded(type.dtype, encoded(type.dtype, values, importance, method)))
              ASSERT_TRUE(std::isfinite(value)) << dtype_name(type.dtype) << " " << special << " " << rest;
          }
}

TEST(GridEncode, ZerosStayZero) {
  for (const GridType& type : kGridTypes)
    for (const EncodeMethod method : {EncodeMethod::plain, EncodeMethod::fast})
      for (const float value : decoded(type.dtype, encoded(type.dtype, std::vector<float>(256), {}, method)))
        ASSERT_EQ(value, 0.0f) << dtype_name(type.dtype);
}

// A row is its super-blocks, each with its own columns' importance; threads that start together agree.
TEST(GridEncode, SameBytesAlways) {
  for (const GridType& type : kGridTypes) {
    const auto values = row_values(81, 512), importance = row_importance(81, 512);
    std::vector<std::byte> other;
    std::thread thread([&] { other = encoded(type.dtype, values, importance); });
    const auto whole = encoded(type.dtype, values, importance);
    thread.join();
    EXPECT_EQ(whole, other) << dtype_name(type.dtype);
    auto halves =
        encoded(type.dtype, {values.begin(), values.begin() + 256}, {importance.begin(), importance.begin() + 256});
    const auto second =
        encoded(type.dtype, {values.begin() + 256, values.end()}, {importance.begin() + 256, importance.end()});
    halves.insert(halves.end(), second.begin(), second.end());
    EXPECT_EQ(whole, halves) << dtype_name(type.dtype);
  }
}

}  // namespace
}  // namespace tamis
