// Names that become paths, digests, origins of URLs, and table layout: the parts of the command line that need no
// program.
#include <gtest/gtest.h>

#include "cli/digest.h"
#include "cli/http.h"
#include "cli/hub.h"
#include "cli/style.h"

namespace tamis::cli {
namespace {

TEST(HubNames, FormIsUserRepoAndQuant) {
  const auto name = parse_hub_name("bartowski/Some_Model-1.5B-GGUF:Q4_K_M");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->id(), "bartowski/Some_Model-1.5B-GGUF");
  EXPECT_EQ(name->quant, "Q4_K_M");
  EXPECT_EQ(name->folder(), "models--bartowski--Some_Model-1.5B-GGUF");
  for (const char* bad : {"", "a", "a/", "/b", "a/b/c", "../b", "a/..", "a/b..c", "a/b:", "a/b:c/d", ".a/b", "a/-b",
                          "a b/c", "a/b\n", "a/b\xff"})
    EXPECT_FALSE(parse_hub_name(bad)) << bad;
}

TEST(HubNames, FileNamesThatMayBecomePaths) {
  for (const char* good : {"m.gguf", "Q8_0/m-00001-of-00002.gguf", "a (b)+c=d.gguf"})
    EXPECT_TRUE(is_safe_file_name(good)) << good;
  for (const char* bad : {"", "/m", "m/", "a//b", "../m", "a/../m", ".m", "a/.m", "a\\b", "a%2fb", "a:b", "~", "a\tb",
                          "1/2/3/4/5/6/7/8/9", "é"})
    EXPECT_FALSE(is_safe_file_name(bad)) << bad;
  EXPECT_FALSE(is_safe_file_name(std::string(129, 'a')));
  EXPECT_FALSE(is_safe_file_name(std::string_view("a\0b", 3)));
}

TEST(HubNames, QuantIsTheLastWordThatIsOne) {
  EXPECT_EQ(quant_of_file_name("SmolLM2-135M-Instruct.Q4_1.gguf"), "Q4_1");
  EXPECT_EQ(quant_of_file_name("qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"), "Q4_K_M");
  EXPECT_EQ(quant_of_file_name("dir/m-IQ2_XXS-00001-of-00003.gguf"), "IQ2_XXS");
  EXPECT_EQ(quant_of_file_name("m-Q4_K_M-imat.gguf"), "Q4_K_M");
  EXPECT_EQ(quant_of_file_name("QwQ-32B.gguf"), "");
  EXPECT_EQ(quant_of_file_name("m.bf16.gguf"), "BF16");
}

TEST(Digest, PublishedVectors) {  // FIPS 180-4 examples
  Digest sha256(Digest::Kind::sha256);
  sha256.update("a");
  sha256.update("bc");
  EXPECT_EQ(sha256.hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Digest sha1(Digest::Kind::sha1);
  sha1.update("abc");
  EXPECT_EQ(sha1.hex(), "a9993e364706816aba3e25717850c26c9cd0d89d");
}

TEST(Http, OriginSaysSchemeHostAndPort) {
  EXPECT_EQ(url_origin("https://HuggingFace.co/a/b?c"), "https://huggingface.co:443");
  EXPECT_EQ(url_origin("http://127.0.0.1:8080/x"), "http://127.0.0.1:8080");
  EXPECT_EQ(url_origin("https://huggingface.co@evil.example/"), "https://evil.example:443");
  EXPECT_EQ(url_origin("https://huggingface.co.evil.example"), "https://huggingface.co.evil.example:443");
  for (const char* bad : {"", "file:///etc/passwd", "ftp://x/", "javascript:x"}) EXPECT_EQ(url_origin(bad), "") << bad;
}

TEST(Style, WidthCountsWhatIsSeen) {
  EXPECT_EQ(display_width("\x1b[31mab\x1b[0m"), 2u);
  EXPECT_EQ(display_width("·…█"), 3u);
  EXPECT_EQ(display_width("\xff\xfe"), 2u);
}

TEST(Style, TableLinesUpAndLeavesNoTrailingSpaces) {
  Table table({Align::left, Align::right, Align::left}, "");
  table.add({"a", "1", ""});
  table.add({"bbb", "\x1b[31m22\x1b[0m", "x"});
  EXPECT_EQ(table.text(), "a     1\nbbb  \x1b[31m22\x1b[0m  x\n");
}

TEST(Style, WrapBreaksAtSpacesOnly) {
  EXPECT_EQ(wrap("aa bb cc", 5, 0), "aa bb\ncc");
  EXPECT_EQ(wrap("aaaaaaaaa b", 5, 2), "aaaaaaaaa\n  b");
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(134515008), "134,515,008");
}

}  // namespace
}  // namespace tamis::cli
