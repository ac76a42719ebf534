// The fetched models' own vocabularies: special tokens as their chat needs them, text that comes back, long runs.
#include <gtest/gtest.h>

#include "base/env.h"
#include "text/tokenizer.h"

namespace tamis {
namespace {

std::shared_ptr<const Tokenizer> load(const std::string& name) {
  const auto file = GgufFile::open(env::cache_dir() + "/models/" + name);
  EXPECT_TRUE(file.has_value()) << file.error().to_string();
  if (!file) return nullptr;
  const auto tokenizer = Tokenizer::from_gguf(*file);
  EXPECT_TRUE(tokenizer.has_value()) << tokenizer.error().to_string();
  return tokenizer ? *tokenizer : nullptr;
}

TEST(ModelTokenizer, SmolLm2) {
  const auto tokenizer = load("SmolLM2-135M-Instruct.Q4_1.gguf");
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->pre_name(), "smollm");
  EXPECT_FALSE(tokenizer->special().add_bos);
  EXPECT_TRUE(tokenizer->is_end_of_generation(2));  // <|im_end|>
  EXPECT_TRUE(tokenizer->is_end_of_generation(0));  // <|endoftext|>
  EXPECT_FALSE(tokenizer->is_end_of_generation(1));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("What is the capital of France? 2+2=4\n")),
            "What is the capital of France? 2+2=4\n");
}

TEST(ModelTokenizer, Gemma3) {
  const auto tokenizer = load("gemma-3-270m-q4_k_m.gguf");
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_TRUE(tokenizer->special().add_bos);
  EXPECT_EQ(tokenizer->special().bos, 2);
  EXPECT_TRUE(tokenizer->is_end_of_generation(*tokenizer->find_token("<end_of_turn>")));
  EXPECT_EQ(tokenizer->encode("a\n\nb"),
            (std::vector<TokenId>{*tokenizer->find_token("a"), 108, *tokenizer->find_token("b")}));
  const std::string text = "  two spaces, tabs\t\tand \xff bytes";
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
}

TEST(ModelTokenizerFaults, B06_LongRunsOfOneClassInARealVocabulary) {
  for (const char* name :
       {"qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", "gemma-3-270m-q4_k_m.gguf", "SmolLM2-135M-Instruct.Q4_1.gguf"}) {
    const auto tokenizer = load(name);
    ASSERT_NE(tokenizer, nullptr);
    for (const std::string part : {"A", ".", " ", "\n", "字", "A1"}) {
      std::string text;
      while (text.size() < 300000) text += part;
      const auto ids = tokenizer->encode(text);
      EXPECT_EQ(tokenizer->decode(ids), text) << name;
    }
  }
}

}  // namespace
}  // namespace tamis
