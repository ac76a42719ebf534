// Cores and flags from made-up /proc and /sys trees.
#include "base/cpu_features.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

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
  void add_cpu(uint32_t cpu, uint32_t package, uint32_t core) {
    const std::string topology = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    write(topology + "physical_package_id", std::to_string(package) + "\n");
    write(topology + "core_id", std::to_string(core) + "\n");
  }

  std::string root_;
};

TEST_F(CpuFeatures, CountsHyperThreadsOnce) {
  for (uint32_t cpu = 0; cpu < 8; ++cpu) add_cpu(cpu, 0, cpu % 4);
  const UsableCores all = usable_cores(root_, {{0, 1, 2, 3, 4, 5, 6, 7}});
  EXPECT_EQ(all.n_logical, 8u);
  EXPECT_EQ(all.n_physical, 4u);
  EXPECT_EQ(all.n_usable, 4u);
  EXPECT_FALSE(all.quota.has_value());
  EXPECT_EQ(usable_cores(root_, {{0, 4}}).n_usable, 1u) << "two threads of one core";
  EXPECT_EQ(usable_cores(root_, {{1, 2}}).n_usable, 2u);
}

TEST_F(CpuFeatures, SameCoreNumberOnTwoPackages) {
  add_cpu(0, 0, 0);
  add_cpu(1, 1, 0);
  EXPECT_EQ(usable_cores(root_, {{0, 1}}).n_physical, 2u);
}

TEST_F(CpuFeatures, UnknownTopologyCountsEachCpu) {
  EXPECT_EQ(usable_cores(root_, {{0, 1, 2}}).n_usable, 3u);
  EXPECT_EQ(usable_cores(root_, std::vector<uint32_t>{}).n_usable, 1u);
}

TEST_F(CpuFeatures, CgroupV2TakesTheTightestAncestor) {
  write("/proc/self/cgroup", "0::/a/b\n");
  write("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  write("/sys/fs/cgroup/a/cpu.max", "250000 100000\n");
  const UsableCores cores = usable_cores(root_, {{0, 1, 2, 3}});
  EXPECT_EQ(cores.quota, 2.5);
  EXPECT_EQ(cores.n_usable, 3u);
  write("/sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_EQ(usable_cores(root_, {{0, 1, 2, 3}}).n_usable, 1u) << "half a CPU is still one thread";
}

TEST_F(CpuFeatures, CgroupV1) {
  write("/proc/self/cgroup", "5:memory:/x\n4:cpu,cpuacct:/docker/1\n0::/\n");
  write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");  // inside a container the group's own path is not mounted
  write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(usable_cores(root_, {{0, 1, 2, 3}}).n_usable, 2u);
  write("/sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_quota_us", "100000");
  write("/sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_period_us", "100000");
  EXPECT_EQ(usable_cores(root_, {{0, 1, 2, 3}}).n_usable, 1u);
}

TEST_F(CpuFeatures, NonsenseMeansNoLimit) {
  write("/proc/self/cgroup", "garbage\n0::/\n::\n");
  for (const char* text : {"", "max", "-1 100000", "100000 0", "1e5 100000", "99999999999999999999 1"}) {
    write("/sys/fs/cgroup/cpu.max", text);
    EXPECT_FALSE(usable_cores(root_, {{0, 1}}).quota.has_value()) << text;
  }
  write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1");  // v1's way to say unlimited
  write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  write("/proc/self/cgroup", "1:cpu:/\n");
  EXPECT_FALSE(usable_cores(root_, {{0, 1}}).quota.has_value());
}

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

TEST(CpuFeaturesHere, SaysSomething) {
  const UsableCores cores = usable_cores();
  EXPECT_GE(cores.n_usable, 1u);
  EXPECT_LE(cores.n_usable, cores.n_logical);
}

}  // namespace
}  // namespace tamis
