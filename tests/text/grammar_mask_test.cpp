// Masks against the definition: a token is allowed when the grammar can go on after the text with its bytes added.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/rng.h"
#include "tests/text/vocab_files.h"
#include "text/grammar/grammar.h"
#include "text/grammar/stack_table.h"

namespace tamis {
namespace {

constexpr TokenId kEnd = 0;

// All single bytes of the alphabet, random words over it, one control token's empty place, one token that ends.
std::shared_ptr<const TokenTrie> random_vocabulary(Rng& rng, std::string_view alphabet, size_t n_words) {
  std::vector<std::string> tokens = {"</s>", ""};
  for (const char c : alphabet) tokens.emplace_back(1, c);
  for (size_t i = 0; i < n_words; ++i) {
    std::string word;
    for (size_t n = 1 + rng.below(6); n > 0; --n) word += alphabet[rng.below(alphabet.size())];
    tokens.push_back(word);
  }
  return std::make_shared<const TokenTrie>(tokens, std::vector<TokenId>{kEnd});
}

bool is_set(const std::vector<uint32_t>& bits, TokenId id) {
  return (bits[static_cast<size_t>(id) / 32] >> (id % 32) & 1u) != 0;
}

// All places a text leads to; none when no answer begins with it.
Position position_after(const GrammarAutomaton& automaton, std::string_view text) {
  StackTable stacks(automaton);
  Position now, next;
  stacks.start(now);
  for (const char c : text) {
    stacks.step(now, static_cast<uint8_t>(c), next);
    std::swap(now, next);
  }
  return now;
}

// Walks at random, comparing every mask with trying every token.
void check_masks(const Grammar& grammar, const std::shared_ptr<const TokenTrie>& trie, Rng& rng,
                 std::string_view name) {
  const auto masks = std::make_shared<const TokenMasks>(grammar, trie);
  GrammarMatcher matcher(masks);
  std::vector<uint32_t> bits(trie->n_words());
  std::string text;
  for (int step = 0; step < 12; ++step) {
    // Past StackTable::kMostConfigs texts are lost, and not the same ones for every way there.
    if (position_after(grammar.automaton(), text).configs.size() > 20) return;
    ASSERT_TRUE(matcher.fill_mask(bits));
    std::vector<TokenId> allowed;
    for (TokenId id = 0; static_cast<size_t>(id) < trie->n_vocab(); ++id) {
      const std::string_view bytes = trie->bytes(id);
      const bool expected =
          id == kEnd ? grammar.matches(text)
                     : !bytes.empty() && position_after(grammar.automaton(), text + std::string(bytes)).is_alive();
      ASSERT_EQ(is_set(bits, id), expected) << name << "\nafter " << text << " token " << id << " " << bytes;
      if (expected && id != kEnd) allowed.push_back(id);
    }
    EXPECT_EQ(matcher.must_end(), allowed.empty() && matcher.is_complete());
    if (allowed.empty()) return;
    const TokenId id = allowed[rng.below(allowed.size())];
    ASSERT_TRUE(matcher.accept(id));
    text += trie->bytes(id);
  }
}

TEST(TokenMask, EqualsTryingEveryToken) {
  const std::string_view grammars[] = {
      "root ::= \"a\" | \"ab\" | \"abc\"",
      "root ::= [ab]{2,5} \"c\"",
      "root ::= ([abc]{3,1000} \"(\")* [ab]",
      "root ::= [^()]{2,1000} \"(\" root? \")\"",
      "root ::= \"(\" root \")\" root | \"\"",
      "root ::= word (\" \" word){1,3}\nword ::= [a-c]+ | \"(\" root \")\"",
      "root ::= x y x\nx ::= \"a\"*\ny ::= \"ab\"*\n",
      "root ::= \"a\" root? \"b\"? | \"c\"",
      "root ::= .{3,700}",
      "root ::= ([ab]{1,400} | \"(\" [^b]{1,400} \")\"){0,3} \"b\"",
      "root ::= (\"ab\" | \"a\" \"b\"? \"c\"){0,4}",
      "root ::= (x | y)+ \"c\"\nx ::= \"a\" (\"b\" x)?\ny ::= \"a\" (\"b\" y)? \"b\"\n",
  };
  Rng rng(7);
  for (const std::string_view text : grammars) {
    const auto grammar = Grammar::from_gbnf(text);
    ASSERT_TRUE(grammar) << grammar.error().message;
    for (int round = 0; round < 6; ++round) check_masks(*grammar, random_vocabulary(rng, "abc() ", 120), rng, text);
  }
}

TEST(TokenMask, EqualsTryingEveryTokenForSchemas) {
  const std::string_view schemas[] = {
      "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"minLength\":2,\"maxLength\":4},\"b\":{"
      "\"type\":\"array\","
      "\"items\":{\"enum\":[1,\"b\"]},\"maxItems\":3}},\"required\":[\"b\"],\"additionalProperties\":false}",
      "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"integer\",\"maximum\":11}}",
      "{\"type\":\"string\",\"pattern\":\"^(ab|1)+$\",\"maxLength\":5}",
      "true",
  };
  Rng rng(8);
  for (const std::string_view text : schemas) {
    const auto grammar = Grammar::from_json_schema(text);
    ASSERT_TRUE(grammar) << grammar.error().message;
    for (int round = 0; round < 6; ++round)
      check_masks(*grammar, random_vocabulary(rng, "ab1\"{}[]:, \\n", 200), rng, text);
  }
}

// Random grammars over a few rules: what compiles is masked right.
TEST(TokenMask, EqualsTryingEveryTokenForRandomGrammars) {
  Rng rng(9);
  int n_compiled = 0;
  for (int round = 0; round < 60; ++round) {
    std::string text;
    const std::string_view pieces[] = {"\"a\"", "\"b\"", "\"ab\"", "[ab]",         "[^b]",
                                       "\"\"",  "r1",    "r2",     "(\"a\" | r2)", "(\"c\" r1)"};
    const std::string_view repeats[] = {"", "", "", "?", "*", "+", "{2,3}", "{0,4}"};
    for (const std::string_view rule : {"root", "r1", "r2"}) {
      text += std::string(rule) + " ::=";
      for (size_t n = 1 + rng.below(4); n > 0; --n) {
        text += " " + std::string(pieces[rng.below(std::size(pieces))]) +
                std::string(repeats[rng.below(std::size(repeats))]);
        if (n > 1 && rng.below(3) == 0) text += " |";
      }
      text += "\n";
    }
    const auto grammar = Grammar::from_gbnf(text);
    if (!grammar) continue;
    ++n_compiled;
    check_masks(*grammar, random_vocabulary(rng, "abc", 40), rng, text);
  }
  EXPECT_GT(n_compiled, 20);
}

TEST(GrammarMatcher, TakesTokensBack) {
  Rng rng(10);
  const auto grammar = Grammar::from_gbnf("root ::= (\"a\" root \"b\" | \"c\"){1,2}");
  ASSERT_TRUE(grammar);
  const auto trie = random_vocabulary(rng, "abc", 60);
  GrammarMatcher matcher(std::make_shared<const TokenMasks>(*grammar, trie));
  std::vector<std::vector<uint32_t>> seen;
  const auto mask = [&] {
    std::vector<uint32_t> bits(trie->n_words());
    EXPECT_TRUE(matcher.fill_mask(bits));
    return bits;
  };
  seen.push_back(mask());
  for (int step = 0; step < 300; ++step) {
    if (rng.below(3) == 0) {
      const size_t n = rng.below(matcher.n_accepted() + 1);
      matcher.rollback(n);
      seen.resize(seen.size() - n);
    } else {
      const auto id = static_cast<TokenId>(rng.below(trie->n_vocab()));
      const bool is_allowed = is_set(seen.back(), id);
      EXPECT_EQ(matcher.accept(id).has_value(), is_allowed);
      if (is_allowed) seen.push_back(mask());
    }
    ASSERT_EQ(mask(), seen.back());
    ASSERT_EQ(matcher.n_accepted() + 1, seen.size());
  }
}

TEST(GrammarMatcher, EndsAnswersOnlyWhereTheyAreComplete) {
  const std::vector<std::string> tokens = {"</s>", "a", "b", ""};
  const auto trie = std::make_shared<const TokenTrie>(tokens, std::vector<TokenId>{kEnd});
  const auto grammar = Grammar::from_gbnf("root ::= \"a\" \"b\"?");
  ASSERT_TRUE(grammar);
  GrammarMatcher matcher(std::make_shared<const TokenMasks>(*grammar, trie));
  std::vector<uint32_t> bits(1);
  EXPECT_FALSE(matcher.accept(kEnd));
  EXPECT_FALSE(matcher.accept(3));
  EXPECT_FALSE(matcher.accept(-1));
  EXPECT_FALSE(matcher.accept(4));
  ASSERT_TRUE(matcher.accept(1));
  ASSERT_TRUE(matcher.fill_mask(bits));
  EXPECT_EQ(bits[0], 0b101u);
  ASSERT_TRUE(matcher.accept(kEnd));
  ASSERT_TRUE(matcher.fill_mask(bits));
  EXPECT_EQ(bits[0], 0b001u);  // only more of the same
  EXPECT_FALSE(matcher.accept(2));
  matcher.rollback(1);
  ASSERT_TRUE(matcher.accept(2));
  EXPECT_TRUE(matcher.must_end());
}

TEST(GrammarMatcher, LongAnswersStaySmall) {
  const auto grammar = Grammar::from_gbnf("root ::= (\"(\" x{0,1000000} \")\")*\nx ::= \"a\" | \"(\" x \")\"\n");
  ASSERT_TRUE(grammar);
  const std::vector<std::string> tokens = {"</s>", "a", "(", ")", "(a)", ")(", "aa"};
  const auto trie = std::make_shared<const TokenTrie>(tokens, std::vector<TokenId>{kEnd});
  GrammarMatcher matcher(std::make_shared<const TokenMasks>(*grammar, trie));
  std::vector<uint32_t> bits(1);
  ASSERT_TRUE(matcher.accept(2));
  for (int i = 0; i < 40000; ++i) {
    ASSERT_TRUE(matcher.accept(i % 3 == 0 ? 4 : 1)) << i;
    if (i % 1000 == 0) {
      ASSERT_TRUE(matcher.fill_mask(bits));
    }
  }
  matcher.rollback(20000);
  EXPECT_TRUE(matcher.accept(3));
  EXPECT_TRUE(matcher.is_complete());
}

// `inner`, repeated by `repeat` so many levels deep.
std::string nested(std::string inner, std::string_view repeat, int n_levels) {
  for (int i = 0; i < n_levels; ++i) inner = "(" + inner + ")" + std::string(repeat);
  return inner;
}

TEST(GrammarMatcher, GivesUpWhatCanBeReadInTooManyWays) {
  const auto grammar = Grammar::from_gbnf("root ::= " + nested("(\"a\" root?)", "{0,9}", 40));
  ASSERT_TRUE(grammar);
  const std::vector<std::string> tokens = {"</s>", "a"};
  const auto trie = std::make_shared<const TokenTrie>(tokens, std::vector<TokenId>{kEnd});
  GrammarMatcher matcher(std::make_shared<const TokenMasks>(*grammar, trie));
  std::vector<uint32_t> bits(1);
  for (int round = 0; round < 2; ++round) {
    Status status;
    for (int i = 0; i < 40 && status; ++i) {
      ASSERT_TRUE(matcher.fill_mask(bits)) << i;
      EXPECT_EQ(bits[0], 0b11u);
      status = matcher.accept(1);
    }
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::unsupported);
    EXPECT_NE(status.error().message.find("too many ways"), std::string::npos) << status.error().message;
    status = matcher.fill_mask(bits);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::unsupported);
    EXPECT_EQ(bits[0], 0u);
    status = matcher.accept(kEnd);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::unsupported);
    matcher.reset();
  }
}

// Memory has an end, and letting go of stacks does not take longer and longer.
TEST(GrammarMatcher, GivesUpWhatNestsTooDeep) {
  const auto grammar = Grammar::from_gbnf("root ::= \"x\" | " + nested("(\"(\" root \")\")", "{1,3}", 150));
  ASSERT_TRUE(grammar);
  const std::vector<std::string> tokens = {"</s>", "("};
  const auto trie = std::make_shared<const TokenTrie>(tokens, std::vector<TokenId>{kEnd});
  GrammarMatcher matcher(std::make_shared<const TokenMasks>(*grammar, trie));
  std::vector<uint32_t> bits(1);
  Status status;
  while (status && matcher.n_accepted() < 50000) status = matcher.accept(1);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::unsupported);
  EXPECT_GT(matcher.n_accepted(), 3000u);
  EXPECT_FALSE(matcher.fill_mask(bits));
  matcher.reset();
  EXPECT_TRUE(matcher.fill_mask(bits));
}

TEST(TokenTrie, KnowsTheKindsOfTokens) {
  auto file = testing::bpe_vocab("gpt-2", testing::common_merges());
  const auto tokenizer = file.tokenizer();
  ASSERT_TRUE(tokenizer);
  const auto trie = TokenTrie::create(**tokenizer);
  ASSERT_TRUE(trie);
  for (int byte = 0; byte < 256; ++byte) EXPECT_EQ((*trie)->bytes(byte), std::string(1, static_cast<char>(byte)));
  const TokenId control = *(*tokenizer)->find_token("<|im_start|>"), tool = *(*tokenizer)->find_token("<tool>");
  EXPECT_EQ((*trie)->bytes(control), "");
  EXPECT_EQ((*trie)->bytes(tool), "<tool>");
  EXPECT_TRUE((*trie)->ends_answer(*(*tokenizer)->find_token("<|im_end|>")));
  EXPECT_FALSE(TokenTrie::create(**testing::wordpiece_vocab({"a", "##b"}).tokenizer()));
}

TEST(GrammarCache, KeepsWhatIsUsedWithinItsBytes) {
  const std::vector<std::string> tokens = {"</s>", "a", "b"};
  const auto trie = std::make_shared<const TokenTrie>(tokens, std::vector<TokenId>{kEnd});
  GrammarCache cache(trie, 200000);
  const auto first = cache.get({GrammarSpec::Kind::regex, "a+"});
  ASSERT_TRUE(first);
  EXPECT_EQ(*cache.get({GrammarSpec::Kind::regex, "a+"}), *first);
  EXPECT_FALSE(cache.get({GrammarSpec::Kind::regex, "("}));
  EXPECT_EQ(cache.n_entries(), 1u);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(cache.get({GrammarSpec::Kind::json_schema, "{\"const\":" + std::to_string(i) + "}"}));
    EXPECT_LE(cache.size_bytes(), 200000u);
  }
  EXPECT_NE(*cache.get({GrammarSpec::Kind::regex, "a+"}), *first);
  EXPECT_TRUE((*first)->grammar().matches("aaa"));  // still usable by who holds it
  ASSERT_TRUE(cache.get({GrammarSpec::Kind::json_object, ""}));
}

TEST(TokenMask, ForbidsWhatItDoesNotReach) {
  std::vector<float> logits(40, 1.0f);
  const std::vector<uint32_t> bits = {5};
  apply_token_mask(logits, bits);
  for (size_t i = 0; i < logits.size(); ++i) EXPECT_EQ(logits[i] == 1.0f, i == 0 || i == 2) << i;
}

}  // namespace
}  // namespace tamis
