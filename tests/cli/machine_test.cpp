// Facts about a made-up machine.
#include "cli/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace tamis::cli {
namespace {

class MachineTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::temp_directory_path() / ("tamis-machine-" + std::to_string(::getpid()));
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  std::filesystem::path root_;
};

TEST_F(MachineTest, ReadsWhatIsThere) {
  write("proc/cpuinfo", "model name\t: Some CPU @ 2 GHz\nflags\t\t: fpu avx2 fma avx512f avx512_vnni\n");
  write("proc/meminfo", "MemTotal:       1000000 kB\nMemFree: 1 kB\nMemAvailable:    400000 kB\n");
  write("sys/fs/cgroup/memory.max", "512000000\n");
  write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  write("sys/module/nvidia/version", "550.54.15\n");
  write("dev/nvidia0", "");
  const MachineFacts facts = machine_facts(root_.string());
  EXPECT_EQ(facts.cpu_model, "Some CPU @ 2 GHz");
  EXPECT_THAT(facts.isa, testing::ElementsAre("AVX2", "FMA", "AVX-512F", "AVX-512-VNNI"));
  EXPECT_EQ(facts.ram_bytes, 1024000000u);
  EXPECT_EQ(facts.ram_available_bytes, 409600000u);
  EXPECT_EQ(facts.cgroup_memory_bytes, 512000000u);
  EXPECT_EQ(facts.huge_pages, "madvise");
  EXPECT_EQ(facts.gpu_driver, "550.54.15");
  EXPECT_THAT(facts.gpu_devices, testing::ElementsAre("/dev/nvidia0"));
}

TEST_F(MachineTest, NothingThereIsNoError) {
  const MachineFacts facts = machine_facts((root_ / "empty").string());
  EXPECT_EQ(facts.ram_bytes, 0u);
  EXPECT_EQ(facts.cgroup_memory_bytes, 0u);
  EXPECT_EQ(facts.huge_pages, "");
  EXPECT_TRUE(facts.gpu_devices.empty());
  EXPECT_GE(facts.cores.n_usable, 1u);
}

TEST_F(MachineTest, LimitsThatLimitNothingDoNotCount) {
  write("proc/meminfo", "MemTotal: 1000 kB\n");
  write("sys/fs/cgroup/memory.max", "max\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(machine_facts(root_.string()).cgroup_memory_bytes, 0u);
}

TEST(Machine, BandwidthIsPositive) { EXPECT_GT(measure_read_bandwidth(1), 1e7); }

}  // namespace
}  // namespace tamis::cli
