// Grammars, regular expressions and JSON Schemas: what they accept, what they refuse, and that masks say the same as
// trying every token.
#include "text/grammar/grammar.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "base/rng.h"

namespace tamis {
namespace {

Grammar gbnf(std::string_view text) {
  auto grammar = Grammar::from_gbnf(text);
  EXPECT_TRUE(grammar) << (grammar ? "" : grammar.error().message);
  return grammar ? *std::move(grammar) : *Grammar::json_object();
}
Grammar regex(std::string_view text) {
  auto grammar = Grammar::from_regex(text);
  EXPECT_TRUE(grammar) << text << (grammar ? "" : grammar.error().message);
  return grammar ? *std::move(grammar) : *Grammar::json_object();
}
Grammar schema(std::string_view text) {
  auto grammar = Grammar::from_json_schema(text);
  EXPECT_TRUE(grammar) << text << (grammar ? "" : grammar.error().message);
  return grammar ? *std::move(grammar) : *Grammar::json_object();
}

struct Case {
  std::string_view grammar;
  std::vector<std::string_view> accepted, refused;
};

void check(const Case& c, const Grammar& grammar) {
  for (const std::string_view text : c.accepted) EXPECT_TRUE(grammar.matches(text)) << c.grammar << "\n" << text;
  for (const std::string_view text : c.refused) EXPECT_FALSE(grammar.matches(text)) << c.grammar << "\n" << text;
}

TEST(Gbnf, DescribesTexts) {
  const Case cases[] = {
      {"root ::= \"a\" | \"b\" c\nc ::= [x-z]+ # comment\n", {"a", "bx", "bxyz"}, {"", "b", "c", "ax", "bxw"}},
      {"root ::= (\"a\" | \"b\"){2,3}", {"ab", "aaa"}, {"a", "aaaa", ""}},
      {"root ::= \"x\"{2,} \"y\"?", {"xx", "xxxy"}, {"x", "xy", "xxyy"}},
      {"root ::= [^\"\\\\\\x41] \"\\u00e9\"",
       {"b\xc3\xa9", "\xf0\x9f\x98\x80\xc3\xa9"},
       {"A\xc3\xa9", "\"\xc3\xa9", "b"}},
      {"root ::= .\n", {"a", "\n", "\xe2\x82\xac"}, {"", "ab", "\xff", "\xed\xa0\x80"}},
      {"root ::= \"(\" root \")\" | \"\"", {"", "()", "((()))"}, {"(", "())"}},
      {"root ::= expr\nexpr ::= term (\"+\" term)*\nterm ::= [0-9]+ | \"(\" expr \")\"\n",
       {"1", "1+2", "(1+2)+33", "((7))"},
       {"", "1+", "(1", "+1"}},
      {"root ::=\n  \"a\" |\n  \"b\"\n", {"a", "b"}, {"ab"}},
      {"root ::= \"a\"\n  | \"b\"\nx ::= root", {"a", "b"}, {"ab"}},
      {"root ::= (\"a\"*)*", {"", "aaa"}, {"b"}},
      {"root ::= ((\"a\"?){2,1000000000}) \"b\"", {"b", "ab", "aaab"}, {"a"}},
      {"root ::= \"a\"{3}{2}", {"aaaaaa"}, {"aaa", "aaaaa"}},
      {"root ::= [a-z]{0,100000} [0-9]", {"7", "abc7"}, {"abc", "7a"}},
      {"root ::= a-b a_c\na-b ::= \"1\"\na_c ::= \"2\"", {"12"}, {"1"}},
      {"root ::= [a\\]\\-]+", {"a]-"}, {"b"}},
  };
  for (const Case& c : cases) check(c, gbnf(c.grammar));
}

TEST(Gbnf, NamesWhatIsWrong) {
  const std::pair<std::string, std::string> cases[] = {
      {"root ::= a", "line 1, column 10: rule \"a\" is not defined"},
      {"a ::= \"x\"", "no rule \"root\""},
      {"root ::= root \"a\" | \"b\"", "rule \"root\": is left-recursive"},
      {"root ::= a\na ::= \"\" b\nb ::= a | \"x\"", "is left-recursive"},
      {"root ::= \"c\" a\na ::= a \"b\" | \"x\"", "rule \"a\": is left-recursive"},
      {"root ::= \"a\" root", "no finite text"},
      {"root ::= \"a", "without its closing quote"},
      {"root ::= [a", "without its ]"},
      {"root ::= (\"a\"", "expected )"},
      {"root = \"a\"", "expected ::="},
      {"root ::= \"a\"{2,1}", "smaller number first"},
      {"root ::= \"\\q\"", "unknown escape"},
      {"root ::= \"a\"\nroot ::= \"b\"", "line 2, column 5: rule \"root\" is defined twice"},
      {"root ::= <think>", "token references"},
      {"root ::= " + std::string(60000, '('), "nested more than 200"},
      {"root ::= \"a\"" + std::string(60000, '*'), "more than 200 repeats"},
      {std::string(2 << 20, ' '), "expected at most 1048576"},
      {"root ::= \"\xff\"", "UTF-8"},
      {"root ::= \"\\uD800\"", "no character"},
  };
  for (const auto& [text, message] : cases) {
    const auto grammar = Grammar::from_gbnf(text);
    ASSERT_FALSE(grammar) << text.substr(0, 100);
    EXPECT_EQ(grammar.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(grammar.error().message.find(message), std::string::npos) << grammar.error().message;
  }
}

TEST(Gbnf, LongChainsOfRulesNeedNoStack) {
  std::string text = "root ::= r0\n";
  for (int i = 0; i < 20000; ++i) text += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + "\n";
  text += "r20000 ::= \"x\"\n";
  EXPECT_TRUE(gbnf(text).matches("x"));
}

TEST(Regex, DescribesTexts) {
  const Case cases[] = {
      {"abc", {"abc"}, {"ab", "abcd"}},
      {"^a|b$", {"a", "b"}, {"ab", "c"}},
      {"^(?:a|b)+$", {"abba"}, {"", "c"}},
      {"[^a-c]", {"d", "\xc3\xa9"}, {"a", ""}},
      {"\\d{3}-\\d{4}", {"555-1234"}, {"555-123"}},
      {"[\\w.-]+@\\w+", {"a.b-c@d"}, {"@d"}},
      {"a.c",
       {"abc",
        "a\xe2\x82\xac"
        "c"},
       {"a\nc", "ac"}},
      {"a{0,2}?b", {"b", "aab"}, {"aaab"}},
      {"\\u0041\\x42\\u{1F600}\\uD83D\\uDE00", {"AB\xf0\x9f\x98\x80\xf0\x9f\x98\x80"}, {"AB"}},
      {"(?<year>\\d+)x{", {"12x{"}, {"12x"}},
      {"\\p{Lu}\\P{L}", {"A1", "\xc3\x89-"}, {"a1", "AA"}},
      {"a(^b|c$)?", {"a", "ac"}, {"ab"}},
      {"(a|b)*a(a|b){20}", {"aaaaaaaaaaaaaaaaaaaaaaa"}, {"bbbbbbbbbbbbbbbbbbbbbbb"}},
      {"", {""}, {"a"}},
  };
  for (const Case& c : cases) check(c, regex(c.grammar));
}

TEST(Regex, NamesWhatIsWrong) {
  const std::pair<std::string, std::string> cases[] = {
      {"(?=a)b", "lookahead"},
      {"(?<=x)*", "lookbehind"},
      {"(a)\\1", "back-reference"},
      {"\\bword", "word boundary"},
      {"(?i)a", "inline flag"},
      {"a++", "possessive"},
      {"(", "without its )"},
      {")", "unmatched )"},
      {"*a", "nothing before"},
      {"a**", "after a quantifier"},
      {"[b-a]", "before it begins"},
      {"[a", "without its ]"},
      {"a{2,1}", "smaller number first"},
      {"\\", "at the end"},
      {"\\p{Foo}", "unknown property"},
      {"[]", "no finite text"},
      {std::string(20000, '('), "nested more than 200"},
      {"x{2000000000}", "repeats of more than"},
      {"\\uD800", "no character"},
  };
  for (const auto& [text, message] : cases) {
    const auto grammar = Grammar::from_regex(text);
    ASSERT_FALSE(grammar) << text.substr(0, 100);
    EXPECT_NE(grammar.error().message.find(message), std::string::npos) << grammar.error().message;
  }
}

TEST(JsonSchema, DescribesTexts) {
  const Case cases[] = {
      {"{\"type\":\"integer\",\"minimum\":-3,\"exclusiveMaximum\":12}",
       {"-3", "0", "9", "11"},
       {"-4", "12", "-0", "01", "1.0", "100"}},
      {"{\"type\":\"integer\",\"multipleOf\":7,\"minimum\":10}", {"14", "21", "700"}, {"7", "10", "15"}},
      {"{\"type\":\"number\",\"minimum\":0.5,\"maximum\":10.25}",
       {"0.5", "0.50", "1", "10.25", "10.2499", "9.99"},
       {"0.4", "0", "10.26", "10.251", "11", "-1"}},
      {"{\"type\":\"number\",\"exclusiveMinimum\":-2}", {"-1.5", "0", "-0.1", "100"}, {"-2", "-2.0", "-3"}},
      {"{\"type\":\"number\"}", {"1", "-1.5e10", "1e-05", "0.1"}, {"01", "1e999", ".5", "+1"}},
      {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}",
       {"\"ab\"", "\"a\\u00e9b\"", "\"\xf0\x9f\x98\x80\\uD83D\\uDE00\""},
       {"\"a\"", "\"abcd\"", "\"ab", "\"\\uD800ab\""}},
      {"{\"type\":\"string\",\"maxLength\":1000000000}", {"\"\"", "\"abc\""}, {"abc"}},
      {"{\"type\":\"string\",\"pattern\":\"^[a-z]{2,4}$\"}", {"\"ab\"", "\"abcd\""}, {"\"a\"", "\"AB\"", "\"abcde\""}},
      {"{\"type\":\"string\",\"pattern\":\"b+\"}", {"\"abc\"", "\"b\""}, {"\"ac\""}},
      {"{\"type\":\"string\",\"pattern\":\"^a|z$\",\"maxLength\":3}",
       {"\"abc\"", "\"xyz\"", "\"a\""},
       {"\"abcd\"", "\"xy\""}},
      {"{\"type\":\"string\",\"format\":\"date\"}",
       {"\"2024-02-29\"", "\"1999-12-31\""},
       {"\"2023-02-29\"", "\"2024-13-01\"", "\"2024-04-31\"", "\"0000-01-01\"", "\"1900-02-29\""}},
      {"{\"enum\":[\"a\",1,null,{\"x\":[1.0]}]}",
       {"\"a\"", "1", "null", "{\"x\":[1]}", "{\"x\": [1.0]}"},
       {"\"b\"", "2", "{}"}},
      {"{\"const\":\"\\u00e9\\\"\"}", {"\"\xc3\xa9\\\"\"", "\"\\u00e9\\\"\""}, {"\"e\""}},
      {"{\"type\":[\"string\",\"null\"],\"enum\":[\"a\",\"abc\",1,null],\"maxLength\":2}",
       {"\"a\"", "null"},
       {"\"abc\"", "1"}},
      {"{\"type\":\"array\",\"items\":{\"type\":\"boolean\"},\"minItems\":1,\"maxItems\":2}",
       {"[true]", "[ true, false ]"},
       {"[]", "[true,true,true]", "[1]", "[true,]"}},
      {"{\"type\":\"array\",\"prefixItems\":[{\"const\":1},{\"const\":2}],\"items\":false,\"minItems\":1}",
       {"[1]", "[1,2]"},
       {"[]", "[1,2,3]", "[2]"}},
      {"{\"type\":\"array\",\"prefixItems\":[{\"const\":1}],\"items\":{\"const\":9},\"minItems\":2,\"maxItems\":3}",
       {"[1,9]", "[1,9,9]"},
       {"[1]", "[1,9,9,9]"}},
      {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"null\"}},\"required\":["
       "\"a\"],\"additionalProperties\":false}",
       {"{\"a\":1}", "{\"a\": 1, \"b\": null}", "{\n  \"a\": 1\n}"},
       {"{}", "{\"b\":null}", "{\"a\":1,\"c\":2}", "{\"a\":1,}", "{\"b\":null,\"a\":1}"}},
      {"{\"properties\":{\"a\":{\"const\":1}}}",
       {"{}", "{\"a\":1}", "{\"b\":2}", "{\"a\":1,\"b\":[]}", "3", "{\"aa\":0}", "{\"\":0}"},
       {"{\"a\":2}", "{\"\\u0061\":2}", "{\"b\":1,\"a\":1}"}},
      {"{\"type\":\"object\",\"additionalProperties\":{\"type\":\"integer\"},\"minProperties\":1,\"maxProperties\":2}",
       {"{\"x\":1}", "{\"x\":1,\"y\":2}"},
       {"{}", "{\"x\":\"\"}", "{\"x\":1,\"y\":2,\"z\":3}"}},
      {"{\"type\":\"object\",\"properties\":{\"a\":true,\"b\":true,\"c\":true},\"additionalProperties\":false,"
       "\"minProperties\":2,\"maxProperties\":2}",
       {"{\"a\":1,\"b\":2}", "{\"a\":1,\"c\":2}", "{\"b\":1,\"c\":2}"},
       {"{\"a\":1}", "{\"a\":1,\"b\":2,\"c\":3}"}},
      {"{\"type\":\"object\",\"patternProperties\":{\"^n_\":{\"type\":\"integer\"}},\"additionalProperties\":{\"type\":"
       "\"string\"}}",
       {"{\"n_x\":1,\"y\":\"z\"}", "{}"},
       {"{\"n_x\":\"z\"}", "{\"y\":1}"}},
      {"{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"string\",\"maxLength\":1}]}",
       {"5", "\"a\""},
       {"\"ab\"", "null"}},
      {"{\"type\":\"object\",\"properties\":{\"t\":{}},\"required\":[\"t\"],\"oneOf\":[{\"properties\":{\"t\":{"
       "\"const\":1},\"u\":{\"type\":\"null\"}},\"required\":[\"t\",\"u\"]},{\"properties\":{\"t\":{\"const\":2}},"
       "\"required\":[\"t\"]}]}",
       {"{\"t\":1,\"u\":null}", "{\"t\":2}"},
       {"{\"t\":1}", "{\"t\":3}"}},
      {"{\"allOf\":[{\"type\":\"integer\",\"minimum\":3},{\"maximum\":5}]}", {"3", "5"}, {"2", "6"}},
      {"{\"$ref\":\"#/$defs/"
       "node\",\"$defs\":{\"node\":{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},\"next\":{"
       "\"anyOf\":[{\"$ref\":\"#/$defs/"
       "node\"},{\"type\":\"null\"}]}},\"required\":[\"v\",\"next\"],\"additionalProperties\":false}}}",
       {"{\"v\":1,\"next\":null}", "{\"v\":1,\"next\":{\"v\":2,\"next\":null}}"},
       {"{\"v\":1}", "{\"v\":1,\"next\":{}}"}},
      {"{\"type\":\"string\",\"nullable\":true}", {"null", "\"\""}, {"1"}},
      {"true", {"1", "[{}, \"a\", [null]]", "{\"a\": {\"b\": 1.5}}"}, {"", "[", "nul"}},
      {"{\"type\":\"object\",\"required\":[\"z\"]}", {"{\"z\":1}", "{\"z\":1,\"y\":2}"}, {"{}", "{\"y\":2}"}},
      {"{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#\"}},\"additionalProperties\":false}",
       {"{}", "{\"a\":{\"a\":{}}}"},
       {"{\"a\":1}"}},
  };
  for (const Case& c : cases) check(c, schema(c.grammar));
}

TEST(JsonSchema, ValuesInARow) {
  const auto grammar = Grammar::from_json_row(R"({"enum":[1,"a"]})", {"<", "|", ">"});
  ASSERT_TRUE(grammar) << grammar.error().message;
  check({"a row", {"<1>", "<\"a\">", "<1|\"a\"|1>"}, {"", "<>", "1", "<1", "<1|>", "<|1>", "<1>|<1>", "<1|1>>"}},
        *grammar);
  const auto refused = Grammar::from_json_row(R"({"not":{}})", {"<", "|", ">"});
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().message.starts_with("schema, #")) << refused.error().message;
}

TEST(JsonSchema, NamesTheKeywordItCannotKeep) {
  const std::pair<std::string, std::string> cases[] = {
      {"{\"type\":\"array\",\"uniqueItems\":true}", "#/uniqueItems: the keyword \"uniqueItems\" is not supported"},
      {"{\"properties\":{\"a/b\":{\"not\":{}}}}", "#/properties/a~1b/not: the keyword \"not\""},
      {"{\"if\":{}}", "#/if"},
      {"{\"foo\":1}", "#/foo"},
      {"{\"type\":\"strng\"}", "#/type: expected"},
      {"{\"type\":\"string\",\"format\":\"color\"}", "#/format: got \"color\""},
      {"{\"type\":\"string\",\"pattern\":\"(\"}", "#/pattern: regex, byte 1"},
      {"{\"type\":\"string\",\"pattern\":\"(?<=x)*\"}", "#/pattern: regex, byte 0: lookbehind"},
      {"{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"number\"}]}", "#/oneOf: branches 0 and 1"},
      {"{\"$ref\":\"#\"}", "refers to itself"},
      {"{\"anyOf\":[{\"$ref\":\"#\"},{\"type\":\"null\"}]}", "refers to itself"},
      {"{\"$ref\":\"#/$defs/x\"}", "nowhere in the schema"},
      {"{\"$ref\":\"http://x\"}", "within the schema"},
      {"{\"type\":\"string\",\"enum\":[1]}", "no finite text"},
      {"false", "no finite text"},
      {"{\"type\":\"object\",\"properties\":{\"n\":{\"$ref\":\"#\"}},\"required\":[\"n\"]}", "no finite text"},
      {"{\"type\":\"number\",\"multipleOf\":0.1}", "#/multipleOf"},
      {"{\"type\":\"object\",\"minProperties\":3}", "#/minProperties"},
      {"{\"minimum\":true}", "#/minimum: expected a number"},
      {"{\"items\":[{}]}", "#/items"},
      {"[", "schema: "},
      {"3", "expected a schema"},
  };
  for (const auto& [text, message] : cases) {
    const auto grammar = Grammar::from_json_schema(text);
    ASSERT_FALSE(grammar) << text;
    EXPECT_NE(grammar.error().message.find(message), std::string::npos) << text << "\n" << grammar.error().message;
  }
}

}  // namespace
}  // namespace tamis
