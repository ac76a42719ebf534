// The interpreter against Python's jinja2 under Hugging Face's settings: 1,000 small templates, goldens made by
// tests/golden/make_jinja_expressions.py.
#include <gtest/gtest.h>

#include "base/file.h"
#include "text/chat_template.h"

namespace tamis {
namespace {

ChatTemplateInput golden_input(const Json& variables) {
  ChatTemplateInput input;
  input.variables = variables;
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  input.clock = "2031-02-03T04:05:06";
  return input;
}

TEST(Jinja, EqualsJinja2OnEveryExpression) {
  const auto text = read_text_file(TAMIS_SOURCE_DIR "/tests/golden/jinja_expressions.json", 4 << 20);
  ASSERT_TRUE(text) << text.error().message;
  const auto golden = Json::parse(*text);
  ASSERT_TRUE(golden) << golden.error().message;
  const ChatTemplateInput input = golden_input(*golden->find("input"));
  const Json::Array& rows = golden->find("rows")->as_array();
  ASSERT_GE(rows.size(), 900u);
  for (const Json& row : rows) {
    const std::string& source = row.find("source")->as_string();
    const Json* expected = row.find("result");
    const auto parsed = ChatTemplate::parse(source);
    const auto result = parsed ? parsed->render(input) : Result<std::string>(tl::unexpected<Error>(parsed.error()));
    if (expected == nullptr) {
      EXPECT_FALSE(result) << source << " gave " << *result << ", jinja2 raises " << row.find("error")->as_string();
      continue;
    }
    ASSERT_TRUE(result) << source << ": " << result.error().message;
    EXPECT_EQ(*result, expected->as_string()) << source;
    const auto parts = parsed->render_parts(input);
    ASSERT_TRUE(parts) << source;
    std::string joined;
    for (const PromptPart& part : *parts) joined += part.text;
    EXPECT_EQ(joined, *result) << source;
  }
}

}  // namespace
}  // namespace tamis
