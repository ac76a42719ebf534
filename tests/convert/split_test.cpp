// Splitting and merging: nothing is lost, nothing is added, and no half-made set is left behind.
#include "convert/split.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "formats/gguf_writer.h"
#include "formats/shards.h"
#include "tests/base/temporary_dir.h"
#include "tests/convert/files.h"

namespace tamis {
namespace {

namespace fs = std::filesystem;

using test::read_all;

class Split : public ::testing::Test {
 protected:
  void SetUp() override {
    GgufWriter writer;
    ASSERT_TRUE(writer.add_string("general.architecture", "llama"));
    ASSERT_TRUE(writer.add_u32("general.alignment", 64));
    ASSERT_TRUE(writer.add_strings("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"}));
    for (int i = 0; i < kTensors; ++i)
      ASSERT_TRUE(writer.add_tensor("blk." + std::to_string(i), DType::f32, {static_cast<uint64_t>(i + 1), 5}));
    ASSERT_TRUE(writer.begin(path("m.gguf"), false));
    for (int i = 0; i < kTensors; ++i) {
      const std::vector<std::byte> data(20 * static_cast<size_t>(i + 1), static_cast<std::byte>(i + 1));
      ASSERT_TRUE(writer.write(data));
    }
    ASSERT_TRUE(writer.finish());
    original_ = read_all(path("m.gguf"));
  }

  std::string path(const std::string& name) const { return dir_.file(name); }
  GgufFile open(const std::string& name) const {
    auto file = GgufFile::open(path(name), {.mode = GgufMode::strict});
    EXPECT_TRUE(file) << file.error().to_string();
    return file.value();
  }
  size_t n_files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(dir_.path()), fs::directory_iterator()));
  }

  static constexpr int kTensors = 7;
  const test::TemporaryDir dir_;
  std::string original_;
};

TEST_F(Split, B03_MergingGivesTheOriginalByteForByte) {
  const GgufFile file = open("m.gguf");
  for (const uint64_t max_tensors : {1, 2, 3, 7, 100}) {
    const SplitOptions options{.max_tensors = max_tensors, .is_overwriting = true};
    const auto plan = plan_split(file, path("s"), options);
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->size(), (kTensors + max_tensors - 1) / max_tensors);
    ASSERT_TRUE(write_split(file, *plan, options));
    for (const ShardPlan& shard : *plan) {
      const auto set = GgufFile::open(shard.path, {.mode = GgufMode::strict});
      ASSERT_TRUE(set) << set.error().to_string();
      EXPECT_EQ(set->n_shards(), plan->size());
      EXPECT_EQ(*set->get_uint(kSplitTensors), static_cast<uint64_t>(kTensors));
    }
    const auto set = GgufFile::open(plan->back().path);
    ASSERT_TRUE(merge_shards(*set, path("merged.gguf"), true));
    EXPECT_EQ(read_all(path("merged.gguf")), original_);
    const auto merged = GgufFile::open(path("merged.gguf"));
    ASSERT_TRUE(merged);
    for (const auto key : {kSplitNo, kSplitCount, kSplitTensors}) EXPECT_EQ(merged->find(key), nullptr);
  }
}

TEST_F(Split, B03_EveryShardHasConsistentKeysOfTheStockTypes) {
  const GgufFile file = open("m.gguf");
  const SplitOptions options{.max_tensors = 4};
  const auto plan = plan_split(file, path("s"), options);
  ASSERT_TRUE(plan && write_split(file, *plan, options));
  for (size_t i = 0; i < plan->size(); ++i) {
    const auto shard = GgufFile::open((*plan)[i].path, {.mode = GgufMode::strict, .follow_shards = false});
    ASSERT_TRUE(shard) << shard.error().to_string();
    EXPECT_EQ(*shard->get_uint(kSplitNo), i);  // from 0
    EXPECT_EQ(shard->find(kSplitNo)->type(), GgufType::u16);
    EXPECT_EQ(*shard->get_uint(kSplitCount), plan->size());
    EXPECT_EQ(shard->find(kSplitCount)->type(), GgufType::u16);
    EXPECT_EQ(shard->find(kSplitTensors)->type(), GgufType::i32);
    EXPECT_EQ(shard->alignment(), 64u);
    EXPECT_EQ(shard->find("general.architecture") != nullptr, i == 0);
  }
}

TEST_F(Split, ASplitSetCanBeSplitAnew) {
  const GgufFile file = open("m.gguf");
  const SplitOptions first{.max_tensors = 2}, second{.max_tensors = 3};
  const auto plan = plan_split(file, path("s"), first);
  ASSERT_TRUE(plan && write_split(file, *plan, first));
  const auto set = GgufFile::open((*plan)[1].path);
  ASSERT_TRUE(set);
  const auto again = plan_split(*set, path("t"), second);
  ASSERT_TRUE(again && write_split(*set, *again, second));
  const auto other = GgufFile::open(again->front().path, {.mode = GgufMode::strict});
  ASSERT_TRUE(other) << other.error().to_string();
  ASSERT_TRUE(merge_shards(*other, path("merged.gguf"), false));
  EXPECT_EQ(read_all(path("merged.gguf")), original_);
}

TEST_F(Split, PlansByBytesAndByCount) {
  const GgufFile file = open("m.gguf");  // padded sizes: 64 64 64 128 128 128 192
  const auto shards = [&](const SplitOptions& options) {
    std::vector<size_t> counts;
    const auto plan = plan_split(file, path("s"), options);
    for (const ShardPlan& shard : *plan) counts.push_back(shard.tensors.size());
    return counts;
  };
  EXPECT_EQ(shards({.max_data_bytes = 192}), (std::vector<size_t>{3, 1, 1, 1, 1}));
  EXPECT_EQ(shards({.max_data_bytes = 256}), (std::vector<size_t>{3, 2, 1, 1}));
  EXPECT_EQ(shards({.max_data_bytes = 1}),
            (std::vector<size_t>(7, 1)));  // one too large for the bound has a shard alone
  EXPECT_EQ(shards({.max_tensors = 2, .max_data_bytes = 256}), (std::vector<size_t>{2, 2, 2, 1}));
  EXPECT_EQ(shards({.max_tensors = 4, .is_first_without_tensors = true}), (std::vector<size_t>{0, 4, 3}));
  EXPECT_FALSE(plan_split(file, path("s"), {}));
}

TEST_F(Split, AFirstShardWithoutTensorsMerges) {
  const GgufFile file = open("m.gguf");
  const SplitOptions options{.max_tensors = 4, .is_first_without_tensors = true};
  const auto plan = plan_split(file, path("s"), options);
  ASSERT_TRUE(plan && write_split(file, *plan, options));
  const auto set = GgufFile::open(plan->front().path, {.mode = GgufMode::strict});
  ASSERT_TRUE(set) << set.error().to_string();
  ASSERT_TRUE(merge_shards(*set, path("merged.gguf"), false));
  EXPECT_EQ(read_all(path("merged.gguf")), original_);
}

TEST_F(Split, NothingIsOverwrittenUnasked) {
  const GgufFile file = open("m.gguf");
  const SplitOptions options{.max_tensors = 4};
  const auto plan = plan_split(file, path("s"), options);
  std::ofstream(plan->back().path) << "mine";
  const Status refused = write_split(file, *plan, options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(n_files(), 2u);
  EXPECT_EQ(read_all(plan->back().path), "mine");
  EXPECT_FALSE(merge_shards(file, path("m.gguf"), true));  // over its own source, even when overwriting is allowed
  EXPECT_EQ(read_all(path("m.gguf")), original_);
}

TEST_F(Split, StoppingLeavesNothingBehind) {
  const GgufFile file = open("m.gguf");
  const SplitOptions options{.max_tensors = 2};
  const auto plan = plan_split(file, path("s"), options);
  std::atomic<bool> stop{false};
  uint64_t copied = 0;
  const Status stopped = write_split(
      file, *plan, options, [&](uint64_t n) { stop = (copied += n) > 100; }, &stop);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::cancelled);
  EXPECT_EQ(n_files(), 1u);
}

TEST(SplitSizes, AreParsed) {
  EXPECT_EQ(*parse_size("300M"), 300'000'000u);
  EXPECT_EQ(*parse_size("2g"), 2'000'000'000u);
  EXPECT_EQ(*parse_size("512K"), 512'000u);
  EXPECT_EQ(*parse_size("77"), 77u);
  for (const char* text : {"", "M", "0", "0G", "-1", "1.5G", "1T", "99999999999999999999", "18446744073709551615G"})
    EXPECT_FALSE(parse_size(text)) << text;
}

}  // namespace
}  // namespace tamis
