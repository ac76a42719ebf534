// Keys and values in a file and back: what is read is what was written, for the same model and salt; the answer that
// goes on from it is the same, token by token.
#include "engine/kv_file.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/rng.h"
#include "base/thread_pool.h"
#include "compute/reference.h"
#include "cpu/backend.h"
#include "tests/engine/schedule_helper.h"
#include "tests/engine/tiny_model.h"

namespace tamis {
namespace {

using test::greedy;
using test::some_tokens;
using test::submit;

constexpr size_t kBlock = KvCache::kPageTokens;
constexpr KvFileKind kKind{.fingerprint = 7, .salt = 8, .page_bytes = 24, .n_vocab = 300};

struct Blocks {
  std::vector<TokenId> tokens;
  std::vector<std::byte> pages;
};

Blocks some_blocks(size_t n, size_t page_bytes) {
  Rng rng(n);
  Blocks out;
  for (size_t i = 0; i < n * kBlock; ++i) out.tokens.push_back(static_cast<TokenId>(rng.below(300)));
  for (size_t i = 0; i < n * page_bytes; ++i) out.pages.push_back(static_cast<std::byte>(rng.below(256)));
  return out;
}

std::vector<std::byte> written(const KvFileKind& kind, const Blocks& blocks) {
  std::vector<std::byte> out;
  KvFileWriter writer(kind, [&](uint64_t offset, std::span<const std::byte> bytes) -> Status {
    out.resize(std::max<size_t>(out.size(), offset + bytes.size()));
    std::memcpy(out.data() + offset, bytes.data(), bytes.size());
    return {};
  });
  for (size_t i = 0; i * kBlock < blocks.tokens.size(); ++i)
    EXPECT_TRUE(writer.add(std::span(blocks.tokens).subspan(i * kBlock, kBlock),
                           std::span(blocks.pages).subspan(i * kind.page_bytes, kind.page_bytes)));
  EXPECT_TRUE(writer.finish());
  EXPECT_EQ(writer.size_bytes(), out.size());
  return out;
}

Result<Blocks> read(std::span<const std::byte> bytes, const KvFileKind& kind) {
  TAMIS_TRY(KvFileReader file, KvFileReader::open(std::make_shared<MemorySource>(bytes), kind));
  Blocks out;
  out.tokens.resize(file.n_blocks() * kBlock);
  out.pages.resize(file.n_blocks() * kind.page_bytes);
  for (size_t i = 0; i < file.n_blocks(); ++i)
    TAMIS_TRY_STATUS(file.next(std::span(out.tokens).subspan(i * kBlock, kBlock),
                               std::span(out.pages).subspan(i * kind.page_bytes, kind.page_bytes)));
  return out;
}

TEST(KvFile, WhatIsReadIsWhatWasWritten) {
  for (const size_t n : {0, 1, 5}) {
    const Blocks blocks = some_blocks(n, kKind.page_bytes);
    const std::vector<std::byte> bytes = written(kKind, blocks);
    const auto got = read(bytes, kKind);
    ASSERT_TRUE(got) << got.error().to_string();
    EXPECT_EQ(got->tokens, blocks.tokens);
    EXPECT_EQ(got->pages, blocks.pages);
  }
}

TEST(KvFile, NoByteCanBeAnother) {
  const Blocks blocks = some_blocks(2, kKind.page_bytes);
  const std::vector<std::byte> good = written(kKind, blocks);
  for (size_t i = 0; i < good.size(); ++i) {
    std::vector<std::byte> bytes = good;
    bytes[i] ^= std::byte{0x40};
    EXPECT_FALSE(read(bytes, kKind)) << i;
    bytes.assign(good.begin(), good.begin() + static_cast<ptrdiff_t>(i));
    EXPECT_FALSE(read(bytes, kKind)) << i;
  }
  std::vector<std::byte> longer = good;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(read(longer, kKind));
  std::vector<std::byte> swapped = good;  // each block is right, their order is not
  std::swap_ranges(swapped.begin() + 56, swapped.begin() + 56 + static_cast<ptrdiff_t>(kKind.block_bytes()),
                   swapped.begin() + 56 + static_cast<ptrdiff_t>(kKind.block_bytes()));
  EXPECT_FALSE(read(swapped, kKind));
  std::vector<std::byte> nonsense(64, std::byte{0xff});
  std::memcpy(nonsense.data(), good.data(), 8);
  EXPECT_FALSE(read(nonsense, kKind)) << "lengths that overflow";
}

TEST(KvFile, WhatIsOfSomethingElseSaysSo) {
  const std::vector<std::byte> bytes = written(kKind, some_blocks(2, kKind.page_bytes));
  KvFileKind kind = kKind;
  kind.fingerprint = 9;
  EXPECT_EQ(read(bytes, kind).error().code, ErrorCode::invalid_argument);
  kind = kKind;
  kind.page_bytes = 32;
  EXPECT_EQ(read(bytes, kind).error().code, ErrorCode::invalid_argument);
  kind = kKind;
  kind.salt = kv_salt("salt");
  EXPECT_NE(read(bytes, kind).error().message.find("cache_salt"), std::string::npos);
  kind = kKind;
  kind.n_vocab = 10;
  EXPECT_NE(read(bytes, kind).error().message.find("vocabulary"), std::string::npos);
}

// A disk's error is no fault of the file's.
TEST(KvFile, AHeaderThatCannotBeReadIsAnErrorOfTheDisk) {
  class BrokenSource final : public ByteSource {
   public:
    uint64_t size_bytes() const override { return 56; }
    Result<size_t> read_at(uint64_t, std::span<std::byte>) override { return fail(ErrorCode::io, "the disk is gone"); }
  };
  const auto file = KvFileReader::open(std::make_shared<BrokenSource>(), kKind);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::io);
  EXPECT_EQ(read({}, kKind).error().code, ErrorCode::format);
}

TEST(KvFile, TheFingerprintIsOfWhatIsComputed) {
  const std::string path = test::write_tiny_model({.n_ctx_train = 256});
  const auto pool = ThreadPool::create(2);
  const uint64_t mine = *kv_fingerprint(*test::load_tiny(path, *make_cpu_backend()));
  EXPECT_EQ(*kv_fingerprint(*test::load_tiny(path, *make_cpu_backend(pool.get()), {.n_ctx = 128, .n_batch = 5})), mine);
  EXPECT_NE(*kv_fingerprint(*test::load_tiny(path, make_reference_backend())), mine);
  const KvTypes types{DType::f16, DType::bf16};
  EXPECT_NE(*kv_fingerprint(*test::load_tiny(path, *make_cpu_backend(), {.kv_types = types})), mine);
  const std::string other = test::write_tiny_model({.n_expert = 2, .n_ctx_train = 256});
  EXPECT_NE(*kv_fingerprint(*test::load_tiny(other, *make_cpu_backend())), mine);
}

// Windows longer than the tokens that are computed for the fingerprint: their first keys and values are the same.
TEST(KvFile, TheFingerprintIsOfTheWindowToo) {
  const auto of_window = [](uint32_t window) {
    const std::string path = test::write_tiny_model({.n_ctx_train = 256, .window = window});
    return *kv_fingerprint(*test::load_tiny(path, *make_cpu_backend()));
  };
  const uint64_t mine = of_window(64);
  EXPECT_EQ(of_window(64), mine);
  EXPECT_NE(of_window(65), mine);
}

class StoredBlocks : public testing::Test {
 protected:
  std::unique_ptr<Scheduler> start(uint64_t n_pages) const {
    const size_t page_bytes = *engine->model().make_cache(engine->kv_types()).page_bytes();
    auto scheduler = Scheduler::create(engine, {.kv_bytes = n_pages * page_bytes});
    EXPECT_TRUE(scheduler) << scheduler.error().to_string();
    return *std::move(scheduler);
  }

  std::shared_ptr<const Engine> engine =
      test::load_tiny(test::write_tiny_model({.n_ctx_train = 512}), *make_cpu_backend(), {.n_batch = 64});
};

TEST_F(StoredBlocks, AnotherSchedulerGoesOnFromThem) {
  const auto first = start(40);
  GenerateRequest request = greedy(some_tokens(150), 60);
  request.cache_salt = "mine";
  const auto answer = submit(*first, request);
  answer->wait();
  std::vector<TokenId> all = request.prompt;
  all.insert(all.end(), answer->answer().tokens.begin(), answer->answer().tokens.end());
  const size_t page_bytes = first->stats().kv_page_bytes;

  const auto pages = first->copy_stored(all, "mine", 0, 100);
  ASSERT_TRUE(pages);
  ASSERT_EQ(pages->size(), 6 * page_bytes) << "all whole pages of 209 tokens";
  EXPECT_EQ(first->copy_stored(all, "", 0, 100)->size(), 0U);
  const auto part = first->copy_stored(all, "mine", 2, 3);
  EXPECT_TRUE(std::ranges::equal(*part, std::span(*pages).subspan(2 * page_bytes, 3 * page_bytes)));

  const auto second = start(40);
  EXPECT_EQ(*second->store(all, "mine", 0, std::span(*pages).first(2 * page_bytes)), 2 * kBlock);
  EXPECT_EQ(*second->store(all, "mine", 3, std::span(*pages).subspan(3 * page_bytes)), 2 * kBlock) << "a gap";
  EXPECT_EQ(*second->store(all, "mine", 2, std::span(*pages).subspan(2 * page_bytes)), 6 * kBlock);
  EXPECT_EQ(second->stats().kv_pages_stored, 6U) << "told though nothing runs";
  GenerateRequest next = greedy(all, 30);
  next.cache_salt = "mine";
  next.has_logprobs = true;
  const auto fresh = start(40);
  const auto expected = submit(*fresh, next), got = submit(*second, next);
  expected->wait();
  EXPECT_EQ(got->wait().n_cached, 6 * kBlock);
  EXPECT_EQ(got->answer().tokens, expected->answer().tokens);
  for (size_t i = 0; i < 30; ++i)
    EXPECT_EQ(got->answer().logprobs.at(i).logprob, expected->answer().logprobs.at(i).logprob) << "the same bits";

  EXPECT_EQ(*second->forget_stored(all, "mine"), 0U) << "an answer goes on from them";
  std::vector<TokenId> longer = all;
  longer.insert(longer.end(), got->answer().tokens.begin(), got->answer().tokens.end());
  EXPECT_EQ(*second->forget_stored(longer, "mine"), 7 * kBlock);
  EXPECT_EQ(second->stats().kv_pages_stored, 0U);
  EXPECT_EQ(submit(*second, next)->wait().n_cached, 0U);
}

TEST_F(StoredBlocks, MoveWhileAnswersRun) {
  const auto scheduler = start(12);
  const auto running = submit(*scheduler, greedy(some_tokens(10), 180));  // six pages in the end
  const GenerateRequest request = greedy(some_tokens(150), 1);
  submit(*scheduler, request)->wait();
  const size_t page_bytes = scheduler->stats().kv_page_bytes;
  std::vector<std::byte> pages = *scheduler->copy_stored(request.prompt, "", 0, 10);
  pages.resize(pages.size() / page_bytes * page_bytes);
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(scheduler->store(request.prompt, std::to_string(i), 0, pages));
    if (i % 3 == 0) {
      EXPECT_TRUE(scheduler->forget_stored(request.prompt, std::to_string(i)));
    }
    if (i % 5 == 0) submit(*scheduler, request)->wait();
  }
  running->wait();
  EXPECT_EQ(running->answer().tokens, test::alone(engine, greedy(some_tokens(10), 180)).tokens);
  EXPECT_TRUE(scheduler->drain(60));
  EXPECT_EQ(scheduler->stats().n_failed, 0U);
  EXPECT_EQ(*scheduler->store(request.prompt, "last", 0, pages), 4 * kBlock) << "in place of what is not used";
}

}  // namespace
}  // namespace tamis
