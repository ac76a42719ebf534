// The split automaton and the table of tokenizer.ggml.pre: equal to Oniguruma's splits (goldens), to a backtracking
// matcher, and linear in the text on a small stack.
#include "text/pretokenizer.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <functional>
#include <set>

#include "base/rng.h"
#include "base/utf8.h"
#include "formats/json.h"
#include "tests/text/backtrack.h"
#include "tests/text/vocab_files.h"
#include "text/split_automaton.h"
#include "text/unicode.h"

namespace tamis {
namespace {

std::vector<std::string> words(std::string_view pre, std::string_view text) {
  const PreTokenizerRow* row = find_pre_tokenizer(pre);
  if (row == nullptr) return {"no such row"};
  auto tokenizer = PreTokenizer::make(*row->rule);
  if (!tokenizer) return {tokenizer.error().message};
  PreTokenizer::Scratch scratch;
  std::vector<std::string> out;
  size_t begin = 0;
  for (const size_t end : tokenizer->split(text, scratch)) {
    out.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  return out;
}

using Words = std::vector<std::string>;

TEST(PreTokenizer, TableHasEveryNameOnceAndEveryRuleCompiles) {
  std::set<std::string_view> names;
  for (const PreTokenizerRow& row : pre_tokenizer_table()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    const auto tokenizer = PreTokenizer::make(*row.rule);
    EXPECT_TRUE(tokenizer.has_value()) << row.name << ": " << tokenizer.error().message;
  }
  EXPECT_GE(names.size(), 91u);
  EXPECT_EQ(find_pre_tokenizer("no-such"), nullptr);
}

TEST(PreTokenizer, EqualsOnigurumaForEveryName) {
  const auto golden = Json::parse(testing::read_golden("pretokenizers.json"));
  ASSERT_TRUE(golden.has_value()) << golden.error().message;
  const auto& texts = golden->find("texts")->as_array();
  ASSERT_EQ(golden->find("names")->as_object().size(), pre_tokenizer_table().size());
  for (const auto& [name, rule] : golden->find("names")->as_object()) {
    const auto& lengths = golden->find("rules")->find(rule.as_string())->as_array();
    const auto tokenizer = PreTokenizer::make(*find_pre_tokenizer(name)->rule);
    PreTokenizer::Scratch scratch;
    for (size_t k = 0; k < texts.size(); ++k) {
      std::vector<int64_t> expected, got;
      for (const Json& length : lengths[k].as_array()) expected.push_back(length.as_int());
      const std::string& text = texts[k].as_string();
      size_t i = 0;
      for (const size_t end : tokenizer->split(text, scratch))
        for (got.push_back(0); i < end; i += unicode::char_at(text, i).length) ++got.back();
      ASSERT_EQ(got, expected) << name << " on " << texts[k].dump();
    }
  }
}

TEST(PreTokenizerFaults, B08_FirstSplitsOfTheNamedRules) {
  const std::string text = "v1234567 (x):\n", contraction = "I'LL\t\tgo";
  const Words gpt2 = {"v", "1234567", " (", "x", "):", "\n"}, llama3 = {"v", "123", "456", "7", " (", "x", "):\n"},
              qwen2 = {"v", "1", "2", "3", "4", "5", "6", "7", " (", "x", "):\n"};
  EXPECT_EQ(words("gpt-2", text), gpt2);
  EXPECT_EQ(words("default", text), gpt2);
  EXPECT_EQ(words("llama-bpe", text), llama3);
  EXPECT_EQ(words("qwen2", text), qwen2);
  EXPECT_EQ(words("gpt-2", contraction), (Words{"I", "'", "LL", "\t", "\t", "go"}));
  EXPECT_EQ(words("llama-bpe", contraction), (Words{"I", "'LL", "\t", "\tgo"}));
  EXPECT_EQ(words("qwen2", contraction), (Words{"I", "'LL", "\t", "\tgo"}));
}

TEST(PreTokenizerFaults, B06_MarksFollowTheFamily) {
  const std::string text = "नमस्ते";
  EXPECT_EQ(words("qwen2", text), (Words{"नमस", "्त", "े"}));
  EXPECT_EQ(words("llama-bpe", text), (Words{"नमस", "्त", "े"}));
  EXPECT_EQ(words("qwen35", text), (Words{text}));
  EXPECT_EQ(words("gpt-4o", text), (Words{text}));  // the model's own pattern has \p{M}
}

TEST(PreTokenizer, IllFormedBytesAreCharactersOfTheirOwn) {
  for (const PreTokenizerRow& row : pre_tokenizer_table()) {
    std::string joined;
    for (const std::string& word : words(row.name, "a\xff\xfe z\xe2\x82 \xc3(")) joined += word;
    EXPECT_EQ(joined, "a\xff\xfe z\xe2\x82 \xc3(") << row.name;
  }
}

TEST(PreTokenizer, AutomatonEqualsBacktrackingOnRandomText) {
  const std::u32string alphabet = U"aAzZ'sSdlLrReEvV019 \t\n\r.,!$(/字かア한ّ́²Ⅷ\u00a0\u017f😀";
  Rng rng(6);
  std::set<const SplitRule*> seen;
  for (const PreTokenizerRow& row : pre_tokenizer_table()) {
    if (!seen.insert(row.rule).second) continue;
    for (const std::string_view pattern : row.rule->patterns) {
      const auto program = parse_split_regex(pattern);
      const auto automaton = SplitAutomaton::compile(pattern);
      ASSERT_TRUE(program && automaton) << row.name;
      for (int round = 0; round < 150; ++round) {
        std::u32string text;
        std::string bytes;
        std::vector<size_t> offsets;
        for (uint64_t n = rng.below(24) + 1; text.size() < n;) {
          const char32_t c = alphabet[rng.below(alphabet.size())];
          for (uint64_t repeat = rng.below(8) == 0 ? rng.below(20) : 1; repeat > 0; --repeat) text += c;
        }
        for (const char32_t c : text) {
          offsets.push_back(bytes.size());
          utf8_append(bytes, c);
        }
        offsets.push_back(bytes.size());
        std::vector<size_t> got;
        const std::vector<size_t> expected = testing::backtracking_split(*program, text, offsets);
        SplitScratch scratch;
        automaton->split(bytes, 0, bytes.size(), got, scratch);
        ASSERT_EQ(got, expected) << row.name << " on " << bytes;
      }
    }
  }
}

// ---- B06: long runs of one class

// Runs `work` on a thread with the given stack.
void run_on_stack(size_t stack_bytes, const std::function<void()>& work) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, stack_bytes), 0);
  pthread_t thread;
  const auto call = [](void* argument) -> void* {
    (*static_cast<const std::function<void()>*>(argument))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, call, const_cast<std::function<void()>*>(&work)), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

std::string repeated(std::string_view part, size_t n_bytes) {
  std::string out;
  while (out.size() + part.size() <= n_bytes) out += part;
  return out;
}

TEST(PreTokenizerFaults, B06_StepsAreLinearInLongRunsForEveryName) {
  const std::vector<std::string> parts = {"A", "a",    ".",   " ", "\n",  "字",     "A1", "aB",
                                          "1", "\xff", " \n", "'", "A字", "\u0301", "\t "};
  run_on_stack(256 * 1024, [&] {
    std::set<const SplitRule*> seen;
    for (const PreTokenizerRow& row : pre_tokenizer_table()) {
      if (!seen.insert(row.rule).second) continue;
      const auto tokenizer = PreTokenizer::make(*row.rule);
      for (const std::string& part : parts)
        for (const std::string& tail : {std::string(), std::string("x"), std::string("字")}) {
          uint64_t steps[2];
          for (int k = 0; k < 2; ++k) {
            const std::string text = repeated(part, k == 0 ? 15000 : 30000) + tail;
            PreTokenizer::Scratch scratch;
            EXPECT_EQ(tokenizer->split(text, scratch).back(), text.size());
            steps[k] = scratch.split.n_steps;
          }
          EXPECT_LE(static_cast<double>(steps[1]), 2.3 * static_cast<double>(steps[0]) + 1000)
              << row.name << " '" << part << "'";
          // 20 looks at a character a stage: far below anything quadratic, well above what any rule needs.
          EXPECT_LE(steps[1], 20 * 30001 * std::max<size_t>(1, row.rule->patterns.size()))
              << row.name << " '" << part << "'";
        }
    }
  });
}

TEST(SplitRegex, RefusesWhatTheDialectDoesNotHave) {
  for (const char* pattern :
       {"(", ")", "[a", "a{2,1}", "\\p{Nope}", "\\q", "\\", "(?=ab)", "[^a&&b]", "\\x{110000}", "\\x{zz}"})
    EXPECT_FALSE(parse_split_regex(pattern).has_value()) << pattern;
  EXPECT_FALSE(SplitAutomaton::compile("a*").has_value());  // matches nothing at all
  EXPECT_FALSE(parse_split_regex(std::string(100, '(')).has_value());
}

}  // namespace
}  // namespace tamis
