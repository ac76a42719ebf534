// Trimming and lower case of ASCII text.
#include "base/ascii.h"

#include <gtest/gtest.h>

namespace tamis {
namespace {

TEST(Ascii, TrimsBothEnds) {
  EXPECT_EQ(trimmed(" \t\r\n a b \n"), "a b");
  EXPECT_EQ(trimmed("ab"), "ab");
  EXPECT_EQ(trimmed(" \r\n"), "");
  EXPECT_EQ(trimmed(""), "");
}

TEST(Ascii, HttpKeepsLineEnds) { EXPECT_EQ(trimmed("\t \r a\n ", kHttpBlanks), "\r a\n"); }

TEST(Ascii, LowerCaseLeavesOtherBytes) { EXPECT_EQ(to_lower("AZ[az\xc3\x84`@"), "az[az\xc3\x84`@"); }

}  // namespace
}  // namespace tamis
