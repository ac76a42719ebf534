// CPU flags from made-up /proc and /sys trees.
#include "base/cpu_features.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace tamis {
namespace {

class CpuFeatures : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "tamis_cpu_" + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path full = root_ + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }

  std::string root_;
};

TEST_F(CpuFeatures, Flags) {
  write("/proc/cpuinfo",
        "processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: fpu avx2 fma avx512f\n\nprocessor\t: 1\nflags : fpu\n");
  const CpuFlags flags = cpu_flags(root_);
  EXPECT_TRUE(flags.has("fpu"));
  EXPECT_TRUE(flags.has("avx512f"));
  EXPECT_FALSE(flags.has("avx"));
  EXPECT_FALSE(flags.has("avx512"));
  EXPECT_EQ(cpu_model_name(root_), "Some CPU");
  write("/proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd asimddp\n");
  EXPECT_TRUE(cpu_flags(root_).has("asimddp"));
  EXPECT_EQ(cpu_model_name(root_), "");
}

}  // namespace
}  // namespace tamis
