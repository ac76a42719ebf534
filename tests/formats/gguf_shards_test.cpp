// One model in several files: any shard opens the set, and a set that does not fit together is refused by the shard's
// name.
#include <gtest/gtest.h>

#include <filesystem>

#include "formats/shards.h"
#include "tests/formats/gguf_builder.h"

namespace tamis {
namespace {

using namespace tamis::testing;

TEST(ShardNames, AreParsedAndMade) {
  const auto name = parse_shard_name("/x/m-00002-of-00003.gguf");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->prefix, "/x/m");
  EXPECT_EQ(name->idx, 1u);
  EXPECT_EQ(name->n_shards, 3u);
  EXPECT_EQ(shard_path("/x/m", 1, 3), "/x/m-00002-of-00003.gguf");
  for (const char* other :
       {"m.gguf", "m-00000-of-00003.gguf", "m-00004-of-00003.gguf", "m-1-of-3.gguf", "m-0000a-of-00003.gguf",
        "m-00001-of-00003.bin", "-00001-of-00003.gguf", "m_00001-of-00003.gguf", "m-00001_of-00003.gguf", ""})
    EXPECT_FALSE(parse_shard_name(other)) << other;
}

std::vector<RawKv> split_kvs(uint16_t no, uint16_t count, int32_t n_tensors) {
  return {kv_u16("split.no", no), kv_u16("split.count", count), kv_i32("split.tensors.count", n_tensors)};
}

// Two shards of two F32 tensors each.
class Shards : public ::testing::Test {
 protected:
  void SetUp() override {
    auto first = split_kvs(0, 2, 4);
    first.insert(first.begin(), kv_str("general.architecture", "llama"));
    write(0, build_gguf(first, {{"a", 0, {4}}, {"b", 0, {4}}}).bytes);
    write(1, build_gguf(split_kvs(1, 2, 4), {{"c", 0, {4}}, {"d", 0, {8}}}).bytes);
  }
  std::string path(uint32_t idx) const { return shard_path(dir_.file("m"), idx, 2); }
  void write(uint32_t idx, const std::string& bytes) const { write_bytes(path(idx), bytes); }
  Result<GgufFile> open(uint32_t idx, GgufMode mode = GgufMode::load) const {
    return GgufFile::open(path(idx), {.mode = mode});
  }
  // The error of opening either shard must name the file `culprit`.
  void expect_refused(const std::string& culprit, const std::string& tag) const {
    for (const uint32_t idx : {0u, 1u}) {
      if (!file_exists(path(idx))) continue;
      const auto file = open(idx);
      ASSERT_FALSE(file) << idx;
      EXPECT_NE(file.error().to_string().find(culprit), std::string::npos) << file.error().to_string();
      ASSERT_TRUE(file.error().site);
      EXPECT_EQ(file.error().site->tag, tag) << file.error().to_string();
      EXPECT_EQ(exit_code(file.error().code), 3);
    }
  }

  TemporaryDir dir_;
};

TEST_F(Shards, B03_AnyShardOpensTheSet) {
  for (const uint32_t idx : {0u, 1u}) {
    const auto file = open(idx, GgufMode::strict);
    ASSERT_TRUE(file) << file.error().to_string();
    EXPECT_EQ(file->n_shards(), 2u);
    EXPECT_EQ(file->path(1), path(1));
    ASSERT_EQ(file->tensors().size(), 4u);
    EXPECT_EQ(file->tensors()[2].name, "c");
    EXPECT_EQ(file->tensors()[2].shard_idx, 1u);
    EXPECT_EQ(file->find_tensor("d")->size_bytes, 32u);
    EXPECT_EQ(static_cast<int>(file->data(*file->find_tensor("d"))[1]), 7);
    EXPECT_EQ(*file->get_string("general.architecture"), "llama");
    EXPECT_EQ(file->size_bytes(), std::filesystem::file_size(path(0)) + std::filesystem::file_size(path(1)));
  }
}

TEST_F(Shards, B03_AMissingShardIsNamed) {
  std::filesystem::remove(path(1));
  expect_refused("m-00002-of-00002.gguf", "E_SHARD_MISSING");
}

TEST_F(Shards, B03_SwappedNamesAreRefused) {
  std::filesystem::rename(path(0), dir_.file("x"));
  std::filesystem::rename(path(1), path(0));
  std::filesystem::rename(dir_.file("x"), path(1));
  expect_refused("split.no", "E_SHARD");
}

TEST_F(Shards, B03_OneShardUnderAWholeFilesNameIsRefused) {
  std::filesystem::rename(path(0), dir_.file("m.gguf"));
  const auto file = GgufFile::open(dir_.file("m.gguf"));
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().site->subject, "split.count");
  const auto alone = GgufFile::open(dir_.file("m.gguf"), {.follow_shards = false});
  ASSERT_TRUE(alone);
  EXPECT_EQ(alone->tensors().size(), 2u);
}

TEST_F(Shards, B04_ANameInTwoShardsIsRefused) {
  write(1, build_gguf(split_kvs(1, 2, 4), {{"c", 0, {4}}, {"a", 0, {8}}}).bytes);
  expect_refused("m-00002-of-00002.gguf", "E_DUPLICATE_TENSOR");
  EXPECT_NE(open(0).error().to_string().find("\"a\""), std::string::npos);
}

TEST_F(Shards, TheTotalOfTensorsMustHold) {
  write(1, build_gguf(split_kvs(1, 2, 4), {{"c", 0, {4}}}).bytes);
  expect_refused("split.tensors.count", "E_SHARD");
}

TEST_F(Shards, ShardsOfTwoSetsDoNotMix) {
  write(1, build_gguf(split_kvs(1, 2, 5), {{"c", 0, {4}}, {"d", 0, {8}}}).bytes);
  expect_refused("m-00002-of-00002.gguf", "E_SHARD");
}

TEST_F(Shards, CountMustAgreeWithTheName) {
  write(1, build_gguf(split_kvs(1, 3, 4), {{"c", 0, {4}}, {"d", 0, {8}}}).bytes);
  expect_refused("split.count", "E_SHARD");
}

TEST_F(Shards, ABadSecondShardIsRefusedByItsOwnName) {
  write(1, "GGUF");
  const auto file = open(0);
  ASSERT_FALSE(file);
  EXPECT_TRUE(file.error().to_string().starts_with(path(1) + ": byte 4 (0x4)")) << file.error().to_string();
}

TEST_F(Shards, SplitKeysOfOtherTypesAreErrors) {
  write(1, build_gguf({kv_str("split.no", "1"), kv_u16("split.count", 2)}, {{"c", 0, {4}}, {"d", 0, {8}}}).bytes);
  expect_refused("split.no", "E_SHARD");
}

TEST(ShardCounts, AWholeFileMayOnlySayItIsOneOfOne) {
  const auto open_with = [](std::vector<RawKv> kvs) {
    return open_bytes(build_gguf(kvs, {{"a", 0, {4}}}).bytes, GgufMode::load);
  };
  EXPECT_TRUE(open_with(split_kvs(0, 1, 1)));
  EXPECT_TRUE(open_with(split_kvs(0, 0, 1)));
  EXPECT_FALSE(open_with(split_kvs(1, 1, 1)));
  EXPECT_FALSE(open_with(split_kvs(1, 0, 1)));
  EXPECT_FALSE(open_with({kv_u16("split.no", 1)}));
  EXPECT_FALSE(open_with(split_kvs(0, 65535, 1)));
  EXPECT_FALSE(open_with(split_kvs(0, 2, 1)));
}

TEST(ShardCounts, TooManyShardsAreRefusedBeforeAnyIsOpened) {
  const TemporaryDir dir;
  const std::string path = shard_path(dir.file("m"), 0, 10000);
  write_bytes(path, build_gguf(split_kvs(0, 10000, 1), {{"a", 0, {4}}}).bytes);
  const auto file = GgufFile::open(path);
  ASSERT_FALSE(file);
  EXPECT_NE(file.error().to_string().find("at most 9999"), std::string::npos) << file.error().to_string();
}

TEST(ShardCounts, AShardsNameAloneMakesNoShard) {
  const TemporaryDir dir;
  const std::string path = shard_path(dir.file("m"), 0, 2);
  write_bytes(path, build_gguf({}, {{"a", 0, {4}}}).bytes);
  const auto file = GgufFile::open(path);
  ASSERT_TRUE(file);
  EXPECT_EQ(file->warnings().size(), 1u);
  EXPECT_FALSE(GgufFile::open(path, {.mode = GgufMode::strict}));
}

}  // namespace
}  // namespace tamis
