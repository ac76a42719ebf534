// Published models' chat templates, byte for byte as Python's jinja2 renders them (goldens in ../shared).
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "text/chat_template.h"

namespace tamis {
namespace {

TEST(ChatTemplates, EqualEveryGolden) {
  size_t n_cases = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TAMIS_SOURCE_DIR "/../shared/data/templates")) {
    const std::string path = entry.path().string(), suffix = ".golden.json";
    if (!path.ends_with(suffix)) continue;
    const auto source = read_text_file(path.substr(0, path.size() - suffix.size()) + ".jinja", 1 << 20);
    const auto golden = read_text_file(path, 4 << 20);
    ASSERT_TRUE(source && golden) << path;
    const auto rows = Json::parse(*golden);
    ASSERT_TRUE(rows) << path << rows.error().message;
    const auto parsed = ChatTemplate::parse(*source);
    for (const Json& row : rows->as_array()) {
      const std::string where = path + " " + row.find("case")->as_string();
      ChatTemplateInput input;
      input.variables = *row.find("input");
      input.bos_token = "<s>";
      input.eos_token = "</s>";
      input.clock = "2031-02-03T04:05:06";
      const auto result = parsed ? parsed->render(input) : Result<std::string>(tl::unexpected<Error>(parsed.error()));
      ++n_cases;
      if (const Json* expected = row.find("result")) {
        ASSERT_TRUE(result) << where << ": " << result.error().message;
        EXPECT_EQ(*result, expected->as_string()) << where;
      } else {
        EXPECT_FALSE(result) << where << " gave " << *result;
      }
    }
  }
  EXPECT_GE(n_cases, 240u);
}

}  // namespace
}  // namespace tamis
