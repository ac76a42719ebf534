// Ids of the vocabularies in ../shared/data/vocab: equal to what their authors expect (.out), text for text (.inp).
#include <gtest/gtest.h>

#include <sstream>

#include "base/file.h"
#include "text/tokenizer.h"

namespace tamis {
namespace {

constexpr const char* kVocabularies[] = {"gpt-2", "llama-bpe", "qwen2", "llama-spm", "phi-3", "bert-bge"};

class SharedVocabulary : public ::testing::TestWithParam<const char*> {
 protected:
  std::string path() const {
    return std::string(TAMIS_SOURCE_DIR "/../shared/data/vocab/ggml-vocab-") + GetParam() + ".gguf";
  }
};

TEST_P(SharedVocabulary, IdsEqualTheGolden) {
  const auto file = GgufFile::open(path());
  ASSERT_TRUE(file.has_value()) << file.error().to_string();
  const auto tokenizer = Tokenizer::from_gguf(*file);
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().to_string();
  const auto texts = read_text_file(path() + ".inp", 1 << 20), golden = read_text_file(path() + ".out", 1 << 20);
  ASSERT_TRUE(texts.has_value() && golden.has_value());
  std::istringstream lines(*golden);
  constexpr std::string_view kSeparator = "\n__ggml_vocab_test__\n";
  size_t n_texts = 0;
  for (size_t i = 0; i < texts->size(); ++n_texts) {
    const size_t end = texts->find(kSeparator, i);
    ASSERT_NE(end, std::string::npos);
    std::string line;
    ASSERT_TRUE(std::getline(lines, line));
    std::istringstream words(line);
    std::vector<TokenId> expected;
    for (TokenId id; words >> id;) expected.push_back(id);
    const std::string text = texts->substr(i, end - i);
    EXPECT_EQ((*tokenizer)->encode(text), expected) << "'" << text << "'";
    i = end + kSeparator.size();
  }
  EXPECT_GE(n_texts, 40u);
}

INSTANTIATE_TEST_SUITE_P(All, SharedVocabulary, ::testing::ValuesIn(kVocabularies), [](const auto& test) {
  std::string name = test.param;
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
});

// Every byte of real text comes back; words do not change when the text is cut at the same places the splitter would.
TEST(SharedText, ByteLevelVocabulariesGiveTheTextBack) {
  const auto text = read_text_file(TAMIS_SOURCE_DIR "/../shared/data/text/wiki.test.raw", uint64_t{4} << 20);
  ASSERT_TRUE(text.has_value());
  for (const char* name : {"gpt-2", "llama-bpe", "qwen2"}) {
    const auto file =
        GgufFile::open(std::string(TAMIS_SOURCE_DIR "/../shared/data/vocab/ggml-vocab-") + name + ".gguf");
    ASSERT_TRUE(file.has_value());
    const auto tokenizer = Tokenizer::from_gguf(*file);
    ASSERT_TRUE(tokenizer.has_value());
    EXPECT_EQ((*tokenizer)->decode((*tokenizer)->encode(*text)), *text) << name;
  }
}

}  // namespace
}  // namespace tamis
