// Usable memory from made-up /proc and /sys trees.
#include "base/memory.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/base/fake_tree.h"

namespace tamis {
namespace {

class UsableMemory : public test::FakeTree {
 protected:
  void SetUp() override {
    FakeTree::SetUp();
    write("/proc/meminfo", "MemTotal:        1000 kB\nMemFree: 5 kB\n");
  }
};

TEST_F(UsableMemory, IsThePhysicalMemoryWithoutLimits) {
  EXPECT_EQ(usable_memory_bytes(root_), 1024000u);
  write("/proc/self/cgroup", "0::/a/b\n");
  write("/sys/fs/cgroup/a/b/memory.max", "max\n");
  EXPECT_EQ(usable_memory_bytes(root_), 1024000u);
}

TEST_F(UsableMemory, TheTightestGroupCounts) {
  write("/proc/self/cgroup", "0::/a/b\n");
  write("/sys/fs/cgroup/a/b/memory.max", "900000\n");
  write("/sys/fs/cgroup/a/memory.max", "500000\n");
  EXPECT_EQ(usable_memory_bytes(root_), 500000u);
  write("/sys/fs/cgroup/memory.max", "400000\n");
  EXPECT_EQ(usable_memory_bytes(root_), 400000u);
}

TEST_F(UsableMemory, VersionOne) {
  write("/proc/self/cgroup", "5:memory:/x\n4:cpu:/y\n");
  write("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "9223372036854771712\n");  // how v1 says "no limit"
  EXPECT_EQ(usable_memory_bytes(root_), 1024000u);
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "700000\n");
  EXPECT_EQ(usable_memory_bytes(root_), 700000u);
}

TEST_F(UsableMemory, UnknownIsZero) {
  std::filesystem::remove_all(root_);
  EXPECT_EQ(usable_memory_bytes(root_), 0u);
  write("/proc/meminfo", "nothing of use");
  write("/proc/self/cgroup", "garbage\n:::\n0:\n");
  EXPECT_EQ(usable_memory_bytes(root_), 0u);
}

}  // namespace
}  // namespace tamis
