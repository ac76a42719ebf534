// UTF-8: what is well-formed, and where ill-formed text is cut (Unicode 15, table 3-7).
#include "base/utf8.h"

#include <gtest/gtest.h>

namespace tamis {
namespace {

TEST(Utf8, RejectsOverlongSurrogatesAndValuesPastUnicode) {
  EXPECT_EQ(utf8_sequence_length("\xc0\x80", 0), 0u);
  EXPECT_EQ(utf8_sequence_length("\xe0\x9f\xbf", 0), 0u);
  EXPECT_EQ(utf8_sequence_length("\xed\xa0\x80", 0), 0u);
  EXPECT_EQ(utf8_sequence_length("\xf4\x90\x80\x80", 0), 0u);
  EXPECT_EQ(utf8_sequence_length("\xf0\x8f\xbf\xbf", 0), 0u);
  EXPECT_EQ(utf8_sequence_length("\xe2\x82", 0), 0u);
}

TEST(Utf8, EveryScalarValueRoundTrips) {
  for (char32_t cp = 0; cp <= 0x10ffff; ++cp) {
    if (cp >= 0xd800 && cp <= 0xdfff) continue;
    std::string text;
    utf8_append(text, cp);
    const size_t length = utf8_sequence_length(text, 0);
    ASSERT_EQ(length, text.size()) << static_cast<uint32_t>(cp);
    ASSERT_EQ(utf8_code_point(text, 0, length), cp);
    for (size_t cut = 1; cut < text.size(); ++cut)
      ASSERT_EQ(utf8_incomplete_tail(text.substr(0, cut)), cut) << static_cast<uint32_t>(cp);
    ASSERT_EQ(utf8_incomplete_tail(text), 0u);
  }
}

}  // namespace
}  // namespace tamis
