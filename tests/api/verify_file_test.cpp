// What verify says beyond a verdict: the place of the first bad weight, warnings, progress, the same with any number of
// threads.
#include "api/verify_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "formats/gguf.h"
#include "tests/api/semantic_cases.h"

namespace tamis {
namespace {

using testing::GgufBytes;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::RawTensor;
using testing::tensor;

class VerifyFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "tamis-verify-XXXXXX").string();
    directory_ = mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string write(const std::string& bytes) const {
    const std::string path = (directory_ / "m.gguf").string();
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  VerifyReport verify(const GgufBytes& file, VerifyOptions options = {}) const {
    return verify_file(write(file.build()), options);
  }

  std::filesystem::path directory_;
};

// A Q8_0 tensor of 64 rows of 32 with NaN scales in the given blocks.
RawTensor with_bad_blocks(const std::vector<size_t>& blocks) {
  constexpr uint32_t kQ8_0 = 8;
  constexpr size_t kBlockBytes = 34;
  RawTensor bad = tensor("blk.0.ffn_up.weight", {32, 64}, kQ8_0);
  for (const size_t block : blocks) std::memcpy(bad.bytes.data() + block * kBlockBytes, "\x00\x7e", 2);
  return bad;
}

TEST_F(VerifyFile, NamesTheFirstBadElementAndItsBlock) {
  GgufBytes file = testing::valid_model();
  file.replace(with_bad_blocks({40, 50}));
  const VerifyReport report = verify(file);
  ASSERT_FALSE(report.is_good());
  const ErrorSite& site = *report.error->site;
  EXPECT_EQ(site.tag, "E_DATA_NOT_FINITE");
  EXPECT_EQ(site.subject, "blk.0.ffn_up.weight");
  EXPECT_THAT(site.got, HasSubstr("nan at element 1280"));  // block 40 of 32 elements
  std::ifstream stream(report.path, std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(site.byte_offset));
  char scale[2];
  stream.read(scale, 2);
  EXPECT_EQ(std::memcmp(scale, "\x00\x7e", 2), 0) << "the offset is that of the block";
}

TEST_F(VerifyFile, InfiniteWeightsAreRefusedAsNanIs) {
  GgufBytes file = testing::valid_model();
  RawTensor bad = tensor("output_norm.weight", {32});
  const float infinity = -std::numeric_limits<float>::infinity();
  std::memcpy(bad.bytes.data() + 31 * sizeof(float), &infinity, sizeof(float));
  file.replace(bad);
  EXPECT_THAT(verify(file).error->to_string(), HasSubstr("\"output_norm.weight\": got -inf at element 31"));
}

TEST_F(VerifyFile, SameAnswerWithAnyNumberOfThreads) {
  GgufBytes file = testing::valid_model();
  RawTensor big = tensor("token_embd.weight", {32, 300});
  for (const size_t element : {9001u, 333u, 8000u})
    std::memset(big.bytes.data() + element * sizeof(float), 0xff, sizeof(float));
  file.replace(big);
  for (const uint32_t n_threads : {1u, 2u, 5u}) {
    const auto pool = ThreadPool::create(n_threads);
    VerifyOptions options;
    options.pool = pool.get();
    EXPECT_THAT(verify(file, options).error->to_string(), HasSubstr("at element 333,")) << n_threads;
  }
}

TEST_F(VerifyFile, ProgressAddsUpToTheTensorBytes) {
  const auto pool = ThreadPool::create(2);
  std::atomic<uint64_t> n_bytes{0};
  VerifyOptions options;
  options.pool = pool.get();
  options.progress = [&](uint64_t n) { n_bytes += n; };
  GgufBytes file = testing::valid_model();
  file.replace(tensor("blk.0.ffn_up.weight", {32, 64}, 8)).replace(tensor("blk.0.ffn_down.weight", {64, 32}, 2));
  ASSERT_TRUE(verify(file, options).is_good());
  const uint64_t n_floats = 2 * 300 * 32 + 2 * 32 * 32 + 2 * 16 * 32 + 64 * 32 + 3 * 32;
  EXPECT_EQ(n_bytes, n_floats * sizeof(float) + 64 * 34 + 64 * 18);  // Q8_0 and Q4_0 blocks
}

TEST_F(VerifyFile, TrailingBytesAreRefusedWhereALoadWarns) {
  const std::string path = write(testing::valid_model().build() + std::string(4096, 'x'));
  EXPECT_FALSE(verify_file(path).is_good());
  const auto loaded = GgufFile::open(path);
  ASSERT_TRUE(loaded);
  EXPECT_THAT(loaded->warnings(), ::testing::Not(IsEmpty()));
}

TEST_F(VerifyFile, TemplatesAreCheckedByTypeByNameAndBySyntax) {
  GgufBytes file = testing::valid_model();
  file.set("tokenizer.chat_template", testing::u32(1));
  EXPECT_THAT(verify(file).error->to_string(), HasSubstr("E_TEMPLATE_TYPE"));
  file.set("tokenizer.chat_template", testing::text("{{ messages[0].content }}"));
  EXPECT_TRUE(verify(file).is_good());
  EXPECT_THAT(verify(file).warnings, IsEmpty());
  file.set("tokenizer.chat_template.tool_use", testing::text("{% for %}"));
  EXPECT_THAT(verify(file).error->to_string(), HasSubstr("\"tokenizer.chat_template.tool_use\""));
  VerifyOptions options;
  options.level = VerifyLevel::model;
  EXPECT_TRUE(verify(file, options).is_good()) << "templates belong to level all";
}

TEST_F(VerifyFile, AFileWithoutTensorsIsAVocabulary) {
  GgufBytes file = testing::valid_model();
  for (const char* name :
       {"token_embd", "blk.0.attn_norm", "blk.0.attn_q", "blk.0.attn_k", "blk.0.attn_v", "blk.0.attn_output",
        "blk.0.ffn_norm", "blk.0.ffn_gate", "blk.0.ffn_up", "blk.0.ffn_down", "output_norm", "output"})
    file.erase_tensor(std::string(name) + ".weight");
  const VerifyReport good = verify(file);
  EXPECT_TRUE(good.is_good()) << good.error->to_string();
  EXPECT_TRUE(good.is_vocabulary);
  file.set("tokenizer.ggml.bos_token_id", testing::u32(300));
  EXPECT_FALSE(verify(file).is_good());
}

TEST_F(VerifyFile, ReportsEveryUnusedTensorInOneLine) {
  GgufBytes file = testing::valid_model();
  file.add(tensor("first.extra", {32})).add(tensor("second.extra", {32}));
  const VerifyReport report = verify(file);
  EXPECT_THAT(report.error->to_string(), HasSubstr("\"first.extra\""));
  EXPECT_THAT(report.error->to_string(), HasSubstr("(and 1 more)"));
}

TEST_F(VerifyFile, AMissingFileIsNotABadFile) {
  const VerifyReport report = verify_file((directory_ / "none.gguf").string());
  ASSERT_FALSE(report.is_good());
  EXPECT_EQ(report.error->code, ErrorCode::not_found);
  EXPECT_THAT(report.error->to_string(), HasSubstr("none.gguf"));
}

TEST(VerifyLevels, NamesRoundTrip) {
  for (const auto level : {VerifyLevel::container, VerifyLevel::model, VerifyLevel::all})
    EXPECT_EQ(verify_level_from_name(verify_level_name(level)), level);
  EXPECT_FALSE(verify_level_from_name("everything"));
}

}  // namespace
}  // namespace tamis
