// Decoders against gguf-py's results (tests/golden/make_quants.py) and against a slow definition, bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/quants/golden.h"
#include "tests/quants/slow_decode.h"

namespace tamis {
namespace {

bool same_bits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

TEST(Registry, EveryTypeHasOneRow) {
  size_t n_types = 0;
  for (uint32_t id = 0; id < 64; ++id) {
    const DTypeInfo* info = dtype_info(id);
    if (info == nullptr) continue;
    ++n_types;
    EXPECT_EQ(quant_type(info->dtype).dtype, info->dtype) << info->name;
  }
  EXPECT_EQ(all_quant_types().size(), n_types);
}

TEST(Decode, EqualsGgufPyBitForBit) {
  const auto golden_rows = golden::rows("quants_decode.tsv");
  ASSERT_EQ(golden_rows.size(), all_quant_types().size());
  std::ifstream first_file(TAMIS_SOURCE_DIR "/tests/golden/quants_decode.bin", std::ios::binary);
  for (const auto& row : golden_rows) {
    ASSERT_EQ(row.size(), 4u);
    const auto dtype = dtype_from_name(row[0]);
    ASSERT_TRUE(dtype.has_value()) << row[0];
    const DTypeInfo& info = dtype_info(*dtype);
    const size_t n_blocks = std::strtoull(row[1].c_str(), nullptr, 10);
    const auto raw = golden::random_blocks(info, n_blocks, row[2]);
    std::vector<float> out(n_blocks * info.block_len);
    decode(*dtype, raw.data(), out);

    std::vector<float> first(256);
    first_file.read(reinterpret_cast<char*>(first.data()), 1024);
    for (size_t i = 0; i < first.size(); ++i)
      ASSERT_TRUE(same_bits(out[i], first[i]))
          << row[0] << " weight " << i << ": " << out[i] << ", gguf-py " << first[i];
    EXPECT_EQ(golden::hash_of(out), std::strtoull(row[3].c_str(), nullptr, 16)) << row[0];
  }
}

TEST(Decode, EqualsTheSlowDefinitionOnAnyBytes) {
  for (const QuantType& type : all_quant_types()) {
    const DTypeInfo& info = dtype_info(type.dtype);
    constexpr size_t kBlocks = 300;  // scales unmasked: infinities, NaN and subnormals among them
    const auto raw = golden::random_blocks(info, kBlocks, "-");
    std::vector<float> out(kBlocks * info.block_len);
    decode(type.dtype, raw.data(), out);
    for (size_t i = 0; i < out.size(); ++i) {
      const auto* block = reinterpret_cast<const uint8_t*>(raw.data()) + i / info.block_len * info.block_bytes;
      const float expected = slow::weight(type.dtype, block, i % info.block_len);
      ASSERT_TRUE(same_bits(out[i], expected)) << info.name << " block " << i / info.block_len << " weight "
                                               << i % info.block_len << ": " << out[i] << ", definition " << expected;
    }
  }
}

TEST(Decode, EveryHalfAndBfloatWidensExactly) {
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  std::vector<float> out(all.size());
  for (const DType dtype : {DType::f16, DType::bf16}) {
    decode(dtype, reinterpret_cast<const std::byte*>(all.data()), out);
    for (size_t i = 0; i < all.size(); ++i)
      ASSERT_TRUE(same_bits(out[i], slow::weight(dtype, reinterpret_cast<const uint8_t*>(&all[i]), 0)))
          << dtype_name(dtype) << " " << i;
  }
}

// Unaligned blocks and runs of 0, 1 and several blocks write exactly their elements.
TEST(Decode, AnyAlignmentAndAnyRunLength) {
  for (const QuantType& type : all_quant_types()) {
    const DTypeInfo& info = dtype_info(type.dtype);
    const auto raw = golden::random_blocks(info, 5, "-");
    std::vector<float> whole(5 * info.block_len);
    decode(type.dtype, raw.data(), whole);
    for (size_t n_blocks : {size_t{0}, size_t{1}, size_t{5}}) {
      std::vector<std::byte> shifted(raw.size() + 1);
      std::memcpy(shifted.data() + 1, raw.data(), raw.size());
      std::vector<float> out(n_blocks * info.block_len + 1, 12345.0f);
      decode(type.dtype, shifted.data() + 1, std::span(out).first(n_blocks * info.block_len));
      for (size_t i = 0; i + 1 < out.size(); ++i) ASSERT_TRUE(same_bits(out[i], whole[i])) << info.name;
      EXPECT_EQ(out.back(), 12345.0f) << info.name;
    }
  }
}

TEST(Decode, UncheckedSizesAreErrors) {
  std::vector<std::byte> bytes(144 * 2);
  std::vector<float> out(512);
  EXPECT_TRUE(decode_checked(DType::q4_k, bytes, out).has_value());
  const auto partial = decode_checked(DType::q4_k, bytes, std::span(out).first(500));
  ASSERT_FALSE(partial.has_value());
  EXPECT_EQ(partial.error().code, ErrorCode::shape);
  EXPECT_THAT(partial.error().message, ::testing::HasSubstr("500 elements of Q4_K are not whole blocks of 256"));
  const auto missing = decode_checked(DType::q4_k, std::span(bytes).first(287), out);
  ASSERT_FALSE(missing.has_value());
  EXPECT_THAT(missing.error().message,
              ::testing::HasSubstr("287 bytes hold fewer than 2 blocks of Q4_K (144 bytes each)"));
}

}  // namespace
}  // namespace tamis
