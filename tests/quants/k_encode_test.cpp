// Encoders of the K-quants: the textbook ones within the step of their rounding, the searching ones against them,
// against exhaustive search, and independent of what is encoded beside them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/float16.h"
#include "quants/k_search.h"
#include "tests/quants/draws.h"

namespace tamis {
namespace {

using test::gaussian;
using test::importance_of;
using test::uniform;

constexpr size_t kLen = 256;

enum class Kind { gaussian, heavy_tail, outlier, positive, negative, uneven_groups };
constexpr Kind kKinds[] = {Kind::gaussian, Kind::heavy_tail, Kind::outlier,
                           Kind::positive, Kind::negative,   Kind::uneven_groups};

std::vector<float> values_of(Kind kind, size_t n, uint64_t seed) {
  std::vector<float> out(n);
  for (size_t i = 0; i < n; ++i) {
    double x = 0.02 * gaussian(seed, i);
    if (kind == Kind::heavy_tail) x = 0.02 * std::tan(3.0 * (uniform(seed + 77, i) - 0.5));
    if (kind == Kind::outlier && i == n / 3) x = 1.0;
    if (kind == Kind::positive) x = std::fabs(x);
    if (kind == Kind::negative) x = -std::fabs(x);
    if (kind == Kind::uneven_groups) x *= std::exp2(static_cast<double>(i / 16 % 7) - 4.0);
    out[i] = static_cast<float>(x);
  }
  return out;
}

std::vector<float> coded(DType dtype, EncodeMethod method, std::span<const float> values,
                         std::span<const float> importance) {
  std::vector<std::byte> blocks(*dtype_bytes(dtype, values.size()));
  const Status status = encode_rows(dtype, method, values, values.size(), importance, blocks);
  EXPECT_TRUE(status.has_value()) << dtype_name(dtype);
  std::vector<float> out(values.size());
  decode(dtype, blocks.data(), out);
  return out;
}

// What the searches weigh with, and whether d is unbiased after them (then only codes are compared).
struct Weighting {
  DType dtype;
  double exponent, sigma2_factor;
  bool is_unbiased;
};
constexpr Weighting kWeightings[] = {{DType::q2_k, 0.25, 1, true},
                                     {DType::q3_k, 0.25, 2, true},
                                     {DType::q4_k, 0.5, 2, false},
                                     {DType::q5_k, 0.5, 2, false},
                                     {DType::q6_k, 0, 0, false}};

std::vector<double> weights_of(const Weighting& type, std::span<const float> x, std::span<const float> importance) {
  double sigma2 = 0;
  for (const float v : x) sigma2 += type.sigma2_factor * v * v / static_cast<double>(x.size());
  std::vector<double> out(x.size());
  for (size_t i = 0; i < x.size(); ++i)
    out[i] = importance[i] * std::pow(sigma2 + static_cast<double>(x[i]) * x[i], type.exponent);
  return out;
}

// Σ w (x − y)², y times its best factor where only codes are compared.
double error_of(std::span<const float> x, std::span<const float> y, std::span<const double> w, bool is_scale_free) {
  double xx = 0, xy = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xx += w[i] * x[i] * x[i];
    xy += w[i] * x[i] * y[i];
    yy += w[i] * y[i] * y[i];
  }
  return is_scale_free && yy > 0 ? xx - xy * xy / yy : xx - 2 * xy + yy;
}

// Where d is unbiased after the search, its codes with their least-squares scale are what the search minimised.
TEST(KEncode, SearchIsNeverWorseThanTextbook) {
  for (const Weighting& type : kWeightings) {
    for (const Kind kind : kKinds) {
      for (uint64_t seed = 1; seed <= 12; ++seed) {
        const auto x = values_of(kind, kLen, seed);
        const auto importance = importance_of(kLen, seed);
        const auto w = weights_of(type, x, importance);
        const double fast = error_of(x, coded(type.dtype, EncodeMethod::fast, x, importance), w, type.is_unbiased);
        const double plain = error_of(x, coded(type.dtype, EncodeMethod::plain, x, {}), w, false);
        ASSERT_LE(fast, plain) << dtype_name(type.dtype) << " kind " << static_cast<int>(kind) << " seed " << seed;
      }
    }
  }
}

// Exhaustive search of a type without minima: n_d scales of the super-block, for each every integer scale of every
// group, codes rounded to each. The d of least error is in between two of the grid's; a group's share of the error is
// nearly flat in d there, because its integer adapts.
double best_symmetric_error(std::span<const float> x, std::span<const double> w, int n_codes, int n_scales, int n_d) {
  double extreme = 0;
  for (const float v : x) extreme = std::max(extreme, std::fabs(double{v}));
  double best = std::numeric_limits<double>::infinity();
  for (int k = 0; k < n_d; ++k) {
    const double d = extreme / n_codes / n_scales * (0.6 + 0.8 * k / n_d);
    double total = 0;
    for (size_t group = 0; group < kLen; group += 16) {
      double least = std::numeric_limits<double>::infinity();
      for (int s = -n_scales; s < n_scales; ++s) {
        const double scale = d * s;
        double error = 0;
        for (size_t i = group; i < group + 16; ++i) {
          const double q = s == 0 ? 0 : std::clamp(std::nearbyint(x[i] / scale), -1.0 * n_codes, n_codes - 1.0);
          error += w[i] * (x[i] - scale * q) * (x[i] - scale * q);
        }
        least = std::min(least, error);
      }
      total += least;
    }
    best = std::min(best, total);
  }
  return best;
}

// The search tries a few f16 d and refits the best of them; over super-blocks that stays within 1 % of 200 real d.
TEST(KEncode, Q3KIsNearExhaustiveSearch) {
  const Weighting& type = kWeightings[1];
  double ours = 0, best = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const auto x = values_of(seed % 2 == 0 ? Kind::gaussian : Kind::uneven_groups, kLen, 40 + seed);
    const auto importance = importance_of(kLen, seed);
    const auto w = weights_of(type, x, importance);
    ours += error_of(x, coded(type.dtype, EncodeMethod::fast, x, importance), w, true);
    best += best_symmetric_error(x, w, 4, 32, 200);
  }
  EXPECT_LE(ours, best * 1.01);
}

// Half a code of a group's step, its scale off by half an integer (times all codes), its minimum by half an integer,
// f16 roundings of d and dmin; the widest group's step is what integers count.
TEST(KEncode, TextbookErrorsStayWithinTheStep) {
  struct Affine {
    DType dtype;
    size_t len;
    float codes, scales;
  };
  for (const Affine& type : {Affine{DType::q2_k, 16, 3, 15}, {DType::q4_k, 32, 15, 63}, {DType::q5_k, 32, 31, 63}}) {
    for (uint64_t seed = 1; seed <= 32; ++seed) {
      const auto x = values_of(kKinds[seed % std::size(kKinds)], kLen, seed);
      const auto y = coded(type.dtype, EncodeMethod::plain, x, {});
      float span = 0;
      for (size_t group = 0; group < kLen; group += type.len) {
        const auto [low, high] = std::minmax_element(x.begin() + static_cast<ptrdiff_t>(group),
                                                     x.begin() + static_cast<ptrdiff_t>(group + type.len));
        span = std::max(span, std::max(0.0f, *high) - std::min(0.0f, *low));
      }
      const float limit =
          span * (0.5f / type.codes + 0.5f / type.scales / type.codes * (type.codes + 0.5f) + 0.5f / type.scales) +
          span * 3 * 0x1p-11f;
      for (size_t i = 0; i < kLen; ++i) ASSERT_LE(std::fabs(x[i] - y[i]), limit) << dtype_name(type.dtype);
    }
  }
}

TEST(KEncode, TextbookErrorsOfSymmetricTypesStayWithinTheStep) {
  struct Symmetric {
    DType dtype;
    float codes, scales;
  };
  for (const Symmetric& type : {Symmetric{DType::q3_k, 4, 32}, {DType::q6_k, 32, 128}}) {
    for (uint64_t seed = 1; seed <= 32; ++seed) {
      const auto x = values_of(kKinds[seed % std::size(kKinds)], kLen, seed);
      const auto y = coded(type.dtype, EncodeMethod::plain, x, {});
      float extreme = 0;
      for (const float v : x) extreme = std::max(extreme, std::fabs(v));
      // A whole code where the positive end is clipped; the largest scale of the other sign is clipped by a whole
      // integer, any other off by half of one; f16's rounding of d.
      const float limit = extreme * (1.0f / type.codes + 1.0f / type.scales + 2 * 0x1p-11f) * (1 + 1.0f / type.codes);
      for (size_t i = 0; i < kLen; ++i) ASSERT_LE(std::fabs(x[i] - y[i]), limit) << dtype_name(type.dtype);
    }
  }
}

// Where groups have 32 values two super-blocks are searched side by side; an odd one is beside itself.
TEST(KEncode, SuperBlocksAreIndependent) {
  const auto x = values_of(Kind::uneven_groups, 3 * kLen, 21);
  const auto importance = importance_of(3 * kLen, 21);
  for (const Weighting& type : kWeightings) {
    const auto together = coded(type.dtype, EncodeMethod::fast, x, importance);
    for (size_t block = 0; block < 3; ++block) {
      const auto alone = coded(type.dtype, EncodeMethod::fast, std::span(x).subspan(block * kLen, kLen),
                               std::span(importance).subspan(block * kLen, kLen));
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(), together.begin() + static_cast<ptrdiff_t>(block * kLen)))
          << dtype_name(type.dtype) << " super-block " << block;
    }
  }
}

// Weights so small that d is a subnormal f16 or less keep their scale, and their size: the error of one group step.
TEST(KEncode, TinyWeightsKeepAScale) {
  for (const Weighting& type : kWeightings) {
    auto x = values_of(Kind::gaussian, kLen, 31);
    for (float& v : x) v *= 1e-4f;  // about 2e-6: d near 2^-24
    const std::vector<float> ones(kLen, 1.0f);
    double xx = 0;
    const auto y = coded(type.dtype, EncodeMethod::fast, x, ones);
    const std::vector<double> even(kLen, 1.0);
    for (const float v : x) xx += static_cast<double>(v) * v;
    EXPECT_LT(error_of(x, y, even, false), 0.2 * xx) << dtype_name(type.dtype);
  }
}

TEST(KEncode, ScalesAreRoundedAsF16Stores) {
  for (uint64_t i = 0; i < 4096; ++i) {
    float in[kGroups], out[kGroups];
    for (uint64_t l = 0; l < kGroups; ++l)
      in[l] = static_cast<float>(std::exp2(44 * uniform(3, kGroups * i + l) - 27));  // 2^-27 … 2^17
    store_lanes(as_stored(load_lanes(in)), out);
    for (int l = 0; l < kGroups; ++l) {
      const uint16_t bits = f32_to_f16(in[l]);
      const float expected = in[l] < 0x1p-24f ? 0x1p-24f : in[l] > 65504.0f ? 65504.0f : f16_to_f32(bits);
      // A tie may go either way.
      const float ulp = std::max(0x1p-24f, std::exp2(std::floor(std::log2(in[l])) - 10));
      if (std::fabs(in[l] - expected) == ulp / 2) continue;
      EXPECT_EQ(out[l], expected) << in[l];
    }
  }
}

}  // namespace
}  // namespace tamis
