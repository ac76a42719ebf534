// Every semantic case gets the verdict security.md gives it, at load and in verify, and the message names what is
// wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "api/verify_file.h"
#include "formats/gguf.h"
#include "models/model.h"
#include "tests/api/semantic_cases.h"
#include "text/tokenizer.h"

namespace tamis {
namespace {

using ::testing::HasSubstr;
using testing::SemanticCase;

// The case's files in a directory of their own, gone at the end.
class OnDisk {
 public:
  explicit OnDisk(const SemanticCase& semantic) {
    std::string pattern = (std::filesystem::temp_directory_path() / "tamis-semantic-XXXXXX").string();
    directory_ = mkdtemp(pattern.data());
    for (const auto& file : semantic.files) std::ofstream(directory_ / file.name, std::ios::binary) << file.bytes;
    path_ = (directory_ / semantic.files.front().name).string();
  }
  ~OnDisk() { std::filesystem::remove_all(directory_); }
  const std::string& path() const { return path_; }

 private:
  std::filesystem::path directory_;
  std::string path_;
};

struct Loaded {
  std::vector<std::string> warnings;
};

// What loading a model for use does before any weight is touched.
Result<Loaded> load(const std::string& path) {
  TAMIS_TRY(const GgufFile file, GgufFile::open(path));
  TAMIS_TRY(const ModelPlan plan, plan_model(file));
  TAMIS_TRY(const auto tokenizer, Tokenizer::from_gguf(file));
  Loaded loaded{file.warnings()};
  loaded.warnings.insert(loaded.warnings.end(), plan.warnings.begin(), plan.warnings.end());
  return loaded;
}

class Semantic : public ::testing::TestWithParam<SemanticCase> {};

TEST_P(Semantic, LoadGivesTheVerdict) {
  const SemanticCase& semantic = GetParam();
  const OnDisk disk(semantic);
  const Result<Loaded> loaded = load(disk.path());
  if (semantic.is_accepted) {
    EXPECT_TRUE(loaded) << semantic.what << ": " << loaded.error().to_string();
    return;
  }
  ASSERT_FALSE(loaded) << semantic.what << " was accepted";
  EXPECT_THAT(loaded.error().to_string(), HasSubstr(semantic.subject)) << semantic.what;
  EXPECT_NE(loaded.error().code, ErrorCode::internal);
}

TEST_P(Semantic, VerifyGivesTheVerdict) {
  const SemanticCase& semantic = GetParam();
  const OnDisk disk(semantic);
  const VerifyReport report = verify_file(disk.path());
  if (semantic.is_verified) {
    EXPECT_TRUE(report.is_good()) << semantic.what << ": " << report.error->to_string();
    return;
  }
  ASSERT_FALSE(report.is_good()) << semantic.what << " was accepted";
  EXPECT_THAT(report.error->to_string(), HasSubstr(semantic.subject)) << semantic.what;
}

TEST_P(Semantic, ContainerLevelAcceptsAllButBrokenShardSets) {
  const SemanticCase& semantic = GetParam();
  const OnDisk disk(semantic);
  VerifyOptions options;
  options.level = VerifyLevel::container;
  const VerifyReport report = verify_file(disk.path(), options);
  if (semantic.subject == "split.count" || semantic.subject == "split.no" || semantic.id == "S092") {
    EXPECT_FALSE(report.is_good()) << semantic.what;
  } else {
    EXPECT_TRUE(report.is_good()) << semantic.what << ": " << report.error->to_string();
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Semantic, ::testing::ValuesIn(testing::semantic_cases()),
                         [](const auto& one) { return one.param.id; });

TEST(SemanticWarnings, S087NamesTheTensorAtLoad) {
  for (const SemanticCase& semantic : testing::semantic_cases()) {
    if (semantic.id != "S087") continue;
    const OnDisk disk(semantic);
    const Result<Loaded> loaded = load(disk.path());
    ASSERT_TRUE(loaded) << loaded.error().to_string();
    EXPECT_THAT(loaded->warnings, ::testing::Contains(HasSubstr("blk.0.extra.weight")));
  }
}

// The templates that parse and cannot render are told apart from good ones by a warning.
TEST(SemanticWarnings, TemplatesPastABudgetAreReportedByVerify) {
  for (const SemanticCase& semantic : testing::semantic_cases()) {
    if (semantic.id != "S093" && semantic.id != "S094" && semantic.id != "S096") continue;
    const OnDisk disk(semantic);
    const VerifyReport report = verify_file(disk.path());
    EXPECT_THAT(report.warnings, ::testing::Contains(HasSubstr("tokenizer.chat_template"))) << semantic.id;
  }
}

TEST(SemanticModels, TheByteLevelModelIsGood) {
  const OnDisk disk({"bpe", "", "", true, true, {{"bpe.gguf", testing::valid_bpe_model().build()}}});
  const VerifyReport report = verify_file(disk.path());
  EXPECT_TRUE(report.is_good()) << report.error->to_string();
}

}  // namespace
}  // namespace tamis
