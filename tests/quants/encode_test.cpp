// Textbook encoders against gguf-py's bytes (tests/golden/make_quants.py), their error bounds, and inputs nobody should
// feed them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/quants/golden.h"

namespace tamis {
namespace {

std::vector<std::byte> encoded(DType dtype, std::span<const float> values) {
  std::vector<std::byte> out(*dtype_bytes(dtype, values.size()));
  const Status status = encode_plain(dtype, values, out);
  EXPECT_TRUE(status.has_value()) << status.error().message;
  return out;
}

TEST(Encode, BytesEqualGgufPy) {
  for (const auto& row : golden::rows("quants_encode.tsv")) {
    ASSERT_EQ(row.size(), 3u);
    const auto dtype = dtype_from_name(row[0]);
    ASSERT_TRUE(dtype.has_value());
    const auto values = golden::random_values(std::max<size_t>(32, dtype_info(*dtype).block_len));
    ASSERT_EQ(values.size(), std::strtoull(row[1].c_str(), nullptr, 10));
    EXPECT_EQ(golden::hash_of(encoded(*dtype, values)), std::strtoull(row[2].c_str(), nullptr, 16)) << row[0];
  }
}

// |decoded − value| stays within the step that the type's rounding implies: half a code, the clipped end of the signed
// range (a whole code), and the rounding of the f16 scale (2^-11 of the largest magnitude, twice where there is a
// minimum).
TEST(Encode, ErrorsStayWithinTheStep) {
  struct Bound {
    DType dtype;
    float codes;  // of the range [−extreme, extreme] or [min, max]
    bool is_clipped;
  };
  const Bound bounds[] = {{DType::q4_0, 16, true},
                          {DType::q5_0, 32, true},
                          {DType::q8_0, 254, false},
                          {DType::q4_1, 15, false},
                          {DType::q5_1, 31, false}};
  for (const Bound& bound : bounds) {
    const auto values = golden::random_values(32);
    const auto bytes = encoded(bound.dtype, values);
    std::vector<float> back(values.size());
    decode(bound.dtype, bytes.data(), back);
    for (size_t block = 0; block < values.size(); block += 32) {
      float extreme = 0;
      for (size_t j = 0; j < 32; ++j) extreme = std::max(extreme, std::fabs(values[block + j]));
      const float step = 2 * extreme / bound.codes;
      const float limit = (bound.is_clipped ? step : step / 2) + extreme * 3 * 0x1p-11f + 0x1p-25f * 128;
      for (size_t j = 0; j < 32; ++j)
        ASSERT_LE(std::fabs(back[block + j] - values[block + j]), limit)
            << dtype_name(bound.dtype) << " block " << block / 32;
    }
  }
}

TEST(Encode, Q4KErrorsStayWithinTheStep) {
  const auto values = golden::random_values(256);
  const auto bytes = encoded(DType::q4_k, values);
  std::vector<float> back(values.size());
  decode(DType::q4_k, bytes.data(), back);
  for (size_t block = 0; block < values.size(); block += 256) {
    float span = 0;  // the widest group: its scale fixes the step of all eight scales
    for (size_t group = 0; group < 256; group += 32) {
      const auto [low, high] = std::minmax_element(values.begin() + static_cast<ptrdiff_t>(block + group),
                                                   values.begin() + static_cast<ptrdiff_t>(block + group + 32));
      span = std::max(span, std::max(0.0f, *high) - std::min(0.0f, *low));
    }
    // Half a code of the group's scale; the scale off by half of span/15/63 (15 codes of it), the minimum by half of
    // span/63; f16 roundings of both.
    const float limit = span * (0.5f / 15 + 0.5f / 63 / 15 * 15.5f + 0.5f / 63 + 3 * 0x1p-11f) + 0x1p-25f * 63 * 16;
    for (size_t j = 0; j < 256; ++j)
      ASSERT_LE(std::fabs(back[block + j] - values[block + j]), limit) << "block " << block / 256;
  }
}

TEST(Encode, NanInfinityAndSubnormalsGiveCodesInRange) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const float odd[] = {nan, inf, -inf, 1e-42f, -1e-45f, 3e38f, -3e38f, 0.0f, -0.0f, 65520.0f};
  for (const QuantType& type : all_quant_types()) {
    if (type.encode_plain == nullptr) continue;
    const size_t len = std::max<size_t>(32, dtype_info(type.dtype).block_len);
    for (const float special : odd) {
      for (const float rest : {0.0f, 1.0f, special}) {
        std::vector<float> values(len, rest);
        values[len / 3] = special;
        const auto bytes = encoded(type.dtype, values);
        std::vector<float> back(len);
        decode(type.dtype, bytes.data(), back);
      }
    }
  }
}

TEST(Encode, SizesAndTypesAreChecked) {
  std::vector<float> values(64);
  std::vector<std::byte> bytes(36);
  EXPECT_TRUE(encode_plain(DType::q4_0, values, bytes).has_value());
  const auto small = encode_plain(DType::q4_0, values, std::span(bytes).first(35));
  ASSERT_FALSE(small.has_value());
  EXPECT_EQ(small.error().code, ErrorCode::shape);
  const auto partial = encode_plain(DType::q4_0, std::span(values).first(33), bytes);
  ASSERT_FALSE(partial.has_value());
  EXPECT_EQ(partial.error().code, ErrorCode::shape);
  const auto unknown = encode_plain(DType::q8_1, values, bytes);
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().code, ErrorCode::unsupported);
  EXPECT_THAT(unknown.error().message, ::testing::HasSubstr("Q8_1"));
}

}  // namespace
}  // namespace tamis
