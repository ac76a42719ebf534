// The generation loop: what ends it, that its text does not depend on batching or company, that cancelling is clean.
#include "engine/generate.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/thread_pool.h"
#include "cpu/backend.h"
#include "tests/engine/tiny_model.h"

namespace tamis {
namespace {

using test::load_tiny;
using test::tiny_text;
using test::write_tiny_model;

std::vector<TokenId> tokens_of(const Engine& engine, std::string_view text) {
  return engine.tokenizer()->encode(text, {.add_special = true});
}

GenerationOptions sampled(uint64_t seed, int64_t n_predict) {
  GenerationOptions options;
  options.sampling.seed = seed;
  options.sampling.temp = 0.8f;
  options.n_predict = n_predict;
  options.ignore_eos = true;
  return options;
}

std::string text_of(const std::shared_ptr<const Engine>& engine, std::string_view prompt,
                    const GenerationOptions& options) {
  Session session(engine);
  const auto result = generate(session, tokens_of(*engine, prompt), options, nullptr);
  EXPECT_TRUE(result.has_value()) << result.error().to_string();
  return result ? result->text : "";
}

TEST(Generate, B28_TheTextDependsOnPromptAndSeedAlone) {
  const std::string path = write_tiny_model();
  const std::string prompt = tiny_text(30);
  const GenerationOptions options = sampled(1, 50);
  const auto engine = load_tiny(path, *make_cpu_backend());
  const std::string alone = text_of(engine, prompt, options);
  ASSERT_FALSE(alone.empty());
  EXPECT_NE(text_of(engine, prompt, sampled(2, 50)), alone) << "the seed must matter";

  const auto pool = ThreadPool::create(3);
  EXPECT_EQ(text_of(load_tiny(path, *make_cpu_backend(pool.get()), {.n_batch = 1}), prompt, options), alone)
      << "batch 1, 3 threads";
  EXPECT_EQ(text_of(load_tiny(path, *make_cpu_backend(nullptr, "baseline"), {.n_batch = 512}), prompt, options), alone);

  Session warm(engine);  // the same session again, and after something unrelated
  for (int round = 0; round < 2; ++round) {
    const auto result = generate(warm, tokens_of(*engine, prompt), options, nullptr);
    ASSERT_TRUE(result.has_value());
    EXPECT_EQ(result->text, alone);
    EXPECT_EQ(result->n_cached, round == 0 ? 0 : result->n_prompt - 1);
  }
  ASSERT_TRUE(generate(warm, tokens_of(*engine, "unrelated"), options, nullptr).has_value());
  EXPECT_EQ(generate(warm, tokens_of(*engine, prompt), options, nullptr)->text, alone);

  // Another conversation takes its steps in between ours.
  Session other(engine);
  const auto intrude = [&](std::string_view) -> Status {
    const auto result = generate(other, tokens_of(*engine, "someone else"), sampled(9, 2), nullptr);
    return result ? Status{} : Status(tl::unexpected<Error>(result.error()));
  };
  Session ours(engine);
  const auto result = generate(ours, tokens_of(*engine, prompt), options, intrude);
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->text, alone);
}

TEST(Generate, AFullContextEndsTheAnswer) {
  const auto engine = load_tiny(write_tiny_model(), *make_cpu_backend(), {.n_ctx = 20});
  Session session(engine);
  const auto prompt = tokens_of(*engine, tiny_text(12));  // 13 tokens with BOS
  const auto result = generate(session, prompt, sampled(1, -1), nullptr);
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->end, GenerationEnd::context_full);
  EXPECT_EQ(result->tokens.size(), 20 - 13 + 1u) << "the last token needs no place: nothing follows it";
  EXPECT_TRUE(session.is_full());
}

TEST(Generate, APromptThatFillsTheContextGivesOneToken) {
  const auto engine = load_tiny(write_tiny_model(), *make_cpu_backend(), {.n_ctx = 13});
  Session session(engine);
  const auto exact = generate(session, tokens_of(*engine, tiny_text(12)), sampled(1, -1), nullptr);
  ASSERT_TRUE(exact.has_value());
  EXPECT_EQ(exact->tokens.size(), 1u);
  const auto too_long = generate(session, tokens_of(*engine, tiny_text(13)), sampled(1, -1), nullptr);
  ASSERT_FALSE(too_long.has_value());
  EXPECT_EQ(too_long.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(too_long.error().message.find("14"), std::string::npos) << too_long.error().message;
}

TEST(Generate, EndsAtLimitsAndStops) {
  const auto engine = load_tiny(write_tiny_model(), *make_cpu_backend());
  const std::string prompt = tiny_text(20);
  Session session(engine);
  const auto five = generate(session, tokens_of(*engine, prompt), sampled(1, 5), nullptr);
  ASSERT_TRUE(five.has_value());
  EXPECT_EQ(five->tokens.size(), 5u);
  EXPECT_EQ(five->end, GenerationEnd::token_limit);
  const auto none = generate(session, tokens_of(*engine, prompt), sampled(1, 0), nullptr);
  EXPECT_EQ(none->tokens.size(), 0u);
  EXPECT_EQ(none->text, "");

  // A stop string out of the middle of what would be generated.
  const std::string text = text_of(engine, prompt, sampled(1, 40));
  GenerationOptions stopped = sampled(1, 40);
  stopped.stop = {text.substr(10, 3)};
  std::string streamed;
  const auto result = generate(session, tokens_of(*engine, prompt), stopped, [&](std::string_view piece) -> Status {
    streamed += piece;
    return {};
  });
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->end, GenerationEnd::stop_string);
  EXPECT_EQ(result->text, text.substr(0, text.find(stopped.stop[0])));
  EXPECT_EQ(streamed, result->text);
}

TEST(Generate, EndsWhenTheModelEnds) {
  const auto engine = load_tiny(write_tiny_model(), *make_cpu_backend());
  GenerationOptions options = sampled(1, 10);
  options.ignore_eos = false;
  options.sampling.logit_bias = {{test::kTinyEnd, 1000.0f}};
  Session session(engine);
  const auto result = generate(session, tokens_of(*engine, "x"), options, nullptr);
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->end, GenerationEnd::end_of_text);
  EXPECT_TRUE(result->tokens.empty());
}

TEST(Generate, CancellingKeepsWhatWasThere) {
  const auto engine = load_tiny(write_tiny_model(), *make_cpu_backend(), {.n_batch = 4});
  std::atomic<bool> cancel{false};
  GenerationOptions options = sampled(1, 40);
  options.cancel = &cancel;
  Session session(engine);
  size_t n_pieces = 0;
  const auto midway = generate(session, tokens_of(*engine, tiny_text(20)), options, [&](std::string_view) -> Status {
    cancel = ++n_pieces == 3;
    return {};
  });
  ASSERT_TRUE(midway.has_value());
  EXPECT_EQ(midway->end, GenerationEnd::cancelled);
  EXPECT_FALSE(midway->text.empty());
  cancel = true;
  const auto at_once = generate(session, tokens_of(*engine, tiny_text(30)), options, nullptr);
  ASSERT_TRUE(at_once.has_value()) << "also while the prompt is computed";
  EXPECT_EQ(at_once->end, GenerationEnd::cancelled);
  EXPECT_TRUE(at_once->tokens.empty());
}

TEST(Generate, TheCallersErrorEndsIt) {
  const auto engine = load_tiny(write_tiny_model(), *make_cpu_backend());
  Session session(engine);
  const auto result = generate(session, tokens_of(*engine, "x"), sampled(1, 40),
                               [](std::string_view) -> Status { return fail(ErrorCode::io, "nobody listens"); });
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::io);
  EXPECT_FALSE(generate(session, {}, sampled(1, 1), nullptr).has_value()) << "no tokens at all";
  GenerationOptions bad = sampled(1, 1);
  bad.sampling.top_p = 7;
  EXPECT_EQ(generate(session, tokens_of(*engine, "x"), bad, nullptr).error().code, ErrorCode::invalid_argument);
}

std::shared_ptr<const TokenMasks> masks_of(const Engine& engine, std::string_view gbnf) {
  auto trie = TokenTrie::create(*engine.tokenizer());
  auto grammar = Grammar::from_gbnf(gbnf);
  EXPECT_TRUE(trie && grammar);
  return std::make_shared<const TokenMasks>(*std::move(grammar), *std::move(trie));
}

// Whatever the weights say, and with ignore_eos: the grammar's end is the end.
TEST(Generate, HoldsTheAnswerToAGrammar) {
  const auto engine = load_tiny(write_tiny_model(), *make_cpu_backend());
  GenerationOptions options = sampled(3, 200);
  options.grammar = masks_of(*engine, "root ::= \" \"? [0-9]{3} (\"-\" [0-9]{2}){2,4} \".\"");
  for (uint64_t seed = 0; seed < 8; ++seed) {
    options.sampling.seed = seed;
    options.ignore_eos = seed % 2 == 0;
    Session session(engine);
    const auto result = generate(session, tokens_of(*engine, tiny_text(30)), options, nullptr);
    ASSERT_TRUE(result.has_value()) << result.error().to_string();
    EXPECT_TRUE(options.grammar->grammar().matches(result->text)) << result->text;
    EXPECT_EQ(result->end, GenerationEnd::end_of_text);
  }
}

TEST(Generate, ASpaceThatTheGrammarWantsIsInTheText) {
  const auto engine = load_tiny(write_tiny_model({.is_sentencepiece = true}), *make_cpu_backend());
  GenerationOptions options = sampled(3, 200);
  options.grammar = masks_of(*engine, "root ::= \" yes\"");
  EXPECT_EQ(text_of(engine, tiny_text(30), options), " yes");
}

TEST(Generate, AnAnswerThatItsGrammarCannotFollowIsAnError) {
  const auto engine = load_tiny(write_tiny_model(), *make_cpu_backend());
  GenerationOptions options = sampled(3, 200);
  options.sampling.logit_bias = {{'a', 100}};
  options.grammar = masks_of(*engine, test::too_ambiguous_grammar());
  Session session(engine);
  const auto result = generate(session, tokens_of(*engine, tiny_text(30)), options, nullptr);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::unsupported);
  EXPECT_NE(result.error().message.find("too many ways"), std::string::npos) << result.error().message;
}

}  // namespace
}  // namespace tamis
