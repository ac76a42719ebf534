// The group-affine form: weights keep their decoder's bits; products equal a scalar model made from codes, scales and
// offsets, for every target, group length and odd size, bit for bit.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "base/float16.h"
#include "base/rng.h"
#include "cpu/affine.h"
#include "cpu/dispatch.h"
#include "cpu/kernels.h"
#include "quants/registry.h"
#include "tests/cpu/rounded.h"
#include "tests/cpu/targets.h"

namespace tamis::cpu {
namespace {

constexpr DType kTypes[] = {DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1, DType::q8_0,
                            DType::q2_k, DType::q3_k, DType::q4_k, DType::q5_k, DType::q6_k};

// Any bytes are codes; f16 fields get any finite pattern, zeros, subnormals and negatives among them.
std::vector<uint8_t> random_rows(DType dtype, size_t n_blocks, Rng& rng) {
  const DTypeInfo& info = dtype_info(dtype);
  std::vector<uint8_t> bytes(n_blocks * info.block_bytes);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng.next());
  std::vector<size_t> fields = {0};
  if (dtype == DType::q2_k) fields = {80, 82};
  if (dtype == DType::q3_k) fields = {108};
  if (dtype == DType::q6_k) fields = {208};
  if (dtype == DType::q4_1 || dtype == DType::q5_1 || dtype == DType::q4_k || dtype == DType::q5_k) fields = {0, 2};
  for (size_t i = 0; i < n_blocks; ++i)
    for (const size_t field : fields) {
      uint8_t& high = bytes[i * info.block_bytes + field + 1];
      if ((high & 0x7c) == 0x7c) high = static_cast<uint8_t>(high ^ 0x40);  // no infinity, no NaN
    }
  return bytes;
}

TEST(AffinePerTarget, WeightsKeepTheBitsOfTheirDecoder) {
  for (const DType dtype : kTypes) {
    const DTypeInfo& info = dtype_info(dtype);
    const AffineFormat& format = *affine_format(dtype);
    constexpr size_t kBlocks = 40;
    for (const size_t n_rows : {size_t{16}, size_t{5}}) {
      Rng rng(n_rows);
      const size_t n_in = kBlocks * info.block_len, row_bytes = kBlocks * info.block_bytes;
      const std::vector<uint8_t> rows = random_rows(dtype, n_rows * kBlocks, rng);
      std::vector<uint8_t> panel(affine_panel_bytes(format, n_in));
      pack_affine_rows(dtype, rows.data(), row_bytes, n_rows, panel.data());
      std::vector<float> unpacked(n_in * kPanelRows), expected(n_in);
      unpack_affine(format, panel.data(), 0, n_in, unpacked.data());
      for (size_t r = 0; r < n_rows; ++r) {
        decode(dtype, reinterpret_cast<const std::byte*>(rows.data()) + r * row_bytes, expected);
        for (size_t k = 0; k < n_in; ++k)
          ASSERT_EQ(std::bit_cast<uint32_t>(unpacked[k * kPanelRows + r]), std::bit_cast<uint32_t>(expected[k]))
              << info.name << " row " << r << " element " << k;
      }
    }
  }
}

TEST(AffinePerTarget, ResidentBits) {
  const auto bits = [](DType dtype) {
    return 8.0 * static_cast<double>(affine_panel_bytes(*affine_format(dtype), 1024)) / (16 * 1024);
  };
  EXPECT_EQ(bits(DType::q4_k), 6.0);
  EXPECT_EQ(bits(DType::q8_0), 10.0);
  EXPECT_EQ(bits(DType::q6_k), 12.0);
}

// A matrix of 16 rows with known codes, and columns with known roundings.
struct Model {
  AffineFormat format;
  size_t n_in, n_rows;
  std::vector<AffineGroup> groups;  // [n_rows][n_in / group_len]
  const AffineGroup& group(size_t r, size_t k) const { return groups[(r * n_in + k) / format.group_len]; }
  int code(size_t r, size_t k) const {
    const uint8_t code = group(r, k).codes[k % format.group_len];
    return format.code_bits == 8 ? static_cast<int8_t>(code) : code - format.zero;
  }
};

Model random_model(const AffineFormat& format, size_t n_in, size_t n_rows, bool is_extreme) {
  Rng rng(n_in + format.group_len);
  Model model{format, n_in, n_rows, std::vector<AffineGroup>(n_rows * n_in / format.group_len)};
  for (AffineGroup& group : model.groups) {
    for (uint8_t& code : group.codes) {
      code = static_cast<uint8_t>(rng.next());
      if (is_extreme) code = format.code_bits == 8 ? 0x80 : 0xff;
      if (format.code_bits == 4) code &= 15;
    }
    group.scale = static_cast<float>(rng.normal());
    group.offset = format.has_offset ? static_cast<float>(rng.normal()) : -0.0f;
  }
  return model;
}

struct UnitSums {
  int64_t dot = 0, sum = 0;
};

// q: what the block's elements round to.
UnitSums unit_sums(const Model& model, size_t r, const std::vector<int>& q, size_t block, size_t unit,
                   size_t unit_len) {
  UnitSums sums;
  for (size_t k = unit; k < unit + unit_len; ++k) {
    sums.dot += model.code(r, k) * q[k - block];
    sums.sum += q[k - block];
  }
  return sums;
}

// Row r of the model times one column of floats, in the kernel's order.
float product(const Model& model, size_t r, const float* x) {
  const AffineFormat& format = model.format;
  const size_t unit_len = format.group_len % 32 == 0 ? 32 : 16;
  float acc = 0;
  for (size_t block = 0; block < model.n_in; block += format.block_len) {
    const test::Rounded rounded = test::rounded(x + block, format.block_len);
    const float act_scale = rounded.scale;
    double scaled = 0, offsets = 0;
    for (size_t unit = block; unit < block + format.block_len; unit += unit_len) {
      const UnitSums sums = unit_sums(model, r, rounded.q, block, unit, unit_len);
      const AffineGroup& group = model.group(r, unit);
      scaled += static_cast<double>(group.scale) * static_cast<double>(sums.dot);
      offsets += static_cast<double>(group.offset) * static_cast<double>(sums.sum);
      if (format.block_len == 256) continue;
      acc = acc + group.scale * act_scale * static_cast<float>(sums.dot);
      if (format.has_offset) acc = acc + group.offset * (act_scale * static_cast<float>(sums.sum));
    }
    if (format.block_len == 32) continue;
    float y = static_cast<float>(scaled);
    if (format.has_offset) y = y + static_cast<float>(offsets);
    acc = acc + act_scale * y;
  }
  return acc;
}

// The first n_columns of x through the kernel; expected: [columns of x][16].
void expect_equal(const KernelTable& kernels, const Model& model, const std::vector<float>& x, size_t n_columns,
                  const std::vector<float>& expected) {
  const AffineFormat& format = model.format;
  std::vector<uint8_t> panel(affine_panel_bytes(format, model.n_in));
  pack_affine(
      format, model.n_in, model.n_rows,
      [&](size_t r, size_t g, AffineGroup& group) { group = model.groups[r * model.n_in / format.group_len + g]; },
      panel.data());
  const size_t n_blocks = model.n_in / format.block_len;
  std::vector<int8_t> acts(n_columns * n_blocks * (format.block_len == 256 ? kActs256Bytes : kActs32Bytes));
  kernels.pack_columns({x.data(), model.n_in, n_columns, n_blocks, format.block_len, acts.data()}, 0, n_blocks);
  std::vector<float> out(n_columns * kPanelRows);
  alignas(64) static uint8_t scratch[kPanelBytes];
  kernels.multiply_affine({format, panel.data(), acts.data(), n_columns, n_blocks, scratch, out.data(), false});
  for (size_t c = 0; c < n_columns; ++c)
    for (size_t r = 0; r < kPanelRows; ++r) {
      ASSERT_EQ(std::bit_cast<uint32_t>(out[c * kPanelRows + r] + 0.0f),
                std::bit_cast<uint32_t>(expected[c * kPanelRows + r] + 0.0f))
          << kernels.name << " blocks of " << format.block_len << ", groups of " << format.group_len << ", "
          << format.code_bits << " bits, row " << r << ", column " << c << " of " << n_columns;
    }
}

void expect_equal_to_model(const Model& model, std::initializer_list<size_t> counts) {
  const size_t n_columns = std::max(counts);
  Rng rng(n_columns);
  const std::vector<float> x = test::random_columns(n_columns * model.n_in, rng);
  std::vector<float> expected(n_columns * kPanelRows);
  for (size_t c = 0; c < n_columns; ++c)
    for (size_t r = 0; r < model.n_rows; ++r)
      expected[c * kPanelRows + r] = product(model, r, x.data() + c * model.n_in);
  for (const KernelTable* target : test::tested_targets())
    for (const size_t n : counts) ASSERT_NO_FATAL_FAILURE(expect_equal(*target, model, x, n, expected));
}

TEST(AffinePerTarget, EveryFormatEqualsTheScalarModel) {
  for (const uint32_t block_len : {32u, 256u})
    for (const uint32_t group_len : {16u, 32u, 64u, 128u, 256u})
      for (const uint32_t code_bits : {4u, 8u})
        for (const bool has_offset : {false, true}) {
          const AffineFormat format{block_len, group_len, code_bits, code_bits == 4 ? 8 : 0, has_offset};
          const Model model = random_model(format, has_offset ? 1280 : 256, has_offset ? 16 : 3, false);
          ASSERT_NO_FATAL_FAILURE(expect_equal_to_model(model, {1, 3, 7, 33}));
        }
}

TEST(AffinePerTarget, SumsAtTheirBoundsStayExact) {
  for (const AffineFormat& format : {AffineFormat{32, 32, 4, 0, true}, AffineFormat{256, 128, 8, 0, true}})
    ASSERT_NO_FATAL_FAILURE(expect_equal_to_model(random_model(format, 256, 16, true), {5}));
}

}  // namespace
}  // namespace tamis::cpu
