// Planes against a scalar integer model that knows none: codes and scales are read from the file's blocks one element
// at a time, columns are rounded by a definition of their own. Every type, every target, odd sizes: bit for bit.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "base/float16.h"
#include "base/rng.h"
#include "cpu/dispatch.h"
#include "cpu/kernels.h"
#include "cpu/planes.h"

namespace tamis::cpu {
namespace {

constexpr DType kTypes[] = {DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1,
                            DType::q8_0, DType::q4_k, DType::q5_k, DType::q6_k};

uint16_t half_at(const uint8_t* p) { return static_cast<uint16_t>(p[0] | p[1] << 8); }
int bit_at(const uint8_t* p, int i) { return p[i / 8] >> (i % 8) & 1; }

// One element of one block: weight = scale · group_scale · (code − zero) [− min · group_min, or + min].
struct Element {
  int code, group_scale = 1, group_min = 0;
};

Element k_element(const uint8_t* scales, int nibble, int high_bit, int i) {
  const int g = i / 32;
  Element e{nibble | high_bit << 4};
  e.group_scale = g < 4 ? scales[g] & 63 : (scales[g + 4] & 15) | (scales[g - 4] >> 6) << 4;
  e.group_min = g < 4 ? scales[g + 4] & 63 : scales[g + 4] >> 4 | (scales[g] >> 6) << 4;
  return e;
}

Element element(DType dtype, const uint8_t* b, int i) {
  const auto nibble32 = [&](const uint8_t* q) { return i < 16 ? q[i] & 15 : q[i - 16] >> 4; };
  const auto nibble_k = [&](const uint8_t* q) { return q[i / 64 * 32 + i % 32] >> (i % 64 < 32 ? 0 : 4) & 15; };
  if (dtype == DType::q4_0) return {nibble32(b + 2) - 8};
  if (dtype == DType::q4_1) return {nibble32(b + 4)};
  if (dtype == DType::q5_0) return {(nibble32(b + 6) | bit_at(b + 2, i) << 4) - 16};
  if (dtype == DType::q5_1) return {nibble32(b + 8) | bit_at(b + 4, i) << 4};
  if (dtype == DType::q8_0) return {static_cast<int8_t>(b[2 + i])};
  if (dtype == DType::q4_k) return k_element(b + 4, nibble_k(b + 16), 0, i);
  if (dtype == DType::q5_k) return k_element(b + 4, nibble_k(b + 48), b[16 + i % 32] >> (i / 32) & 1, i);
  const int half = i / 128, part = i % 128 / 32, l = i % 32;  // Q6_K
  const int low = b[half * 64 + l + part % 2 * 32] >> (part / 2 * 4) & 15,
            high = b[128 + half * 32 + l] >> (2 * part) & 3;
  return {(low | high << 4) - 32, static_cast<int8_t>(b[192 + i / 16])};
}

struct Rounded {
  std::vector<int> q;
  float scale;
};

Rounded rounded(const float* x, int n) {
  float largest = 0;
  for (int i = 0; i < n; ++i) largest = std::max(largest, std::fabs(x[i]));
  Rounded r{std::vector<int>(static_cast<size_t>(n)), largest / 127.0f};
  for (int i = 0; i < n; ++i)
    r.q[static_cast<size_t>(i)] = largest == 0 ? 0 : static_cast<int>(std::nearbyintf(x[i] * (127.0f / largest)));
  return r;
}

float model_of_block(DType dtype, const uint8_t* b, const float* x, float sum) {
  const int n = static_cast<int>(dtype_info(dtype).block_len);
  const Rounded r = rounded(x, n);
  int64_t dot = 0, mins = 0, total = 0;
  for (int i = 0; i < n; ++i) {
    const Element e = element(dtype, b, i);
    const int q = r.q[static_cast<size_t>(i)];
    dot += static_cast<int64_t>(e.group_scale) * e.code * q;
    mins += static_cast<int64_t>(e.group_min) * q;
    total += q;
  }
  if (n == 256) {
    const float d = f16_to_f32(half_at(dtype == DType::q6_k ? b + 208 : b));
    float y = d * static_cast<float>(dot);
    if (dtype != DType::q6_k) y = y - f16_to_f32(half_at(b + 2)) * static_cast<float>(mins);
    return sum + r.scale * y;
  }
  sum = sum + f16_to_f32(half_at(b)) * r.scale * static_cast<float>(dot);
  if (dtype == DType::q4_1 || dtype == DType::q5_1)
    sum = sum + f16_to_f32(half_at(b + 2)) * (r.scale * static_cast<float>(total));
  return sum;
}

// Random blocks with finite scales; `extreme`: codes all ones, so that sums reach their bounds.
std::vector<uint8_t> random_rows(DType dtype, size_t n_blocks, bool is_extreme, Rng& rng) {
  const DTypeInfo& info = dtype_info(dtype);
  std::vector<uint8_t> bytes(n_blocks * info.block_bytes);
  for (uint8_t& byte : bytes) byte = is_extreme ? 0xff : static_cast<uint8_t>(rng.next());
  for (size_t i = 0; i < n_blocks; ++i) {
    uint8_t* b = bytes.data() + i * info.block_bytes;
    const uint16_t d = f32_to_f16(static_cast<float>(0.01 + rng.uniform())),
                   m = f32_to_f16(static_cast<float>(rng.normal()));
    const size_t at = dtype == DType::q6_k ? 208 : 0;
    std::memcpy(b + at, &d, 2);
    if (dtype != DType::q4_0 && dtype != DType::q5_0 && dtype != DType::q8_0 && dtype != DType::q6_k)
      std::memcpy(b + 2, &m, 2);
    if (is_extreme && dtype == DType::q8_0) std::memset(b + 2, 0x80, 32);
  }
  return bytes;
}

struct Case {
  DType dtype;
  size_t n_rows, n_columns, n_blocks;
  bool is_extreme;
};

std::vector<float> through_planes(const KernelTable& kernels, const Case& c, const std::vector<uint8_t>& rows,
                                  const std::vector<float>& x) {
  const PlaneType& type = *plane_type(c.dtype);
  std::vector<uint8_t> panel(c.n_blocks * type.plane_block_bytes), codes(kPanelBytes + 64);
  pack_panel(type, rows.data(), c.n_blocks * type.file_block_bytes, c.n_rows, panel.data());
  std::vector<int8_t> columns(c.n_columns * c.n_blocks * (type.block_len == 256 ? kActs256Bytes : kActs32Bytes));
  kernels.pack_columns({x.data(), c.n_blocks * type.block_len, c.n_columns, c.n_blocks, type.block_len, columns.data()},
                       0, c.n_blocks);
  std::vector<float> out(c.n_columns * kPanelRows);
  kernels.multiply_panel[type.kind]({panel.data(), columns.data(), c.n_columns, c.n_blocks, codes.data(), out.data()});
  return out;
}

void expect_equal_to_model(const KernelTable& kernels, const Case& c) {
  Rng rng(c.n_rows * 1000 + c.n_columns * 10 + c.n_blocks);
  const DTypeInfo& info = dtype_info(c.dtype);
  const std::vector<uint8_t> rows = random_rows(c.dtype, c.n_rows * c.n_blocks, c.is_extreme, rng);
  std::vector<float> x(c.n_columns * c.n_blocks * info.block_len);
  for (float& value : x) value = c.is_extreme ? (rng.below(2) != 0 ? 1.0f : -1.0f) : static_cast<float>(rng.normal());
  if (c.is_extreme) std::fill_n(x.begin(), c.n_blocks * info.block_len, 1.0f);
  const std::vector<float> out = through_planes(kernels, c, rows, x);
  for (size_t column = 0; column < c.n_columns; ++column) {
    for (size_t row = 0; row < kPanelRows; ++row) {
      float expected = 0;
      for (size_t b = 0; row < c.n_rows && b < c.n_blocks; ++b)
        expected = model_of_block(c.dtype, rows.data() + (row * c.n_blocks + b) * info.block_bytes,
                                  x.data() + (column * c.n_blocks + b) * info.block_len, expected);
      ASSERT_EQ(std::bit_cast<uint32_t>(out[column * kPanelRows + row] + 0.0f),
                std::bit_cast<uint32_t>(expected + 0.0f))
          << kernels.name << ' ' << info.name << " row " << row << " column " << column << " of " << c.n_columns << ", "
          << c.n_blocks << " blocks";
    }
  }
}

TEST(PlanesPerTarget, EveryTypeEqualsTheScalarModel) {
  for (const KernelTable* target : available_targets())
    for (const DType dtype : kTypes)
      for (const size_t n_columns : {1u, 2u, 3u, 4u, 5u, 7u, 8u, 9u, 16u, 31u, 33u})
        for (const size_t n_rows : {1u, 15u, 16u})
          ASSERT_NO_FATAL_FAILURE(expect_equal_to_model(
              *target, {dtype, n_rows, n_columns, dtype_info(dtype).block_len == 256 ? 7u : 49u, false}));
}

TEST(PlanesPerTarget, SumsAtTheirBoundsStayExact) {
  for (const KernelTable* target : available_targets())
    for (const DType dtype : kTypes)
      for (const size_t n_columns : {1u, 33u})
        ASSERT_NO_FATAL_FAILURE(expect_equal_to_model(*target, {dtype, 16, n_columns, 2, true}));
}

TEST(PlanesPerTarget, ColumnsThatAreNotFiniteGiveNaNAndTouchNoOther) {
  for (const KernelTable* target : available_targets()) {
    for (const DType dtype : kTypes) {
      const Case c{dtype, 16, 3, 2, false};
      Rng rng(5);
      const std::vector<uint8_t> rows = random_rows(dtype, c.n_rows * c.n_blocks, false, rng);
      std::vector<float> x(c.n_columns * c.n_blocks * dtype_info(dtype).block_len, 0.5f);
      const std::vector<float> clean = through_planes(*target, c, rows, x);
      x[x.size() / 3] = std::numeric_limits<float>::infinity();
      const std::vector<float> out = through_planes(*target, c, rows, x);
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
