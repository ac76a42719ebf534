// Cores, nodes, caches and quotas from made-up /proc and /sys trees.
#include "base/topology.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/base/fake_tree.h"

namespace tamis {
namespace {

class TopologyTest : public test::FakeTree {
 protected:
  void add_cpu(uint32_t cpu, uint32_t package, uint32_t core) {
    const std::string topology = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    write(topology + "physical_package_id", std::to_string(package) + "\n");
    write(topology + "core_id", std::to_string(core) + "\n");
  }
};

TEST_F(TopologyTest, CountsHyperThreadsOnce) {
  for (uint32_t cpu = 0; cpu < 8; ++cpu) add_cpu(cpu, 0, cpu % 4);
  const Topology all = read_topology(root_, {{0, 1, 2, 3, 4, 5, 6, 7}});
  EXPECT_EQ(all.n_logical, 8u);
  EXPECT_EQ(all.n_physical, 4u);
  EXPECT_EQ(all.n_usable, 4u);
  EXPECT_FALSE(all.quota.has_value());
  EXPECT_EQ(read_topology(root_, {{0, 4}}).n_usable, 1u) << "two threads of one core";
  EXPECT_EQ(read_topology(root_, {{1, 2}}).n_usable, 2u);
}

TEST_F(TopologyTest, SameCoreNumberOnTwoPackages) {
  add_cpu(0, 0, 0);
  add_cpu(1, 1, 0);
  EXPECT_EQ(read_topology(root_, {{0, 1}}).n_physical, 2u);
}

TEST_F(TopologyTest, UnknownTopologyCountsEachCpu) {
  EXPECT_EQ(read_topology(root_, {{0, 1, 2}}).n_usable, 3u);
  EXPECT_EQ(read_topology(root_, std::vector<uint32_t>{}).n_usable, 1u);
}

TEST_F(TopologyTest, CgroupV2TakesTheTightestAncestor) {
  write("/proc/self/cgroup", "0::/a/b\n");
  write("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  write("/sys/fs/cgroup/a/cpu.max", "250000 100000\n");
  const Topology cores = read_topology(root_, {{0, 1, 2, 3}});
  EXPECT_EQ(cores.quota, 2.5);
  EXPECT_EQ(cores.n_usable, 3u);
  write("/sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_EQ(read_topology(root_, {{0, 1, 2, 3}}).n_usable, 1u) << "half a CPU is still one thread";
}

TEST_F(TopologyTest, CgroupV1) {
  write("/proc/self/cgroup", "5:memory:/x\n4:cpu,cpuacct:/docker/1\n0::/\n");
  write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");  // inside a container the group's own path is not mounted
  write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(read_topology(root_, {{0, 1, 2, 3}}).n_usable, 2u);
  write("/sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_quota_us", "100000");
  write("/sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_period_us", "100000");
  EXPECT_EQ(read_topology(root_, {{0, 1, 2, 3}}).n_usable, 1u);
}

TEST_F(TopologyTest, NonsenseMeansNoLimit) {
  write("/proc/self/cgroup", "garbage\n0::/\n::\n");
  for (const char* text : {"", "max", "-1 100000", "100000 0", "1e5 100000", "99999999999999999999 1"}) {
    write("/sys/fs/cgroup/cpu.max", text);
    EXPECT_FALSE(read_topology(root_, {{0, 1}}).quota.has_value()) << text;
  }
  write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1");  // v1's way to say unlimited
  write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  write("/proc/self/cgroup", "1:cpu:/\n");
  EXPECT_FALSE(read_topology(root_, {{0, 1}}).quota.has_value());
}

TEST_F(TopologyTest, HyperThreadsByTheirSiblingsWhereCoresHaveNoNumbers) {
  for (int cpu = 0; cpu < 4; ++cpu)
    write("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
          cpu % 2 == 0 ? "0,2\n" : "1,3\n");
  EXPECT_EQ(read_topology(root_, {{0, 1, 2, 3}}).n_physical, 2u);
  write("/sys/devices/system/cpu/cpu3/topology/thread_siblings_list", "0-1\n");  // does not name the CPU itself
  EXPECT_EQ(read_topology(root_, {{0, 1, 2, 3}}).n_physical, 3u);
}

TEST_F(TopologyTest, NodesHoldTheUsableCpus) {
  for (uint32_t cpu = 0; cpu < 8; ++cpu) add_cpu(cpu, cpu / 4, cpu % 2);
  write("/sys/devices/system/node/online", "0-1,4\n");
  write("/sys/devices/system/node/node0/cpulist", "0-3\n");
  write("/sys/devices/system/node/node1/cpulist", "4-7\n");
  write("/sys/devices/system/node/node4/cpulist", "\n");  // memory without processors
  const Topology all = read_topology(root_, {{0, 1, 2, 3, 4, 5, 6, 7}});
  ASSERT_EQ(all.nodes.size(), 2u);
  EXPECT_EQ(all.nodes[1].number, 1u);
  EXPECT_EQ(all.nodes[1].cpus, (std::vector<uint32_t>{4, 5, 6, 7}));
  EXPECT_EQ(all.nodes[1].n_cores, 2u);
  const Topology some = read_topology(root_, {{5, 1, 9}});
  ASSERT_EQ(some.nodes.size(), 2u);
  EXPECT_EQ(some.nodes[0].cpus, (std::vector<uint32_t>{1, 9})) << "a CPU on no node";
  EXPECT_EQ(read_topology(root_, {{6, 7}}).nodes.size(), 1u);
}

TEST_F(TopologyTest, MalformedNodesAreLeftOut) {
  for (const char* online : {"", "0-99999999999999999999", "1-0", "0-1,", "a", "-1", "0--1", "70000"}) {
    write("/sys/devices/system/node/online", online);
    const Topology topology = read_topology(root_, {{0, 1}});
    ASSERT_EQ(topology.nodes.size(), 1u) << online;
    EXPECT_EQ(topology.nodes[0].cpus, (std::vector<uint32_t>{0, 1})) << online;
  }
  write("/sys/devices/system/node/online", "0-65535");  // all but two do not exist, and both claim the same CPU
  write("/sys/devices/system/node/node7/cpulist", "0-1");
  write("/sys/devices/system/node/node9/cpulist", "1-2");
  const Topology topology = read_topology(root_, {{0, 1, 2}});
  ASSERT_EQ(topology.nodes.size(), 2u);
  EXPECT_EQ(topology.nodes[0].cpus, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(topology.nodes[1].cpus, (std::vector<uint32_t>{2}));
}

TEST_F(TopologyTest, Caches) {
  const std::string cache = "/sys/devices/system/cpu/cpu3/cache/index";
  write(cache + "0/level", "1\n");
  write(cache + "0/size", "32K\n");
  write(cache + "2/level", "2\n");
  write(cache + "2/size", "1024K\n");
  write(cache + "3/level", "3\n");
  write(cache + "3/size", "32768K\n");
  EXPECT_EQ(read_topology(root_, {{3}}).l2_bytes, uint64_t{1} << 20);
  EXPECT_EQ(read_topology(root_, {{3}}).l3_bytes, uint64_t{32} << 20);
  for (const char* size : {"", "K", "-1K", "9223372036854775807K", "12", "1M"}) {
    write(cache + "2/size", size);
    EXPECT_EQ(read_topology(root_, {{3}}).l2_bytes, 0u) << size;
  }
}

TEST(CpuList, ParsesWhatTheKernelWrites) {
  EXPECT_EQ(parse_cpu_list("0-3,8,10-11\n"), (std::vector<uint32_t>{0, 1, 2, 3, 8, 10, 11}));
  EXPECT_EQ(parse_cpu_list("5,5,4-6"), (std::vector<uint32_t>{4, 5, 6}));
  EXPECT_EQ(parse_cpu_list("\n"), std::vector<uint32_t>{});
  for (const char* bad : {",", "1,", ",1", "3-1", "1-", "-1", "1-2-3", "x", "1 2", "65536", "18446744073709551616"})
    EXPECT_FALSE(parse_cpu_list(bad).has_value()) << bad;
}

TEST(NodeShares, CoverEveryItemOnceInProportionToCores) {
  for (const std::vector<uint32_t>& cores : {std::vector<uint32_t>{1}, {4, 4}, {1, 7}, {3, 1, 2, 64}}) {
    std::vector<MemoryNode> nodes;
    for (const uint32_t n_cores : cores) nodes.push_back({.number = 0, .cpus = {0}, .n_cores = n_cores});
    for (const size_t n_items : {size_t{0}, size_t{1}, size_t{7}, size_t{4096}, SIZE_MAX}) {
      for (const size_t grain : {size_t{1}, size_t{16}, SIZE_MAX}) {
        size_t end = 0;
        for (size_t i = 0; i < nodes.size(); ++i) {
          const ItemRange range = items_of_node(nodes, n_items, grain, i);
          EXPECT_EQ(range.begin, end);
          EXPECT_LE(range.begin, range.end);
          EXPECT_TRUE(range.end % grain == 0 || range.end == n_items);
          end = range.end;
        }
        EXPECT_EQ(end, n_items);
      }
    }
  }
  const std::vector<MemoryNode> nodes{{.number = 0, .cpus = {0}, .n_cores = 1},
                                      {.number = 1, .cpus = {1}, .n_cores = 3}};
  EXPECT_EQ(items_of_node(nodes, 400, 1, 0).end, 100u);
  EXPECT_EQ(node_of_thread(nodes, 4, 0), 0u);
  EXPECT_EQ(node_of_thread(nodes, 4, 1), 1u);
  EXPECT_EQ(node_of_thread(nodes, 4, 3), 1u);
  EXPECT_EQ(node_of_thread(nodes, 1, 0), 1u) << "the one thread goes with its one item";
}

TEST(TopologyHere, SaysSomething) {
  const Topology cores = read_topology();
  EXPECT_GE(cores.n_usable, 1u);
  EXPECT_LE(cores.n_usable, cores.n_logical);
}

}  // namespace
}  // namespace tamis
