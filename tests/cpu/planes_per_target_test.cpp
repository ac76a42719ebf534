// Planes against a scalar integer model that knows none: a block's integer weights are read off decode_block itself
// (the block decoded with its float scales set to 1), columns are rounded by a definition of their own. Every type,
// every target, odd sizes: bit for bit. The model in turn stays within a derived bound of the float64 dot product of
// decoded weights.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/float16.h"
#include "base/rng.h"
#include "cpu/dispatch.h"
#include "cpu/kernels.h"
#include "cpu/planes.h"
#include "quants/nvfp4.h"
#include "quants/registry.h"
#include "tests/cpu/rounded.h"
#include "tests/cpu/targets.h"

namespace tamis::cpu {
namespace {

using test::Rounded;
using test::rounded;
using test::tested_targets;

constexpr int kNone = -1;

// Where a block keeps its float scales, from the layouts in src/quants. A weight is d · step · (an integer) [− or + m ·
// (an integer)].
struct Scales {
  DType dtype;
  int d, m;    // offsets of f16 fields
  float step;  // a power of two
};
constexpr Scales kScales[] = {
    {DType::q4_0, 0, kNone, 1},
    {DType::q4_1, 0, 2, 1},
    {DType::q5_0, 0, kNone, 1},
    {DType::q5_1, 0, 2, 1},
    {DType::q8_0, 0, kNone, 1},
    {DType::iq4_nl, 0, kNone, 1},
    {DType::mxfp4, kNone, kNone, 1},
    {DType::nvfp4, kNone, kNone, 1},
    {DType::q1_0, 0, kNone, 1},
    {DType::q2_0, 0, kNone, 1},
    {DType::q2_k, 80, 82, 1},
    {DType::q3_k, 108, kNone, 1},
    {DType::q4_k, 0, 2, 1},
    {DType::q5_k, 0, 2, 1},
    {DType::q6_k, 208, kNone, 1},
    {DType::iq4_xs, 0, kNone, 1},
    {DType::iq3_s, 0, kNone, 1},
    {DType::iq3_xxs, 0, kNone, 0.5f},
    {DType::iq2_xxs, 0, kNone, 0.125f},
    {DType::iq2_xs, 0, kNone, 0.125f},
    {DType::iq2_s, 0, kNone, 0.125f},
    {DType::iq1_s, 0, kNone, 0.125f},
    {DType::iq1_m, kNone, kNone, 0.125f},
    {DType::tq1_0, 52, kNone, 1},
    {DType::tq2_0, 64, kNone, 1},
};

uint16_t half_at(const uint8_t* p) { return static_cast<uint16_t>(p[0] | p[1] << 8); }
void set_half(uint8_t* p, float value) {
  const uint16_t bits = f32_to_f16(value);
  std::memcpy(p, &bits, 2);
}

// The f16 that IQ1_M keeps in the top nibbles of its four u16 at byte 48.
uint16_t iq1_m_half(const uint8_t* b) {
  uint16_t d = 0;
  for (int i = 0; i < 4; ++i) d = static_cast<uint16_t>(d | (b[49 + 2 * i] >> 4) << (4 * i));
  return d;
}
void set_d(const Scales& s, uint8_t* b, float value) {
  if (s.dtype == DType::mxfp4) {
    b[0] = value == 0.0f ? 0 : 128;  // 2^(128 − 128)
  } else if (s.dtype == DType::nvfp4) {
    std::memset(b, value == 0.0f ? 0 : 0x40, 4);
  } else if (s.dtype == DType::iq1_m) {
    const uint16_t bits = f32_to_f16(value);
    for (int i = 0; i < 4; ++i)
      b[49 + 2 * i] = static_cast<uint8_t>((b[49 + 2 * i] & 15) | (bits >> (4 * i) & 15) << 4);
  } else {
    set_half(b + s.d, value);
  }
}

std::vector<float> decoded(DType dtype, const std::vector<uint8_t>& block) {
  std::vector<float> out(dtype_info(dtype).block_len);
  decode(dtype, reinterpret_cast<const std::byte*>(block.data()), out);
  return out;
}

// A block as its definition gives it.
struct ModelBlock {
  std::vector<int> weights, mins;  // weight = d[i / group] · step · weights[i] + m · mins[i]
  std::vector<float> d;
  float m = 0;
};
ModelBlock model_block(const Scales& s, const uint8_t* bytes) {
  const DTypeInfo& info = dtype_info(s.dtype);
  ModelBlock out;
  if (s.dtype == DType::mxfp4)
    out.d = {e8m0_half(bytes[0])};
  else if (s.dtype == DType::nvfp4)
    for (int g = 0; g < 4; ++g) out.d.push_back(ue4m3_half(bytes[g]));
  else
    out.d = {f16_to_f32(s.dtype == DType::iq1_m ? iq1_m_half(bytes) : half_at(bytes + s.d))};
  std::vector<uint8_t> block(bytes, bytes + info.block_bytes);
  set_d(s, block.data(), 1.0f);
  if (s.m != kNone) set_half(block.data() + s.m, 0.0f);
  for (const float w : decoded(s.dtype, block)) {
    out.weights.push_back(static_cast<int>(w / s.step));
    EXPECT_EQ(static_cast<float>(out.weights.back()) * s.step, w);
  }
  out.mins.assign(info.block_len, 0);
  if (s.m == kNone) return out;
  out.m = f16_to_f32(half_at(bytes + s.m));
  set_d(s, block.data(), 0.0f);
  set_half(block.data() + s.m, 1.0f);
  const std::vector<float> mins = decoded(s.dtype, block);
  std::transform(mins.begin(), mins.end(), out.mins.begin(), [](float v) { return static_cast<int>(v); });
  return out;
}

// `sum` and one block times its elements of a column. 256 weights: integers all through, then d, m and the column's
// scale. Others: a step for every 32 (or every scale of its own).
float add_block(const Scales& s, const ModelBlock& b, const float* x, float sum) {
  const size_t len = b.weights.size(), run = len == 256 ? 256 : 32;
  const size_t group = std::min(run, len / b.d.size());
  for (size_t first = 0; first < len; first += run) {
    const Rounded r = rounded(x + first, run);
    int64_t dot = 0, mins = 0;
    for (size_t i = 0; i < run; ++i) {
      dot += static_cast<int64_t>(b.weights[first + i]) * r.q[i];
      mins += static_cast<int64_t>(b.mins[first + i]) * r.q[i];
      if (len == 256 || (i + 1) % group != 0) continue;
      sum = sum + b.d[b.d.size() == 1 ? 0 : (first + i) / group] * s.step * r.scale * static_cast<float>(dot);
      dot = 0;
    }
    if (len == 256) {
      float y = b.d[0] * s.step * static_cast<float>(dot);
      if (s.m != kNone) y = y - b.m * static_cast<float>(-mins);
      sum = sum + r.scale * y;
    } else if (s.m != kNone) {
      sum = sum + b.m * (r.scale * static_cast<float>(mins));
    }
  }
  return sum;
}

enum class Fill { random, ones, zeros };

// Blocks with finite scales; `ones`, `zeros`: the same code everywhere, so that sums reach their bounds.
std::vector<uint8_t> random_rows(const Scales& s, size_t n_blocks, Fill fill, Rng& rng) {
  const DTypeInfo& info = dtype_info(s.dtype);
  std::vector<uint8_t> bytes(n_blocks * info.block_bytes);
  for (uint8_t& byte : bytes)
    byte = fill == Fill::random ? static_cast<uint8_t>(rng.next()) : fill == Fill::ones ? 0xff : 0;
  for (size_t i = 0; i < n_blocks; ++i) {
    uint8_t* b = bytes.data() + i * info.block_bytes;
    if (s.dtype == DType::mxfp4)
      b[0] = static_cast<uint8_t>(rng.below(8) == 0 ? rng.below(3) : 100 + rng.below(40));
    else if (s.dtype != DType::nvfp4)
      set_d(s, b, static_cast<float>(rng.below(2) != 0 ? -0.01 - rng.uniform() : 0.01 + rng.uniform()));
    if (s.m != kNone) set_half(b + s.m, static_cast<float>(rng.normal()));
    if (fill == Fill::zeros && s.dtype == DType::q8_0) std::memset(b + 2, 0x80, 32);
  }
  return bytes;
}

// n_rows rows of n_blocks of the file's blocks, columns for them, and the model's answer.
struct Case {
  Case(const Scales& scales, size_t rows_, size_t columns, size_t blocks, Fill fill)
      : s(scales), n_rows(rows_), n_columns(columns), n_blocks(blocks), n_in(blocks * dtype_info(s.dtype).block_len) {
    Rng rng(n_rows * 1000 + n_columns * 10 + n_blocks);
    bytes = random_rows(s, n_rows * n_blocks, fill, rng);
    x = test::random_columns(n_columns * n_in, rng);
    if (fill != Fill::random)
      for (float& v : x) v = rng.below(2) != 0 ? 1.0f : -1.0f;
    if (fill != Fill::random) std::fill_n(x.begin(), n_in, 1.0f);
    const size_t block_bytes = dtype_info(s.dtype).block_bytes;
    for (size_t i = 0; i < n_rows * n_blocks; ++i) blocks_.push_back(model_block(s, bytes.data() + i * block_bytes));
  }
  float expected(size_t row, size_t column) const {
    float sum = 0;
    for (size_t b = 0; row < n_rows && b < n_blocks; ++b)
      sum = add_block(s, block(row, b), x.data() + column * n_in + b * (n_in / n_blocks), sum);
    return sum;
  }
  const ModelBlock& block(size_t row, size_t b) const { return blocks_[row * n_blocks + b]; }

  Scales s;
  size_t n_rows, n_columns, n_blocks, n_in;
  std::vector<uint8_t> bytes;
  std::vector<float> x;

 private:
  std::vector<ModelBlock> blocks_;
};

// The first n_columns columns of a case.
std::vector<float> through_planes(const KernelTable& kernels, const Case& c, size_t n_columns) {
  const PlaneType& type = *plane_type(c.s.dtype);
  const size_t n_blocks = c.n_in / type.block_len;
  std::vector<uint8_t> panel(n_blocks * type.plane_block_bytes), codes(kPanelBytes + 64);
  pack_panel(type, c.bytes.data(), c.bytes.size() / c.n_rows, c.n_rows, panel.data());
  std::vector<int8_t> columns(n_columns * n_blocks * (type.block_len == 256 ? kActs256Bytes : kActs32Bytes));
  kernels.pack_columns({c.x.data(), c.n_in, n_columns, n_blocks, type.block_len, columns.data()}, 0, n_blocks);
  std::vector<float> out(n_columns * kPanelRows);
  kernels.multiply_panel[type.kind](
      {panel.data(), columns.data(), n_columns, n_blocks, codes.data(), out.data(), false});
  return out;
}

void expect_equal_to_model(const Case& c, const std::vector<size_t>& column_counts) {
  std::vector<float> expected(c.n_columns * kPanelRows);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] = c.expected(i % kPanelRows, i / kPanelRows);
  for (const KernelTable* target : tested_targets()) {
    for (const size_t n_columns : column_counts) {
      const std::vector<float> out = through_planes(*target, c, n_columns);
      for (size_t i = 0; i < out.size(); ++i) {
        ASSERT_EQ(std::bit_cast<uint32_t>(out[i] + 0.0f), std::bit_cast<uint32_t>(expected[i] + 0.0f))
            << target->name << ' ' << dtype_name(c.s.dtype) << " row " << i % kPanelRows << " column " << i / kPanelRows
            << " of " << n_columns << ", " << c.n_blocks << " blocks: " << out[i] << " for " << expected[i];
      }
    }
  }
}

TEST(PlanesPerTarget, EveryTypeOfTheFormatHasAModelHere) {
  for (const QuantType& type : all_quant_types()) {
    const bool is_modelled = std::ranges::any_of(kScales, [&](const Scales& s) { return s.dtype == type.dtype; });
    EXPECT_EQ(plane_type(type.dtype) != nullptr, is_modelled) << dtype_name(type.dtype);
  }
}

TEST(PlanesPerTarget, EveryNumberOfColumnsEqualsTheScalarModel) {
  std::vector<size_t> counts;
  for (size_t n = 1; n <= 40; ++n) counts.push_back(n);
  for (const Scales& s : kScales) ASSERT_NO_FATAL_FAILURE(expect_equal_to_model({s, 16, 40, 2, Fill::random}, counts));
}

TEST(PlanesPerTarget, EveryLengthAndNumberOfRowsEqualsTheScalarModel) {
  for (const Scales& s : kScales) {
    const size_t longest = 49 * 32 / std::min<size_t>(dtype_info(s.dtype).block_len, 224);
    for (const size_t n_blocks : {size_t{1}, size_t{3}, longest})
      for (const size_t n_rows : {1u, 7u, 15u, 16u})
        ASSERT_NO_FATAL_FAILURE(expect_equal_to_model({s, n_rows, 33, n_blocks, Fill::random}, {1, 2, 3, 4, 9, 33}));
  }
}

TEST(PlanesPerTarget, SumsAtTheirBoundsStayExact) {
  for (const Scales& s : kScales)
    for (const Fill fill : {Fill::ones, Fill::zeros})
      ASSERT_NO_FATAL_FAILURE(expect_equal_to_model({s, 16, 33, 2, fill}, {1, 5, 33}));
}

// |model − Σ w x|: a code is off by at most 1/2, and a little more where the quotient it rounds was rounded itself
// (three roundings of at most 127 · 2^−24); each float step adds 2^−24 of a partial sum, which is at most Σ (|d · step
// · weight| + |m · min|) · 127 · scale, and a run of 32 or 256 has at most six of them.
TEST(PlanesPerTarget, TheModelIsWithinItsBoundOfTheExactDot) {
  for (const Scales& s : kScales) {
    const Case c(s, 8, 3, 5, Fill::random);
    const size_t len = c.n_in / c.n_blocks, run = len == 256 ? 256 : 32;
    for (size_t row = 0; row < c.n_rows; ++row) {
      std::vector<float> w(c.n_in);
      const size_t row_bytes = c.bytes.size() / c.n_rows;
      decode(s.dtype, reinterpret_cast<const std::byte*>(c.bytes.data() + row * row_bytes), w);
      for (size_t column = 0; column < c.n_columns; ++column) {
        double exact = 0, off = 0, largest_sum = 0;
        for (size_t i = 0; i < c.n_in; ++i) {
          const float* x = c.x.data() + column * c.n_in;
          const double scale =
              rounded(x + i / run * run, run).scale * (run == 256 ? 8.0 : 1.0);  // of the coarsest step
          const ModelBlock& b = c.block(row, i / len);
          const double parts =
              std::fabs(static_cast<double>(b.d[i % len * b.d.size() / len]) * s.step * b.weights[i % len]) +
              std::fabs(static_cast<double>(b.m) * b.mins[i % len]);
          exact += static_cast<double>(w[i]) * x[i];
          off += std::fabs(static_cast<double>(w[i])) * scale * (0.5 + 3 * 127 * 0x1p-24);
          off += parts * 0x1p-23 * std::fabs(static_cast<double>(x[i]));  // the decoded weight is rounded twice
          largest_sum += parts * 127 * scale;
        }
        const double n_steps = 6.0 * static_cast<double>(c.n_in / run);
        EXPECT_LE(std::fabs(static_cast<double>(c.expected(row, column)) - exact),
                  off + n_steps * 0x1p-24 * largest_sum)
            << dtype_name(s.dtype);
      }
    }
  }
}

TEST(PlanesPerTarget, ColumnsThatAreNotFiniteGiveNaNAndTouchNoOther) {
  for (const KernelTable* target : tested_targets()) {
    for (const Scales& s : kScales) {
      Case c(s, 16, 3, 2, Fill::random);
      std::fill(c.x.begin(), c.x.end(), 0.5f);
      const std::vector<float> clean = through_planes(*target, c, 3);
      c.x[c.n_in] = std::numeric_limits<float>::infinity();
      const std::vector<float> out = through_planes(*target, c, 3);
      for (size_t row = 0; row < kPanelRows; ++row) {
        EXPECT_EQ(out[row], clean[row]);
        EXPECT_TRUE(std::isnan(out[kPanelRows + row]));
        EXPECT_EQ(out[2 * kPanelRows + row], clean[2 * kPanelRows + row]);
      }
    }
  }
}

}  // namespace
}  // namespace tamis::cpu
