// ByteReader gives what is there and, where bytes end, an error that says where and how many are missing.
#include "base/bytes.h"

#include <gtest/gtest.h>

#include <string>

namespace tamis {
namespace {

ByteReader reader_of(std::string_view text, uint64_t base = 0) {
  return ByteReader({reinterpret_cast<const std::byte*>(text.data()), text.size()}, base);
}

TEST(ByteReader, ReadsLittleEndianInOrder) {
  ByteReader reader = reader_of(std::string_view("\1\2\3\4\xff\xff\0\0\x80\x3fhi", 12));
  EXPECT_EQ(*reader.read<uint32_t>(), 0x04030201u);
  EXPECT_EQ(*reader.read<int16_t>(), -1);
  EXPECT_EQ(*reader.read<float>(), 1.0f);
  EXPECT_EQ(*reader.take_text(2), "hi");
  EXPECT_EQ(reader.bytes_left(), 0u);
}

TEST(ByteReader, AFailedReadMovesNothingAndSaysWhere) {
  ByteReader reader = reader_of("abc", 1000);
  ASSERT_TRUE(reader.skip(1));
  for (const auto& result : {reader.read<uint32_t>().map([](auto) {}), reader.take(3).map([](auto) {}),
                             reader.take_text(~uint64_t{0}).map([](auto) {}), reader.skip(3)}) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::format);
    EXPECT_EQ(result.error().site->byte_offset, 1001u);
    EXPECT_EQ(result.error().site->got, "2 bytes left");
  }
  EXPECT_EQ(*reader.take_text(2), "bc");
  EXPECT_TRUE(reader.take(0));
}

}  // namespace
}  // namespace tamis
