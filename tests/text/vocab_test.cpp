// Loading a vocabulary: special tokens, defaults, and what must be refused (security.md §1C, cases S050–S073).
#include "text/vocab.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "tests/text/vocab_files.h"

namespace tamis {
namespace {

using testing::bpe_vocab;
using testing::common_merges;
using testing::spm_vocab;
using testing::VocabFile;

VocabFile small_spm() { return spm_vocab({{"▁", -1}, {"a", -1}, {"b", -1}}); }

template <class T>
GgufEncoded numbers(std::vector<T> values) {
  return GgufEncoded::numbers(std::span<const T>(values));
}
GgufEncoded texts(const std::vector<std::string>& values) {
  return GgufEncoded::texts(std::span<const std::string>(values));
}

// The file is refused with an error at `key`; with an offset unless the key is absent.
void expect_refused(const VocabFile& file, const std::string& key, const std::string& what) {
  const auto tokenizer = file.tokenizer();
  ASSERT_FALSE(tokenizer.has_value()) << what;
  ASSERT_NE(tokenizer.error().site, nullptr) << what << ": " << tokenizer.error().message;
  EXPECT_EQ(tokenizer.error().site->subject, key) << what;
  EXPECT_FALSE(tokenizer.error().site->expected.empty()) << what;
  EXPECT_FALSE(tokenizer.error().site->tag.empty()) << what;
}

TEST(Vocab, RefusesBrokenArrays) {
  const size_t n = 3 + 256 + 3;
  const std::string tokens = "tokenizer.ggml.tokens", scores = "tokenizer.ggml.scores",
                    types = "tokenizer.ggml.token_type";
  expect_refused(small_spm().remove(tokens), tokens, "S050 no tokens");
  expect_refused(small_spm().set(tokens, texts({})), tokens, "S051 empty tokens");
  expect_refused(small_spm().set(tokens, numbers<uint32_t>({1, 2, 3})), tokens, "S052 tokens of u32");
  expect_refused(small_spm().set(scores, numbers(std::vector<float>(n - 1))), scores, "S053 one score missing");
  expect_refused(small_spm().set(scores, numbers(std::vector<float>(n + 1))), scores, "one score too many");
  expect_refused(small_spm().set(scores, numbers(std::vector<uint8_t>(n))), scores, "S054 scores of u8");
  expect_refused(small_spm().set(types, numbers(std::vector<int32_t>(n - 1, 1))), types, "S055 one type missing");
  expect_refused(small_spm().set(types, numbers(std::vector<uint8_t>(n, 1))), types, "S056 types of u8");
  std::vector<int32_t> odd(n, 1);
  odd[7] = 99;
  expect_refused(small_spm().set(types, numbers(odd)), types, "S057 type 99");
  for (const float bad : {std::nanf(""), HUGE_VALF}) {
    std::vector<float> odd_scores(n);
    odd_scores[260] = bad;
    expect_refused(small_spm().set(scores, numbers(odd_scores)), scores, "S073 no number");
  }
  expect_refused(small_spm().remove(scores), scores, "no scores");
  expect_refused(small_spm().set("tokenizer.ggml.suppress_tokens", numbers<int32_t>({-1})),
                 "tokenizer.ggml.suppress_tokens", "suppressed id out of range");
}

std::vector<std::string> spm_tokens(size_t at, const std::string& text) {
  auto file = small_spm().open();
  const auto views = *file->find("tokenizer.ggml.tokens")->as_array()->strings();
  std::vector<std::string> tokens(views.begin(), views.end());
  tokens[at] = text;
  return tokens;
}

TEST(Vocab, TokenTexts) {
  const std::string key = "tokenizer.ggml.tokens";
  expect_refused(small_spm().set(key, texts(spm_tokens(260, "b"))), key, "S058 a token twice");
  expect_refused(small_spm().set(key, texts(spm_tokens(10, "<0xZZ>"))), key, "S064");
  expect_refused(small_spm().set(key, texts(spm_tokens(10, "<0x-1>"))), key, "S065");
  expect_refused(small_spm().set(key, texts(spm_tokens(10, "<0x0a>"))), key, "a byte twice");
  for (const std::string& odd : {std::string("\xff\xfe"), std::string("a\0b", 3), std::string()}) {  // S059, S060, S061
    const auto tokenizer = small_spm().set(key, texts(spm_tokens(260, odd))).tokenizer();
    ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().to_string();
    EXPECT_EQ((*tokenizer)->token_text(260), odd);
    EXPECT_EQ((*tokenizer)->find_token(odd).has_value(), !odd.empty());
  }
}

TEST(Vocab, SpecialIdsAreInRange) {
  for (const char* key :
       {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id", "tokenizer.ggml.fim_pad_token_id"}) {
    expect_refused(small_spm().set(key, GgufEncoded::number(uint32_t{262})), key, "S062");
    expect_refused(small_spm().set(key, GgufEncoded::number(uint32_t{0x80000000u})), key, "S063");
    expect_refused(small_spm().set(key, GgufEncoded::number(int32_t{-1})), key, "a negative id");
    expect_refused(small_spm().set(key, GgufEncoded::text("1")), key, "an id that is text");
  }
  VocabFile tiny;
  tiny.set("tokenizer.ggml.model", GgufEncoded::text("llama"));
  expect_refused(tiny.tokens({"a"}, {1}, {0}), "tokenizer.ggml.tokens", "S072 one token");
  expect_refused(tiny.tokens({"a", "b"}, {1, 1}, {0, 0}), "tokenizer.ggml.eos_token_id", "the default id past the end");
}

TEST(Vocab, ModelsMergesAndCharsmaps) {
  const std::string merges = "tokenizer.ggml.merges", charsmap = "tokenizer.ggml.precompiled_charsmap";
  expect_refused(small_spm().set("tokenizer.ggml.model", GgufEncoded::text("no-such")), "tokenizer.ggml.model", "S066");
  expect_refused(small_spm().remove("tokenizer.ggml.model"), "tokenizer.ggml.model", "no model");
  expect_refused(bpe_vocab("gpt-2", common_merges()).remove(merges), merges, "S067 no merges");
  expect_refused(bpe_vocab("gpt-2", common_merges()).set(merges, texts({"th"})), merges, "S068 no space");
  expect_refused(bpe_vocab("gpt-2", common_merges()).set(merges, texts({"t "})), merges, "nothing right of the space");
  expect_refused(bpe_vocab("gpt-2", common_merges()).set(merges, numbers<uint32_t>({1})), merges, "S069 merges of u32");
  set_log_level(LogLevel::quiet);
  EXPECT_TRUE(bpe_vocab("gpt-2", common_merges()).set(merges, texts({"t h", "no such"})).tokenizer().has_value());
  set_log_level(LogLevel::warning);
  const auto unigram = testing::unigram_vocab({{"▁", -1}, {"a", -1}});
  for (const std::vector<uint8_t>& bad :
       {std::vector<uint8_t>{1, 2, 3}, {0xff, 0xff, 0xff, 0x7f, 0, 0, 0, 0}, {8, 0, 0, 0, 1, 2}})
    expect_refused(VocabFile(unigram).set(charsmap, numbers(bad)), charsmap, "S070, S071");
  expect_refused(VocabFile(unigram).set(charsmap, numbers<float>({1})), charsmap, "a charsmap of f32");
}

TEST(Vocab, ContradictionsAreFoundAtLoad) {
  const char* key = "tokenizer.ggml.add_bos_token";
  expect_refused(bpe_vocab("gpt-2", common_merges()).set(key, GgufEncoded::number(true)), key,
                 "BOS to add, none named");
  expect_refused(bpe_vocab("gpt-2", common_merges()).set("tokenizer.ggml.add_eos_token", GgufEncoded::number(true)),
                 "tokenizer.ggml.add_eos_token", "EOS to add, none named");
  expect_refused(small_spm().set(key, GgufEncoded::number(uint32_t{1})), key, "a flag that is a number");
}

TEST(Vocab, EndOfGenerationByIdAndByName) {
  VocabFile file = bpe_vocab("qwen2", common_merges());
  file.set("tokenizer.ggml.eos_token_id", GgufEncoded::number(uint32_t{65}));
  const auto tokenizer = *file.tokenizer();
  const TokenId im_end = *tokenizer->find_token("<|im_end|>");
  EXPECT_EQ(tokenizer->special().eot, im_end);
  EXPECT_EQ(tokenizer->special().end_of_generation, (std::vector<TokenId>{65, im_end}));
  EXPECT_TRUE(tokenizer->is_end_of_generation(65));
  EXPECT_FALSE(tokenizer->is_end_of_generation(66));
  EXPECT_FALSE(tokenizer->is_end_of_generation(-1));
  EXPECT_FALSE(tokenizer->is_end_of_generation(1 << 30));
}

TEST(Vocab, WellKnownControlTokensAreControlWhateverTheirType) {
  VocabFile file;
  file.set("tokenizer.ggml.model", GgufEncoded::text("llama"));
  file.tokens({"<unk>", "<s>", "</s>", "<|im_end|>", "<PAD>", "a"}, {2, 3, 3, 1, 1, 1}, {0, 0, 0, 0, 0, 0});
  const auto tokenizer = *file.tokenizer();
  EXPECT_EQ(tokenizer->token_type(3), TokenType::control);
  EXPECT_EQ(tokenizer->token_type(4), TokenType::normal);  // a bare tag that the file does not name is text
  EXPECT_EQ(tokenizer->special().end_of_generation, (std::vector<TokenId>{2, 3}));
}

TEST(Vocab, DefaultsOfTheModels) {
  const auto spm = *small_spm().tokenizer();
  EXPECT_TRUE(spm->special().add_bos);
  EXPECT_TRUE(spm->special().add_space_prefix);
  EXPECT_EQ(spm->special().bos, 1);
  const auto gpt2 = *bpe_vocab("gpt-2", common_merges()).tokenizer();
  EXPECT_FALSE(gpt2->special().add_bos);
  EXPECT_EQ(gpt2->special().bos, kNoToken);
  VocabFile llama3 = bpe_vocab("llama-bpe", common_merges());
  EXPECT_FALSE((*llama3.tokenizer())->special().add_bos);  // no BOS to add
  llama3.set("tokenizer.ggml.bos_token_id", GgufEncoded::number(uint32_t{1}));
  EXPECT_TRUE((*llama3.tokenizer())->special().add_bos);
  llama3.set("tokenizer.ggml.add_bos_token", GgufEncoded::number(false));
  EXPECT_FALSE((*llama3.tokenizer())->special().add_bos);
}

TEST(Vocab, ByteTokensByTable) {
  EXPECT_EQ(byte_of_token("<0x0A>"), 10);
  EXPECT_EQ(byte_of_token("<0xfF>"), 255);
  for (const char* text : {"<0x0>", "<0x-1>", "<0xG0>", "<0x0A", "<0X0A>", "0x0A", "<0x0A>>", "<0x 1>"})
    EXPECT_FALSE(byte_of_token(text).has_value()) << text;
}

TEST(Vocab, IdsOutOfRangeHaveNoText) {
  const auto tokenizer = *small_spm().tokenizer();
  for (const TokenId id : {-1, 262, 1 << 30}) {
    EXPECT_EQ(tokenizer->token_text(id), "");
    EXPECT_EQ(tokenizer->token_bytes(id, true), "");
    EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{id}), "");
  }
}

}  // namespace
}  // namespace tamis
