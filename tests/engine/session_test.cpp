// Sessions: the same bits however a sequence is cut, shared or resumed; a full context is an error with nothing taken
// in; memory is checked before it is asked for.
#include "engine/session.h"

#include <gtest/gtest.h>

#include <bit>
#include <filesystem>
#include <numeric>

#include "base/thread_pool.h"
#include "compute/reference.h"
#include "cpu/backend.h"
#include "tests/engine/tiny_model.h"

namespace tamis {
namespace {

using test::load_tiny;
using test::some_tokens;
using test::write_tiny_model;

std::vector<uint32_t> bits(std::span<const float> values) {
  std::vector<uint32_t> out;
  for (const float value : values) out.push_back(std::bit_cast<uint32_t>(value));
  return out;
}

std::unique_ptr<Backend> make(bool is_reference, ThreadPool* pool) {
  return is_reference ? make_reference_backend(pool) : *make_cpu_backend(pool);
}

// Logits of every token.
std::vector<float> all_logits(const std::shared_ptr<const Engine>& engine, std::span<const TokenId> tokens) {
  Session session(engine);
  std::vector<float> out;
  const Status status = session.append_all(tokens, 0, [&](size_t first, std::span<const float> rows) -> Status {
    EXPECT_EQ(first * engine->model().n_vocab(), out.size());
    out.insert(out.end(), rows.begin(), rows.end());
    return {};
  });
  EXPECT_TRUE(status.has_value());
  return out;
}

TEST(Session, SameBitsForAnyChunkAndThreadCount) {
  const std::string path = write_tiny_model();
  const std::vector<TokenId> tokens = some_tokens(80);
  for (const bool is_reference : {false, true}) {
    std::vector<uint32_t> first;
    for (const uint32_t n_threads : {1u, 2u, 5u}) {
      for (const uint32_t n_batch : {1u, 3u, 64u, 512u}) {
        const auto pool = ThreadPool::create(n_threads);
        const auto engine = load_tiny(path, make(is_reference, pool.get()), {.n_batch = n_batch});
        const std::vector<uint32_t> got = bits(all_logits(engine, tokens));
        if (first.empty()) first = got;
        ASSERT_EQ(got, first) << n_threads << " threads, chunks of " << n_batch;
        Session session(engine);
        const auto last = session.append(tokens);
        ASSERT_TRUE(last.has_value());
        EXPECT_EQ(bits(*last), std::vector<uint32_t>(first.end() - test::kTinyVocab, first.end()));
      }
    }
  }
}

TEST(Session, CpuStaysNearReference) {
  const std::string path = write_tiny_model();
  const std::vector<TokenId> tokens = some_tokens(80);
  const std::vector<float> cpu = all_logits(load_tiny(path, make(false, nullptr)), tokens);
  const std::vector<float> truth = all_logits(load_tiny(path, make(true, nullptr)), tokens);
  double largest = 0, worst = 0;
  for (size_t i = 0; i < truth.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(truth[i])));
    worst = std::max(worst, std::abs(static_cast<double>(cpu[i]) - truth[i]));
  }
  // Some 40 ops one after another, each off by at most (48/16 + 10) half-ulps of its output, the network at most
  // doubling an error that enters a layer (weights of gain 2): 40 · 13 · 2² · 2^-24 of the largest logit.
  EXPECT_LE(worst, 40 * 13 * 4 * 0x1p-24 * largest);
  EXPECT_GT(worst, 0) << "the two backends should not be the same code";
}

TEST(Session, PrefixesAreReusedWithoutChangingABit) {
  const auto engine = load_tiny(write_tiny_model(), make(false, nullptr));
  const std::vector<TokenId> tokens = some_tokens(40);
  Session fresh(engine);
  const auto expected = fresh.append(tokens);
  Session session(engine);
  std::vector<TokenId> other = some_tokens(60);
  other[25] = 3;
  ASSERT_TRUE(session.append(other).has_value());
  EXPECT_EQ(session.keep_common_prefix(tokens), 25u);
  const auto again = session.append(std::span(tokens).subspan(25));
  EXPECT_EQ(bits(*again), bits(*expected));
  EXPECT_EQ(session.tokens(), tokens);
  EXPECT_EQ(session.keep_common_prefix(tokens), 39u) << "one token is left to compute";
  EXPECT_EQ(bits(*session.append(std::span(tokens).last(1))), bits(*expected));
}

TEST(Session, AFullContextTakesNothingIn) {
  const auto engine = load_tiny(write_tiny_model(), make(false, nullptr), {.n_ctx = 10});
  Session session(engine);
  ASSERT_TRUE(session.append(some_tokens(8)).has_value());
  EXPECT_EQ(session.n_left(), 2u);
  const auto too_long = session.append(some_tokens(3));
  ASSERT_FALSE(too_long.has_value());
  EXPECT_EQ(too_long.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(session.tokens().size(), 8u);
  ASSERT_TRUE(session.append(some_tokens(2)).has_value());
  EXPECT_TRUE(session.is_full());
  EXPECT_FALSE(session.append(some_tokens(1)).has_value());
  EXPECT_FALSE(session.append({}).has_value());
}

TEST(Session, RefusesTokensOutsideTheVocabulary) {
  const auto engine = load_tiny(write_tiny_model(), make(false, nullptr));
  Session session(engine);
  for (const TokenId id : {-1, static_cast<int32_t>(test::kTinyVocab), INT32_MAX}) {
    const auto result = session.append(std::span(&id, 1));
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, ErrorCode::invalid_argument);
  }
  EXPECT_TRUE(session.tokens().empty());
}

TEST(Session, StopsBetweenChunks) {
  const auto engine = load_tiny(write_tiny_model(), make(false, nullptr), {.n_batch = 4});
  Session session(engine);
  std::atomic<bool> stop{false};
  const auto result = session.append(some_tokens(20), &stop, [&](size_t n_done) { stop = n_done >= 8; });
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::cancelled);
  EXPECT_EQ(session.tokens().size(), 8u) << "what was computed stays";
}

TEST(Session, AFileThatShrinksIsAnErrorNotASignal) {
  const std::string path = write_tiny_model();
  const auto engine = load_tiny(path, make(false, nullptr));
  Session session(engine);
  ASSERT_TRUE(session.append(some_tokens(3)).has_value());
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  const auto result = session.append(some_tokens(3));
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::io);
}

TEST(EngineMemory, S026_HugeContextsAllocateNothing) {
  const std::string path = write_tiny_model({.n_ctx_train = 4294967295u});
  const auto by_default = load_tiny(path, make(false, nullptr));
  EXPECT_EQ(by_default->n_ctx(), Engine::kDefaultContext);
  Session session(by_default);
  ASSERT_TRUE(session.append(some_tokens(5)).has_value());
  const auto asked_for = Engine::load(path, make(false, nullptr), {.n_ctx = 4294967295u});
  ASSERT_FALSE(asked_for.has_value());
  EXPECT_EQ(asked_for.error().code, ErrorCode::out_of_memory);
}

TEST(EngineMemory, KvBytesAreChecked) {
  const KvTypes f32;
  Hyper hyper;
  hyper.n_layers = 3;
  hyper.k_dim = 32;
  hyper.v_dim = 64;
  hyper.layers.assign(3, {.n_head = 4, .n_head_kv = 2});
  EXPECT_EQ(kv_bytes(hyper, 1, f32), 3u * KvCache::kPageTokens * (64 + 128) * 4) << "whole pages";
  EXPECT_EQ(kv_bytes(hyper, KvCache::kPageTokens + 1, f32), 2 * *kv_bytes(hyper, 1, f32));
  EXPECT_EQ(kv_bytes(hyper, 1, {DType::f16, DType::bf16}), *kv_bytes(hyper, 1, f32) / 2);
  EXPECT_EQ(kv_bytes(hyper, 1, {DType::q8_0, DType::q4_0}), 3u * KvCache::kPageTokens * 2 * (34 + 2 * 18));
  hyper.k_dim = hyper.v_dim = UINT32_MAX;
  hyper.layers.assign(3, {.n_head = UINT32_MAX, .n_head_kv = UINT32_MAX});
  EXPECT_FALSE(kv_bytes(hyper, UINT32_MAX, f32).has_value());
}

TEST(Engine, LongerThanTrainedIsAWarning) {
  const auto engine = load_tiny(write_tiny_model({.n_ctx_train = 50}), make(false, nullptr), {.n_ctx = 51});
  ASSERT_EQ(engine->warnings().size(), 1u);
  EXPECT_NE(engine->warnings()[0].find("51"), std::string::npos);
}

TEST(EngineTemplate, B12_ABrokenTemplateOnlyMattersWhenUsed) {
  const auto engine = load_tiny(write_tiny_model({.chat_template = "{% if %}"}), make(false, nullptr));
  EXPECT_TRUE(engine->has_chat_template());
  const auto result = engine->chat_template();
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::format);
  const auto without = load_tiny(write_tiny_model({.has_template = false}), make(false, nullptr));
  EXPECT_FALSE(without->has_chat_template());
  EXPECT_EQ(without->chat_template().error().code, ErrorCode::not_found);
}

}  // namespace
}  // namespace tamis
