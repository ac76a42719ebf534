// Unicode facts and normal forms.
#include "text/unicode.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "base/utf8.h"

namespace tamis::unicode {
namespace {

std::string nfc(std::string_view text) {
  std::string storage;
  return std::string(to_nfc(text, storage));
}

TEST(Unicode, WhiteSpaceIsTheProperty) {
  for (const char32_t c :
       {0x9, 0xa, 0xb, 0xc, 0xd, 0x20, 0x85, 0xa0, 0x1680, 0x2000, 0x200a, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000})
    EXPECT_TRUE(is_whitespace(c)) << static_cast<uint32_t>(c);
  for (const char32_t c : {0x8, 0xe, 0x1f, 0x200b, 0x180e, 0xfeff, 0x61})
    EXPECT_FALSE(is_whitespace(c)) << static_cast<uint32_t>(c);
}

TEST(Unicode, WordCharacters) {
  for (const char32_t c : std::u32string(U"aZ0_é字\u0301٣")) EXPECT_TRUE(is_word(c)) << static_cast<uint32_t>(c);
  for (const char32_t c : std::u32string(U" .-½Ⅷ\u20ac")) EXPECT_FALSE(is_word(c)) << static_cast<uint32_t>(c);
}

TEST(Unicode, NfcOfKnownSequences) {
  EXPECT_EQ(nfc("plain ascii"), "plain ascii");
  EXPECT_EQ(nfc("é"), "é");
  EXPECT_EQ(nfc("e\u0301"), "é");
  EXPECT_EQ(nfc("xe\u0301y e\u0301"), "xéy é");
  EXPECT_EQ(nfc("a\u0323\u0302"), "ậ");
  EXPECT_EQ(nfc("a\u0302\u0323"), "ậ");        // marks in the other order
  EXPECT_EQ(nfc("\u1112\u1161\u11ab"), "한");  // Hangul
  EXPECT_EQ(nfc("\u212b"), "Å");               // Ångström sign
  EXPECT_EQ(nfc("\u0958"), "\u0915\u093c");    // excluded from composition
  EXPECT_EQ(nfc("\u0301e"), "\u0301e");        // a mark at the start
}

TEST(Unicode, NfcLeavesIllFormedBytesAlone) {
  EXPECT_EQ(nfc("e\xff\u0301"), "e\xff\u0301");
  EXPECT_EQ(nfc("\xe2\x82"
                "e\u0301\xc3"),
            "\xe2\x82"
            "é\xc3");
}

TEST(Unicode, NfcIsIdempotent) {
  Rng rng(9);
  const std::u32string alphabet = U"aeoAE\u0301\u0302\u0323\u0307\u1100\u1161\u11a8\uac00é\u0915\u093c\u0958\u212b 字😀";
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (uint64_t n = rng.below(12); n > 0; --n) utf8_append(text, alphabet[rng.below(alphabet.size() - 1)]);
    const std::string once = nfc(text);
    ASSERT_EQ(nfc(once), once);
  }
}

TEST(Unicode, NfcOfALongRunOfUnorderedMarksIsNotQuadratic) {
  std::string text = "a";
  for (int i = 0; i < 50000; ++i) text += i % 2 ? "\u0301" : "\u0323";  // 2.5e9 exchanges if sorted by neighbours
  const std::string once = nfc(text);
  EXPECT_EQ(once.substr(0, 3), "\u1ea1");
}

TEST(Unicode, LowerCase) {
  std::string out;
  for (const char32_t c : {U'A', U'É', U'Σ', U'\u0130', U'字'}) append_lower(out, c);
  EXPECT_EQ(out, "aéσi\u0307字");
}

}  // namespace
}  // namespace tamis::unicode
