// Options in a file: what a line may be, and that the command line comes first.
#include <gtest/gtest.h>

#include <fstream>

#include "cli/config_file.h"
#include "cli/parse.h"
#include "tests/base/temporary_dir.h"

namespace tamis::cli {
namespace {

TEST(ConfigFile, LinesAreNamesAndValues) {
  const auto settings =
      parse_config("# words\n; more\n\n host =  0.0.0.0 \r\nalias = \"two words\"\n port=1\nempty =\nmodel = a=b");
  ASSERT_TRUE(settings) << settings.error().to_string();
  ASSERT_EQ(settings->size(), 5U);
  EXPECT_EQ((*settings)[0].name, "host");
  EXPECT_EQ((*settings)[0].value, "0.0.0.0");
  EXPECT_EQ((*settings)[0].line_number, 4U);
  EXPECT_EQ((*settings)[1].value, "two words");
  EXPECT_EQ((*settings)[2].value, "1");
  EXPECT_EQ((*settings)[3].value, "");
  EXPECT_EQ((*settings)[4].value, "a=b");
  for (const char* const wrong : {"host", "= x", "--host = x", "ho st = x", "[serve]", "h\x01 = 1"}) {
    const auto refused = parse_config(std::string("port = 1\n") + wrong);
    ASSERT_FALSE(refused) << wrong;
    EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(refused.error().to_string().find("line 2"), std::string::npos);
  }
}

class ConfigOption : public testing::Test {
 protected:
  Result<Args> parse(std::string_view text, std::vector<std::string> words = {}) {
    std::ofstream(dir_.file("c")) << text;
    words.insert(words.end(), {"--config", dir_.file("c")});
    static const Verb verb = serve_verb();
    return parse_args(verb, words);
  }
  test::TemporaryDir dir_;
};

TEST_F(ConfigOption, TheCommandLineComesFirst) {
  const auto args =
      parse("port = 1\nhost = ::1\nmax-seqs = 3\nstrict-model = true\ninsecure = false\n", {"--port", "2", "-np", "4"});
  ASSERT_TRUE(args) << args.error().to_string();
  EXPECT_EQ(args->integer("--port"), 2);
  EXPECT_EQ(args->integer("--max-seqs"), 4);
  EXPECT_EQ(args->text("--host"), "::1");
  EXPECT_TRUE(args->flag("--strict-model"));
  EXPECT_FALSE(args->flag("--insecure"));
  EXPECT_EQ(args->integer("--max-connections"), 1024);
}

TEST_F(ConfigOption, WhatIsWrongIsToldWithItsLine) {
  for (const char* const wrong : {"ports = 1", "port = x", "port = 70000", "port = 1\nport = 2", "strict-model = yes",
                                  "config = other", "help = true", "h = true"}) {
    const auto refused = parse(wrong);
    ASSERT_FALSE(refused) << wrong;
    EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument) << wrong;
    EXPECT_NE(refused.error().to_string().find(": line "), std::string::npos) << refused.error().to_string();
  }
  EXPECT_NE(parse("ports = 1").error().to_string().find("did you mean --port?"), std::string::npos);
  static const Verb verb = serve_verb();
  EXPECT_FALSE(parse_args(verb, std::vector<std::string>{"--config", "/nothing/there"}));
}

}  // namespace
}  // namespace tamis::cli
