// CPU flags from made-up /proc and /sys trees.
#include "base/cpu_features.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/base/fake_tree.h"

namespace tamis {
namespace {

using CpuFeatures = test::FakeTree;

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
