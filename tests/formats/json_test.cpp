// JSON: strict parsing, kept order and number kinds, valid output.
#include "formats/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tamis {
namespace {

TEST(Json, KeepsOrderAndKindsOfNumbers) {
  const auto value = Json::parse(R"({"b":1,"a":[1.0,-2,18446744073709551615,true,null,"é\u00e9\ud83d\ude00"]})");
  ASSERT_TRUE(value);
  EXPECT_EQ(value->dump(), R"({"b":1,"a":[1.0,-2,18446744073709551615,true,null,"éé😀"]})");
  EXPECT_TRUE(value->find("b")->is_int());
  EXPECT_TRUE(value->find("a")->as_array()[0].is_double());
  EXPECT_EQ(value->find("a")->as_array()[2].as_uint(), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(value->find("absent"), nullptr);
}

TEST(Json, PrettyPrints) {
  Json value = Json::object();
  value.set("a", Json(Json::Array{1, "x"})).set("e", Json::object());
  EXPECT_EQ(value.dump(2), "{\n  \"a\": [\n    1,\n    \"x\"\n  ],\n  \"e\": {}\n}");
  value.set("a", 3);
  EXPECT_EQ(value.dump(), R"({"a":3,"e":{}})");
}

TEST(Json, RefusesWhatIsNotOneStrictValue) {
  for (const char* text : {"", " ", "{", "[1,]", "{\"a\":1,}", "01", "1 2", "nul", "\"\x01\"", "\"\xff\"",
                           "\"\\ud800\"", "NaN", "1e999", "{\"a\":1,\"a\":2}", "'a'", "[1 2]"}) {
    const auto value = Json::parse(text);
    ASSERT_FALSE(value) << text;
    EXPECT_EQ(value.error().code, ErrorCode::format) << text;
    ASSERT_TRUE(value.error().site) << text;
  }
}

TEST(Json, NamesTheByteOfAFault) {
  const auto value = Json::parse(R"({"a": [1, 2,, 3]})");
  ASSERT_FALSE(value);
  EXPECT_TRUE(value.error().site->has_offset);
  EXPECT_EQ(value.error().site->byte_offset, 13u);

  const auto hidden = Json::parse(std::string_view("{}\0{", 4));
  ASSERT_FALSE(hidden) << "what stands behind a NUL is part of the text";
  EXPECT_EQ(hidden.error().site->byte_offset, 2u);
}

TEST(Json, DepthIsCappedAndDeepInputCostsNoStack) {
  EXPECT_TRUE(Json::parse(std::string(128, '[') + std::string(128, ']'), 128));
  EXPECT_FALSE(Json::parse(std::string(129, '[') + std::string(129, ']'), 128));
  EXPECT_FALSE(Json::parse(std::string(1000000, '[')));
}

TEST(Json, WritesOnlyValidText) {
  EXPECT_EQ(Json(std::nan("")).dump(), "null");
  EXPECT_EQ(Json("a\xff").dump(), "\"a\xef\xbf\xbd\"");
  EXPECT_EQ(Json("\n\"\\\x01").dump(), R"("\n\"\\\u0001")");
  EXPECT_EQ(Json(0.1).dump(), "0.1");
  EXPECT_EQ(Json(1e300).dump(), "1e+300");
}

}  // namespace
}  // namespace tamis
